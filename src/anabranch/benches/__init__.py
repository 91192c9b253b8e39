"""Measurements against peers; loaded by the command line."""
