"""Source-based routing as an ordering policy: the plain Eddy on Spark, a new order drawn for every chunk of rows.

>>> policy = SourceBasedOrder(2)
>>> nothing = np.zeros((0, 2), dtype=bool)
>>> for _ in range(20):
...     _ = policy.observe(Observation(nothing, np.array([100, 100]), np.array([5, 95]), np.ones(2)))
>>> policy.selectivity.round(2)
array([0.95, 0.05])
>>> policy.order
(1, 0)

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.model.arrays import Floats
from anabranch.ordering.base import Observation, Reoptimizer, Seed
from anabranch.ordering.decisions import Decision
from anabranch.ordering.precedence import Precedence
from anabranch.routing.sbr import ALPHA, FIRST_SELECTIVITY, NEVER_ZERO


class SourceBasedOrder(Reoptimizer):
    """Draws an order with probabilities inversely proportional to running selectivities; profiles nothing.

    With `config.cost_aware`, a filter's chance is (1 - selectivity) / cost instead.
    """

    name = "sbr"

    def __init__(
        self,
        filters: int,
        *,
        config: OrderingConfig | None = None,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(filters, config=config, precedence=precedence, seed=seed)
        self.selectivity: Floats = np.full(filters, FIRST_SELECTIVITY)
        self._rng = np.random.default_rng(self.config.seed)

    @property
    def profile_probability(self) -> float:
        """Nothing is profiled."""
        return 0.0

    def wanted(self, place: int) -> Sequence[int]:
        """No filter is tried artificially."""
        return ()

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """Bring the selectivities up to date, as if tuples that pass and drop alternated, and draw an order."""
        passed = 1 - np.divide(seen.dropped, seen.entered, out=np.zeros(self.filters), where=seen.entered > 0)
        kept = ALPHA ** seen.entered.astype(float)
        self.selectivity = np.where(seen.entered > 0, self.selectivity * kept + passed * (1 - kept), self.selectivity)
        before = self.order
        if self.filters > 1:
            drawn = self._rng.exponential(size=self.filters) / self._chances(seen.costs)
            self.order = self.precedence.legal(np.argsort(drawn, kind="stable").tolist())
        return self._reordered(before, "drawn anew: what drops more, comes first more often")

    def _chances(self, costs: Floats) -> Floats:
        if self.config.cost_aware and np.isfinite(costs).all():
            return np.maximum(1 - self.selectivity, NEVER_ZERO) / np.maximum(costs, NEVER_ZERO)
        return 1 / np.maximum(self.selectivity, NEVER_ZERO)
