"""The window over the latest rows of a stream, or of each partition of it.

Rows are numbered per partition by time, then by the order columns, then by their other values. With `rows` N and
`slide_rows` M, row i enters with row number ceil(i / M) M and leaves with row number ceil((i + N) / M) M: for M = 1
with itself, and with the row N places later. So the rows that enter or leave in a tick are two ranges of numbers in
each partition that got new rows, and nothing else is looked at.

>>> stream = pa.table({"user": ["a", "a", "b", "a"], "n": [1, 2, 3, 4], "_time": [1, 2, 2, 5], "_key": [7, 7, 8, 7]})
>>> window = RowWindow(rows=2, partition=("user",), order=())
>>> [(e["n"], e["_start"], e["_end"] == FOREVER) for e in window.advance([stream], Tick(0, 9)).to_pylist()]
[(1, 1, False), (2, 2, True), (4, 5, True), (3, 2, True)]

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 2.1.2: tuple-based and
partitioned windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import ranges
from anabranch.operators.arrangement import Arrangement
from anabranch.operators.base import END, EVER, FOREVER, TIME, Micros, Operator, Port, Tick
from anabranch.operators.elements import (
    KEY,
    Rows,
    by_both,
    elements,
    ints,
    sorted_places,
    stacked,
    take,
    with_ints,
    without,
)
from anabranch.operators.key_lookup import find_keys, number_keys

SLOT, PARTITION, NUMBER = "_slot", "_partition", "_number"
NAME, COUNT, LATEST = "_name", "_count", "_latest"

_SPREAD = np.int64(-7046029254386353131)


@dataclass(frozen=True)
class _Arrivals:
    """The new rows of a tick, partition by partition, each partition in its order."""

    partition: Rows  # in the directory
    name: Rows
    first: Rows  # the place of the partition's first new row
    before: Rows  # how many rows the partition had
    after: Rows  # and how many it has now
    time: Micros  # by row

    @property
    def counts(self) -> Rows:
        return self.after - self.before

    def when(self, owner: Rows, number: Rows) -> Micros:
        """The times of new rows with these numbers."""
        return np.asarray(self.time[self.first[owner] + number - self.before[owner] - 1])


class RowWindow(Operator):
    """`[Partition By ... Rows N]` over a table of stream rows, with `_time` in place of the columns of elements.

    Parameters
    ----------
    rows
        Rows that the window holds, per partition.
    partition
        Columns; none means that all rows are one partition. The codes are in `_key`.
    order
        Columns that order rows of the same time.
    slide_rows
        The window moves with every so many rows of a partition.
    span
        Microseconds: rows older than that are not in the window either.
    smaller
        Further windows, which hold fewer of the same rows.
    """

    def __init__(
        self,
        rows: int,
        partition: tuple[str, ...] = (),
        order: tuple[str, ...] = (),
        slide_rows: int = 1,
        span: int | None = None,
        smaller: tuple[int, ...] = (),
    ) -> None:
        self.rows = rows
        self.smaller = smaller
        self.partition = partition
        self.order = order
        self.slide_rows = slide_rows
        self.span = span
        self._kept = Arrangement((SLOT,), (PARTITION, NUMBER, END))
        self._directory = Arrangement((KEY,), (NAME, COUNT, LATEST))
        self._names = 0

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the rows of the stream, return the elements that they make or take back."""
        return self.ports(inputs, tick)[self.rows,]

    def ports(self, inputs: Sequence[pa.Table], tick: Tick) -> Mapping[Port | None, pa.Table]:
        """The elements of each window, by its size."""
        (table,) = inputs
        places = self._places(table)
        order = self._ordered(table, places)
        arrivals = self._arrivals(places[order], ints(table, TIME)[order])
        table = without(table, (TIME, KEY))
        sizes = (*self.smaller, self.rows)  # the largest one last: what leaves it is no longer kept
        earlier = {size: self._earlier(table, arrivals, size) for size in sizes}
        new = self._new(table, order, arrivals, sizes)
        self._tidy(tick)
        return {(size,): stacked([earlier[size], new[size]]) for size in sizes}

    def snapshot(self) -> list[pa.Table]:
        """The rows that have not left, and the partitions."""
        return [self._kept.table(), self._directory.table()] if self._kept.seen else []

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over rows and partitions."""
        for arrangement, table in zip((self._kept, self._directory), tables, strict=False):
            arrangement.append(table)
        self._names = int(self._directory.values(NAME).max(initial=-1)) + 1
        if self._kept.seen:  # the window may have been larger then
            counts = np.zeros(self._names, np.int64)
            counts[self._directory.values(NAME)] = self._directory.values(COUNT)
            left = self._due(self._kept.values(NUMBER) + self.rows) <= counts[self._kept.values(PARTITION)]
            self._kept.forget(left)

    @property
    def held_rows(self) -> int:
        """Rows that have not left, and partitions."""
        return len(self._kept) + len(self._directory)

    @property
    def held_bytes(self) -> int:
        """Bytes of both in memory, with their indexes."""
        return self._kept.nbytes + self._directory.nbytes

    def _places(self, table: pa.Table) -> Rows:
        """Each row's partition, as a place in the directory; new ones are added to it."""
        columns = list(self.partition)
        number, first = number_keys(ints(table, KEY), table.select(columns))
        chosen = take(table.select([KEY, *columns]), first)
        place = find_keys(
            len(first),
            self._directory.probe(KEY, ints(chosen, KEY)),
            lambda asked: take(chosen.select(columns), asked),
            lambda found: self._directory.take(found, columns),
        )
        fresh = np.flatnonzero(place < 0)
        names = self._names + np.arange(len(fresh))
        self._names += len(fresh)
        added = {NAME: names, COUNT: np.zeros_like(names), LATEST: np.full_like(names, EVER)}
        place[fresh] = self._directory.append(with_ints(take(chosen, fresh), added))
        return np.asarray(place[number])

    def _ordered(self, table: pa.Table, places: Rows) -> Rows:
        """The rows by partition, time, order columns, and all other values."""
        time = ints(table, TIME)
        order = by_both(places, time)
        place, when = places[order], time[order]
        ties = (place[1:] == place[:-1]) & (when[1:] == when[:-1])
        tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
        if len(tied):
            group = np.cumsum(np.append(False, ~ties))[tied]
            others = [name for name in table.column_names if name not in self.order]
            values = take(table, order[tied]).select([*self.order, *others])
            order[tied] = order[tied][sorted_places(values.add_column(0, "_group", pa.array(group)))]
        return order

    def _arrivals(self, places: Rows, time: Micros) -> _Arrivals:
        first = np.flatnonzero(np.append(np.ones(min(1, len(places)), np.bool_), places[1:] != places[:-1]))
        partition = places[first]
        counts = np.diff(np.append(first, len(places)))
        before = self._directory.values(COUNT)[partition]
        self._directory.values(COUNT)[partition] += counts
        self._directory.values(LATEST)[partition] = time[first + counts - 1]
        return _Arrivals(partition, self._directory.values(NAME)[partition], first, before, before + counts, time)

    def _moved(self, number: Rows) -> Rows:
        """The last multiple of the slide that the numbers have reached."""
        return number // self.slide_rows * self.slide_rows

    def _due(self, number: Rows) -> Rows:
        """The next multiple of the slide, from the numbers on."""
        return -(-number // self.slide_rows) * self.slide_rows

    def _new(self, table: pa.Table, order: Rows, arrivals: _Arrivals, sizes: Sequence[int]) -> dict[int, pa.Table]:
        """Elements of new rows; those that have not left are kept."""
        owner, number = ranges(arrivals.before + 1, arrivals.counts)
        limit = np.full(len(table), FOREVER) if self.span is None else arrivals.time + self.span + 1
        stays = np.flatnonzero(self._due(number + self.rows) > arrivals.after[owner])
        name = arrivals.name[owner[stays]]
        columns = {SLOT: _slot(name, number[stays]), PARTITION: name, NUMBER: number[stays], END: limit[stays]}
        self._kept.append(with_ints(take(table, order[stays]), columns))
        made = {}
        for size in sizes:
            places, start, end = self._entering(arrivals, owner, number, limit, size)
            made[size] = elements(take(table, order[places]), start, end, np.ones(len(places)))
        return made

    def _earlier(self, table: pa.Table, arrivals: _Arrivals, size: int) -> pa.Table:
        """Elements of kept rows that enter now, and what is taken back of those that leave."""
        if not self._kept.seen:
            return elements(table.slice(0, 0), [], [], [])
        owner, number, rows = self._found(arrivals, size)
        limit = self._kept.values(END)[rows]
        waited = self._due(number) > arrivals.before[owner]
        leaves = self._due(number + size) <= arrivals.after[owner]
        if size == self.rows:
            self._kept.values(END)[rows[leaves]] = EVER
        left = np.flatnonzero(leaves & ~waited)
        when = arrivals.when(owner[left], self._due(number[left] + size))
        back, when = left[when < limit[left]], when[when < limit[left]]
        gone = elements(self._kept.take(rows[back]), when, limit[back], np.full(len(back), -1))
        come = np.flatnonzero(waited)
        places, start, end = self._entering(arrivals, owner[come], number[come], limit[come], size)
        entering = elements(self._kept.take(rows[come[places]]), start, end, np.ones(len(places)))
        return stacked([gone, entering])

    def _found(self, arrivals: _Arrivals, size: int) -> tuple[Rows, Rows, Rows]:
        """Kept rows that leave or enter: the place of the partition in `arrivals`, the number, the row."""
        reached, reaches = self._moved(arrivals.before), self._moved(arrivals.after)
        low = np.maximum(reached - size, 0)
        high = np.clip(reaches - size, low, arrivals.before)
        waiting = np.maximum(reached, high)
        counts = np.where(reaches > reached, arrivals.before - waiting, 0)
        pairs = [ranges(low + 1, high - low), ranges(waiting + 1, counts)]
        owner, number = (np.concatenate(each) for each in zip(*pairs, strict=True))
        asked, rows = self._kept.probe(SLOT, _slot(arrivals.name[owner], number))
        order = np.argsort(rows)  # to read the kept rows from first to last is fastest
        owner, number, rows = owner[asked[order]], number[asked[order]], rows[order]
        right = self._kept.values(PARTITION)[rows] == arrivals.name[owner]
        right &= self._kept.values(NUMBER)[rows] == number
        return owner[right], number[right], rows[right]

    def _entering(
        self, arrivals: _Arrivals, owner: Rows, number: Rows, limit: Micros, size: int
    ) -> tuple[Rows, Micros, Micros]:
        """The places of those rows that enter in this tick and are seen at all, and when they start and end."""
        due, over = self._due(number), self._due(number + size)
        end = limit.copy()
        leaves = np.flatnonzero(over <= arrivals.after[owner])
        end[leaves] = np.minimum(end[leaves], arrivals.when(owner[leaves], over[leaves]))
        enters = np.flatnonzero(due <= arrivals.after[owner])
        start = arrivals.when(owner[enters], due[enters])
        seen = start < end[enters]
        return enters[seen], start[seen], end[enters[seen]]

    def _tidy(self, tick: Tick) -> None:
        self._kept.forget(self._kept.values(END) <= tick.until)
        if self.span is not None:
            # A partition without rows starts again from one, unless it is amid a slide.
            over = self._directory.values(LATEST) + self.span < tick.until
            self._directory.forget(over & (self._directory.values(COUNT) % self.slide_rows == 0))


def row_windows(
    partition: tuple[str, ...], order: tuple[str, ...], slide_rows: int, span: int | None, wanted: tuple[Port, ...]
) -> RowWindow:
    """Windows of several sizes over the same rows: what the largest one holds serves all."""
    *smaller, largest = sorted(size for (size,) in wanted)
    return RowWindow(largest, partition, order, slide_rows, span, tuple(smaller))


def _slot(name: Rows, number: Rows) -> Rows:
    """A code of a partition and a number; consecutive numbers are neighbours, as they are asked for together."""
    return np.asarray(name * _SPREAD + number)
