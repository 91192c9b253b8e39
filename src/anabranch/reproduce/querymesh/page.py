"""What the page of the reproduction begins with."""

from __future__ import annotations

INTRODUCTION = """# Query Mesh

The experiments of R. Nehme, K. Works, C. Lei, E. Rundensteiner and E. Bertino, *Multi-route query processing and
optimization*, re-created with the mesh and the routers of this package by `anabranch reproduce mesh{flag}`.

- Operator calls are counted, and the same in every run. Times are 20 us per call plus the measured CPU time of
  classification and routing; they are never the paper's.
- The mesh is what the optimizer finds from 1000 tuples of an earlier run, with the defaults of Table 3 (annealing,
  content-driven, |T| = 100) unless Table 1 is named (iterative improvement, route-driven, |T| = 10). It runs through
  the Self-Routing Fabric, in windows of 1000 tuples. The single plan is the best order for the same 1000 tuples, in the
  same fabric. The Eddy routes by content (P = 6 %, |R| = 150, d = 24), a tuple or a batch of 100 at a time.
- All systems answer the same, which is checked: a higher output rate is a lower cost.
- Ten joins are operators with a selectivity per partition. Six attributes are Poisson (mean 1, skewed data: three
  partitions by the first attribute) or uniform (0 to 100, one partition). Selectivities are random, such that 5 % of
  the tuples pass; seeds are fixed and were not chosen.
- The values of the paper's curves are not available to us; its prose and tables are.
"""
