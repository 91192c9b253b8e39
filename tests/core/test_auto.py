"""The policy `auto`: it works hard while it learns, little while things are still, and hard again after a change."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Order, Rows
from anabranch.ordering import Observation, Precedence, Seed
from anabranch.ordering.auto import Auto
from anabranch.ordering.decisions import Decision, NewEffort
from anabranch.ordering.pipeline import FIRST_DECISIONS_SECONDS, URGENT_DECISIONS_SECONDS, FilterPipeline, Verdict
from tiers import tiers

CHUNK = 500


class Stream:
    """Tuples in chunks, run through the real loop; drop rates can be changed at any time."""

    def __init__(
        self,
        *drop_rates: float,
        precedence: Precedence | None = None,
        config: OrderingConfig | None = None,
        decision_seconds: float = 0.0,
    ) -> None:
        class Pondering(Auto):
            def observe(_, seen: Observation) -> tuple[Decision, ...]:  # noqa: N805
                self._now += decision_seconds
                return super().observe(seen)

        self.rates = list(drop_rates)
        self.policy = Pondering(len(drop_rates), precedence=precedence, config=config)
        self.modes: list[str] = [self.policy.mode]
        self.reasons: list[str] = [""]
        self.calls = self.needed = 0
        self.filtering = self.deciding = 0.0
        self._rng = np.random.default_rng(1)
        self._now = 0.0
        self._pipeline = FilterPipeline(self.policy, clock=lambda: self._now)

    def flow(self, chunks: int) -> list[Order]:
        """Send chunks through; the order after each."""
        return [self._chunk() for _ in range(chunks)]

    def _chunk(self) -> Order:
        drops: BoolMatrix = self._rng.random((CHUNK, len(self.rates))) < np.array(self.rates)

        def evaluate(f: int, rows: Rows) -> Verdict:
            self._now += len(rows) * 1e-6
            return Verdict(~drops[rows, f])

        outcome = self._pipeline.process(CHUNK, evaluate)
        tally = self._pipeline.take_tally()
        self.calls += int(tally.calls.sum())
        self.needed += int(tally.seen.sum())
        self.filtering += float(tally.seconds.sum())
        self.deciding += tally.deciding_seconds
        self.modes.append(self.policy.mode)
        self.reasons.append(next((d.why for d in outcome.decisions if isinstance(d, NewEffort)), ""))
        return self.policy.order

    def overhead(self) -> float:
        """Calls for profiling alone, as a share of those that filtering itself needs."""
        return self.calls / self.needed - 1


def test_modes_follow_each_other_while_the_data_is_still() -> None:
    stream = Stream(0.1, 0.6, 0.3)
    assert stream.policy.profile_probability == 1.0
    stream.flow(200)
    assert list(dict.fromkeys(stream.modes)) == ["learning", "watching", "resting"]
    assert "learning" not in stream.modes[stream.modes.index("watching") :]
    assert stream.policy.order == (1, 2, 0)


@pytest.mark.parametrize("seed", tiers(range(10), fast=4))
def test_an_order_found_while_learning_is_no_change_of_the_data(seed: int) -> None:
    """A new order brings new conditional drop rates: here the first filter drops nothing behind the second."""
    rng, now, at = np.random.default_rng(seed), 0.0, 0
    strong = rng.random(20_000) < 0.6
    drops = [strong & (rng.random(20_000) < 0.5 / 0.6), strong, rng.random(20_000) < 0.05]

    def evaluate(f: int, rows: Rows) -> Verdict:
        nonlocal now
        now += len(rows) * 2e-5
        return Verdict(~drops[f][at + rows])

    policy = Auto(3)
    pipeline = FilterPipeline(policy, seed=seed, clock=lambda: now)
    while at < 20_000:
        size = pipeline.chunk_rows(20_000 - at)
        outcome = pipeline.process(size, evaluate)
        at += size
        assert not [d for d in outcome.decisions if isinstance(d, NewEffort) and "jumped" in d.why]


def test_a_window_smaller_than_learning_wants_ends_learning_when_it_is_full() -> None:
    stream = Stream(0.5, 0.6, config=OrderingConfig(window_tuples=40))
    stream.flow(1)
    assert stream.policy.mode == "watching"


def test_effort_falls_on_still_data() -> None:
    stream = Stream(0.2, 0.6, 0.3, 0.1)
    efforts = []
    for _ in range(200):
        efforts.append(stream.policy.profile_probability)
        stream.flow(1)
    assert efforts == sorted(efforts, reverse=True)
    assert efforts[0] == 1.0
    assert efforts[-1] < 0.01
    stream.calls = stream.needed = 0
    stream.flow(100)
    assert stream.overhead() < 0.01


def test_the_first_order_comes_within_a_few_chunks() -> None:
    orders = Stream(0.0, 0.1, 0.8).flow(3)
    assert orders[-1] == (2, 1, 0)


@pytest.mark.parametrize("still", [10, 300])
def test_a_jump_is_answered_within_a_few_chunks(still: int) -> None:
    stream = Stream(0.1, 0.8, 0.4)
    assert stream.flow(still)[-1] == (1, 2, 0)
    stream.rates = [0.8, 0.1, 0.4]
    orders = stream.flow(8)
    assert "learning" in stream.modes[still + 1 :]
    assert any("drop rate" in reason and "jumped" in reason for reason in stream.reasons[still + 1 :])
    assert orders[-1] == (0, 2, 1)
    assert stream.flow(200)[-1] == (0, 2, 1)
    assert stream.policy.mode == "resting"


def test_a_jump_is_answered_although_the_time_for_a_decision_is_not_earned() -> None:
    """Filters so cheap that decisions are rare: drop rates are watched all the same."""
    stream = Stream(0.1, 0.8, 0.4, decision_seconds=5e-4)
    assert stream.flow(100)[-1] == (1, 2, 0)
    spent = stream.deciding
    assert stream.flow(100)[-1] == (1, 2, 0)
    assert stream.deciding - spent < 0.001, "nothing is left to spend"
    stream.rates = [0.8, 0.1, 0.4]
    assert stream.flow(8)[-1] == (0, 2, 1)


def test_alarms_without_end_take_no_more_than_what_is_earned_and_lent() -> None:
    stream = Stream(0.1, 0.8, 0.4, decision_seconds=5e-4)
    for _ in range(1000):
        stream.rates.reverse()
        stream.flow(1)
    once = 5e-4
    assert stream.deciding <= 0.005 * stream.filtering + FIRST_DECISIONS_SECONDS + URGENT_DECISIONS_SECONDS + once


def test_a_filter_that_becomes_selective_behind_the_others_is_found_while_resting() -> None:
    """Nothing that the first filters do tells: only the sweep can see it, or the rate of the last one itself."""
    stream = Stream(0.5, 0.3, 0.1)
    stream.flow(300)
    assert stream.policy.mode == "resting"
    stream.rates = [0.5, 0.3, 0.95]
    assert (2, 0, 1) in stream.flow(60)


def test_bursts_that_never_change_the_order_cost_less_and_less() -> None:
    stream = Stream(0.05, 0.85, 0.3)
    shares = []
    for burst in range(24):
        stream.calls = stream.needed = 0
        stream.rates[1] = 0.95 if burst % 2 else 0.65
        assert stream.flow(6)[-1][0] == 1
        shares.append(stream.overhead())
    assert "learning" in stream.modes[-30:]
    assert np.mean(shares[-4:]) < 0.3 * np.mean(shares[1:3])


def test_an_alarm_that_was_right_restores_the_effort() -> None:
    stream = Stream(0.05, 0.85, 0.3)
    for burst in range(12):
        stream.rates[1] = 0.95 if burst % 2 else 0.65
        stream.flow(6)
    stream.rates = [0.9, 0.05, 0.3]
    assert stream.flow(12)[-1][0] == 0
    stream.rates = [0.05, 0.9, 0.3]
    stream.flow(1)
    assert stream.policy.profile_probability == 1.0


def test_noise_alone_costs_little() -> None:
    """Filters that are all alike give no reason to work: false alarms are rare, and soon over."""
    stream = Stream(0.5, 0.5, 0.5)
    stream.flow(50)
    stream.calls = stream.needed = 0
    stream.flow(400)
    assert stream.overhead() < 0.02


def test_constraints_hold_in_every_mode() -> None:
    edges = Precedence(3, frozenset({(0, 2)}))
    stream = Stream(0.0, 0.3, 0.9, precedence=edges)
    orders = stream.flow(150)
    stream.rates = [0.9, 0.3, 0.0]
    orders += stream.flow(150)
    assert all(edges.allows(order) for order in orders)
    assert orders[149] == (0, 2, 1)


@pytest.mark.parametrize(("alpha", "window", "fewest"), [(0.5, 77, 40), (0.9, 300, 30), (0.9, 1000, 30)])
def test_what_is_configured_holds_while_resting(alpha: float, window: int, fewest: int) -> None:
    config = OrderingConfig(thrash_avoidance=alpha, window_tuples=window, minimum_profiles=fewest)
    stream = Stream(0.5, 0.3, 0.1, config=config)
    stream.flow(300)
    assert stream.policy.mode == "resting"
    assert stream.policy._sweeper is not None
    found = stream.policy._sweeper.config
    defaults = OrderingConfig.for_policy("sweep")
    assert found.thrash_avoidance == alpha
    assert found.window_tuples == (defaults.window_tuples if window == 1000 else window)
    assert found.minimum_profiles == (defaults.minimum_profiles if fewest == 30 else fewest)


def test_a_probability_of_zero_profiles_nothing() -> None:
    stream = Stream(0.1, 0.6, 0.3, config=OrderingConfig(profile_probability=0.0))
    assert stream.policy.profile_probability == 0.0
    assert set(stream.flow(100)) == {(0, 1, 2)}
    stream.rates = [0.6, 0.1, 0.3]
    stream.flow(20)
    assert stream.overhead() == 0


def test_one_filter_takes_no_profiles() -> None:
    stream = Stream(0.5)
    stream.flow(20)
    assert stream.policy.profile_probability == 0
    assert stream.overhead() == 0


def test_what_was_learned_before_spares_the_learning() -> None:
    drops = np.random.default_rng(3).random((2000, 3)) < (0.1, 0.3, 0.8)
    seed = Seed((2, 1, 0), drops[drops.any(axis=1)], np.full(3, 1e-6))
    policy = Auto(3, seed=seed)
    assert policy.mode == "watching"
    assert policy.order == (2, 1, 0)
    assert Auto(3, seed=Seed((2, 1, 0), drops[:10], np.full(3, 1e-6))).mode == "learning"


def test_observations_without_profiles_are_harmless() -> None:
    policy = Auto(2)
    nothing = Observation(
        np.zeros((0, 2), dtype=np.bool_), np.zeros(2, np.int64), np.zeros(2, np.int64), np.full(2, np.nan)
    )
    assert [policy.observe(nothing) for _ in range(50)] == [()] * 50
    assert policy.order == (0, 1)
