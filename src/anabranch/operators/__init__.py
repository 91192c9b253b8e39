"""Stateful operators over relations that vary with time, for the rows of one cell: pure, columnar, without Spark."""
