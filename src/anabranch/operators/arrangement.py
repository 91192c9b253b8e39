"""Arrangements: rows that are kept and found again by codes, the state of operators that look things up.

Wide columns stay where they were put, in chunks; what moves is an index of pairs (code, number of the row) per code
column, in sorted runs. Rows that are not needed any more go when they are more than half of all.

>>> kept = Arrangement(indexed=("_key0",))
>>> kept.append(pa.table({"city": ["Oslo", "Rome", "Oslo"], "_key0": [7, 8, 7]}))
array([0, 1, 2])
>>> kept.probe("_key0", np.array([8, 7, 9]))
(array([1, 1, 0]), array([0, 2, 1]))

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 2.2.3 (synopses).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.joins.growing import Growing
from anabranch.joins.sorted_runs import CodeIndex
from anabranch.operators.base import ELEMENT, END, EVER, START, WEIGHT, Micros
from anabranch.operators.elements import Flags, Rows, settle, suspects, with_ints, without
from anabranch.operators.table_chunks import TableChunks

DEAD_SHARE = 0.5
SETTLE_SHARE = 0.25

_NONE = np.empty(0, np.int64)


class Arrangement:
    """Rows with numbers from 0 in the order in which they came, until `keep` numbers them anew.

    Parameters
    ----------
    indexed
        Columns of codes by which rows are found.
    numbers
        Other columns of integers that are read, or changed, in place.
    """

    def __init__(self, indexed: tuple[str, ...], numbers: tuple[str, ...] = ()) -> None:
        self._indexes = {name: CodeIndex() for name in indexed}
        self._numbers = {name: Growing() for name in (*indexed, *numbers)}
        self._chunks = TableChunks()
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def seen(self) -> bool:
        """Whether it knows its columns: once a table has come, be it empty."""
        return self._chunks.seen

    @property
    def nbytes(self) -> int:
        """Bytes in memory, approximately."""
        numbers = sum(each.nbytes for each in self._numbers.values())
        return numbers + sum(each.nbytes for each in self._indexes.values()) + self._chunks.nbytes

    def append(self, table: pa.Table) -> Rows:
        """Add rows; returns their numbers."""
        if self.seen and not len(table):
            return _NONE
        first, self._rows = self._rows, self._rows + len(table)
        for name, numbers in self._numbers.items():
            numbers.append(table.column(name).to_numpy())
        for name, index in self._indexes.items():
            index.append(self.values(name)[first:], first)
        self._chunks.append(without(table, self._numbers))
        return np.arange(first, self._rows)

    def values(self, name: str) -> Micros:
        """A column of codes or numbers, by row; numbers may be changed there."""
        return self._numbers[name].values

    def probe(self, name: str, codes: Micros) -> tuple[Rows, Rows]:
        """Rows with one of the codes: pairs of the place in `codes` and the number of the row."""
        return self._indexes[name].probe(codes)

    def take(self, rows: Rows, names: list[str] | None = None) -> pa.Table:
        """The columns (all that are not codes or numbers, or those named) of rows, each time they are asked for."""
        return self._chunks.take(rows, names)

    def keep(self, wanted: Flags) -> None:
        """Drop all other rows; those that stay get new numbers, in the same order."""
        self._chunks.keep(wanted)
        number = np.where(wanted, np.cumsum(wanted) - 1, -1)
        for index in self._indexes.values():
            index.renumber(number)
        for numbers in self._numbers.values():
            numbers.assign(numbers.values[wanted])
        self._rows = int(np.count_nonzero(wanted))

    def forget(self, dead: Flags) -> None:
        """Drop dead rows if they are many."""
        if np.count_nonzero(dead) > DEAD_SHARE * self._rows:
            self.keep(~dead)

    def table(self) -> pa.Table:
        """All rows and columns, in order: what `append` takes."""
        # Arrow would share the memory, which goes on changing.
        return with_ints(self.payload(), {name: numbers.values.copy() for name, numbers in self._numbers.items()})

    def payload(self) -> pa.Table:
        """All columns that are not codes or numbers."""
        return self._chunks.table()


class ElementArrangement(Arrangement):
    """What an operator holds of one input: an arrangement of the elements that can still matter.

    Elements that have ended are dropped. Elements that take others back are *settled* when they have become many: the
    element that was taken back ends where it was, and both together are one element again.
    """

    def __init__(self, indexed: tuple[str, ...]) -> None:
        super().__init__(indexed, ELEMENT)
        self._negative = 0

    def append(self, table: pa.Table) -> Rows:
        """Add elements; returns their numbers."""
        rows = super().append(table)
        self._negative += int(np.count_nonzero(self.values(WEIGHT)[rows] < 0))
        return rows

    def live(self, since: int) -> Rows:
        """Numbers of the elements that are there at some instant from `since` on."""
        return np.flatnonzero(self.values(END) > since)

    @property
    def negative(self) -> int:
        """Elements that take others back and have not been put together with them."""
        return self._negative

    def tidy(self, now: int) -> None:
        """Drop what does not matter from `now` on, if it is worth while."""
        if self._negative > SETTLE_SHARE * (len(self) - self._negative):
            self.settle(self.live(now))
        self.forget(self.values(END) <= now)

    def settle(self, rows: Rows) -> None:
        """Put elements together with those that take them back, all of which are among the rows."""
        whole = with_ints(self.payload(), {END: self.values(END)})
        rows, groups = suspects(whole, rows, self.values(WEIGHT)[rows] < 0)
        start, end, weight = (self.values(name)[rows] for name in (START, END, WEIGHT))
        order, ends, weights = settle(groups, start, end, weight)
        self.values(END)[rows[order]] = np.where(weights == 0, EVER, ends)
        self.values(WEIGHT)[rows[order]] = weights
        self._negative = 0
