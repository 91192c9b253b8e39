"""How much another plan must save before it is adopted: every such threshold, in one table.

A saving is a share of the cost of the present plan, in seconds per row: 0.02 is two percent. Deviations are standard
errors of the mean saving over the sampled rows: what lies below them may be chance.

| step | needs |
|---|---|
| a worker proposes routes (`routing/class_learner.py`) | `PROPOSAL_SAVING`, `PROPOSAL_DEVIATIONS` |
| ... by a pair of attributes rather than by one | `SECOND_ATTRIBUTE_SAVING` |
| the driver accepts a mesh (`mesh/optimize.py`, by `MeshConfig`) | `MESH_SAVING`, `MESH_DEVIATIONS` |
| the driver accepts routes, less what classifying rows costs (`mesh/plan_search.py`) | `NET_SAVING` |
| ... by a mesh rather than by classes of values | `SECOND_METHOD_SAVING` |
| routes stay after their trial (`routing/trial.py`) | `TRIAL_SAVING` |
| routes in use stay (`routing/route_upkeep.py`) | `UPKEEP_SAVING` |
| drift, or a logged plan, replaces routes (`mesh/self_tuning.py`) | `TUNING_SAVING`, `TUNING_DEVIATIONS` |
| the order found after an alarm counts as better (`ordering/auto.py`) | `REORDER_SAVING` |

Within one order, policies move a filter by `OrderingConfig.thrash_avoidance`.
"""

from __future__ import annotations

PROPOSAL_SAVING = 0.04
"""Share of the single order's cost that a worker's first candidate saves on held-out rows, filters only."""

PROPOSAL_DEVIATIONS = 3.5
"""Standard errors by which that saving is above zero."""

SECOND_ATTRIBUTE_SAVING = 0.02
"""Share that a pair of attributes saves beyond the best single attribute found so far."""

MESH_SAVING = 0.04
"""Share of the single order's cost that a mesh saves on held-out rows, less tests and routes; default of a config."""

MESH_DEVIATIONS = 3.0
"""Standard errors by which that saving is above zero; default of a config."""

NET_SAVING = 0.02
"""Share of the single order's cost that routes save after classifying rows and handling groups is paid for."""

SECOND_METHOD_SAVING = 0.02
"""Share that a mesh saves beyond content-based routes, which were found first and are simpler."""

TRIAL_SAVING = 0.02
"""Share of the single order's measured time that routes save in their trial."""

UPKEEP_SAVING = 0.02
"""Share of the most used order's cost that routes in use save, or rows go back to one order."""

TUNING_SAVING = 0.02
"""Share of the present plan's cost, and of the single order's, that a tuned plan saves on held-out rows."""

TUNING_DEVIATIONS = 2.0
"""Standard errors by which the saving of a tuned plan is above zero."""

REORDER_SAVING = 0.02
"""Share of the old order's cost that the order found after an alarm saves; else the next alarm profiles less."""
