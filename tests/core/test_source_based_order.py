"""SBR as an ordering policy: the more a filter drops, the more often it goes first."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.config import OrderingConfig
from anabranch.ordering.base import Observation
from anabranch.ordering.precedence import Precedence
from anabranch.routing.source_based_order import SourceBasedOrder

NOTHING = np.zeros((0, 2), dtype=np.bool_)


def first_places(policy: SourceBasedOrder, draws: int, costs: tuple[float, float]) -> list[float]:
    """How often each of two filters went first; the second drops nine of ten tuples, the first one of ten."""
    seen = Observation(NOTHING, np.array([1000, 1000]), np.array([100, 900]), np.array(costs))
    counts = np.zeros(2)
    for _ in range(draws):
        policy.observe(seen)
        counts[policy.order[0]] += 1
    return (counts / draws).tolist()  # type: ignore[no-any-return]


def test_orders_are_drawn_inversely_to_selectivities() -> None:
    shares = first_places(SourceBasedOrder(2), 4000, (1e-5, 1e-5))
    assert shares == pytest.approx([0.1, 0.9], abs=0.02)  # 1/0.9 against 1/0.1


def test_costs_weigh_in_where_the_user_wants_it() -> None:
    aware = SourceBasedOrder(2, config=OrderingConfig(cost_aware=True))
    assert first_places(aware, 4000, (1e-5, 9e-5)) == pytest.approx([0.5, 0.5], abs=0.03)  # 0.1/1 against 0.9/9
    assert first_places(SourceBasedOrder(2), 4000, (1e-5, 9e-5)) == pytest.approx([0.1, 0.9], abs=0.02)


def test_nothing_is_profiled_and_constraints_hold() -> None:
    policy = SourceBasedOrder(2, precedence=Precedence(2, frozenset({(0, 1)})))
    assert policy.profile_probability == 0
    assert policy.wanted(0) == ()
    assert first_places(policy, 50, (1e-5, 1e-5)) == [1.0, 0.0]
