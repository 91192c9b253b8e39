"""The join of some of the windows: from rows of one of them all combinations with the others.

What a cache is filled with, and kept right by: combinations from the rows that a key leads to, and from new rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.joins.codes import mixed
from anabranch.joins.graph import tree_among
from anabranch.joins.probe_pipeline import Holds, JoinRules
from anabranch.joins.window_store import Key, WindowStore
from anabranch.model.arrays import Counts, Rows


@dataclass(frozen=True)
class Parts:
    """Combinations: numbers of rows by window, and the interval in which all of them are there."""

    rows: dict[int, Rows]
    start: Counts
    end: Counts

    def __len__(self) -> int:
        return len(self.start)

    def take(self, places: Rows) -> Parts:
        """Some of them."""
        rows = {each: numbers[places] for each, numbers in self.rows.items()}
        return Parts(rows, self.start[places], self.end[places])


class SegmentJoin:
    """Joins some windows.

    Parameters
    ----------
    windows
        Which.
    stores
        All windows of the join.
    rules
        What is joined.
    holds
        Judges rows of two windows.

    Attributes
    ----------
    steps
        Probes, partners found and comparisons so far.
    """

    def __init__(self, windows: Collection[int], stores: Sequence[WindowStore], rules: JoinRules, holds: Holds) -> None:
        self.windows = tuple(sorted(windows))
        self._stores, self._rules, self._holds = stores, rules, holds
        self.steps = 0
        self._trees = {each: tree_among(each, self.windows, rules.classes) for each in self.windows}

    @property
    def connected(self) -> bool:
        """Whether keys lead from each window to all others."""
        return all(self._trees[self.windows[0]].keys.values())

    def holder(self, number: int) -> int:
        """A window with a column of a class."""
        return next(each for each in self.windows if each in self._rules.classes[number])

    def from_rows(self, root: int, rows: Rows) -> Parts:
        """All combinations with rows of one of the windows."""
        tree, store = self._trees[root], self._stores[root]
        found = Parts({root: rows}, store.start[rows], store.end[rows])
        for other, parent in tree.parents.items():
            key, window = tree.keys[other], self._stores[other]
            codes = self._stores[parent].codes_of(key, found.rows[parent])
            places, numbers = window.matches(key, codes, found.start, found.end)
            start = np.maximum(found.start[places], window.start[numbers])
            end = np.minimum(found.end[places], window.end[numbers])
            before = {each: bound[places] for each, bound in found.rows.items()}
            keep = start < end
            self.steps += len(codes) + len(numbers)
            for check in self._rules.checks(tree, other, list(before)):
                left = np.flatnonzero(keep)
                self.steps += len(left)
                keep[left] = self._holds(check, before[check.one][left], numbers[left])
            found = Parts(before | {other: numbers}, start, end)
            if not keep.all():
                found = found.take(np.flatnonzero(keep))
        return found

    def keyed(self, key: Key, found: Parts) -> Counts:
        """The code of each combination."""
        columns = []
        for number in key:
            window = self.holder(number)
            columns.append(self._stores[window].codes((number,))[found.rows[window]])
        return mixed(columns)
