"""Spark: sessions, executors, look-ups, reports."""
