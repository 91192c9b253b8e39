"""What pipelines have spent, and how many rows took which route, until that is handed over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import Counts, Floats, Order
from anabranch.ordering.pipeline import FilterPipeline
from anabranch.routing.route_plan import RouteState


@dataclass(frozen=True)
class Expenses:
    """Seconds of the filters for rows of their own, of profiling and of decisions; how often each filter was called."""

    filters: float
    profiling: float
    deciding: float
    calls: Counts

    @classmethod
    def of(cls, pipelines: Sequence[FilterPipeline]) -> Expenses:
        """What some pipelines have spent so far, together."""
        tallies = [p.tally for p in pipelines]
        profiling = sum(t.profiling_seconds for t in tallies)
        filters = sum(float(t.seconds.sum()) for t in tallies) - profiling
        calls: Counts = np.array([p.times.calls for p in pipelines]).sum(axis=0)
        return cls(filters, profiling, sum(t.deciding_seconds for t in tallies), calls)

    def since(self, earlier: Expenses) -> Expenses:
        """What was spent after an earlier moment."""
        return Expenses(
            self.filters - earlier.filters,
            self.profiling - earlier.profiling,
            self.deciding - earlier.deciding,
            self.calls - earlier.calls,
        )


def call_seconds(pipelines: Sequence[FilterPipeline]) -> Floats:
    """Seconds of a call of each filter, however few rows it is called on; 0 where it was never called."""
    shortest = np.min([p.times.shortest for p in pipelines], axis=0)
    return np.where(np.isfinite(shortest), shortest, 0.0)


class RouteCounts:
    """Rows and seconds of rows that took one order for all, and of routes that were given up."""

    def __init__(self) -> None:
        self._rows, self._seconds = 0, 0.0
        self._retired: list[RouteState] = []

    def add(self, rows: int, seconds: float) -> None:
        """Count rows that took the order for all."""
        self._rows += rows
        self._seconds += seconds

    def retire(self, states: Iterable[RouteState]) -> None:
        """Keep the counts of routes that are given up."""
        self._retired += states

    def take(self, order: Order, in_use: Iterable[RouteState]) -> tuple[RouteState, ...]:
        """Hand over all that rows have taken, the order for all first, which has no tests."""
        found = [RouteState((), order, self._rows, self._seconds), *self._retired, *in_use]
        self._rows, self._seconds, self._retired = 0, 0.0, []
        return tuple(state for state in found if state.rows)
