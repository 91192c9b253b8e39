"""PSoup for selections over one stream: new queries meet old tuples, new tuples meet old queries.

A query is registered once and can be invoked at any later time. What is kept in between is up to `materialise`:

- "none" (NoMat): nothing; the query runs from scratch when it is invoked.
- "partial" (PSoup-P): all matches, in a bitmap; the window is applied when the query is invoked.
- "complete" (PSoup-C): the matches in the current window, in a list, kept up to date as tuples arrive.

All three answer the same:

>>> from anabranch.reproduce.psoup.predicates import Factor
>>> soup = PSoup(attributes=1, capacity=8, materialise="partial")
>>> soup.insert_all(np.array([[1], [5], [7]]))
>>> query = soup.register(Query((Factor(0, ">", 4),)), Window.sliding(3))
>>> soup.insert([6])
>>> soup.invoke(query).tolist()
[[5], [7], [6]]

Notes
-----
Query SteM, Data SteM, WindowsTable, Results Structure -> `queries`, `data`, `windows`, `results`. A tuple is fully
processed before the next one, which is what stream-prefix consistency asks for (section 4.1).

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, sections 3, 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from anabranch.model.arrays import Counts, Rows
from anabranch.reproduce.psoup.data_stem import DataStem
from anabranch.reproduce.psoup.predicates import Query, Window
from anabranch.reproduce.psoup.query_stem import Probing, QueryStem
from anabranch.reproduce.psoup.results import Bitmap, Lists

Materialise = Literal["none", "partial", "complete"]


class PSoup:
    """The system.

    Parameters
    ----------
    attributes
        Of a tuple.
    capacity
        The largest window, in tuples.
    materialise
        How much of the answers is kept between invocations.
    probing
        How a tuple finds the queries that it satisfies.
    """

    def __init__(self, attributes: int, capacity: int, materialise: Materialise, probing: Probing = "index") -> None:
        self.data = DataStem(attributes, capacity)
        self.queries = QueryStem(attributes)
        self.windows: list[Window] = []
        self._probing = probing
        self.results: Bitmap | Lists | None = None
        if materialise != "none":
            self.results = Bitmap(capacity) if materialise == "partial" else Lists(capacity)

    def register(self, query: Query, window: Window) -> int:
        """Store a query, match it with the tuples that are there, and return its number."""
        number = self.queries.insert(query)
        self.windows.append(window)
        if self.results is not None:
            kept = (0, self.data.count) if isinstance(self.results, Bitmap) else window.bounds(self.data.count)
            self.results.add_query(self.data.probe(query.factors, *kept), window)
        return number

    def insert(self, row: Sequence[int]) -> None:
        """A tuple arrives."""
        number = self.data.count
        self.data.insert(np.array([row]))
        if self.results is not None:
            self.results.add_tuple(number, self.queries.probe(row, self._probing))

    def insert_all(self, rows: Counts) -> None:
        """Tuples arrive one after the other; together, as long as there is no query."""
        if not self.windows:
            self.data.insert(rows)
            return
        for row in rows.tolist():
            self.insert(row)

    def slots(self, query: int) -> Rows:
        """Where in the Data SteM the tuples are that a query answers now."""
        if isinstance(self.results, Lists):
            return self.results.slots(query)
        begin, end = self.windows[query].bounds(self.data.count)
        if isinstance(self.results, Bitmap):
            return self.data.slots(self.results.numbers(query, max(begin, self.data.oldest), end))
        return self.data.slots(self.data.probe(self.queries.queries[query].factors, begin, end))

    def invoke(self, query: int) -> Counts:
        """The tuples that a query answers now, copied."""
        return self.data.copy(self.slots(query))
