"""The trial of routes: they stay only if rows really take less time by them.

>>> trial = Trial(seen=np.array([30, 30]))
>>> trial.single, trial.routed = np.full(60, 3e-5), np.full(60, 1e-5)
>>> trial.around(routed=False).append(2e-6), trial.around(routed=True).append(6e-6)
(None, None)
>>> trial.gain(), trial.one_class(), trial.worthwhile(), trial.over()
(2.0, False, True, False)
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

import numpy as np

from anabranch.model.arrays import Counts, Floats
from anabranch.routing.value_classes import Codes
from anabranch.thresholds import TRIAL_SAVING

TRIAL_CHUNKS = 4
LONGEST_TRIAL = 40
TRIAL_SAMPLE = 60
ONE_CLASS = 0.95


@dataclass
class Trial:
    """One order and routes beside each other, on some chunks of rows.

    What the filters cost is compared on the same rows: those on which all filters are tried, priced once by the single
    order and once by their routes, so that neither a busy moment nor a stretch of other rows counts for one side. What
    is spent around the filters, and on calling them at all, is measured, on chunks that go through one pipeline and
    through routes in turn, as if they were as long as chunks are going to be.
    """

    seen: Counts
    single: Floats = field(default_factory=lambda: np.zeros(0))
    routed: Floats = field(default_factory=lambda: np.zeros(0))
    around_single: list[float] = field(default_factory=list)
    around_routed: list[float] = field(default_factory=list)

    def around(self, routed: bool) -> list[float]:
        """Seconds per row around the filters, of chunks that went one way."""
        return self.around_routed if routed else self.around_single

    def compare(self, single: Floats, routed: Floats, codes: Codes) -> None:
        """Take in what sampled rows cost by the single order and by their routes, in seconds, and the route of each."""
        self.single = np.append(self.single, single)
        self.routed = np.append(self.routed, routed)
        self.seen += np.bincount(codes, minlength=len(self.seen))

    def routed_turn(self) -> bool:
        """Whether the next chunk goes by routes."""
        return len(self.around_single) > len(self.around_routed)

    def over(self) -> bool:
        """Whether enough was seen."""
        chunks = len(self.around_routed)
        return chunks >= LONGEST_TRIAL or (chunks >= TRIAL_CHUNKS and len(self.single) >= TRIAL_SAMPLE)

    def one_class(self) -> bool:
        """Whether nearly all rows took one route: they tell nothing about the use of routes."""
        return bool(self.seen.max() > ONE_CLASS * self.seen.sum())

    def gain(self) -> float:
        """How many times as long as by routes a row takes by one order; 0 if no row was tried."""
        if not len(self.single):
            return 0.0
        single = self.single.mean() + statistics.median(self.around_single)
        routed = self.routed.mean() + statistics.median(self.around_routed)
        return float(single / max(routed, 1e-12))

    def worthwhile(self) -> bool:
        """Whether routes save enough; where rows of one class tell nothing, whether they cost little."""
        gain = self.gain()
        return gain * (1 - TRIAL_SAVING) > 1 or (self.one_class() and gain > 1 - TRIAL_SAVING)
