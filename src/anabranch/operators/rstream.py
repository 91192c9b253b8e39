"""All rows of a relation at every instant of its inputs, or of its slides: `Rstream`.

The instants are those of a list, or all multiples of some slides. Between rows that lie years apart there are more
multiples of a second than fit into memory: they are counted by a division, and listed only where the relation has rows.
So the cost is that of the rows that come out; an instant at which the relation is empty costs nothing.

>>> table = pa.table({"n": [1, 2], "_key": [1, 2], "_start": [3, 5], "_end": [6, 9], "_weight": [1, 2]})
>>> RStream().advance([table], Tick(0, 10, 3, np.array([3, 5, 6]))).to_pydict()
{'n': [1, 1, 2, 2, 2, 2], '_time': [3, 5, 5, 5, 6, 6], '_weight': [1, 1, 1, 1, 1, 1]}

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 2.1.2: relation-to-stream
operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.errors import DataError
from anabranch.model.arrays import ranges
from anabranch.operators.arrangement import ElementArrangement
from anabranch.operators.base import END, FOREVER, START, TIME, WEIGHT, Micros, Operator, Tick
from anabranch.operators.elements import KEY, Rows, bare, identities, net_weights, stacked, with_ints, without

PART_ROWS = 2_000_000
"""Rows of one part of the result, approximately, unless one instant has more."""
MOST_ROWS = 100_000_000
MOST_PER_ELEMENT = 10_000
"""A tick whose result has more rows than both limits, the second per element, fails."""


Run: TypeAlias = tuple[Rows, Rows]
"""Per interval the number of its first instant, and how many there are."""


class TickInstants:
    """The instants of a tick; multiples of its slides count from its origin on.

    >>> asked = TickInstants(Tick(0, 20, origin=3, slides=(4, 6)))
    >>> runs = asked.runs(np.array([3, 11]), np.array([9, 13]))
    >>> [many.tolist() for _, many in runs], [listed.tolist() for listed in asked.listed(runs)]
    ([[2, 1], [1, 1]], [[0, 0, 1, 0], [4, 8, 12, 6]])

    Parameters
    ----------
    tick
        Has them in a list, or has slides.
    """

    def __init__(self, tick: Tick) -> None:
        origin = tick.origin if tick.slides else next(iter(tick.instants), None)
        self.first = tick.until if origin is None else max(tick.start, int(origin))
        self.until = tick.until
        self._listed = tick.instants
        self._slides = tick.slides

    def __bool__(self) -> bool:
        return any(many.any() for _, many in self.runs(np.array([self.first]), np.array([self.until])))

    def runs(self, start: Micros, end: Micros) -> list[Run]:
        """The instants in each interval between `first` and `until`: those of the list, or per slide its multiples."""
        low, high = self._before(start), self._before(end)
        return [(first, np.maximum(after - first, 0)) for first, after in zip(low, high, strict=True)]

    def listed(self, runs: list[Run]) -> tuple[Rows, Micros]:
        """The instants of runs: the place of the interval, and the time. A multiple of two slides is listed once."""
        owners, times = [], []
        for number, run in enumerate(runs):
            owner, place = ranges(*run)
            time = place * self._slides[number] if self._slides else self._listed[place]
            for slide in self._slides[:number]:
                new = time % slide != 0
                owner, time = owner[new], time[new]
            owners.append(owner)
            times.append(time)
        return (owners[0], times[0]) if len(runs) == 1 else (np.concatenate(owners), np.concatenate(times))

    def _before(self, times: Micros) -> list[Rows]:
        if self._slides:
            return [-(-times // slide) for slide in self._slides]
        return [np.searchsorted(self._listed, times)]


class RStream(Operator):
    """Every row of the relation at each instant of the tick, as often as it is there, with `_time` and `_weight` 1."""

    def __init__(self) -> None:
        self._synopsis = ElementArrangement(())

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take elements, return the contents at the instants of the tick."""
        return stacked(list(self.in_parts(inputs, tick)))

    def in_parts(self, inputs: Sequence[pa.Table], tick: Tick) -> Iterator[pa.Table]:
        """The same, instant after instant, some of them at a time."""
        self._synopsis.append(inputs[0])
        asked = TickInstants(tick)
        if self._synopsis.negative and asked:
            self._synopsis.settle(self._synopsis.live(tick.start))
        rows = self._synopsis.live(tick.start if asked else FOREVER)
        most = max(MOST_ROWS, MOST_PER_ELEMENT * len(rows))
        yield from self._between(rows, asked, asked.first, asked.until, most)
        self._synopsis.tidy(tick.until)

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Keep the elements."""
        self._synopsis.append(inputs[0])
        self._synopsis.tidy(tick.until)

    def snapshot(self) -> list[pa.Table]:
        """The elements that can still matter."""
        return [self._synopsis.table()] if self._synopsis.seen else []

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over elements."""
        for table in tables:
            self._synopsis.append(table)

    @property
    def held_rows(self) -> int:
        """Elements that can still matter."""
        return len(self._synopsis)

    @property
    def held_bytes(self) -> int:
        """Bytes of the elements in memory."""
        return self._synopsis.nbytes

    def _between(self, rows: Rows, asked: TickInstants, first: int, until: int, most: int) -> Iterator[pa.Table]:
        """The result in an interval; where that is large, first that of the first half."""
        start, end = (self._synopsis.values(name)[rows] for name in (START, END))
        runs = asked.runs(np.maximum(start, first), np.minimum(end, until))
        size = self._size(rows, runs)
        if size > most:
            raise _too_many(size, first, until)
        if size <= PART_ROWS or until - first <= 1:
            yield self._result(rows, *asked.listed(runs))
            return
        middle = (first + until) // 2
        for low, high in ((first, middle), (middle, until)):
            there = rows[(start < high) & (end > low)]
            if len(there):
                yield from self._between(there, asked, low, high, most)

    def _size(self, rows: Rows, runs: list[Run]) -> float:
        """Approximate number of rows in the result, as a number that does not overflow."""
        weights = np.abs(self._synopsis.values(WEIGHT)[rows]).astype(np.float64)
        return sum(float(many @ weights) for _, many in runs)

    def _result(self, rows: Rows, owner: Rows, time: Micros) -> pa.Table:
        copies = self._copies(rows[owner], time)
        owner, time = np.repeat(owner, copies), np.repeat(time, copies)
        order = np.argsort(time, kind="stable")
        values = without(self._synopsis.take(rows[owner[order]]), (KEY,))
        return with_ints(values, {TIME: time[order], WEIGHT: np.ones(len(order))})

    def _copies(self, rows: Rows, instant: Rows) -> Rows:
        """How often each row is there at its instant; equal rows are counted at one of them if some are negative."""
        weights = self._synopsis.values(WEIGHT)[rows]
        if (weights >= 0).all():
            return np.asarray(weights)
        used, place = np.unique(rows, return_inverse=True)
        values = self._synopsis.take(used)
        row = identities(values, values.column_names)[place]
        groups = identities(with_ints(bare(len(rows)), {"row": row, "instant": instant}), ("row", "instant"))
        return np.maximum(net_weights(groups, weights), 0)


def _too_many(size: float, first: int, until: int) -> DataError:
    since, to = np.array([first, until], "datetime64[us]").astype("datetime64[s]")
    return DataError(
        f"Rstream would have about {size:,.0f} rows at the instants from {since} to {to}",
        hint="take a longer Slide, or Istream for changes alone; or see whether a row has a wrong time",
    )
