"""Continuous queries: streams, relations and queries are registered here, and advance tick by tick."""
