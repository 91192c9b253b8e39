"""Sorted runs that merge: each is at least twice as long as the next.

A new run is merged with the last ones while these are short. So there are few runs, a row is merged a few times in its
life, and a look-up is a binary search per run, for all wanted keys at once.

>>> index = CodeIndex()
>>> for first, codes in ((0, [7, 3]), (2, [3, 9, 3]), (5, [1])):
...     index.append(np.array(codes), first)
>>> [run.codes.tolist() for run in index.runs]
[[3, 3, 3, 7, 9], [1]]
>>> asked, rows = index.probe(np.array([9, 3, 4]))
>>> sorted(zip(asked.tolist(), rows.tolist()))
[(0, 3), (1, 1), (1, 2), (1, 4)]
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from anabranch.model.arrays import Counts, Rows, ranges

RATIO = 2
"""A run is at least so many times as long as the next."""

_NONE = np.empty(0, np.int64)

Run = TypeVar("Run", bound=Sized)
Numbers = TypeVar("Numbers", bound=npt.NDArray[Any])


def push(runs: list[Run], run: Run, merge: Callable[[Run, Run], Run], most: int | None = None) -> None:
    """Add a run, and merge the last ones while they are short; never to one of more than `most` rows.

    >>> runs = []
    >>> for text in ("cd", "ab", "e", "f"):
    ...     push(runs, text, lambda one, other: "".join(sorted(one + other)))
    >>> runs
    ['abcd', 'ef']
    """
    runs.append(run)
    while len(runs) > 1:
        older, newer = len(runs[-2]), len(runs[-1])
        if older >= RATIO * newer or (most is not None and older + newer > most):
            break
        runs[-2:] = [merge(runs[-2], runs[-1])]


@dataclass(frozen=True)
class CodeRun:
    """Codes in ascending order, and the number of the row of each."""

    codes: Counts
    rows: Rows

    def __len__(self) -> int:
        return len(self.codes)


class CodeIndex:
    """Numbers of rows by code."""

    def __init__(self) -> None:
        self.runs: list[CodeRun] = []

    @property
    def nbytes(self) -> int:
        """Bytes of codes and numbers in memory."""
        return sum(run.codes.nbytes + run.rows.nbytes for run in self.runs)

    def append(self, codes: Counts, first: int) -> None:
        """Add the codes of rows that are numbered from `first` on."""
        if len(codes):
            order = np.argsort(codes)
            push(self.runs, CodeRun(codes[order], first + order), _merged)

    def probe(self, codes: Counts) -> tuple[Rows, Rows]:
        """Rows with one of the codes: pairs of the place in `codes` and the number of the row."""
        order = np.argsort(codes)
        ordered = codes[order]
        found = [search(run.codes, run.rows, ordered) for run in self.runs]
        places = np.concatenate([_NONE, *(place for place, _ in found)])
        return order[places], np.concatenate([_NONE, *(rows for _, rows in found)])

    def matches(self, codes: Counts) -> int:
        """How many pairs `probe` would return."""
        ordered = np.sort(codes)
        bounds = ((np.searchsorted(run.codes, ordered, side) for side in ("left", "right")) for run in self.runs)
        return sum(int(np.sum(after - first)) for first, after in bounds)

    def shorten(self, first: int) -> None:
        """Drop the rows from `first` on."""
        kept = [CodeRun(run.codes[low], run.rows[low]) for run in self.runs if (low := run.rows < first).any()]
        self.runs = kept

    def renumber(self, number: Rows) -> None:
        """Give rows other numbers; rows with a negative one go."""
        runs = [(run.codes, number[run.rows]) for run in self.runs]
        kept = [CodeRun(codes[rows >= 0], rows[rows >= 0]) for codes, rows in runs]
        self.runs = [run for run in kept if len(run)]


def search(codes: Counts, rows: Numbers, wanted: Counts) -> tuple[Rows, Numbers]:
    """Pairs of a place in `wanted` and a row of that code, in one sorted run; sorted codes are found fastest."""
    if not len(codes):
        return _NONE, rows[:0]  # type: ignore[return-value]
    low = np.searchsorted(codes, wanted, side="left")
    hits = np.flatnonzero(codes[np.minimum(low, len(codes) - 1)] == wanted)
    first = low[hits]
    counts = np.searchsorted(codes, wanted[hits], side="right") - first
    owner, places = ranges(first, counts)
    return hits[owner], rows[places]  # type: ignore[return-value]


def _merged(older: CodeRun, newer: CodeRun) -> CodeRun:
    codes, rows = np.concatenate((older.codes, newer.codes)), np.concatenate((older.rows, newer.rows))
    order = merge_order(codes)
    return CodeRun(codes[order], rows[order])


def merge_order(values: Counts) -> Rows:
    """Places in ascending order of values that are two sorted runs: a stable sort finds them and only merges."""
    return np.argsort(values, kind="stable")
