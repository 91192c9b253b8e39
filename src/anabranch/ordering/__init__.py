"""Ordering policies: how a pipeline of filters is put in order, and kept in order while the data changes.

>>> make("agreedy", 3).order
(0, 1, 2)
>>> make("agredy", 3)
Traceback (most recent call last):
    ...
anabranch.errors.QueryError: unknown policy 'agredy'
  hint: did you mean 'agreedy'? The policies are: ...
"""

from __future__ import annotations

from anabranch.config import OrderingConfig
from anabranch.errors import QueryError, suggest
from anabranch.ordering.agreedy import AGreedy
from anabranch.ordering.auto import Auto
from anabranch.ordering.base import Observation, Reoptimizer, Seed
from anabranch.ordering.exhaustive import Exhaustive, optimal_order
from anabranch.ordering.fixed import Fixed
from anabranch.ordering.greedy import expected_cost, greedy_order, row_costs
from anabranch.ordering.independent import Independent
from anabranch.ordering.localswaps import LocalSwaps
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.sweep import Sweep

__all__ = [
    "POLICIES",
    "Observation",
    "Precedence",
    "Reoptimizer",
    "Seed",
    "expected_cost",
    "greedy_order",
    "make",
    "optimal_order",
    "row_costs",
]

POLICIES: dict[str, type[Reoptimizer]] = {
    policy.name: policy for policy in (Auto, Fixed, AGreedy, Sweep, Independent, LocalSwaps, Exhaustive)
}


def make(
    name: str,
    filters: int,
    *,
    config: OrderingConfig | None = None,
    precedence: Precedence | None = None,
    seed: Seed | None = None,
) -> Reoptimizer:
    """Build the policy of that name for a number of filters."""
    if name not in POLICIES:
        raise QueryError(f"unknown policy {name!r}", hint=suggest(name, list(POLICIES), "policies"))
    return POLICIES[name](filters, config=config, precedence=precedence, seed=seed)
