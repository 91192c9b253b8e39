"""The order that each policy reaches on a pilot sample, where all rows are known at once.

>>> drops = np.array([[True, False], [False, True], [False, True]])
>>> pilot_order("sweep", drops, np.array([1e-6, 1e-6]), Precedence.none(2))
(1, 0)
>>> native_policy("content"), native_policy("exhaustive")
('agreedy', 'exhaustive')
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anabranch.errors import InternalError
from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering import greedy_order, optimal_order
from anabranch.ordering.precedence import Precedence
from anabranch.routing.policies import BY_CONTENT
from anabranch.routing.source_based_order import SourceBasedOrder
from anabranch.stats.processing_times import usable_costs


def native_policy(policy: str) -> str:
    """The ordering policy of native predicates under the policy of a filter.

    How much is profiled is settled by the executor, and Spark draws no orders: of the policies that do either, A-Greedy
    is left.
    """
    name = "agreedy" if policy in (*BY_CONTENT, SourceBasedOrder.name) else policy
    if name not in ORDERS:
        raise InternalError(f"policy {policy!r} is not known for native predicates; they have: {', '.join(ORDERS)}")
    return name


def pilot_order(policy: str, drops: BoolMatrix, costs: Floats, precedence: Precedence) -> Order:
    """The order that an ordering policy reaches on sampled rows, given by the predicates that drop them."""
    return ORDERS[policy](drops, costs, precedence)


def _as_written(drops: BoolMatrix, costs: Floats, precedence: Precedence) -> Order:
    return precedence.legal(range(drops.shape[1]))


def _greedy(drops: BoolMatrix, costs: Floats, precedence: Precedence) -> Order:
    return greedy_order(drops[drops.any(axis=1)], costs, precedence)


def _optimal(drops: BoolMatrix, costs: Floats, precedence: Precedence) -> Order:
    return optimal_order(drops[drops.any(axis=1)], costs, precedence)


def _independent(drops: BoolMatrix, costs: Floats, precedence: Precedence) -> Order:
    rank = -drops.sum(axis=0) / usable_costs(costs)
    return precedence.legal(np.argsort(rank, kind="stable").tolist())


ORDERS: dict[str, Callable[[BoolMatrix, Floats, Precedence], Order]] = {
    "fixed": _as_written,
    "agreedy": _greedy,
    "sweep": _greedy,
    "localswaps": _greedy,
    "independent": _independent,
    "exhaustive": _optimal,
}
