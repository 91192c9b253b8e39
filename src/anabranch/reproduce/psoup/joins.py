"""PSoup for joins of two streams: hybrid structs, composite tuples, and the results of pairs.

A new query meets the tuples of R; each one that satisfies the factors over R alone gives a *hybrid struct*, the tuple
with what is left of the query once its values are put in. Hybrid structs then probe S. A new tuple of R meets the
queries first, and its hybrid structs probe S; a tuple of S likewise.

All hybrid structs of a query have the factors over S alone in common. A *composite tuple* applies them once, and joins
what is left of S with all hybrid structs together, both sorted.

>>> from anabranch.reproduce.psoup.predicates import Factor, JoinFactor, Query
>>> soup = JoinSoup((1, 1), capacity=8, materialise="partial")
>>> for stream, value in (("R", 3), ("R", 9), ("S", 2), ("S", 1)):
...     soup.insert(stream, [value])
>>> clause = JoinQuery(Query((Factor(0, "<", 5),)), Query((Factor(0, ">", 1),)), JoinFactor(0, ">", 0))
>>> soup.invoke(soup.register(clause)).tolist()
[[3, 2]]

Notes
-----
RELOP1, RELOP2, RELOP3 of section 5.4.2 -> the factors of `JoinQuery.left`, `.join`, `.right`. `hybrids` counts hybrid
structs.

Differs from the paper: all windows are as large as the capacity. The bitmap has a bit for each pair of slots; in the
paper a pair gets a row when it satisfies a first query. Pairs are not in the order of their older timestamps.

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, sections 3.2.2, 4.3 and 5.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anabranch.model.arrays import Counts, Rows
from anabranch.reproduce.psoup.data_stem import DataStem
from anabranch.reproduce.psoup.predicates import JoinQuery
from anabranch.reproduce.psoup.query_stem import QueryStem
from anabranch.reproduce.psoup.system import Materialise

Pairs = tuple[Rows, Rows]
BITS = 8


class JoinSoup:
    """Join queries over the streams R and S.

    Parameters
    ----------
    attributes
        Of the tuples of R and of S.
    capacity
        Tuples of each stream that a query is about: the latest.
    materialise
        As in `PSoup`.
    """

    def __init__(self, attributes: tuple[int, int], capacity: int, materialise: Materialise) -> None:
        self.data = {stream: DataStem(width, capacity) for stream, width in zip("RS", attributes, strict=True)}
        self.factors = {stream: QueryStem(width) for stream, width in zip("RS", attributes, strict=True)}
        self.queries: list[JoinQuery] = []
        self.hybrids = 0
        self._capacity = -(-capacity // BITS) * BITS
        self._materialise = materialise
        self._bitmaps: list[NDArray[np.uint8]] = []
        self._lists: list[deque[int]] = []

    def register(self, query: JoinQuery) -> int:
        """Store a query, match it with the tuples that are there, and return its number."""
        self.queries.append(query)
        self.factors["R"].insert(query.left)
        self.factors["S"].insert(query.right)
        if self._materialise == "partial":
            self._bitmaps.append(np.zeros((self._capacity, self._capacity // BITS), dtype=np.uint8))
        self._lists.append(deque())
        if self._materialise != "none":
            self._add(len(self.queries) - 1, self.evaluate(query))
        return len(self.queries) - 1

    def evaluate(self, query: JoinQuery) -> Pairs:
        """Run a query from scratch: its hybrid structs probe S one by one."""
        left = self.data["R"].probe(query.left.factors, 0, self.data["R"].count)
        self.hybrids += len(left)
        return separate(query, left, self.data["R"], self.data["S"])

    def insert(self, stream: Literal["R", "S"], row: Sequence[int]) -> None:
        """A tuple arrives; it takes the place of the oldest of its stream."""
        stem, number = self.data[stream], self.data[stream].count
        stem.insert(np.array([row]))
        if self._materialise == "none":
            return
        self._forget(stream, number % stem.capacity)
        for query in self.factors[stream].probe(row).tolist():
            self.hybrids += 1
            self._add(query, self._partners(stream, self.queries[query], number, row))

    def insert_all(self, stream: Literal["R", "S"], rows: Counts) -> None:
        """Tuples arrive one after the other; together, as long as there is no query."""
        if self.queries:
            for row in rows.tolist():
                self.insert(stream, row)
        else:
            self.data[stream].insert(rows)

    def matches(self, query: int) -> Pairs:
        """The slots of the pairs that a query answers now."""
        if self._materialise == "none":
            left, right = self.evaluate(self.queries[query])
            return self.data["R"].slots(left), self.data["S"].slots(right)
        if self._materialise == "partial":
            bits = np.unpackbits(self._bitmaps[query].reshape(-1), bitorder="little")
            found = np.flatnonzero(bits.view(np.bool_))
        else:
            found = np.fromiter(self._lists[query], np.int64, len(self._lists[query]))
        return found // self._capacity, found % self._capacity

    def invoke(self, query: int) -> Counts:
        """The pairs that a query answers now, each as one tuple."""
        left, right = self.matches(query)
        return np.hstack([self.data["R"].copy(left), self.data["S"].copy(right)])

    def _partners(self, stream: str, query: JoinQuery, number: int, row: Sequence[int]) -> Pairs:
        other = self.data["S" if stream == "R" else "R"]
        if stream == "R":
            found = other.probe((*query.right.factors, query.join.substituted(row)), 0, other.count)
            return np.full(len(found), number), found
        found = other.probe((*query.left.factors, query.join.substituted_right(row)), 0, other.count)
        return found, np.full(len(found), number)

    def _add(self, query: int, pairs: Pairs) -> None:
        left, right = self.data["R"].slots(pairs[0]), self.data["S"].slots(pairs[1])
        if self._materialise == "partial":
            marks = (1 << (right % BITS)).astype(np.uint8)
            np.bitwise_or.at(self._bitmaps[query], (left, right // BITS), marks)
        else:
            self._lists[query].extend((left * self._capacity + right).tolist())

    def _forget(self, stream: str, slot: int) -> None:
        """Remove the pairs of the tuple that had a slot before."""
        for bitmap in self._bitmaps:
            if stream == "R":
                bitmap[slot] = 0
            else:
                bitmap[:, slot // BITS] &= np.uint8(255 - (1 << slot % BITS))
        for query, pairs in enumerate(self._lists):
            kept = np.fromiter(pairs, np.int64, len(pairs))
            slots = kept // self._capacity if stream == "R" else kept % self._capacity
            self._lists[query] = deque(kept[slots != slot].tolist())


def separate(query: JoinQuery, left: Rows, r: DataStem, s: DataStem) -> Pairs:
    """Step 5 of figure 4: each hybrid struct probes S with the factors over S and what is left of the join."""
    rows = r.copy(r.slots(left)).tolist()
    found = [s.probe((*query.right.factors, query.join.substituted(row)), 0, s.count) for row in rows]
    lengths = [len(each) for each in found]
    return np.repeat(left, lengths), np.concatenate([*found, np.zeros(0, dtype=np.int64)])


def composite(query: JoinQuery, left: Rows, r: DataStem, s: DataStem) -> Pairs:
    """The same with one composite tuple: factors over S apply once, and a sort-merge join does the rest.

    >>> from anabranch.reproduce.psoup.predicates import Factor, JoinFactor, Query
    >>> r, s = DataStem(1, 8), DataStem(1, 8)
    >>> r.insert(np.array([[3], [9]]))
    >>> s.insert(np.array([[2], [1], [7]]))
    >>> clause = JoinQuery(Query(()), Query((Factor(0, ">", 1),)), JoinFactor(0, ">", 0))
    >>> [part.tolist() for part in composite(clause, np.array([0, 1]), r, s)]
    [[0, 1, 1], [0, 0, 2]]
    """
    join = query.join
    right = s.probe(query.right.factors, 0, s.count)
    keys = s.copy(s.slots(right))[:, join.right] + join.constant
    right, keys = right[order := np.argsort(keys, kind="stable")], keys[order]
    values = r.copy(r.slots(left))[:, join.left]
    s.factors += len(values)
    low, high = (np.searchsorted(keys, values, side) for side in ("left", "right"))
    begin = {"=": low, "<=": low, "<": high}.get(join.relop, np.zeros_like(low))
    end = {"=": high, ">=": high, ">": low}.get(join.relop, np.full_like(low, len(keys)))
    lengths = end - begin
    places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths - begin, lengths)
    return np.repeat(left, lengths), right[places]
