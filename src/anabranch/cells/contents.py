"""All rows of a relation at every instant of its inputs, or of its slides: `Rstream`.

What takes long is what is said, whatever the time between: an instant at which nothing is there costs nothing.

>>> table = pa.table({"n": [1, 2], "_key": [1, 2], "_start": [3, 5], "_end": [6, 9], "_weight": [1, 2]})
>>> Contents().advance([table], Tick(0, 10, 3, np.array([3, 5, 6]))).to_pydict()
{'n': [1, 1, 2, 2, 2, 2], '_time': [3, 5, 5, 5, 6, 6], '_weight': [1, 1, 1, 1, 1, 1]}

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 2.1.2: relation-to-stream
operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from anabranch.cells.arrangement import Synopsis
from anabranch.cells.base import END, FOREVER, START, TIME, WEIGHT, Micros, Operator, Tick
from anabranch.cells.elements import KEY, Rows, bare, identities, net_weights, stacked, with_ints, without
from anabranch.cells.instants import Instants, Run
from anabranch.errors import DataError

PART_ROWS = 2_000_000
"""What is said at a time, about, unless one instant has more."""
MOST_ROWS = 100_000_000
MOST_PER_ELEMENT = 10_000
"""In one tick, more rows than that are not said, if they are also more than that for every element."""


class Contents(Operator):
    """Every row of the relation at each instant of the tick, as often as it is there, with `_time` and `_weight` 1."""

    def __init__(self) -> None:
        self._synopsis = Synopsis(())

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take elements, return the contents at the instants of the tick."""
        return stacked(list(self.in_parts(inputs, tick)))

    def in_parts(self, inputs: Sequence[pa.Table], tick: Tick) -> Iterator[pa.Table]:
        """The same, instant after instant, some of them at a time."""
        self._synopsis.append(inputs[0])
        asked = Instants(tick)
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
        """The elements."""
        return [self._synopsis.table()] if self._synopsis.seen else []

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over elements."""
        for table in tables:
            self._synopsis.append(table)

    @property
    def held_rows(self) -> int:
        """Elements."""
        return len(self._synopsis)

    @property
    def held_bytes(self) -> int:
        """Memory of the elements."""
        return self._synopsis.nbytes

    def _between(self, rows: Rows, asked: Instants, first: int, until: int, most: int) -> Iterator[pa.Table]:
        """What is said in an interval: if that is much, first what is said in half of it."""
        start, end = (self._synopsis.values(name)[rows] for name in (START, END))
        runs = asked.runs(np.maximum(start, first), np.minimum(end, until))
        size = self._size(rows, runs)
        if size > most:
            raise _too_many(size, first, until)
        if size <= PART_ROWS or until - first <= 1:
            yield self._said(rows, *asked.told(runs))
            return
        middle = (first + until) // 2
        for low, high in ((first, middle), (middle, until)):
            there = rows[(start < high) & (end > low)]
            if len(there):
                yield from self._between(there, asked, low, high, most)

    def _size(self, rows: Rows, runs: list[Run]) -> float:
        """About how many rows are said, in a number that does not overflow."""
        weights = np.abs(self._synopsis.values(WEIGHT)[rows]).astype(np.float64)
        return sum(float(many @ weights) for _, many in runs)

    def _said(self, rows: Rows, owner: Rows, time: Micros) -> pa.Table:
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
