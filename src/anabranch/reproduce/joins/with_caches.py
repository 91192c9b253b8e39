"""A join without and with caches: counted as the paper works, and ours."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.reproduce.joins.running import Run
from anabranch.reproduce.joins.tuplewise import Work


@dataclass(frozen=True)
class WithCaches:
    """The same rows through the join, without and with caches."""

    plain: Work
    cached: Work
    ours_plain: Run
    ours: Run

    @property
    def work(self) -> float:
        """Probes and updates with caches / without, the paper's way."""
        return self.cached.per_row / self.plain.per_row

    @property
    def steps(self) -> float:
        """With the same caches / without, ours."""
        return self.ours.per_row / self.ours_plain.per_row

    @property
    def seconds(self) -> float:
        """The same in processor time."""
        return self.ours_plain.rate / self.ours.rate
