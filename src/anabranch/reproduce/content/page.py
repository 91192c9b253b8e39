"""What the page of the reproduction begins with."""

from __future__ import annotations

INTRODUCTION = """# Content-based routing

The experiments of P. Bizarro, S. Babu, D. DeWitt and J. Widom, *Content-Based Routing: Different Plans for Different
Data*, re-created with the routers of this package by `anabranch reproduce routing{flag}`.

- Routing calls are counted, and the same in every run. Times are measured; they are never the paper's.
- Tuples are routed in batches of 25 (250 where times matter: figures 9 and 10, worst case), in the paper one by one.
  P = 6 %, |R| = 150, d = 24, alpha = 0.95, as there.
- A classifier on trial stays unless the processing rate falls by more than 5 %; in the paper it has to rise. What the
  strict rule gives is shown below figure 4.
- The gain ratio's threshold is not given there: ours is what chance does not explain (level 2 %).
- The values of the paper's curves are not available to us; its prose and tables are.
"""
