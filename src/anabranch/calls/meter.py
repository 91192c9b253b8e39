"""What the calls of one filter have cost so far, over all processes; and its budget.

Money is set aside before a call and settled after it, so that calls under way are counted. What a process had set aside
when it died counts as spent.

>>> import tempfile
>>> meter = Meter(Path(tempfile.mkdtemp()) / "meter", budget=1.0)
>>> meter.reserve(0.6), meter.reserve(0.6)
(True, False)
>>> meter.settle(0.6, Bill(calls=1, money=0.3))
>>> meter.reserve(0.6), meter.total().money
(True, 0.3)
"""

from __future__ import annotations

import os
import time
from dataclasses import astuple, fields
from pathlib import Path

import numpy as np

from anabranch.calls.reply import Bill
from anabranch.calls.shared_table import Floats, SharedTable

PROCESSES = 256
PROCESS, RESERVED, ROWS, BILL = range(4)
MONEY = BILL + [f.name for f in fields(Bill)].index("money")
COLUMNS = BILL + len(fields(Bill))
ROUNDING = 1e-9
WRITE_SECONDS = 0.2


class Meter:
    """A meter that all processes of a filter read and write.

    Parameters
    ----------
    path
        Its file.
    budget
        The most that may be spent; None for no limit.
    """

    def __init__(self, path: Path, budget: float | None = None) -> None:
        self.path, self.budget = path, budget
        self._table = SharedTable(path, PROCESSES, COLUMNS)
        self._new, self._written = Bill(), 0.0

    def reserve(self, money: float) -> bool:
        """Set money aside for a call; False where the budget does not have it any more."""
        if self.budget is None:
            return True
        with self._table.changing() as table:
            taken = float(table[:, [RESERVED, MONEY]].sum())
            if taken > self.budget - ROUNDING or taken + money > self.budget + ROUNDING:
                return False
            table[self._line(table), RESERVED] += money
        return True

    def settle(self, reserved: float, bill: Bill) -> None:
        """A call has ended: what it cost takes the place of what was set aside; without a budget that is no hurry."""
        self._new.add(bill)
        if self.budget is not None or time.monotonic() - self._written > WRITE_SECONDS:
            self.write(reserved)

    def write(self, reserved: float = 0.0) -> None:
        """Let all others know what was spent."""
        with self._table.changing() as table:
            line = self._line(table)
            table[line, RESERVED] = max(0.0, table[line, RESERVED] - reserved)
            table[line, BILL:] += astuple(self._new)
        self._new, self._written = Bill(), time.monotonic()

    def count_rows(self, rows: int) -> None:
        """So many rows have been decided."""
        with self._table.changing() as table:
            table[self._line(table), ROWS] += rows

    def total(self) -> Bill:
        """What all processes have spent."""
        return Bill(*self._table.read()[:, BILL:].sum(axis=0).tolist())

    def rows(self) -> int:
        """Rows that have been decided."""
        return int(self._table.read()[:, ROWS].sum())

    def _line(self, table: Floats) -> int:
        """The line of this process; when there are too many, the last line is of all that remain."""
        own = os.getpid()
        known = np.flatnonzero((table[:, PROCESS] == own) | (table[:, PROCESS] == 0))
        line = int(known[0]) if len(known) else PROCESSES - 1
        table[line, PROCESS] = own
        return line
