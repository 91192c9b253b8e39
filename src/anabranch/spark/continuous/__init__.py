"""Continuous queries on Spark: plans as SQL and stages, the tasks of cells, sources that replay files."""
