"""Results Structure: which tuples satisfied which queries. Two of them: a bitmap, and a linked list for each query.

The bitmap (PSoup-P) holds all matches within the largest window; a window is applied when a query is invoked. The lists
(PSoup-C) hold what is in the window now: whatever leaves it is removed as tuples arrive.

>>> bitmap, lists = Bitmap(capacity=16), Lists(capacity=16)
>>> for results in (bitmap, lists):
...     results.add_query(np.array([1, 4]), Window.sliding(3))
...     results.add_tuple(5, np.array([0]))
>>> bitmap.numbers(0, 3, 6).tolist(), lists.slots(0).tolist()
([4, 5], [4, 5])

Notes
-----
`steps`: 64-bit words of the bitmap, and elements of lists, that were read or written; a look at the oldest element of a
list counts as one.

Differs from the paper: rows of the bitmap are in order of arrival, a byte holds eight of a query's, so that an
invocation reads one stretch of memory; a tuple's place is its number modulo the capacity. A list is a `deque` of the
tuples' slots in the Data SteM, which stand for pointers.

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, section 4.3.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from anabranch.model.arrays import Rows
from anabranch.reproduce.psoup.predicates import Window

BITS = 8
WORD = 64


class Bitmap:
    """A bit for each query and each tuple of the largest window."""

    def __init__(self, capacity: int) -> None:
        self._capacity = -(-capacity // BITS) * BITS
        self._bits: NDArray[np.uint8] = np.zeros((BITS, self._capacity // BITS), dtype=np.uint8)
        self._queries = 0
        self.steps = 0

    def add_query(self, numbers: Rows, window: Window) -> None:
        """A column for a new query, with its matches among old tuples; its window is applied later."""
        if self._queries == len(self._bits):
            self._bits = np.concatenate([self._bits, np.zeros_like(self._bits)])
        marks = np.zeros(self._capacity, dtype=np.bool_)
        marks[numbers % self._capacity] = True
        self._bits[self._queries] = np.packbits(marks, bitorder="little")
        self._queries += 1
        self.steps += self._capacity // WORD

    def add_tuple(self, number: int, queries: Rows) -> None:
        """A row for a new tuple, in the place of the oldest."""
        byte, bit = divmod(number % self._capacity, BITS)
        column = self._bits[: self._queries, byte]
        column &= np.uint8(255 - (1 << bit))
        column[queries] |= np.uint8(1 << bit)
        self.steps += -(-self._queries // WORD)

    def numbers(self, query: int, begin: int, end: int) -> Rows:
        """The tuples of a window that satisfy a query, in order."""
        if begin >= end:
            return np.zeros(0, dtype=np.int64)
        first, stop = begin % self._capacity, (end - 1) % self._capacity + 1
        self.steps += -(-(end - begin) // WORD)
        if first < stop:
            return self._marked(query, first, stop) + (begin - first)
        older, newer = self._marked(query, first, self._capacity), self._marked(query, 0, stop)
        return np.concatenate([older + (begin - first), newer + (end - stop)])

    def _marked(self, query: int, first: int, stop: int) -> Rows:
        byte = first // BITS
        marks = np.unpackbits(self._bits[query, byte : -(-stop // BITS)], bitorder="little")
        found = np.flatnonzero(marks[first - byte * BITS : stop - byte * BITS].view(np.bool_))
        return found + first


class Lists:
    """For each query, the tuples in its window as of now."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lists: list[deque[int]] = []
        self._kinds: list[int] = []
        self._windows: dict[Window, int] = {}
        self._members: list[list[deque[int]]] = []
        self.steps = 0

    def add_query(self, numbers: Rows, window: Window) -> None:
        """A list for a new query, with its matches in the window."""
        kind = self._windows.setdefault(window, len(self._windows))
        if kind == len(self._members):
            self._members.append([])
        self._lists.append(deque((np.sort(numbers) % self._capacity).tolist()))
        self._members[kind].append(self._lists[-1])
        self._kinds.append(kind)
        self.steps += len(numbers)

    def add_tuple(self, number: int, queries: Rows) -> None:
        """Let each list forget what has left its window, and append a new tuple where it matches."""
        capacity, now, removed = self._capacity, number + 1, 0
        bounds = [window.bounds(now) for window in self._windows]
        for (begin, _), members in zip(bounds, self._members, strict=True):
            oldest = min(number - begin, capacity - 1)
            for found in members:
                while found and (number - found[0] - 1) % capacity >= oldest:
                    found.popleft()
                    removed += 1
        for query in queries.tolist():
            if bounds[self._kinds[query]][1] == now:
                self._lists[query].append(number % capacity)
        self.steps += len(queries) + len(self._lists) + removed

    def slots(self, query: int) -> Rows:
        """Where the tuples are that are in a query's window and satisfy it: the list, followed from its head."""
        found = self._lists[query]
        self.steps += len(found)
        return np.fromiter(found, np.int64, len(found))
