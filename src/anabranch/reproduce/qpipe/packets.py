"""Packets: the work of one operator, a page at a time, for all queries that have been merged into it.

A packet posts its rows into the buffers of all parents (section 4). Whether a further query may attach depends on how
far it is: a scan until it begins, an aggregate and a join until a parent has read a page, a sort always, as long as its
sorted file is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from anabranch.model.arrays import Counts
from anabranch.reproduce.qpipe.buffers import Buffer
from anabranch.reproduce.qpipe.disk import PAGE_ROWS, BufferPool, File, Meter
from anabranch.reproduce.qpipe.plans import UNIQUE2, Aggregate, FileScan, IndexScan, MergeJoin, Sort

Bounds = tuple[int | None, int | None]
REDUCERS = {"min": np.minimum, "sum": np.add, "count": np.add}


class Packet(ABC):
    """Work of a stage: `step` handles a page of its input."""

    stage = ""

    def __init__(self, inputs: list[Buffer], meter: Meter) -> None:
        self.inputs = inputs
        self.outputs: list[Buffer] = []
        self.meter = meter
        self.done = False
        self.waiting = False

    def ready(self) -> bool:
        """Whether there is input to go on with."""
        return all(each.readable for each in self.inputs)

    def attach(self) -> Buffer | None:
        """A buffer for a further parent with all rows so far, if none of them has been read."""
        if self.outputs[0].taken:
            return None
        self.outputs.append(self.outputs[0].copied())
        return self.outputs[-1]

    @abstractmethod
    def step(self) -> None:
        """Handle a page."""

    def post(self, rows: Counts) -> None:
        """Give rows to all parents: pointers are copied, not rows."""
        for each in self.outputs:
            each.post(rows)

    def finish(self) -> None:
        """All has been said."""
        for each in self.outputs:
            each.finish()
        self.done = True


class ReadPacket(Packet):
    """Reads a file from some page to another one: a table, part of it by an index, or a sorted file.

    Parameters
    ----------
    key
        The file's name in the buffer pool.
    pages
        From which page, up to which one.
    """

    def __init__(self, stage: str, key: object, file: File, pages: range, pool: BufferPool, meter: Meter) -> None:
        super().__init__([], meter)
        self.stage = stage
        self.key = key
        self.file = file
        self._first, self._position, self._end = pages.start, pages.start, pages.stop
        self._pool = pool
        self._bounds: list[Bounds] = []

    @property
    def begun(self) -> bool:
        """Whether a page has been read."""
        return self._position > self._first

    def add(self, buffer: Buffer, bounds: Bounds = (None, None)) -> Buffer:
        """A parent for rows within bounds of `unique2`."""
        self.outputs.append(buffer)
        self._bounds.append(bounds)
        return buffer

    def attach(self) -> Buffer | None:
        """As for any packet; bounds are those of the first parent."""
        buffer = super().attach()
        if buffer is not None:
            self._bounds.append(self._bounds[0])
        return buffer

    def step(self) -> None:
        """Read a page, and give each parent the rows that it wants."""
        if self._position < self._end:
            self._pool.read(self.key, self._position)
            rows = self.file.page(self._position)
            for buffer, bounds in zip(self.outputs, self._bounds, strict=True):
                self.meter.rows += len(rows)
                buffer.post(_within(rows, bounds))
            self._position += 1
        if self._position >= self._end:
            self.finish()

    def split(self, buffer: Buffer) -> ReadPacket:
        """A packet that goes on from here for one of the parents, which is slower than others."""
        place = self.outputs.index(buffer)
        rest = range(self._position, self._end)
        other = ReadPacket(self.stage, self.key, self.file, rest, self._pool, self.meter)
        other.add(self.outputs.pop(place), self._bounds.pop(place))
        return other


def _within(rows: Counts, bounds: Bounds) -> Counts:
    low, high = bounds
    if low is None or high is None:
        return rows
    return rows[(rows[:, UNIQUE2] >= low) & (rows[:, UNIQUE2] < high)]


def scan(plan: FileScan | IndexScan, file: File, pool: BufferPool, meter: Meter) -> ReadPacket:
    """The packet of a scan. Tables are stored in the order of `unique2`, which counts from 0."""
    if isinstance(plan, FileScan):
        return ReadPacket("fscan", plan.table, file, range(file.pages), pool, meter)
    pages = range(plan.low // PAGE_ROWS, -(-min(plan.high, len(file.rows)) // PAGE_ROWS))
    return ReadPacket("iscan", plan.table, file, pages, pool, meter)


class SortPacket(Packet):
    """Reads its input to the end and writes the sorted file; a `ReadPacket` goes on from there."""

    stage = "sort"

    def __init__(self, plan: Sort, inputs: list[Buffer], pool: BufferPool, meter: Meter) -> None:
        super().__init__(inputs, meter)
        self.plan = plan
        self._pool = pool
        self._rows: list[Counts] = []
        self._written = 0
        self.file: File | None = None

    def step(self) -> None:
        """Take a page of the input, or write one of the sorted file."""
        page = self.inputs[0].take()
        if page is not None:
            self.meter.rows += len(page)
            self._rows.append(page)
            return
        if self.file is None:
            self.file = self._sorted()
        if self._written < self.file.pages:
            rows = len(self.file.page(self._written))
            self.meter.comparisons += rows * float(np.log2(max(2, len(self.file.rows))))
            self._pool.write(self.file, self._written)
            self._written += 1
        self.done = self._written >= self.file.pages

    def reader(self) -> ReadPacket:
        """Reads what has been written, for all parents."""
        assert self.file is not None
        packet = ReadPacket("sort", self.file, self.file, range(self.file.pages), self._pool, self.meter)
        for each in self.outputs:
            packet.add(each)
        return packet

    def _sorted(self) -> File:
        if not self._rows:
            return File(np.zeros((0, 1), dtype=np.int64))
        rows = np.concatenate(self._rows)
        return File(rows[np.argsort(rows[:, self.plan.column], kind="stable")])


class JoinPacket(Packet):
    """Merges two sorted inputs. It reads both to their end."""

    stage = "join"

    def __init__(self, plan: MergeJoin, inputs: list[Buffer], meter: Meter) -> None:
        super().__init__(inputs, meter)
        self._columns = (plan.left_column, plan.right_column)
        self._held: list[Counts | None] = [None, None]

    def ready(self) -> bool:
        """Whether the side that is behind has a page."""
        return self.inputs[self._behind()].readable

    def _behind(self) -> int:
        left, right = (self._last(side) for side in (0, 1))
        if left is None or right is None:
            return 0 if left is None else 1
        return 0 if left <= right else 1

    def _last(self, side: int) -> float | None:
        """The last value of a side; none if it has none yet, infinity if all has come."""
        if self.inputs[side].finished and not self.inputs[side].pages:
            return float("inf")
        held = self._held[side]
        return None if held is None or not len(held) else float(held[-1, self._columns[side]])

    def step(self) -> None:
        """Take a page of the side that is behind, and join what is complete on both."""
        side = self._behind()
        page = self.inputs[side].take()
        if page is not None:
            self.meter.rows += len(page)
            held = self._held[side]
            self._held[side] = page if held is None else np.concatenate([held, page])
        lasts = [self._last(each) for each in (0, 1)]
        if None not in lasts:
            self._join(min(last for last in lasts if last is not None))
        if all(last == float("inf") for last in lasts):
            self.finish()

    def _join(self, before: float) -> None:
        parts = []
        for side, column in enumerate(self._columns):
            held = self._held[side]
            if held is None:
                return
            cut = int(np.searchsorted(held[:, column], before))
            parts.append(held[:cut])
            self._held[side] = held[cut:]
        self.post(_pairs(parts[0], parts[1], *self._columns))


def _pairs(left: Counts, right: Counts, left_column: int, right_column: int) -> Counts:
    first = np.searchsorted(right[:, right_column], left[:, left_column], "left")
    counts = np.searchsorted(right[:, right_column], left[:, left_column], "right") - first
    rows = np.repeat(np.arange(len(left)), counts)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.hstack([left[rows], right[np.repeat(first, counts) + offsets]])


class AggregatePacket(Packet):
    """A value per group; a group is said when the next one begins."""

    stage = "aggregate"

    def __init__(self, plan: Aggregate, inputs: list[Buffer], meter: Meter) -> None:
        super().__init__(inputs, meter)
        self._plan = plan
        self._open: Counts | None = None

    def step(self) -> None:
        """Take a page."""
        page = self.inputs[0].take()
        if page is not None:
            self.meter.rows += len(page)
            found = self._grouped(page)
            self.post(found[:-1])
            self._open = found[-1:]
        if not self.inputs[0].pages and self.inputs[0].finished:
            if self._open is not None:
                self.post(self._open)
            self.finish()

    def _grouped(self, page: Counts) -> Counts:
        plan = self._plan
        keys = np.zeros(len(page), dtype=np.int64) if plan.group is None else page[:, plan.group]
        values = np.ones(len(page), dtype=np.int64) if plan.function == "count" else page[:, plan.column]
        if self._open is not None:
            keys, values = np.append(self._open[:, 0], keys), np.append(self._open[:, 1], values)
        found, starts = np.unique(keys, return_index=True)
        return np.column_stack([found, REDUCERS[plan.function].reduceat(values, starts)])
