"""The default policy: A-Greedy that works hard while it learns or the data changes, and hardly at all while it is
still.

Three modes. *Learning* profiles every dropped tuple until there is enough for a first order. *Watching* is A-Greedy
with a profile probability that keeps within a budget, a share of the time the filters take, and halves whenever a
stretch of profile tuples brings no new order. *Resting* is Sweep from there: one filter is tried on a few dropped
tuples. In every mode the drop rates of normal processing, which cost nothing to observe, are compared with their own
recent past; a rate that jumps, or a new order found by Sweep, sends the policy back to learning, with an empty profile
window, since the old tuples describe data that is gone.

>>> policy = Auto(2)
>>> policy.mode, policy.profile_probability
('learning', 1.0)
>>> drops = np.array([[False, True]] * 150 + [[True, True]] * 50)
>>> quiet = np.array([300, 150]), np.array([150, 50])
>>> reordered, effort = policy.observe(Observation(drops, *quiet, np.array([1e-5, 1e-5])))
>>> reordered.after, effort.mode, effort.profile_probability
((1, 0), 'watching', 0.02)

Notes
-----
Drop-profiling probability p -> `profile_probability`, here a state instead of a constant; the thesis leaves changing it
adaptively open (section 4.3.1). Only a configured probability of 0 is taken at its word: nothing is profiled.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 4.3 and 4.4.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import ClassVar

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Counts, Floats, Order
from anabranch.ordering.agreedy import AGreedy
from anabranch.ordering.base import Observation, Reoptimizer, Seed
from anabranch.ordering.decisions import Decision, NewEffort
from anabranch.ordering.greedy import row_costs
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.sweep import Sweep
from anabranch.stats.drop_rates import DropRates
from anabranch.thresholds import REORDER_SAVING

LEARNING_PROFILES = 100
LEARNING_ROWS = 4000
CHUNK_PROFILES = 256
WATCHING_PROBABILITY = 0.02
WATCHING_BUDGET = 0.01
RESTING_PROBABILITY = 0.002
CALM_PROFILES = 64
SHORT_PEACE_ROWS = 1600


class Auto(Reoptimizer):
    """A-Greedy with an effort that follows the data."""

    name = "auto"
    chunk_profiles: ClassVar[float] = CHUNK_PROFILES

    def __init__(
        self,
        filters: int,
        *,
        config: OrderingConfig | None = None,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(filters, config=config, precedence=precedence, seed=seed)
        self._watcher = self._new_watcher(seed)
        self._sweeper: Sweep | None = None
        self._rates = DropRates(filters)
        self._noted: Counts = np.zeros((2, filters), dtype=np.int64)
        self._probability = self._effort = 1.0
        self._doubted: Order | None = None
        self._calm = self._rows = self._restless = 0
        self.mode = "learning"
        if seed is not None and len(seed.drops) >= LEARNING_PROFILES:
            self._watch("learned before")

    @property
    def profile_probability(self) -> float:
        """Share of dropped tuples to profile now."""
        return self._probability if self.filters > 1 and self.config.profile_probability > 0 else 0.0

    @property
    def eager(self) -> bool:
        """While it learns."""
        return self.mode == "learning" and self.profile_probability > 0

    def drift_alarm(self, entered: Counts, dropped: Counts) -> bool:
        """Once a drop rate has jumped; what is noted here is no news when it is observed."""
        if self.profile_probability == 0:
            return False
        if self._rates.jumped(entered, dropped, self.order) is not None:
            return True
        self._rates.add(entered, dropped, self.order)
        self._noted += entered, dropped
        return False

    def wanted(self, place: int) -> tuple[int, ...]:
        """All remaining filters, or the one that Sweep asks for."""
        return tuple((self._sweeper or self._watcher).wanted(place))

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """Decide on the order, then on the effort."""
        if self.filters < 2:
            return ()
        before, decider = self.order, self._sweeper or self._watcher
        reordered = decider.observe(seen)
        self.order = decider.order
        self._rows += int(seen.entered.max(initial=0))
        effort = self._choose_effort(seen, before)
        if self.order != before:
            self._rates.expect(self.order, self._watcher.profiles())
        return (*reordered, *effort)

    def _choose_effort(self, seen: Observation, before: Order) -> tuple[Decision, ...]:
        """Learn, watch or rest from now on, given the order that the tuples have taken."""
        entered, dropped = seen.entered - self._noted[0], seen.dropped - self._noted[1]
        self._noted[:] = 0
        jumped = self._rates.jumped(entered, dropped, before)
        self._rates.add(entered, dropped, before)
        if self._sweeper is not None:
            return self._learn(self._why(jumped)) if jumped is not None or self.order != before else ()
        if self.mode == "learning":
            enough = min(LEARNING_PROFILES, self.config.window_tuples)
            if len(self._watcher.profiles()) < enough and self._rows < LEARNING_ROWS:
                return ()
            self._effort = self._next_effort(np.nan_to_num(seen.costs))
            return self._watch("enough profiles for an order")
        if jumped is not None:
            return self._learn(self._why(jumped))
        self._probability = min(self._probability, WATCHING_BUDGET / profiling_share(seen, before))
        return self._settle(len(seen.drops), changed=self.order != before)

    def profiles(self) -> BoolMatrix:
        """The full profile tuples of the last time it watched."""
        return self._watcher.profiles()

    def _settle(self, profiles: int, *, changed: bool) -> tuple[Decision, ...]:
        """Halve the effort after every calm stretch; rest when it is small."""
        self._calm = 0 if changed else self._calm + profiles
        if self._calm < CALM_PROFILES:
            return ()
        self._calm = 0
        self._probability /= 2
        return self._rest() if self._probability < 2 * RESTING_PROBABILITY else ()

    def _learn(self, reason: str) -> tuple[Decision, ...]:
        self._watcher = self._new_watcher(
            Seed(self.order, np.zeros((0, self.filters), dtype=np.bool_), np.zeros(self.filters))
        )
        self._sweeper = None
        self._doubted = self.order
        # Where alarms follow each other that soon, what one has led to is of little use.
        self._restless = self._restless + 1 if self._rows < SHORT_PEACE_ROWS else 0
        self._probability = max(self._effort / 2**self._restless, WATCHING_PROBABILITY)
        self._rows = 0
        self._rates.forget()
        return self._enter("learning", reason)

    def _next_effort(self, costs: Floats) -> float:
        """How much to profile after the next alarm: half as much if this one led to no order that is worth it."""
        if self._doubted is None or not len(self.profiles()):
            return 1.0
        doubted, found = (float(row_costs(o, self.profiles(), costs).sum()) for o in (self._doubted, self.order))
        return 1.0 if found < (1 - REORDER_SAVING) * doubted else max(self._effort / 2, WATCHING_PROBABILITY)

    def _watch(self, reason: str) -> tuple[Decision, ...]:
        self._probability, self._calm = WATCHING_PROBABILITY, 0
        return self._enter("watching", reason)

    def _rest(self) -> tuple[Decision, ...]:
        nothing = np.zeros((0, self.filters), dtype=np.bool_)
        seed = Seed(self.order, nothing, np.zeros(self.filters))
        self._sweeper = Sweep(self.filters, config=resting_config(self.config), precedence=self.precedence, seed=seed)
        self._probability = RESTING_PROBABILITY
        return self._enter("resting", "nothing changes")

    def _enter(self, mode: str, reason: str) -> tuple[Decision, ...]:
        self.mode = mode
        return (NewEffort(mode, self.profile_probability, reason),)

    def _new_watcher(self, seed: Seed | None) -> AGreedy:
        return AGreedy(self.filters, config=self.config, precedence=self.precedence, seed=seed)

    def _why(self, jumped: int | None) -> str:
        return "the sweep found a better order" if jumped is None else f"the drop rate of {{{jumped}}} jumped"


def resting_config(config: OrderingConfig) -> OrderingConfig:
    """What was chosen for the policy holds for Sweep, too; where nothing was chosen, Sweep has defaults of its own.

    >>> found = resting_config(OrderingConfig(thrash_avoidance=0.5, window_tuples=77))
    >>> found.thrash_avoidance, found.window_tuples, found.minimum_profiles
    (0.5, 77, 77)
    """
    usual, sweeping = OrderingConfig.for_policy(Auto.name), OrderingConfig.for_policy(Sweep.name)
    names = [f.name for f in fields(OrderingConfig)]
    chosen = {name: getattr(config, name) for name in names if getattr(config, name) != getattr(usual, name)}
    window = chosen.get("window_tuples", sweeping.window_tuples)
    fewest = min(chosen.get("minimum_profiles", sweeping.minimum_profiles), window)
    return replace(sweeping, **{**chosen, "minimum_profiles": fewest})


def profiling_share(seen: Observation, order: Order) -> float:
    """What it would cost to profile every dropped tuple, as a share of what the filters cost by themselves.

    >>> nothing, even = np.zeros((0, 2), dtype=bool), np.array([1e-6, 3e-6])
    >>> round(profiling_share(Observation(nothing, np.array([100, 50]), np.array([50, 10]), even), (0, 1)), 2)
    0.6
    """
    costs = np.nan_to_num(seen.costs)
    behind = profiled = 0.0
    for f in reversed(order):
        profiled += float(seen.dropped[f]) * behind
        behind += float(costs[f])
    spent = float(seen.entered @ costs)
    return max(profiled / spent, WATCHING_BUDGET) if spent else 1.0
