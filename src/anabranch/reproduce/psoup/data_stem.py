"""Data SteM: the tuples of a stream, with an ordered index for each attribute.

A query probes the index of each attribute that it has factors on; a cell per tuple counts the probes that found it, and
those found by all of them satisfy the query.

>>> stem = DataStem(attributes=2, capacity=8)
>>> stem.insert(np.array([[1, 5], [2, 6], [3, 5], [4, 5]]))
>>> sorted(stem.probe((Factor(0, ">", 1), Factor(1, "=", 5)), 0, 4).tolist())
[2, 3]
>>> stem.steps
6

Notes
-----
tupleID = physicalID -> a tuple's number in the order of arrival. `steps` counts index entries that probes visit,
`factors` the boolean factors of probes.

Differs from the paper: an index is a sorted array instead of a red-black tree, made when it is probed after an
insertion. Both ends of an interval are one scan of the index. A tuple's slot is its number modulo the capacity, which
stands for the hash index over tupleIDs.

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, section 4.2.1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from anabranch.model.arrays import Counts, Rows
from anabranch.reproduce.psoup.predicates import Factor


class DataStem:
    """The latest tuples of one stream.

    Parameters
    ----------
    attributes
        Of a tuple.
    capacity
        Tuples that are kept: the largest window of a query.
    """

    def __init__(self, attributes: int, capacity: int) -> None:
        self._rows: Counts = np.zeros((capacity, attributes), dtype=np.int64)
        self._numbers: Rows = np.zeros(capacity, dtype=np.int64)
        self._sorted: dict[int, tuple[Counts, Rows]] = {}
        self.capacity = capacity
        self.count = 0
        self.steps = 0
        self.factors = 0

    def insert(self, rows: Counts) -> None:
        """Tuples arrive; the oldest make room for them."""
        numbers = np.arange(self.count, self.count + len(rows))[-self.capacity :]
        self._rows[numbers % self.capacity] = rows[-self.capacity :]
        self._numbers[numbers % self.capacity] = numbers
        self.count += len(rows)
        self._sorted.clear()

    @property
    def oldest(self) -> int:
        """The number of the oldest tuple that is kept."""
        return max(self.count - self.capacity, 0)

    def slots(self, numbers: Rows) -> Rows:
        """Where tuples are: the index over physicalIDs."""
        return numbers % self.capacity

    def copy(self, slots: Rows) -> Counts:
        """Tuples, copied."""
        return self._rows[slots]

    def row(self, number: int) -> list[int]:
        """One tuple."""
        found: list[int] = self._rows[number % self.capacity].tolist()
        return found

    def probe(self, factors: Iterable[Factor], begin: int, end: int) -> Rows:
        """The numbers of the tuples of a window that satisfy all factors, in no order."""
        by_attribute: dict[int, list[Factor]] = {}
        for factor in factors:
            self.factors += 1
            by_attribute.setdefault(factor.attribute, []).append(factor)
        begin = max(begin, self.oldest)
        if not by_attribute:
            return np.arange(begin, min(end, self.count))
        scans = sorted((self._scan(attribute, each) for attribute, each in by_attribute.items()), key=len)
        cells = np.zeros(self.capacity, dtype=np.int8)
        for entries in scans:
            self.steps += len(entries)
            cells[entries] += 1
        numbers: Rows = self._numbers[scans[0][cells[scans[0]] == len(scans)]]
        inside: Rows = numbers[(numbers >= begin) & (numbers < end)]
        return inside

    def index(self, attribute: int) -> tuple[Counts, Rows]:
        """The values of an attribute, sorted, and the slots of their tuples."""
        if attribute not in self._sorted:
            values = self._rows[: min(self.count, self.capacity), attribute]
            order = np.argsort(values, kind="stable")
            self._sorted[attribute] = values[order], order
        return self._sorted[attribute]

    def _scan(self, attribute: int, factors: Sequence[Factor]) -> Rows:
        values, slots = self.index(attribute)
        first, last = 0, len(values)
        for factor in factors:
            low, high = within(values, factor)
            first, last = max(first, low), min(last, high)
        return slots[first:last] if first < last else slots[:0]


def within(values: Sequence[int] | Counts, factor: Factor) -> tuple[int, int]:
    """The part of sorted values that satisfies a factor.

    >>> within([1, 2, 2, 3], Factor(0, "=", 2)), within([1, 2, 2, 3], Factor(0, ">", 2))
    ((1, 3), (3, 4))
    """
    relop, everything = factor.relop, len(values)
    first = {"=": bisect_left, ">=": bisect_left, ">": bisect_right}.get(relop)
    last = {"=": bisect_right, "<=": bisect_right, "<": bisect_left}.get(relop)
    return (
        first(values, factor.constant) if first is not None else 0,
        last(values, factor.constant) if last is not None else everything,
    )
