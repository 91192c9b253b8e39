"""Sweep and LocalSwaps see a part of each profile tuple: what they count must be what the full tuples would give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix
from anabranch.ordering import Observation, Precedence
from anabranch.ordering.localswaps import LocalSwaps
from anabranch.ordering.sweep import Sweep
from anabranch.stats.matrix_view import MatrixView
from tiers import tiers

Observe = Callable[..., Observation]

SMALL = OrderingConfig(profile_probability=1.0, window_tuples=60, minimum_profiles=10)


def stream(seed: int, filters: int, chunks: int = 40) -> list[BoolMatrix]:
    """Chunks of changing size and drop rates; every tuple is dropped by some filter."""
    rng = np.random.default_rng(seed)
    made = []
    for chunk in range(chunks):
        if chunk % 8 == 0:
            rates = rng.uniform(0.1, 0.8, filters)
        rows = int(rng.integers(0, 25)) if chunk % 13 else 80
        drops = rng.random((rows, filters)) < rates
        drops[np.arange(rows), rng.integers(0, filters, rows)] |= ~drops.any(axis=1)
        made.append(drops)
    return made


@pytest.mark.parametrize("seed", tiers(range(12), fast=4))
def test_localswaps_counts_what_full_tuples_would_give(observation: Observe, seed: int) -> None:
    filters = 3 + seed % 4
    policy = LocalSwaps(filters, config=SMALL)
    full, swaps = np.zeros((0, filters), dtype=np.bool_), 0
    for drops in stream(seed, filters):
        before = policy.order
        full = np.concatenate([full, drops])
        policy.observe(observation(policy, drops, np.ones(filters)))
        swaps += policy.order != before
        for pair in range(filters - 1):
            oldest = max(len(full) - SMALL.window_tuples, int(policy._since[pair]))
            view = MatrixView(policy.order)
            view.insert(full[oldest:])
            assert policy._own[pair] == view.counts[pair, pair]
            assert policy._next[pair] == view.counts[pair, pair + 1]
    assert swaps > 0


@pytest.mark.parametrize("seed", tiers(range(12), fast=4))
def test_sweep_counts_the_entries_of_figure_4_9_a(observation: Observe, seed: int) -> None:
    filters = 3 + seed % 4
    policy = Sweep(filters, config=SMALL)
    stage, moves, stages = np.zeros((0, filters), dtype=np.bool_), 0, set()
    for drops in stream(seed, filters):
        order, place = policy.order, policy.profiled
        stages.add(place)
        stage = np.concatenate([stage, drops])
        policy.observe(observation(policy, drops, np.ones(filters)))
        moves += policy.order != order
        view = MatrixView(order)
        view.insert(stage[-SMALL.window_tuples :])
        beaten = [i for i in range(place) if view.counts[i, i] < SMALL.thrash_avoidance * view.counts[i, place]]
        if beaten and len(stage) >= SMALL.minimum_profiles:
            moved = [f for f in order if f != order[place]]
            moved.insert(beaten[0], order[place])
            assert policy.order == tuple(moved)
        else:
            assert policy.order == order
        if policy.order != order or len(stage) >= SMALL.window_tuples:
            assert policy.profiled == (place + 1 if place + 1 < filters else 1)
            stage = stage[:0]
        else:
            assert policy.profiled == place
    assert stages == set(range(1, filters))
    assert moves > 0


def test_sweep_tries_only_the_profiled_filter_and_only_on_tuples_dropped_before_it() -> None:
    policy = Sweep(4, config=SMALL)
    assert [tuple(policy.wanted(place)) for place in range(4)] == [(1,), (), (), ()]


def test_sweep_counts_tuples_that_leave_no_mark_as_profile_tuples(observation: Observe) -> None:
    policy = Sweep(4, config=SMALL)
    behind = np.repeat([[False, False, False, True]], SMALL.window_tuples, axis=0)
    policy.observe(observation(policy, behind, np.ones(4)))
    assert policy.profiled == 2


@pytest.mark.parametrize("kind", [Sweep, LocalSwaps])
def test_a_filter_does_not_pass_the_one_it_needs(observation: Observe, kind: type[Sweep | LocalSwaps]) -> None:
    policy = kind(3, config=SMALL, precedence=Precedence(3, frozenset({(1, 2)})))
    strong_last = np.array([[False, False, True]] * 9 + [[True, False, True]], dtype=np.bool_)
    for _ in range(20):
        policy.observe(observation(policy, strong_last, np.ones(3)))
        assert policy.order.index(1) < policy.order.index(2)


@pytest.mark.parametrize("kind", [Sweep, LocalSwaps])
def test_partial_tuples_are_neither_taken_from_a_seed_nor_shown(kind: type[Sweep | LocalSwaps]) -> None:
    policy = kind(2, config=SMALL)
    none = np.zeros(2, dtype=np.int64)
    policy.observe(Observation(np.array([[True, False]]), none, none, np.ones(2)))
    assert policy.profiles().shape == (0, 2)
