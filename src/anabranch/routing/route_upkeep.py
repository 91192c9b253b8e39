"""Whether routes in use still save something over the order that most rows take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.ordering.greedy import row_costs
from anabranch.ordering.pipeline import FilterPipeline
from anabranch.routing.trial import ONE_CLASS
from anabranch.thresholds import UPKEEP_SAVING

CHUNKS_BETWEEN_CHECKS = 4
CHECKS_BEFORE_MERGE = 3
FEWEST_PROFILES = 30


class RouteUpkeep:
    """Checks the pipelines of the routes every few chunks, by the rows that they profiled last."""

    def __init__(self, pipelines: Sequence[FilterPipeline]) -> None:
        self._pipelines = pipelines
        self._checked = [0] * len(pipelines)
        self._chunks = self._useless_checks = 0

    def useless(self) -> bool:
        """Whether several checks in a row found no saving; to be called after every chunk."""
        self._chunks += 1
        if self._chunks % CHUNKS_BETWEEN_CHECKS:
            return False
        recent = [p.rows_done - before for p, before in zip(self._pipelines, self._checked, strict=True)]
        if max(recent) > ONE_CLASS * sum(recent):
            return False  # rows of one class tell nothing about the use of routes
        self._checked = [p.rows_done for p in self._pipelines]
        self._useless_checks = self._useless_checks + 1 if self._saving(recent) < UPKEEP_SAVING else 0
        return self._useless_checks >= CHECKS_BEFORE_MERGE

    def _saving(self, recent: Sequence[int]) -> float:
        """Share of the cost that the routes save over the most used order; 1 where a route is still learning."""
        common = self._pipelines[int(np.argmax(recent))].reoptimizer.order
        own = shared = 0.0
        for p, rows in zip(self._pipelines, recent, strict=True):
            drops, costs = p.reoptimizer.profiles(), np.nan_to_num(p.times.per_tuple())
            if rows and (len(drops) < FEWEST_PROFILES or p.reoptimizer.mode == "learning"):
                return 1.0
            if rows:
                own += rows * float(row_costs(p.reoptimizer.order, drops, costs).mean())
                shared += rows * float(row_costs(common, drops, costs).mean())
        return 1 - own / shared if shared else 0.0
