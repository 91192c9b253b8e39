"""Independent: orders the filters by drop rate per unit of cost, as if they knew nothing of each other.

This is optimal for independent filters, needs only one count per filter, and settles with fewer profile tuples. With
correlated filters it may cost n times the optimum (example 4.5.1).

>>> policy = Independent(3, config=OrderingConfig(minimum_profiles=2))
>>> none = np.zeros(3, dtype=np.int64)
>>> seen = np.array([[True, True, True], [False, True, True], [False, False, True]])
>>> decided = policy.observe(Observation(drops=seen, entered=none, dropped=none, costs=np.array([1.0, 1.0, 2.0])))
>>> policy.order
(1, 2, 0)

Notes
-----
V[1, i], proportional to d(i|0) -> `_drops[i]`, indexed by filter; alpha -> `config.thrash_avoidance`; p is 0.005
instead of 0.01 -> `OrderingConfig.for_policy`.

Differs from the paper
----------------------
- Nothing is decided before `config.minimum_profiles` tuples are in the window.
- One violation by more than the factor alpha sorts all filters, not only those between the two.
- With precedence constraints the new order is the legal one nearest to the sorted one, and is adopted only if it puts
  some violating pair right.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.5, figure 4.9(b).
"""

from __future__ import annotations

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.model.arrays import Floats, Order
from anabranch.ordering.base import Observation, Seed
from anabranch.ordering.decisions import Decision
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.why import Rank, outranked
from anabranch.ordering.windowed import Windowed
from anabranch.stats.processing_times import usable_costs


class Independent(Windowed):
    """Maintains the Independent invariant over the profile window."""

    name = "independent"

    def __init__(
        self,
        filters: int,
        *,
        config: OrderingConfig | None = None,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(filters, config=config, precedence=precedence, seed=seed)
        self._drops = self.window.rows().sum(axis=0)

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """Update the counts; sort the filters if one is beaten by more than alpha by another behind it."""
        expired = self._slide(seen)
        self._drops = self._drops + np.sum(seen.drops, axis=0) - expired.sum(axis=0)
        return self._sort(usable_costs(seen.costs)) if self._ready() else ()

    def _sort(self, costs: Floats) -> tuple[Decision, ...]:
        ranks = self._drops / costs
        placed = ranks.take(self.order)
        best_behind = np.maximum.accumulate(placed[::-1])[::-1]
        beaten = placed < self.config.thrash_avoidance * best_behind
        if not beaten.any():
            return ()
        wish = self.precedence.legal(sorted(self.order, key=lambda f: -ranks[f]))
        before, why = self.order, self._violated(int(beaten.argmax()), costs)
        if not self.precedence or self._repairs(wish, placed):
            self.order = wish
        return self._reordered(before, why)

    def _violated(self, place: int, costs: Floats) -> str:
        behind = [Rank(f, int(self._drops[f]), float(costs[f])) for f in self.order[place:]]
        return outranked(place, better=max(behind, key=lambda r: r.drops / r.seconds), worse=behind[0])

    def _repairs(self, wish: Order, placed: Floats) -> bool:
        """Whether some filter that is beaten now comes behind the one that beats it."""
        place = np.argsort(wish).take(self.order)
        beaten = np.triu(placed[:, np.newaxis] < self.config.thrash_avoidance * placed)
        return bool((beaten & (place[:, np.newaxis] > place)).any())
