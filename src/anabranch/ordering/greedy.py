"""Static Greedy: at each place the filter that drops most of what is left, per unit of cost; and what an order costs.

>>> drops = np.array([[0, 1, 1], [0, 1, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]], dtype=bool)
>>> greedy_order(drops, np.array([1.0, 1.0, 5.0]), Precedence.none(3))
(0, 1, 2)
>>> expected_cost((0, 1, 2), drops, np.array([1.0, 1.0, 5.0]))
1.4

With constraints a cheap filter that drops nothing may have to come first because it enables a strong one; so what is
ranked is the group of a filter and its ancestors that are not placed yet.

>>> greedy_order(drops, np.ones(3), Precedence(3, frozenset({(2, 0)})))
(2, 0, 1)

Notes
-----
T_O of equation 4.1, over a sample, and the pipelined cost of equation 4.5, per tuple -> `expected_cost`; d(j|i)/t_j, up
to a factor that all candidates for a place share -> the rank of a filter.

Differs from the paper
----------------------
The paper knows no constraints. Without them every group is a single filter, and this is the paper's algorithm.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 4.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering.precedence import Precedence
from anabranch.stats.processing_times import usable_costs


def greedy_order(rows: BoolMatrix, costs: Floats, precedence: Precedence) -> Order:
    """Order the filters greedily for a sample of full profile tuples."""
    costs, order, alive = usable_costs(costs), list[int](), rows
    while len(order) < precedence.filters:
        groups = [_group(f, order, precedence) for f in range(precedence.filters) if f not in order]
        ranks = [_rank(group, alive, costs) for group in groups]
        chosen = groups[int(np.argmax(ranks))][0]
        order.append(chosen)
        alive = alive[~alive[:, chosen]]
    return tuple(order)


def expected_cost(order: Sequence[int], rows: BoolMatrix, costs: Floats, *, passed: int = 0) -> float:
    """Mean cost of a tuple under an order, for the sample `rows` and `passed` more tuples that no filter drops."""
    tuples = len(rows) + passed
    if tuples == 0:
        return 0.0
    entered = _entered(order, rows) + passed
    return float(entered @ usable_costs(costs)[list(order)]) / tuples


def row_costs(order: Sequence[int], rows: BoolMatrix, costs: Floats) -> Floats:
    """What every row costs in an order: all filters up to the first that drops it.

    >>> row_costs((1, 0), np.array([[True, False], [True, True]]), np.array([1.0, 10.0])).tolist()
    [11.0, 10.0]
    """
    placed = rows[:, list(order)]
    reached = np.ones(placed.shape, dtype=np.bool_)
    reached[:, 1:] = ~np.logical_or.accumulate(placed, axis=1)[:, :-1]
    paid: Floats = reached @ usable_costs(costs)[list(order)]
    return paid


def _group(f: int, placed: Collection[int], precedence: Precedence) -> list[int]:
    """The filter behind those of its ancestors that are not placed yet, in a legal order."""
    if not precedence:
        return [f]
    missing = precedence.ancestors[f].difference(placed)
    return [*sorted(missing, key=lambda g: (len(precedence.ancestors[g]), g)), f]


def _rank(group: Sequence[int], alive: BoolMatrix, costs: Floats) -> float:
    """Tuples that the group drops per unit of its cost, if it processes what is left next."""
    if len(group) == 1:
        dropped, spent = np.count_nonzero(alive[:, group[0]]), len(alive) * costs[group[0]]
    else:
        dropped, spent = np.count_nonzero(alive[:, group].any(axis=1)), _entered(group, alive) @ costs[group]
    return float(dropped / spent) if dropped else 0.0


def _entered(order: Sequence[int], rows: BoolMatrix) -> Floats:
    """How many of the tuples each filter of the order processes."""
    gone = np.logical_or.accumulate(rows.T.take(order, axis=0), axis=0).sum(axis=1)
    return len(rows) - np.concatenate(([0.0], gone[:-1]))
