"""The names of what this reproduction compares."""

from __future__ import annotations

MESH, SMALL_MESH, SINGLE, EDDY, BATCHED = "mesh", "mesh, Table 1", "single plan", "Eddy", "Eddy in batches"
SKEWED, UNIFORM = "skewed", "uniform"
