"""What a mesh costs per tuple: its routes, the classification, and an overhead for every route.

The cost of an order on a subset of training tuples is counted on the subset's own rows, with the measured seconds of
the filters. The best order of each subset is found once and remembered.

>>> from anabranch.mesh.training import Sample, TrainingSet
>>> drops = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
>>> training = TrainingSet.of_groups(Sample({}, drops, np.ones(2)), np.array([0, 0, 1, 1]))
>>> model = CostModel(training, MeshConfig(overhead_seconds=0.1, classification_seconds=0.0, route_gain=0.0))
>>> model.route((0,)).order, model.route((1,)).order
((0, 1), (1, 0))
>>> round(model.cost(((0, 1),)), 3), round(model.cost(((0,), (1,))), 3)
(1.6, 1.2)

Notes
-----
Equation 2 -> `mesh_cost`: f_rq -> `shares`, c(r_q) -> `route_costs`, |p_dt| -> `depths`, c(node_i) ->
`classification_seconds`, OVH -> `overhead_seconds`; c_i(op_i) -> the sample's `costs`; selectivities are not kept,
because the rows themselves are.

Differs from the paper
----------------------
- While the search runs no tree is induced: every tuple is taken to pass ceil(log2 |R|) nodes, the depth of a balanced
  tree with |R| leaves. The chosen mesh is then judged with the paths of its own tree.
- `MeshConfig.route_gain` adds a share of the single order's cost to OVH. Splitting a sample always looks cheaper than
  it is, and this keeps differences of that kind out.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from anabranch.mesh.config import MeshConfig
from anabranch.mesh.partitions import Partition, Subset
from anabranch.mesh.training import TrainingSet
from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering import Precedence, expected_cost, greedy_order, optimal_order
from anabranch.stats.processing_times import usable_costs


@dataclass(frozen=True)
class Route:
    """The best order of a subset, and what it costs in seconds per tuple of the whole data: density times cost."""

    order: Order
    weighted_cost: float


class CostModel:
    """Prices configurations of one training set.

    Parameters
    ----------
    training
        The training tuples.
    config
        Seconds per node and route, and how routes are found.
    precedence
        What must come before what.
    """

    def __init__(self, training: TrainingSet, config: MeshConfig, precedence: Precedence | None = None) -> None:
        self.training = training
        self.config = config
        self.precedence = precedence or Precedence.none(training.sample.drops.shape[1])
        self.memo: dict[Subset, Route] = {}
        everything = tuple(range(len(training)))
        single = self.route(everything).weighted_cost if everything else 0.0
        self.overhead = config.overhead_seconds + config.route_gain * single

    def __len__(self) -> int:
        """Training tuples."""
        return len(self.training)

    def route(self, subset: Subset) -> Route:
        """The best order for a subset, members ascending."""
        if subset not in self.memo:
            rows, costs = self.training.drops(subset), self.training.sample.costs
            order = best_order(rows, costs, self.precedence, self.config.route_search)
            self.memo[subset] = Route(order, self.training.density(subset) * expected_cost(order, rows, costs))
        return self.memo[subset]

    def cost(self, partition: Partition) -> float:
        """Equation 2 for a configuration, as far as it is known before there is a tree."""
        return sum(self.route(s).weighted_cost for s in partition) + self.fixed_cost(len(partition))

    def fixed_cost(self, routes: int) -> float:
        """Classification and overhead: what depends on the number of routes only."""
        levels = ceil(log2(routes)) if routes > 1 else 0
        return routes * self.overhead + levels * self.config.classification_seconds


def mesh_cost(
    shares: Sequence[float],
    route_costs: Sequence[float],
    depths: Sequence[float],
    *,
    classification_seconds: float,
    overhead_seconds: float,
) -> float:
    """Equation 2: seconds per tuple, with one entry per route (or leaf).

    >>> mesh_cost([0.75, 0.25], [2.0, 4.0], [1, 1], classification_seconds=0.5, overhead_seconds=0.25)
    3.5
    """
    spent = np.asarray(route_costs) + np.asarray(depths) * classification_seconds
    return float(np.asarray(shares) @ spent) + len(shares) * overhead_seconds


def best_order(rows: BoolMatrix, costs: Floats, precedence: Precedence, method: str = "greedy") -> Order:
    """The order for some rows: ``greedy``, by ``rank``, or ``exact``."""
    if method == "exact":
        return optimal_order(rows, costs, precedence)
    if method == "rank":
        return _by_rank(rows, costs, precedence)
    return greedy_order(rows, costs, precedence)


def _by_rank(rows: BoolMatrix, costs: Floats, precedence: Precedence) -> Order:
    rank = rows.sum(axis=0) / usable_costs(costs)
    return precedence.legal(np.argsort(-rank, kind="stable").tolist())
