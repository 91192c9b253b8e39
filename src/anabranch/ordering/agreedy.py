"""A-Greedy: keeps the order that Static Greedy would choose for the tuples of the profile window.

A sample of the dropped tuples is tried on all remaining filters. A matrix view over these profile tuples shows at once
when a filter at some place drops fewer tuples per unit of cost than one behind it, among the tuples that get there; the
order is then repaired from that place on. Once the data is stable, the cost is at most 4 / alpha times the optimum.

>>> policy = AGreedy(2, config=OrderingConfig(minimum_profiles=2))
>>> seen = np.array([[False, True], [False, True], [True, True]])
>>> none = np.zeros(2, dtype=np.int64)
>>> [decision] = policy.observe(Observation(drops=seen, entered=none, dropped=none, costs=np.ones(2)))
>>> policy.order, decision.why
((1, 0), 'at place 1 {1} drops 3 profiled rows at 1e+06 us each, {0} 1 at 1e+06 us')

Notes
-----
p -> `config.profile_probability`; the window's size -> `config.window_tuples`, `config.window_seconds`; alpha ->
`config.thrash_avoidance`; V -> `view`.

Differs from the paper
----------------------
- Tuples come in batches, so several places may be violated at once: they are corrected from the first to the last.
- Nothing is decided before `config.minimum_profiles` tuples are in the window.
- With precedence constraints the ranks of single filters are not enough: one that drops little may enable a strong one.
  Then Static Greedy over groups runs on the window, each time `minimum_profiles` tuples are new, and its order is
  adopted if the expected cost falls below alpha times the present one.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.3.
"""

from __future__ import annotations

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.model.arrays import Floats
from anabranch.ordering.base import Observation, Seed
from anabranch.ordering.decisions import Decision
from anabranch.ordering.greedy import greedy_order
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.why import Rank, outranked
from anabranch.ordering.windowed import Windowed
from anabranch.stats.matrix_view import MatrixView
from anabranch.stats.processing_times import usable_costs


class AGreedy(Windowed):
    """Maintains the greedy invariant over the profile window."""

    name = "agreedy"

    def __init__(
        self,
        filters: int,
        *,
        config: OrderingConfig | None = None,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(filters, config=config, precedence=precedence, seed=seed)
        self.view = MatrixView(self.order)
        self.view.insert(self.window.rows())

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """Update window and view; repair the order where it is no longer greedy."""
        expired = self._slide(seen)
        if self.precedence:
            if not self._due():
                return ()
            return self._adopt_if_cheaper(greedy_order(self.window.rows(), seen.costs, self.precedence), seen.costs)
        self.view.insert(np.asarray(seen.drops))
        self.view.delete(expired)
        return self._restore_invariant(seen.costs) if self._ready() else ()

    def _restore_invariant(self, costs: Floats) -> tuple[Decision, ...]:
        before, why = self.order, ""
        while (place := self.view.violation(costs, self.config.thrash_avoidance)) is not None:
            why = why or self._violated(place, usable_costs(costs))
            self.order = self.view.correct(place, self.window.rows(), costs)
        return self._reordered(before, why)

    def _violated(self, place: int, costs: Floats) -> str:
        behind = [Rank(f, int(n), float(costs[f])) for f, n in zip(self.order, self.view.counts[place], strict=True)]
        return outranked(place, better=max(behind[place:], key=lambda r: r.drops / r.seconds), worse=behind[place])
