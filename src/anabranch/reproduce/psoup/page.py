"""What the page of the reproduction begins with."""

from __future__ import annotations

INTRODUCTION = """# Streaming queries over streaming data

The experiments of S. Chandrasekaran and M. Franklin, *Streaming Queries over Streaming Data* (PSoup, VLDB 2002),
re-created by `anabranch reproduce psoup{flag}`.

- This is a model of PSoup in one process: Data SteM, Query SteM, Results Structure and WindowsTable as described there,
  with sorted arrays instead of red-black trees. Neither this package's engine nor Spark takes part.
- Times are measured, in Python and numpy; only ratios are compared. Steps are counted, and the same in every run: index
  entries, words of bitmaps, elements of lists, cells of queries.
- All systems answer the same, which is checked.
- Values are uniform in 0..255. Constants are multiples of 32 with probability 0.2, else uniform; intervals have a
  uniform size. Tuples have four attributes.
- Where the paper names a ratio or speaks of orders of magnitude, the claim holds if ours is within half an order of
  magnitude; "no change" is up to 1.5.
- The values of the paper's curves are not available to us; its prose and tables are.
"""
