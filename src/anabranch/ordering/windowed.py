"""What the policies that keep a profile window share: sliding it, seeding it, and when there is enough to decide."""

from __future__ import annotations

from typing import ClassVar

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering.base import Observation, Reoptimizer, Seed
from anabranch.ordering.decisions import Decision
from anabranch.ordering.greedy import expected_cost
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.why import cheaper
from anabranch.stats.profile_window import ProfileWindow


class Windowed(Reoptimizer):
    """A policy with a profile window.

    A policy that tries every filter on a profiled tuple (`full_tuples`) starts from the tuples of the seed and shows
    its own in `profiles`. The others neither take nor give tuples: an untried filter reads as one that does not drop.
    """

    full_tuples: ClassVar[bool] = True

    def __init__(
        self,
        filters: int,
        *,
        config: OrderingConfig | None = None,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
    ) -> None:
        super().__init__(filters, config=config, precedence=precedence, seed=seed)
        self.window = ProfileWindow(filters, tuples=self.config.window_tuples, seconds=self.config.window_seconds)
        if seed is not None and self.full_tuples:
            self.window.insert(seed.drops)
        self._fresh = len(self.window)
        self._clock_start: float | None = None

    def profiles(self) -> BoolMatrix:
        """The full profile tuples held now, oldest first."""
        return self.window.rows() if self.full_tuples else super().profiles()

    def _slide(self, seen: Observation) -> BoolMatrix:
        """Insert the profile tuples and return those that expired; tuples of a seed age from the first observation."""
        if self._clock_start is None:
            self._clock_start = seen.now
        self._fresh += len(seen.drops)
        return self.window.insert(seen.drops, seen.now - self._clock_start)

    def _ready(self) -> bool:
        """Whether the window holds enough to decide."""
        return len(self.window) >= self.config.minimum_profiles

    def _due(self) -> bool:
        """Whether enough is new since the last time for a decision that scans the whole window."""
        if not self._ready() or self._fresh < self.config.minimum_profiles:
            return False
        self._fresh = 0
        return True

    def _adopt_if_cheaper(self, proposal: Order, costs: Floats) -> tuple[Decision, ...]:
        """Take an order whose cost over the window is below alpha times the present one's."""
        rows = self.window.rows()
        present, wished = (expected_cost(order, rows, costs) for order in (self.order, proposal))
        before = self.order
        if wished < self.config.thrash_avoidance * present:
            self.order = proposal
        return self._reordered(before, cheaper(wished, than=present))
