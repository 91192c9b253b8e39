"""Events that lie ahead wait in sorted runs, so that a tick costs what is due in it.

>>> pending = PendingEvents()
>>> pending.push(pa.table({"n": [1, 2, 3], "_time": [30, 10, 20]}))
>>> [table["n"].to_pylist() for table in pending.pop(until=25)], len(pending)
([[2, 3]], 1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.joins.sorted_runs import merge_order, push
from anabranch.operators.base import TIME, Micros
from anabranch.operators.elements import concat, ints, take

LARGEST_MERGE = 2**16
"""Rows: longer runs are not made, for they would be copied again and again."""


@dataclass(frozen=True)
class _Run:
    """Events by time."""

    times: Micros
    table: pa.Table

    def __len__(self) -> int:
        return len(self.times)

    def after(self, cut: int) -> _Run:
        """All but the first events; copied when that frees more memory than it takes."""
        times, rest = self.times[cut:], self.table.slice(cut)
        return _Run(times.copy(), take(rest, np.arange(len(rest)))) if cut > len(rest) else _Run(times, rest)


class PendingEvents:
    """Tables of events with the column `_time`."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._empty: pa.Table | None = None

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def nbytes(self) -> int:
        """Bytes of the events in memory."""
        return sum(run.table.nbytes for run in self._runs)

    def push(self, table: pa.Table) -> None:
        """Add events."""
        if self._empty is None:
            self._empty = table.schema.empty_table()
        if len(table):
            push(self._runs, _sorted(table), _merged, LARGEST_MERGE)

    def pop(self, until: int) -> list[pa.Table]:
        """Take out the events before an instant."""
        due = []
        for place, run in enumerate(self._runs):
            if run.times[0] < until:
                cut = int(np.searchsorted(run.times, until))
                due.append(run.table.slice(0, cut))
                self._runs[place] = run.after(cut)
        self._runs = [run for run in self._runs if len(run)]
        return due

    def table(self) -> pa.Table | None:
        """All events that wait; None if there has never been one."""
        return None if self._empty is None else concat([self._empty, *(run.table for run in self._runs)])


def _merged(older: _Run, newer: _Run) -> _Run:
    return _sorted(concat([older.table, newer.table]))


def _sorted(table: pa.Table) -> _Run:
    times = ints(table, TIME)
    if (times[1:] >= times[:-1]).all():
        return _Run(times, table)
    order = merge_order(times)
    return _Run(times[order], take(table, order))
