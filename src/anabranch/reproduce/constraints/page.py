"""What the page of the reproduction begins with."""

from __future__ import annotations

INTRODUCTION = """# Constraints that reduce the memory of windowed joins

Figures 6.10 to 6.18, Tables 6.1 to 6.3 and the example of section 6.1.1 of S. Babu, *Adaptive Query Processing in Data
Stream Management Systems* (Stanford 2005), re-created with `anabranch.constraints` by
`anabranch reproduce constraints{flag}`.

- The core runs in one process and one cell; neither Spark nor the engine takes part. k is in tuples, except in section
  6.1.1 and Table 6.3, where it is in time.
- Tuples are taken in batches, and rows go at the end of a batch, where the thesis collects garbage from time to time.
- Memory counts 24 bytes for a row, as there, and 16 for an entry of the tables that constraints need. Rows, results and
  k are counted and the same in every run. Times are processor times; only ratios are compared.
- Windows hold 50,000 rows (2,500 in a quick run, with k in proportion). Parents are five times as fast as children;
  half of the children pass the filter.
- In figures 6.10 to 6.16 the run with the largest given k has to find all results of SWJ, which is checked.
- The values of the thesis's curves are not available to us; its prose and tables are.
"""
