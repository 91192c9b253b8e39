"""How many rows the tasks of a job have kept, so that a filter with a limit can stop asking.

A retried task begins its own count anew; other jobs of the same filter have counts of their own.

>>> import tempfile
>>> kept = KeptRows(Path(tempfile.mkdtemp()) / "kept")
>>> kept.begin(job=3, task=1), kept.add(job=3, task=1, rows=5), kept.add(job=3, task=2, rows=4), kept.of(job=3)
(None, None, None, 9)
>>> kept.begin(job=3, task=1), kept.of(job=3), kept.of(job=4)
(None, 4, 0)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anabranch.calls.shared_table import Floats, SharedTable

TASKS = 2048
JOB, TASK, ROWS, USED = range(4)


class KeptRows:
    """Counts of the latest tasks."""

    def __init__(self, path: Path) -> None:
        self._table = SharedTable(path, TASKS, 4)

    def begin(self, job: int, task: int) -> None:
        """A task starts, maybe again."""
        with self._table.changing() as table:
            table[self._line(table, job, task), ROWS] = 0

    def add(self, job: int, task: int, rows: int) -> None:
        """A task has kept more rows."""
        with self._table.changing() as table:
            table[self._line(table, job, task), ROWS] += rows

    def of(self, job: int) -> int:
        """Rows that the tasks of a job have kept."""
        table = self._table.read()
        return int(table[(table[:, JOB] == job) & (table[:, USED] > 0), ROWS].sum())

    def _line(self, table: Floats, job: int, task: int) -> int:
        """The line of a task; a new one takes an empty line, or that of the oldest job."""
        known = np.flatnonzero((table[:, JOB] == job) & (table[:, TASK] == task) & (table[:, USED] > 0))
        if len(known):
            return int(known[0])
        empty = np.flatnonzero(table[:, USED] == 0)
        line = int(empty[0]) if len(empty) else int(table[:, JOB].argmin())
        table[line] = job, task, 0, 1
        return line
