"""The index of a window where nothing is compiled: codes in sorted runs, searched by numpy.

>>> index = SortedIndex()
>>> codes, starts, ends = np.array([7, 3, 7]), np.array([0, 1, 2]), np.array([5, 6, 7])
>>> window = Columns(codes, starts, ends, np.array([7]))
>>> index.append(codes, 0)
>>> index.first(window, np.array([7, 8, 7]), np.array([4, 4, 5]), np.array([5, 5, 9])).tolist()
[2, -1, 2]
"""

from __future__ import annotations

import numpy as np

from anabranch.joins.overlaps import Columns, first_of, most_in_vain, overlaps
from anabranch.joins.sorted_runs import CodeIndex
from anabranch.model.arrays import Counts, Rows


class SortedIndex:
    """Does what `HashIndex` does."""

    def __init__(self) -> None:
        self._index = CodeIndex()
        self._gone = 0

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._index.nbytes

    def append(self, codes: Counts, first: int) -> None:
        """Add the rows from `first` on; `codes` are those of all rows."""
        self._index.append(codes[first:], first + self._gone)

    def rebuild(self, codes: Counts) -> None:
        """Rows have other numbers now: these are their codes."""
        self._index, self._gone = CodeIndex(), 0
        self._index.append(codes, 0)

    def cut(self, gone: int, codes: Counts) -> None:
        """So many rows at the front are gone, and all others are numbered from there; these are their codes."""
        self._gone += gone
        if self._gone > len(codes):
            self.rebuild(codes)

    def shorten(self, codes: Counts, first: int) -> None:
        """The rows from `first` on, the newest ones, are gone; `codes` are those of all rows before they went."""
        self._index.shorten(first + self._gone)

    def first(self, window: Columns, codes: Counts, begin: Counts, end: Counts) -> Rows:
        """For each code a row of the window with that code that meets the interval, -1 if there is none."""
        return first_of(len(codes), *self.matches(window, codes, begin, end))

    def repeated(self, window: Columns, first: int, enough: int) -> Rows:
        """Rows from `first` on that meet a row before them of the same code."""
        places, rows = self.matches(window, window.codes[first:], window.starts[first:], window.ends[first:])
        return np.unique(first + places[rows < first + places])

    def matches(
        self, window: Columns, codes: Counts, begin: Counts, end: Counts, first: Rows | None = None
    ) -> tuple[Rows, Rows]:
        """Rows that match: places of codes, ascending, and rows; where there is no first one, there is none."""
        asked = np.arange(len(codes)) if first is None else np.flatnonzero(first >= 0)
        if self._index.matches(codes[asked]) > most_in_vain(window, codes):
            return overlaps(window, codes, begin, end)
        places, rows = self._index.probe(codes[asked])
        there = rows >= self._gone
        places, rows = asked[places[there]], rows[there] - self._gone
        meets = np.flatnonzero((window.starts[rows] < end[places]) & (window.ends[rows] > begin[places]))
        order = meets[np.argsort(places[meets], kind="stable")]
        return places[order], rows[order]
