"""Multiway joins of windows: stores with their indexes, join graphs, and one probe pipeline per input."""
