"""What a task of a filter with calls tells the others: rows that are decided, and rows that are kept."""

from __future__ import annotations

from pyspark import TaskContext

from anabranch.calls.kept_rows import KeptRows
from anabranch.calls.meter import Meter
from anabranch.spark.filters.task_spec import CallSettings

FEWEST_ROWS = 64
SPARE = 2
"""Rows are decided in chunks; near the limit a chunk has twice the rows that are still wanted."""


class TaskProgress:
    """Counts of one task; nothing is counted for filters without calls and without a limit."""

    def __init__(self, settings: CallSettings, context: TaskContext | None) -> None:
        self._limit = settings.limit
        self._meter = None if settings.meter is None else Meter(settings.meter)
        self._kept = None if settings.kept is None else KeptRows(settings.kept)
        self._task = (context.stageId(), context.partitionId()) if context else (0, 0)
        if self._kept is not None:
            self._kept.begin(*self._task)

    def rows_wanted(self, available: int) -> int:
        """How many of the available rows to go on with; 0 if the tasks together have kept enough."""
        if self._limit is None or self._kept is None:
            return available
        missing = self._limit - self._kept.of(self._task[0])
        return min(available, max(FEWEST_ROWS, SPARE * missing)) if missing > 0 else 0

    def note(self, rows: int, kept: int) -> None:
        """So many rows were decided, and so many of them kept."""
        if self._meter is not None:
            self._meter.count_rows(rows)
        if self._kept is not None:
            self._kept.add(*self._task, kept)
