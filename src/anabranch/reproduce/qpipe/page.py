"""What the page of the reproduction begins with."""

from __future__ import annotations

INTRODUCTION = """# Sharing among queries that run

The experiments of S. Harizopoulos and V. Shkapenyuk, *Multi-query optimization opportunities in QPipe* (CMU 2003),
re-created by `anabranch reproduce qpipe{flag}`.

- This is a model of QPipe in one process: packets, stages, buffers with merging and splitting as described there.
  Queries run on real tuples of the Wisconsin benchmark. Neither this package's engine nor Spark takes part.
- The unit of time is a page that is read or written. Rows, comparisons and queues are counted and cost fractions of it;
  one processor and one disk do one thing at a time. Counts are the same in every run; seconds are shown beside them.
- The original engine is the same one without merging and without queues. A buffer pool of a fifth of the largest
  table is all that its queries share.
- Both engines answer the same, which is checked.
- The plans and constants are in the paper's figures, which are not available to us; its prose is.
"""
