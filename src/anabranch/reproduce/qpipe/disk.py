"""Files of pages behind a buffer pool, and what all work has cost.

The unit of cost is a page that is read from the disk or written to it. One processor and one disk do one thing at a
time, so the clock is the sum of all costs, and of the time without work.

>>> meter = Meter()
>>> pool = BufferPool(2, meter)
>>> for page in (0, 1, 0, 2, 1):
...     pool.read("big1", page)
>>> meter.reads, meter.hits
(4, 1)
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from anabranch.model.arrays import Counts

PAGE_ROWS = 40
POOL_SHARE = 0.2


@dataclass(frozen=True)
class Costs:
    """What work costs, in pages.

    Parameters
    ----------
    row
        An operator handles a row.
    comparison
        Two rows are compared by a sort.
    enqueue
        A packet is put into the queue of a stage: once, and after every wait for input or for room.
    """

    row: float = 0.01
    comparison: float = 0.001
    enqueue: float = 0.02


COSTS = Costs()


@dataclass
class Meter:
    """Counts of what has been done, and the clock."""

    costs: Costs = COSTS
    reads: int = 0
    hits: int = 0
    writes: int = 0
    rows: int = 0
    comparisons: float = 0.0
    enqueues: int = 0
    idle: float = 0.0
    merged: Counter[str] = field(default_factory=Counter)
    splits: int = 0

    @property
    def clock(self) -> float:
        """The time, in pages."""
        spent = self.costs.row * self.rows + self.costs.comparison * self.comparisons
        return self.reads + self.writes + spent + self.costs.enqueue * self.enqueues + self.idle


class BufferPool:
    """The pages that were used last are in memory."""

    def __init__(self, capacity: int, meter: Meter) -> None:
        self._capacity = capacity
        self._meter = meter
        self._held: OrderedDict[tuple[object, int], None] = OrderedDict()

    def read(self, file: object, page: int) -> None:
        """A page is needed: it costs if it is not in memory."""
        if (file, page) in self._held:
            self._meter.hits += 1
        else:
            self._meter.reads += 1
        self._hold(file, page)

    def write(self, file: object, page: int) -> None:
        """A page is written through."""
        self._meter.writes += 1
        self._hold(file, page)

    def _hold(self, file: object, page: int) -> None:
        self._held[file, page] = None
        self._held.move_to_end((file, page))
        if len(self._held) > self._capacity:
            self._held.popitem(last=False)


@dataclass(frozen=True, eq=False)
class File:
    """Rows of a table, or sorted ones, by page."""

    rows: Counts

    @property
    def pages(self) -> int:
        """How many there are."""
        return -(-len(self.rows) // PAGE_ROWS)

    def page(self, number: int) -> Counts:
        """One of them."""
        return self.rows[number * PAGE_ROWS : (number + 1) * PAGE_ROWS]
