"""A hash index over the rows of a window: chains of rows, newest first, followed by compiled loops.

>>> index = HashIndex()
>>> codes, starts, ends = np.array([7, 3, 7]), np.array([0, 1, 2]), np.array([5, 6, 7])
>>> window = Columns(codes, starts, ends, np.array([7]))
>>> index.append(codes, 0)
>>> index.first(window, np.array([7, 8, 7]), np.array([4, 4, 5]), np.array([5, 5, 9])).tolist()
[2, -1, 2]
>>> places, rows = index.matches(window, np.array([7, 3]), np.array([4, 4]), np.array([5, 5]))
>>> places.tolist(), rows.tolist()
([0, 0, 1], [2, 0, 1])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.joins import kernels
from anabranch.joins.growing import Growing
from anabranch.joins.overlaps import Columns, first_of, most_in_vain, overlaps, repeated
from anabranch.model.arrays import Counts, Rows

SMALLEST_BITS = 6
LARGEST = 2**31 - 1
EMPTY_SHARE = 8
"""Buckets per row that are too many."""


class HashIndex:
    """Rows of a window by code; rows are numbered in the order in which they came."""

    def __init__(self) -> None:
        self._bits = SMALLEST_BITS
        self._head = np.full(1 << self._bits, -1, np.int32)
        self._older = Growing(np.int32)
        self._base = 0

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._head.nbytes + self._older.nbytes

    def append(self, codes: Counts, first: int) -> None:
        """Add the rows from `first` on; `codes` are those of all rows."""
        if len(codes) > len(self._head) or self._base + len(codes) > LARGEST:
            self.rebuild(codes)
            return
        self._older.extend(len(codes) - first)
        self._insert(codes, first)

    def rebuild(self, codes: Counts) -> None:
        """Rows have other numbers now: these are their codes."""
        self._bits = max(SMALLEST_BITS, int(len(codes) - 1).bit_length())
        self._head = np.full(1 << self._bits, -1, np.int32)
        self._older, self._base = Growing(np.int32), 0
        self._older.extend(len(codes))
        self._insert(codes, 0)

    def cut(self, gone: int, codes: Counts) -> None:
        """So many rows at the front are gone, and all others are numbered from there; these are their codes.

        Chains keep the numbers that rows had, and end at the first that is gone.
        """
        self._base += gone
        self._older.cut(gone)
        if EMPTY_SHARE * len(codes) < len(self._head):
            self.rebuild(codes)

    def shorten(self, codes: Counts, first: int) -> None:
        """The rows from `first` on, the newest ones, are gone; `codes` are those of all rows before they went."""
        kernels.remove(codes, first, self._base, np.uint64(64 - self._bits), self._head, self._older.values)
        self._older.shorten(first)

    @property
    def _chains(self) -> tuple[np.uint64, NDArray[np.int32], Counts, int]:
        return np.uint64(64 - self._bits), self._head, self._older.values, self._base

    def _insert(self, codes: Counts, first: int) -> None:
        shift = np.uint64(64 - self._bits)
        kernels.insert(codes, first, self._base, shift, self._head, self._older.values)

    def first(self, window: Columns, codes: Counts, begin: Counts, end: Counts) -> Rows:
        """For each code a row of the window with that code that meets the interval, -1 if there is none."""
        found = np.empty(len(codes), np.int64)
        most = most_in_vain(window, codes)
        if kernels.first_matches(codes, begin, end, *window, *self._chains, most, found):
            return found
        return first_of(len(codes), *overlaps(window, codes, begin, end))

    def repeated(self, window: Columns, first: int, enough: int) -> Rows:
        """Rows from `first` on that meet a row before them of the same code; so many as are enough, or all."""
        found, codes = np.empty(max(len(window.codes) - first, 0), np.int64), window.codes[first:]
        columns, most = (self._older.values, self._base), most_in_vain(window, codes)
        count = kernels.repeated(first, *window, *columns, most, enough, found)
        return found[:count] if count >= 0 else repeated(window, first)

    def matches(
        self, window: Columns, codes: Counts, begin: Counts, end: Counts, first: Rows | None = None
    ) -> tuple[Rows, Rows]:
        """Rows that match: places of codes, ascending, and rows; go on from the first ones if they are known."""
        if first is None:
            first = self.first(window, codes, begin, end)
        counts, most = np.empty(len(codes), np.int64), most_in_vain(window, codes)
        total = kernels.count_matches(codes, begin, end, first, *window, *self._chains[2:], most, counts)
        if total < 0:
            return overlaps(window, codes, begin, end)
        places, rows = np.empty(total, np.int64), np.empty(total, np.int64)
        columns = window.codes, window.starts, window.ends
        kernels.list_matches(codes, begin, end, first, *columns, *self._chains[2:], counts, places, rows)
        return places, rows
