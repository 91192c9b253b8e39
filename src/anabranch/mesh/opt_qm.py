"""Opt-QM: the cheapest of all configurations of few training tuples.

>>> from anabranch.mesh.config import MeshConfig
>>> from anabranch.mesh.partitions import text
>>> from anabranch.mesh.training import Sample, TrainingSet
>>> drops = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], dtype=bool)
>>> training = TrainingSet.of_groups(Sample({}, drops, np.ones(2)), np.arange(4))
>>> text(opt_qm(CostModel(training, MeshConfig(overhead_seconds=0.1))).partition)
'134/2'

Notes
-----
P(T), with the best route of each subset -> `_subset_costs`; B_n configurations -> what is minimised over.

Differs from the paper
----------------------
Figure 5 builds the configurations one by one. A configuration costs the sum over its subsets, plus something that
depends on their number only. So the cheapest division of a set into k subsets follows from those of smaller sets into k
- 1: the subset of the set's first member is tried in all ways. That is 3^n steps instead of B_n configurations, with
the same result (a test enumerates).

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.6,
figure 5.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from anabranch.errors import QueryError
from anabranch.mesh.cost_model import CostModel
from anabranch.mesh.partitions import Partition, Subset, bell, canonical
from anabranch.mesh.solution import Solution
from anabranch.model.arrays import Counts, Floats

MOST_TUPLES = 12


def opt_qm(model: CostModel) -> Solution:
    """Solve a training set exactly."""
    tuples = len(model)
    if tuples > MOST_TUPLES:
        raise QueryError(
            f"the exact search handles at most {MOST_TUPLES} training tuples, not {tuples}",
            hint="use the search 'ii' or 'sa', or fewer training_tuples",
        )
    if tuples == 0:
        return Solution((), 0.0, 0)
    costs = _subset_costs(model, tuples)
    best = _cheapest_divisions(costs, tuples)
    totals = [best[k, -1] + model.fixed_cost(k) for k in range(1, tuples + 1)]
    partition = _trace(best, costs, int(np.argmin(totals)) + 1)
    return Solution(partition, model.cost(partition), bell(tuples))


def _subset_costs(model: CostModel, tuples: int) -> Floats:
    """By bit mask; the empty set is no subset."""
    weighted = [model.route(_members(s)).weighted_cost for s in range(1, 1 << tuples)]
    return np.array([np.inf, *weighted])


def _cheapest_divisions(costs: Floats, tuples: int) -> Floats:
    """``best[k, S]``: the least cost of dividing S into k subsets."""
    best = np.full((tuples + 1, 1 << tuples), np.inf)
    best[0, 0] = 0.0
    for s in range(1, 1 << tuples):
        firsts = _firsts(s)
        best[1:, s] = (costs[firsts] + best[:-1, s ^ firsts]).min(axis=1)
    return best


def _trace(best: Floats, costs: Floats, k: int) -> Partition:
    found, left = list[Subset](), len(costs) - 1
    while left:
        firsts = _firsts(left)
        chosen = int(firsts[int((costs[firsts] + best[k - 1, left ^ firsts]).argmin())])
        found.append(_members(chosen))
        left, k = left ^ chosen, k - 1
    return canonical(found)


@lru_cache(maxsize=1 << MOST_TUPLES)
def _firsts(s: int) -> Counts:
    """All subsets of a set that hold its lowest member."""
    lowest = s & -s
    found = np.array([lowest], dtype=np.int64)
    for t in range(lowest.bit_length(), s.bit_length()):
        if s >> t & 1:
            found = np.concatenate([found, found | 1 << t])
    return found


def _members(s: int) -> Subset:
    return tuple(t for t in range(s.bit_length()) if s >> t & 1)
