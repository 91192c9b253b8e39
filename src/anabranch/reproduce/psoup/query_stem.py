"""Query SteM: standing queries, indexed by their boolean factors, probed by tuples.

The factors on an attribute are ordered by their constants; a node is a constant, with five lists of queries, one for
each operator. A tuple looks up its value: equalities are at the node, inequalities on one side of it. A cell per query
counts the factors that hold; a query whose factors all hold is satisfied.

>>> stem = QueryStem(attributes=2)
>>> for query in (Query((Factor(0, ">", 3), Factor(1, "=", 7))), Query((Factor(0, "<=", 4),))):
...     _ = stem.insert(query)
>>> stem.probe([4, 7]).tolist(), stem.probe([9, 7]).tolist()
([0, 1], [0])
>>> stem.nodes
3

Notes
-----
`steps.cells`: cells that are counted down, one for each
factor that holds. `steps.comparisons`: factors tested one by one, without an index.

Differs from the paper: an operator's constants are a sorted array instead of nodes of a red-black tree, made when a
tuple comes after a query, and cells count up. Factors over two attributes (the predicateList) are left to `joins`.

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, section 4.2.2 and figure 6; the
index is that of S. Madden, M. Shah, J. Hellerstein, V. Raman, *Continuously Adaptive Continuous Queries over Streams*
(CACQ), SIGMOD 2002.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from anabranch.model.arrays import Counts, Rows
from anabranch.reproduce.psoup.data_stem import within
from anabranch.reproduce.psoup.predicates import COMPARISONS, MIRRORED, Factor, Query, Relop

Probing = Literal["index", "one by one", "all at once"]


@dataclass
class ProbeSteps:
    """What probes have done."""

    cells: int = 0
    comparisons: int = 0


@dataclass
class _AttributeIndex:
    """The factors on one attribute: for each operator the constants, sorted, and their queries."""

    entries: dict[Relop, list[tuple[int, int]]] = field(default_factory=dict)
    lists: dict[Relop, tuple[list[int], Rows]] = field(default_factory=dict)
    arrays: dict[Relop, tuple[Counts, Rows]] = field(default_factory=dict)
    nodes: list[int] = field(default_factory=list)

    def add(self, factor: Factor, query: int) -> None:
        self.entries.setdefault(factor.relop, []).append((factor.constant, query))

    def build(self) -> None:
        """Sort the factors of each operator by their constants."""
        for relop, entries in self.entries.items():
            entries.sort()
            constants, queries = np.array(entries, dtype=np.int64).T
            self.lists[relop] = constants.tolist(), queries
            self.arrays[relop] = constants, queries
        self.nodes = sorted({constant for constants, _ in self.lists.values() for constant in constants})

    def satisfied(self, value: int) -> Iterator[Rows]:
        """The queries whose factors hold for a value: ``value RELOP constant``, read from the constant's side."""
        for relop, (constants, queries) in self.lists.items():
            first, last = within(constants, Factor(0, MIRRORED[relop], value))
            yield queries[first:last]

    def visited(self, value: int) -> int:
        """Nodes from which queries are taken."""
        scans = {within(self.nodes, Factor(0, MIRRORED[relop], value)) for relop in self.lists}
        return len({node for first, last in scans for node in range(first, last)})


class QueryStem:
    """All standing queries over a stream."""

    def __init__(self, attributes: int) -> None:
        self.queries: list[Query] = []
        self._indexes = [_AttributeIndex() for _ in range(attributes)]
        self._needed: Counts = np.zeros(0, dtype=np.int64)
        self.steps = ProbeSteps()

    def insert(self, query: Query) -> int:
        """Register a query, and return its number."""
        number = len(self.queries)
        self.queries.append(query)
        for factor in query.factors:
            self._indexes[factor.attribute].add(factor, number)
        self._needed = self._needed[:0]
        return number

    @property
    def nodes(self) -> int:
        """Nodes of the index: distinct constants, over all attributes."""
        self.build()
        return sum(len(index.nodes) for index in self._indexes)

    def probe(self, row: Sequence[int], how: Probing = "index") -> Rows:
        """The queries that a tuple satisfies."""
        if how == "one by one":
            return self._one_by_one(row)
        self.build()
        found = self._all_at_once(row) if how == "all at once" else self._indexed(row)
        return np.flatnonzero(np.bincount(found, minlength=len(self.queries)) == self._needed)

    def visited(self, row: Sequence[int]) -> int:
        """Nodes of the index that a probe takes queries from."""
        self.build()
        return sum(index.visited(value) for value, index in zip(row, self._indexes, strict=True))

    def _indexed(self, row: Sequence[int]) -> Rows:
        """The query of each factor that holds, by way of the index."""
        held = [queries for value, index in zip(row, self._indexes, strict=True) for queries in index.satisfied(value)]
        found = np.concatenate(held) if held else np.zeros(0, dtype=np.int64)
        self.steps.cells += len(found)
        return found

    def _all_at_once(self, row: Sequence[int]) -> Rows:
        """The same without the index: a comparison of arrays for each attribute and operator."""
        held = []
        for value, index in zip(row, self._indexes, strict=True):
            for relop, (constants, queries) in index.arrays.items():
                held.append(queries[COMPARISONS[relop](value, constants)])
                self.steps.comparisons += len(constants)
        return np.concatenate(held) if held else np.zeros(0, dtype=np.int64)

    def _one_by_one(self, row: Sequence[int]) -> Rows:
        """The queries whose factors all hold, tested until one fails."""
        found, comparisons = [], 0
        for number, query in enumerate(self.queries):
            for factor in query.factors:
                comparisons += 1
                if not COMPARISONS[factor.relop](row[factor.attribute], factor.constant):
                    break
            else:
                found.append(number)
        self.steps.comparisons += comparisons
        return np.array(found, dtype=np.int64)

    def build(self) -> None:
        """Sort the factors of queries that came since the last probe."""
        if len(self._needed) == len(self.queries):
            return
        self._needed = np.array([len(query.factors) for query in self.queries], dtype=np.int64)
        for index in self._indexes:
            index.build()
