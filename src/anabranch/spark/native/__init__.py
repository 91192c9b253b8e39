"""Native predicates: column expressions in a chosen order, or along routes, compiled by Spark."""
