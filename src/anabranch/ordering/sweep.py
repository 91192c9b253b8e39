"""Sweep: checks one filter at a time, trying at most one extra filter per profiled tuple.

In a stage only the filter at one place is profiled, and compared with those before it. The stage ends when it should
stand earlier, and is moved there, or when a window's worth of profile tuples shows that it should not; then the next
place gets its turn. On stable data Sweep reaches an order that satisfies the greedy invariant, later than A-Greedy,
with less work per profiled tuple.

>>> policy = Sweep(3, config=OrderingConfig(minimum_profiles=2))
>>> policy.profiled, policy.wanted(0), policy.wanted(1)
(1, (1,), ())
>>> none = np.zeros(3, dtype=np.int64)
>>> seen = np.array([[True, True, False], [False, True, False], [False, False, True]])
>>> decided = policy.observe(Observation(drops=seen, entered=none, dropped=none, costs=np.ones(3)))
>>> policy.order, policy.profiled
((1, 0, 2), 2)

Notes
-----
j -> `profiled`, counted from 0; V[i, i] -> `_own[i]`; V[i, j] -> `_rival[i]`; a_i -> the observation's costs; the
prespecified number of tuples that ends a stage -> `config.window_tuples`.

Differs from the paper
----------------------
- Nothing is decided before `config.minimum_profiles` tuples are in the window of the stage.
- With precedence constraints a filter moves at most to the place behind its last ancestor; a filter that merely enables
  another one has no rank of its own and is never moved forward for it.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.4, figure 4.9(a).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Counts, Floats
from anabranch.ordering.base import Observation, Seed
from anabranch.ordering.decisions import Decision
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.why import Rank, outranked
from anabranch.ordering.windowed import Windowed
from anabranch.stats.processing_times import usable_costs


class Sweep(Windowed):
    """Maintains the Sweep invariant of the filter whose turn it is."""

    name = "sweep"
    full_tuples = False

    def __init__(
        self,
        filters: int,
        *,
        config: OrderingConfig | None = None,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(filters, config=config, precedence=precedence, seed=seed)
        self._start_stage(1)

    def wanted(self, place: int) -> Sequence[int]:
        """Only the profiled filter, if it stands behind `place`."""
        return self.order[self.profiled : self.profiled + 1] if place < self.profiled else ()

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """Update the entries of the stage; move its filter forward or end the stage when it is time."""
        if self.filters < 2:
            return ()
        expired = self._slide(seen)
        self._count(np.asarray(seen.drops, dtype=np.bool_), 1)
        self._count(expired, -1)
        place = self._better_place(seen.costs) if self._ready() else None
        decided = () if place is None else self._move(place, usable_costs(seen.costs))
        if place is not None or self._fresh >= self.config.window_tuples:
            self._start_stage(self.profiled % (self.filters - 1) + 1)
        return decided

    def _move(self, place: int, costs: Floats) -> tuple[Decision, ...]:
        before, why, order = self.order, self._violated(place, costs), list(self.order)
        order.insert(place, order.pop(self.profiled))
        self.order = tuple(order)
        return self._reordered(before, why)

    def _violated(self, place: int, costs: Floats) -> str:
        mover, there = self.order[self.profiled], self.order[place]
        better = Rank(mover, int(self._rival[place]), float(costs[mover]))
        return outranked(place, better=better, worse=Rank(there, int(self._own[place]), float(costs[there])))

    def _start_stage(self, place: int) -> None:
        self.profiled = place
        self.window.clear()
        self._fresh = 0
        self._own: Counts = np.zeros(place + 1, dtype=np.int64)
        self._rival: Counts = np.zeros(place + 1, dtype=np.int64)

    def _count(self, drops: BoolMatrix, sign: int) -> None:
        """Add or take away tuples; those that are dropped behind the profiled place leave no mark."""
        reached = drops[:, self.order[: self.profiled + 1]]
        reached = reached[reached.any(axis=1)]
        if len(reached) == 0:
            return
        first = reached.argmax(axis=1)
        by_rival = np.bincount(first[reached[:, -1]], minlength=self.profiled + 1)
        self._own += sign * np.bincount(first, minlength=self.profiled + 1)
        self._rival += sign * by_rival[::-1].cumsum()[::-1]

    def _better_place(self, costs: Floats) -> int | None:
        """The first place at which the profiled filter beats the one that stands there."""
        costs = usable_costs(costs).take(self.order[: self.profiled + 1])
        beaten = self._own / costs < self.config.thrash_avoidance * self._rival / costs[-1]
        above = self.precedence.ancestors[self.order[self.profiled]]
        beaten[: max((self.order.index(f) + 1 for f in above), default=0)] = False
        return int(beaten.argmax()) if beaten.any() else None
