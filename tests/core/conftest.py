"""An executor on paper: it runs a policy over tuples whose fate under every filter is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering import Observation, Reoptimizer
from anabranch.ordering.decisions import NewOrder


def shown(policy: Reoptimizer, drops: BoolMatrix) -> BoolMatrix:
    """Profile tuples of all dropped tuples, with what the policy wants to know about them, and no more."""
    ordered = drops[:, policy.order]
    dropped = ordered.any(axis=1)
    place = ordered.argmax(axis=1)[dropped]
    known = np.zeros((len(place), policy.filters), dtype=np.bool_)
    for at in np.unique(place).tolist():
        known[np.ix_(place == at, [*policy.order[: at + 1], *policy.wanted(at)])] = True
    return drops[dropped] & known


def observation(policy: Reoptimizer, drops: BoolMatrix, costs: Floats, now: float = 0.0) -> Observation:
    """What the policy observes after a chunk of tuples, all of whose drops are profiled."""
    ordered = drops[:, policy.order]
    alive = np.logical_and.accumulate(~ordered, axis=1)
    entered, dropped = np.zeros(policy.filters, dtype=np.int64), np.zeros(policy.filters, dtype=np.int64)
    before = np.concatenate(([len(drops)], alive.sum(axis=0)))
    entered[list(policy.order)] = before[:-1]
    dropped[list(policy.order)] = before[:-1] - before[1:]
    return Observation(shown(policy, drops), entered, dropped, costs, now)


def run(policy: Reoptimizer, chunks: list[BoolMatrix], costs: Floats | None = None) -> list[Order]:
    """Feed the chunks one by one, a second apart; the order after each."""
    costs = np.ones(policy.filters) if costs is None else costs
    orders = []
    for second, chunk in enumerate(chunks):
        before = policy.order
        decided = policy.observe(observation(policy, chunk, costs, now=float(second)))
        changes = [(d.before, d.after) for d in decided if isinstance(d, NewOrder)]
        assert changes == ([(before, policy.order)] if policy.order != before else [])
        orders.append(policy.order)
    return orders


@pytest.fixture(name="run")
def run_fixture() -> Callable[..., list[Order]]:
    return run


@pytest.fixture(name="observation")
def observation_fixture() -> Callable[..., Observation]:
    return observation
