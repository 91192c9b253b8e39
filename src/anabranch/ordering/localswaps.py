"""LocalSwaps: exchanges neighbours, trying on a profiled tuple only the filter behind the one that dropped it.

It profiles little and changes the order smoothly, but only by steps between neighbours, each of which must pay by
itself: it can get stuck in an order that costs O(n) times the optimum (example 4.6.1).

>>> policy = LocalSwaps(3, config=OrderingConfig(minimum_profiles=2))
>>> policy.wanted(0), policy.wanted(2)
((1,), ())
>>> none = np.zeros(3, dtype=np.int64)
>>> seen = np.array([[True, True, False], [False, True, False], [False, False, True]])
>>> decided = policy.observe(Observation(drops=seen, entered=none, dropped=none, costs=np.ones(3)))
>>> policy.order
(1, 0, 2)

Notes
-----
V[i, i] -> `_own[i]`; V[i, i+1] -> `_next[i]`, places counted from 0; *pair i* below is the filters at i and i + 1.

Differs from the paper
----------------------
- Nothing is decided about a pair before the window holds `config.minimum_profiles` tuples that count for it.
- The paper does not say what a swap does to the window. A swap of pair i keeps the tuples, and the two counts of the
  pair change roles: for every tuple that got to place i both answers are known. The pairs i - 1 and i + 1 have a new
  member that their old tuples were not tried on; they start from zero and count only tuples that come later (`_since`).
  All other pairs have the same two filters behind the same set of filters, so nothing changes for them.
- With precedence constraints a filter is never swapped with one that must come before it.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.6, figure 4.9(c).
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


class LocalSwaps(Windowed):
    """Maintains the LocalSwaps invariant: no filter is beaten by its neighbour behind it."""

    name = "localswaps"
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
        pairs = max(0, filters - 1)
        self._own: Counts = np.zeros(pairs, dtype=np.int64)
        self._next: Counts = np.zeros(pairs, dtype=np.int64)
        self._since: Counts = np.zeros(pairs, dtype=np.int64)
        self._arrived = 0

    def wanted(self, place: int) -> Sequence[int]:
        """Only the filter behind the one that dropped the tuple."""
        return self.order[place + 1 : place + 2]

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """Update the two diagonals; swap every neighbour pair that is the wrong way round."""
        if self.filters < 2:
            return ()
        oldest = self._arrived - len(self.window)
        expired = self._slide(seen)
        self._count(np.asarray(seen.drops, dtype=np.bool_), self._arrived, 1)
        self._count(expired, oldest, -1)
        self._arrived += len(seen.drops)
        costs, before, why = usable_costs(seen.costs), self.order, ""
        while (place := self._violation(costs)) is not None:
            why = self._violated(place, costs)
            self._swap(place)
        return self._reordered(before, why)

    def _count(self, drops: BoolMatrix, number: int, sign: int) -> None:
        """Add or take away tuples, numbered by arrival from `number` on, in the pairs that count them."""
        if len(drops) == 0:
            return
        ordered = drops[:, self.order]
        first = ordered & (ordered.argmax(axis=1)[:, np.newaxis] == np.arange(self.filters))
        counted = np.arange(number, number + len(drops))[:, np.newaxis] >= self._since
        by_next = (first[:, :-1] & ordered[:, 1:]) | first[:, 1:]
        self._own += sign * (first[:, :-1] & counted).sum(axis=0)
        self._next += sign * (by_next & counted).sum(axis=0)

    def _violation(self, costs: Floats) -> int | None:
        costs = costs.take(self.order)
        beaten = self._own / costs[:-1] < self.config.thrash_avoidance * self._next / costs[1:]
        for place in np.flatnonzero(beaten).tolist():
            counted = min(self._arrived - int(self._since[place]), len(self.window))
            pinned = self.order[place] in self.precedence.ancestors[self.order[place + 1]]
            if counted >= self.config.minimum_profiles and not pinned:
                return int(place)
        return None

    def _violated(self, place: int, costs: Floats) -> str:
        there, behind = self.order[place : place + 2]
        better = Rank(behind, int(self._next[place]), float(costs[behind]))
        return outranked(place, better=better, worse=Rank(there, int(self._own[place]), float(costs[there])))

    def _swap(self, place: int) -> None:
        order = list(self.order)
        order[place], order[place + 1] = order[place + 1], order[place]
        self.order = tuple(order)
        self._own[place], self._next[place] = self._next[place], self._own[place]
        for pair in (place - 1, place + 1):
            if 0 <= pair < len(self._since):
                self._own[pair] = self._next[pair] = 0
                self._since[pair] = self._arrived
