"""Keys of streams, declared or observed: a duplicate among live rows revokes one that was observed.

A column counts as a key when so many tuples have arrived in a row without a value that a live row had; before that
nothing is concluded from it. After a duplicate it has to earn that anew.

>>> joins = (KeyComparison(0, 1, 0, 0),)
>>> keys = KeyObserver(2, joins, declared={(1, 0)}, trial_arrivals=3)
>>> keys.graph().directed[0].declared, keys.graph().links_of(1)
(True, ())
>>> keys.observe(0, 0, arrivals=3, duplicates=0)
>>> keys.graph().edges[0].one_one, keys.graph().edges[0].declared
(True, False)
>>> keys.observe(0, 0, arrivals=1, duplicates=1)
>>> keys.graph().edges[0].one_one
False

A declared key that is none is the user's mistake:

>>> keys.observe(1, 0, arrivals=1, duplicates=1, rows=((5, 1), (5, 2)))
Traceback (most recent call last):
    ...
anabranch.errors.DataError: column 0 of stream 1 was declared a key, but two rows have the same value: (5, 1) and (5, 2)
  hint: leave out the declaration; a key that holds is found by itself

Differs from the paper
----------------------
The thesis takes many-one joins as given (section 6.11) and says elsewhere that one-one joins are detected, not how.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 6.2 and 6.11.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from anabranch.constraints.join_graph import Edge, JoinGraph, directed
from anabranch.errors import DataError


class KeyComparison(NamedTuple):
    """Two streams are joined where a column of each is equal."""

    left: int
    right: int
    left_column: int
    right_column: int


class KeyObserver:
    """Which columns of a join are keys.

    Parameters
    ----------
    streams
        How many there are.
    comparisons
        What is joined by what.
    declared
        Columns that the user says are keys: stream and column.
    trial_arrivals
        After how many tuples without a duplicate a column counts as a key; at least a window's worth.
    called
        What columns are called, for people.
    """

    def __init__(
        self,
        streams: int,
        comparisons: Sequence[KeyComparison],
        declared: Collection[tuple[int, int]] = (),
        trial_arrivals: int = 10_000,
        called: Mapping[tuple[int, int], str] | None = None,
    ) -> None:
        self._streams, self._comparisons = streams, tuple(comparisons)
        self._declared = frozenset(declared)
        self._trial = trial_arrivals
        self._called = called or {}
        self._alone: dict[tuple[int, int], int] = {}
        self._graphs: dict[frozenset[tuple[int, int]], JoinGraph] = {}
        self.revoked = 0

    @cached_property
    def columns(self) -> list[tuple[int, int]]:
        """Streams and columns that may be keys."""
        found = [(each.left, each.left_column) for each in self._comparisons]
        return sorted({*found, *((each.right, each.right_column) for each in self._comparisons)})

    def observe(
        self, stream: int, column: int, arrivals: int, duplicates: int, rows: Sequence[Sequence[object]] = ()
    ) -> None:
        """Tuples arrived, of which some have the value of a live row; `rows` are two of them."""
        key = stream, column
        if not duplicates:
            self._alone[key] = self._alone.get(key, 0) + arrivals
            return
        if key in self._declared:
            told = " and ".join(str(tuple(int(v) if isinstance(v, np.integer) else v for v in row)) for row in rows)
            name = self._called.get(key, f"column {column} of stream {stream}")
            raise DataError(
                f"{name} was declared a key, but two rows have the same value: {told}",
                hint="leave out the declaration; a key that holds is found by itself",
            )
        self.revoked += self.is_key(stream, column)
        self._alone[key] = 0

    def doubt(self) -> None:
        """Some key that was observed does not hold, whichever it is: all have to earn it anew."""
        self.revoked += sum(self.is_key(*each) for each in self.columns if each not in self._declared)
        self._alone.clear()

    def is_key(self, stream: int, column: int) -> bool:
        """Whether a column counts as a key now."""
        return (stream, column) in self._declared or self._alone.get((stream, column), 0) >= self._trial

    def is_declared(self, stream: int, column: int) -> bool:
        """Whether the user says so."""
        return (stream, column) in self._declared

    def graph(self) -> JoinGraph:
        """The join graph with the keys of now."""
        keys = frozenset(each for each in self.columns if self.is_key(*each))
        if keys not in self._graphs:
            self._graphs = {keys: directed(self._streams, map(self._edge, self._comparisons))}
        return self._graphs[keys]

    def _edge(self, each: KeyComparison) -> Edge:
        left = self.is_key(each.left, each.left_column)
        right = self.is_key(each.right, each.right_column)
        keys = [(each.left, each.left_column)] * left + [(each.right, each.right_column)] * right
        sure = all(key in self._declared for key in keys)
        turned = left and not right
        ends = KeyComparison(each.right, each.left, each.right_column, each.left_column) if turned else each
        return Edge(*ends, one_one=left and right, declared=sure, many_many=not (left or right))
