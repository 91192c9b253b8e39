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

from anabranch.joins import kernels
from anabranch.joins.overlaps import Columns, first_of, most_in_vain, overlaps
from anabranch.model.arrays import Counts, Rows

SMALLEST_BITS = 6


class HashIndex:
    """Rows of a window by code; rows are numbered in the order in which they came."""

    def __init__(self) -> None:
        self._bits = SMALLEST_BITS
        self._head = np.full(1 << self._bits, -1, np.int32)
        self._older = np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._head.nbytes + self._older.nbytes

    def append(self, codes: Counts, first: int) -> None:
        """Add the rows from `first` on; `codes` are those of all rows."""
        if len(codes) > len(self._older):
            older = np.empty(len(codes) + len(codes) // 2, np.int32)
            older[:first] = self._older[:first]
            self._older = older
        if len(codes) > len(self._head):
            self._bits = int(len(codes) - 1).bit_length()
            self._head = np.full(1 << self._bits, -1, np.int32)
            first = 0
        kernels.insert(codes, first, np.uint64(64 - self._bits), self._head, self._older)

    def rebuild(self, codes: Counts) -> None:
        """Rows have other numbers now: these are their codes."""
        self._bits = max(SMALLEST_BITS, len(codes).bit_length())
        self._head = np.full(1 << self._bits, -1, np.int32)
        self._older = np.empty(len(codes), np.int32)
        kernels.insert(codes, 0, np.uint64(64 - self._bits), self._head, self._older)

    def first(self, window: Columns, codes: Counts, begin: Counts, end: Counts) -> Rows:
        """For each code a row of the window with that code that meets the interval, -1 if there is none."""
        found = np.empty(len(codes), np.int64)
        most = most_in_vain(window, codes)
        shift = np.uint64(64 - self._bits)
        if kernels.first_matches(codes, begin, end, *window, shift, self._head, self._older, most, found):
            return found
        return first_of(len(codes), *overlaps(window, codes, begin, end))

    def matches(
        self, window: Columns, codes: Counts, begin: Counts, end: Counts, first: Rows | None = None
    ) -> tuple[Rows, Rows]:
        """Rows that match: places of codes, ascending, and rows; go on from the first ones if they are known."""
        if first is None:
            first = self.first(window, codes, begin, end)
        counts, most = np.empty(len(codes), np.int64), most_in_vain(window, codes)
        total = kernels.count_matches(codes, begin, end, first, *window, self._older, most, counts)
        if total < 0:
            return overlaps(window, codes, begin, end)
        places, rows = np.empty(total, np.int64), np.empty(total, np.int64)
        columns = window.codes, window.starts, window.ends
        kernels.list_matches(codes, begin, end, first, *columns, self._older, counts, places, rows)
        return places, rows
