"""Spark: the session, and what all parts of this package share.

Adaptive filters are in `filters`, predicates that Spark compiles in `native`, what a filter has learned and keeps in
`learned`, and the tasks of continuous queries in `continuous`.
"""
