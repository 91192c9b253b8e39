"""Fixed: the order that was given, for ever. The baseline, and the way to switch adaptivity off.

>>> Fixed(3).order, Fixed(3).profile_probability
((0, 1, 2), 0.0)
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.ordering.base import Observation, Reoptimizer
from anabranch.ordering.decisions import Decision


class Fixed(Reoptimizer):
    """Never reorders, and asks for no profiling."""

    name = "fixed"

    @property
    def profile_probability(self) -> float:
        """Nothing is profiled."""
        return 0.0

    def wanted(self, place: int) -> Sequence[int]:
        """No filter is tried artificially."""
        return ()

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """The same order, whatever was seen."""
        return ()
