"""What the page of the reproduction begins with."""

from __future__ import annotations

INTRODUCTION = """# Join plans and caches

Figures 5.11 to 5.23 and Table 5.2 of S. Babu, *Adaptive Query Processing in Data Stream Management Systems* (Stanford
2005), re-created by `anabranch reproduce joins{flag}`.

- *The paper's way* is counted tuple by tuple: every row comes when it enters its window and when it leaves it, and a
  pipeline probes once for every tuple on the way. A probe counts 1, an update of a cache or of an inner result a half.
- *Ours* is the join of the engine, in one process without Spark, on the same kind of rows. A row has both ends of its
  interval and comes once; partners are listed once per window and then combined. A *step* is a probe, a partner that
  is listed, a comparison or a combination; one that is put into a cache or an inner result counts 2. Probes are ordered
  by counted steps, so that steps are the same in every run.
- Times are processor times, the quickest of some runs, after the first half; profiling and decisions are in them.
- The sizes of windows are not given in the thesis. For Table 5.2 selectivities are meant for windows of 200 rows here.
  Windows of 200, 500 and 1,000 rows and updates at a half and at one probe were tried, and the first of each is shown:
  with updates at one probe X is behind M at D4, D6 and D8, and in larger windows G is hardly better than P.
- The values of the thesis's curves are not available to us; its prose and tables are.
"""
