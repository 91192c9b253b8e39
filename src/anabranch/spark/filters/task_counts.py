"""Counts of tasks, each task once.

Counts are kept under the task's identity: a retried or re-run task replaces its earlier counts instead of adding to
them, and a micro-batch that is replayed after a restart replaces what the interrupted run had counted. Old counts are
folded into running totals, so memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from anabranch.ordering.pipeline import Tally
from anabranch.routing.route_plan import RouteState
from anabranch.spark.filters.event_log import with_tuples
from anabranch.spark.filters.task_record import Part, TaskKey, TaskRecord

RECENT_RECORDS = 4096


@dataclass
class StageCounts:
    """Counts of one task of a stage, or of many: per predicate, and per route by its tests."""

    tally: Tally
    routes: dict[tuple[str, ...], RouteState]
    attempt: int = 0

    @classmethod
    def empty(cls, filters: int, attempt: int = 0) -> StageCounts:
        """All zero."""
        return cls(Tally.empty(filters), {}, attempt)

    def add(self, tally: Tally, routes: Iterable[RouteState]) -> None:
        """Count more in; a route keeps its latest order."""
        self.tally.add(tally)
        for route in routes:
            known = self.routes.get(route.tests, RouteState(route.tests, route.order, 0, 0.0))
            rows, seconds = known.rows + route.rows, known.seconds + route.seconds
            self.routes[route.tests] = replace(route, rows=rows, seconds=seconds)

    def to_json(self) -> dict[str, Any]:
        """As plain values, for a state folder."""
        tally = {f.name: np.asarray(getattr(self.tally, f.name)).tolist() for f in fields(Tally)}
        return {"tally": tally, "routes": [asdict(route) for route in self.routes.values()], "attempt": self.attempt}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> StageCounts:
        """From what `to_json` gave."""
        routes = [RouteState(**with_tuples(route)) for route in data["routes"]]
        return cls(_tally(data["tally"]), {route.tests: route for route in routes}, data["attempt"])


class TaskCounts:
    """Counts of the tasks of all stages."""

    def __init__(self) -> None:
        self._folded: dict[Part, StageCounts] = {}
        self._recent: dict[tuple[Part, TaskKey], StageCounts] = {}
        self._totals: dict[Part, StageCounts] | None = {}  # None after something was replaced

    def enter(self, record: TaskRecord) -> None:
        """Count a task; one of the same task, or of an earlier run of the same micro-batch, is replaced."""
        self._forget_other_runs(record)
        self._folded.setdefault(record.part, StageCounts.empty(len(record.part)))
        counts = self._recent.get((record.part, record.key))
        if counts is not None and counts.attempt != record.attempt:
            self._totals = None
        if counts is None or counts.attempt != record.attempt:
            counts = self._recent[record.part, record.key] = StageCounts.empty(len(record.part), record.attempt)
        counts.add(record.tally, record.routes)
        if self._totals is not None:
            total = self._totals.setdefault(record.part, StageCounts.empty(len(record.part)))
            total.add(record.tally, record.routes)

    def fold(self) -> None:
        """Add the oldest tasks to the running totals, where there are too many to keep apart."""
        while len(self._recent) > RECENT_RECORDS:
            part, key = next(iter(self._recent))
            old = self._recent.pop((part, key))
            self._folded[part].add(old.tally, old.routes.values())

    def totals(self) -> dict[Part, StageCounts]:
        """Counts and times of every stage over all tasks; they are at hand, unless a task was replaced since."""
        if self._totals is None:
            self._totals = self._summed()
        return {part: StageCounts(replace(each.tally), dict(each.routes)) for part, each in self._totals.items()}

    def _summed(self) -> dict[Part, StageCounts]:
        totals = {part: StageCounts.empty(len(part)) for part in self._folded}
        for part, counts in (*self._folded.items(), *((p, c) for (p, _), c in self._recent.items())):
            totals[part].add(counts.tally, counts.routes.values())
        return totals

    def to_json(self) -> dict[str, Any]:
        """As plain values, for a state folder."""
        return {
            "folded": [[part, counts.to_json()] for part, counts in self._folded.items()],
            "recent": [[part, asdict(key), counts.to_json()] for (part, key), counts in self._recent.items()],
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Take in what `to_json` gave."""
        self._folded = {tuple(part): StageCounts.from_json(c) for part, c in data["folded"]}
        self._recent = {(tuple(part), TaskKey(**key)): StageCounts.from_json(c) for part, key, c in data["recent"]}
        self._totals = None

    def _forget_other_runs(self, record: TaskRecord) -> None:
        if not record.key.job:
            return
        stale = [
            (part, key)
            for part, key in self._recent
            if part == record.part and key.job == record.key.job and key.run != record.key.run
        ]
        for replaced in stale:
            del self._recent[replaced]
        if stale:
            self._totals = None


def _tally(data: dict[str, Any]) -> Tally:
    whole = {"seen", "passed", "errors", "calls"}
    arrays: dict[str, Any] = {k: np.array(v, dtype=np.int64 if k in whole else np.float64) for k, v in data.items()}
    tally = Tally(**{k: a if a.ndim else data[k] for k, a in arrays.items()})
    if not tally.bills.size:  # written before there were any
        tally.bills = Tally.empty(len(tally.seen)).bills
    return tally
