"""What a join holds of one window: when each row is there and how often, its codes, and an index for each way to probe.

Rows are only ever appended, and numbered in that order. Rows at the front that are all over are cut off now and then,
in one go: nothing is done for a single row that expires. `first` counts what was cut off, so that `first` + number is a
name of a row for as long as it is there; `epoch` changes when rows in the middle go and these names are void.

>>> store = WindowStore(columns=((0,),), indexed=((0,),))
>>> store.append(np.array([0, 5]), np.array([10, 15]), np.array([1, 1]), {(0,): np.array([7, 7])}).tolist()
[0, 1]
>>> store.first_match((0,), np.array([7]), np.array([12]), np.array([20])).tolist()
[1]

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 2.2.3 and 5.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from anabranch.joins.codes import compiles, mixed
from anabranch.joins.growing import Growing
from anabranch.joins.overlaps import Columns
from anabranch.joins.sorted_index import SortedIndex
from anabranch.model.arrays import Counts, Mask, Rows

BLOCK_BITS = 8
DEAD_SHARE = 0.125
"""Of the rows at the front: to cut them off costs little."""
SCATTERED_SHARE = 0.5
"""Of rows anywhere: what stays is moved then, and indexes are built anew."""
LONG_OVER = -(2**62)

Key = tuple[int, ...]
"""Classes of equal columns that are compared together."""


class Index(Protocol):
    """Rows of a window by code: see `HashIndex`."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""

    def append(self, codes: Counts, first: int) -> None:
        """Add the rows from `first` on; `codes` are those of all rows."""

    def rebuild(self, codes: Counts) -> None:
        """Rows have other numbers now: these are their codes."""

    def cut(self, gone: int, codes: Counts) -> None:
        """So many rows at the front are gone, and all others are numbered from there; these are their codes."""

    def shorten(self, codes: Counts, first: int) -> None:
        """The rows from `first` on, the newest ones, are gone; `codes` are those of all rows before they went."""

    def first(self, window: Columns, codes: Counts, begin: Counts, end: Counts) -> Rows:
        """For each code a row with that code that meets the interval, -1 if there is none."""

    def repeated(self, window: Columns, first: int, enough: int) -> Rows:
        """Rows from `first` on that meet a row before them of the same code; so many as are enough, or all."""

    def matches(
        self, window: Columns, codes: Counts, begin: Counts, end: Counts, first: Rows | None = None
    ) -> tuple[Rows, Rows]:
        """Rows that match: places of codes, ascending, and rows."""


def new_index() -> Index:
    """The quickest kind of index that there is here."""
    if not compiles():
        return SortedIndex()
    from anabranch.joins.hash_index import HashIndex  # takes a moment to load, in workers that join

    return HashIndex()


class WindowStore:
    """The elements of one window.

    Parameters
    ----------
    columns
        Keys whose codes are kept.
    indexed
        Those of them by which rows are found.
    """

    def __init__(self, columns: tuple[Key, ...], indexed: tuple[Key, ...]) -> None:
        self._codes = {key: Growing() for key in columns}
        self._start, self._end = Growing(), Growing()
        self._weight: Growing | None = None  # while every row is there once
        self._latest: Counts = np.empty(0, np.int64)
        self._indexes: dict[Key, Index] = {key: new_index() for key in indexed}
        self._indexed = dict.fromkeys(indexed, 0)
        self._looked_through = 0
        self.first = 0
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._start.values)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, with indexes."""
        columns, indexes = self._columns_kept(), self._indexes.values()
        return sum(each.nbytes for each in columns) + sum(each.nbytes for each in indexes) + self._latest.nbytes

    @property
    def start(self) -> Counts:
        """Since when each row is there."""
        return self._start.values

    @property
    def end(self) -> Counts:
        """From when on each row is not there any more."""
        return self._end.values

    @property
    def weight(self) -> Counts:
        """How often each row is there."""
        return np.ones(len(self), np.int64) if self._weight is None else self._weight.values

    @property
    def all_once(self) -> bool:
        """Whether every row is there once."""
        return self._weight is None

    def codes(self, key: Key) -> Counts:
        """The code of each row."""
        return self._codes[key].values

    def codes_of(self, key: Key, rows: Rows) -> Counts:
        """The codes of rows by a key of whose columns it has all."""
        if not key:
            return np.zeros(len(rows), np.int64)
        return mixed([self.codes((number,))[rows] for number in key])

    def append(self, start: Counts, end: Counts, weight: Counts, codes: Mapping[Key, Counts]) -> Rows:
        """Add rows; returns their numbers."""
        first = len(self)
        if self._weight is None and (weight != 1).any():
            self._weigh()
        self._start.append(start)
        self._end.append(end)
        if self._weight is not None:
            self._weight.append(weight)
        for key, values in codes.items():
            self._codes[key].append(values)
        self._note_ends(first)
        return np.arange(first, len(self))

    def first_match(self, key: Key, codes: Counts, begin: Counts, end: Counts) -> Rows:
        """For each code a row that has it and meets the interval, -1 if there is none."""
        if not len(codes):
            return np.empty(0, np.int64)
        return self._index(key).first(self._columns(key), codes, begin, end)

    def matches(
        self, key: Key, codes: Counts, begin: Counts, end: Counts, first: Rows | None = None
    ) -> tuple[Rows, Rows]:
        """All such rows: places of codes, ascending, and rows; quicker where `first_match` is known."""
        if not len(codes):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return self._index(key).matches(self._columns(key), codes, begin, end, first)

    def repeated(self, key: Key, first: int, enough: int) -> Rows:
        """Rows from `first` on that are there together with a row before them of the same code.

        There are no more than `enough`, or all of them.
        """
        if first >= len(self):
            return np.empty(0, np.int64)
        return self._index(key).repeated(self._columns(key), first, enough)

    def settle(self, rows: Rows, ends: Counts, weights: Counts) -> None:
        """Rows end earlier than was known, and count otherwise; those that count nothing are over."""
        self.end[rows] = np.where(weights == 0, LONG_OVER, ends)
        self._weigh().values[rows] = weights
        self._latest = self._latest[:0]
        self._note_ends(0)
        self._looked_through = 0

    def expired(self, now: int) -> int | Mask | None:
        """What should go, as it does not matter from `now` on: so many rows at the front, the marked ones, or none.

        Only where they are a share of all is it worth while, which is smaller at the front.
        """
        front = int(np.searchsorted(self._latest, now, side="right")) << BLOCK_BITS
        if front >= len(self):
            return len(self) or None
        if front > DEAD_SHARE * len(self):
            return front
        if len(self) < 2 * self._looked_through:
            return None
        dead: Mask = self.end <= now
        self._looked_through = len(self)
        count = int(np.count_nonzero(dead))
        if count <= SCATTERED_SHARE * len(self):
            return None
        return count if dead[:count].all() else dead

    def drop(self, gone: int | Mask) -> None:
        """Drop so many rows at the front, or the marked ones; the others get new numbers, in the same order."""
        if isinstance(gone, int):
            self._cut(gone)
            return
        self.epoch += 1
        stays = np.flatnonzero(~gone)
        for column in self._columns_kept():
            column.assign(column.values.take(stays))
        self._latest = self._latest[:0]
        self._note_ends(0)
        for key, index in self._indexes.items():
            index.rebuild(self.codes(key)[:0])
            self._indexed[key] = 0
        self._looked_through = len(self)

    def shorten(self, length: int) -> None:
        """Drop the newest rows, so that so many are left: what was added for a moment goes again."""
        for key, index in self._indexes.items():
            if self._indexed[key] > length:
                index.shorten(self.codes(key)[: self._indexed[key]], length)
                self._indexed[key] = length
        for column in self._columns_kept():
            column.shorten(length)
        self._latest = self._latest[: length >> BLOCK_BITS]
        self._note_ends(length >> BLOCK_BITS << BLOCK_BITS)

    def fit(self) -> None:
        """Take no more memory than the rows need."""
        for column in self._columns_kept():
            column.fit()
        self._latest = self._latest.copy()
        for key in self._indexes:
            self._indexes[key], self._indexed[key] = new_index(), 0

    def _cut(self, gone: int) -> None:
        self.first += gone
        for column in self._columns_kept():
            column.cut(gone)
        if gone % (1 << BLOCK_BITS):
            self._latest = self._latest[:0]
            self._note_ends(0)
        else:
            self._latest = self._latest[gone >> BLOCK_BITS :]
        for key, index in self._indexes.items():
            self._indexed[key] = left = max(0, self._indexed[key] - gone)
            if left:
                index.cut(gone, self.codes(key)[:left])
            else:
                index.rebuild(self.codes(key)[:0])
        self._looked_through = max(0, self._looked_through - gone)

    def _index(self, key: Key) -> Index:
        """With all rows: they are put in when somebody asks, and not at all if they are over by then."""
        index, known = self._indexes[key], self._indexed[key]
        if known < len(self):
            index.append(self.codes(key), known)
            self._indexed[key] = len(self)
        return index

    def _weigh(self) -> Growing:
        """From here on rows have weights."""
        if self._weight is None:
            self._weight = Growing()
            self._weight.append(np.ones(len(self), np.int64))
        return self._weight

    def _columns_kept(self) -> list[Growing]:
        return [self._start, self._end, *([] if self._weight is None else [self._weight]), *self._codes.values()]

    def _columns(self, key: Key) -> Columns:
        return Columns(self.codes(key), self.start, self.end, self._latest)

    def _note_ends(self, first: int) -> None:
        """The latest end up to each block of rows, after rows have come."""
        block = first >> BLOCK_BITS
        ends = self.end[block << BLOCK_BITS :]
        if not len(ends):
            return
        tops = np.maximum.reduceat(ends, np.arange(0, len(ends), 1 << BLOCK_BITS))
        if block:
            tops[0] = max(tops[0], self._latest[block - 1])
        self._latest = np.concatenate((self._latest[:block], np.maximum.accumulate(tops)))
