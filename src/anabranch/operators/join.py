"""The join of any number of windows: new elements of each one look for partners in all the others.

Each input has a synopsis: its elements, arranged by key. An element that comes to one input probes the other inputs in
the *probe order* of its input; what is found on the way is not stored. Inputs are served one after the other: new
elements meet old and new ones of the inputs before, and only old ones of the inputs behind, so that every combination
is found once, by its last element.

>>> join = MultiJoin(2, keys=(((0, "city"), (1, "town")),))
>>> here = pa.table({"city": ["Oslo"], "_key0": [7], "_start": [1], "_end": [9], "_weight": [1]})
>>> there = pa.table({"town": ["Oslo", "Rome"], "_key0": [7, 8], "_start": [5, 5], "_end": [20, 20], "_weight": [2, 1]})
>>> join.advance([here, there], Tick(0, 6)).to_pylist()
[{'city': 'Oslo', 'town': 'Oslo', '_start': 5, '_end': 9, '_weight': 2}]

Notes
-----
An element carries both ends of its interval, so that a result has the intersection of its parts' intervals at once:
what expires is never joined a second time.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 1.3, chapter 5: MJoins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.arrangement import Synopsis
from anabranch.operators.base import END, START, WEIGHT, Micros, Operator, Tick
from anabranch.operators.elements import Flags, Rows, elements, stacked
from anabranch.operators.key_lookup import agree

KeyClass = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class _Partial:
    """Combinations of rows of some inputs: the rows' numbers by input, and the elements that they make."""

    rows: dict[int, Rows]
    start: Micros
    end: Micros
    weight: Micros


class MultiJoin(Operator):
    """Combinations of elements, one per input, that agree on all keys.

    Parameters
    ----------
    inputs
        Number of inputs, two or more.
    keys
        Classes of equal columns, as in `logical_plan.Join`. The table of an input carries, for each class j in
        which it has a column, codes in `_key{j}`. Rows whose keys are NULL are not given.
    probes
        For each input the other inputs in the order in which its new elements probe them; by default those that keys
        connect come first.
    """

    def __init__(
        self, inputs: int, keys: tuple[KeyClass, ...] = (), probes: tuple[tuple[int, ...], ...] | None = None
    ) -> None:
        self.inputs = inputs
        self.keys = keys
        self.probes = probes or tuple(connected_first(i, inputs, keys) for i in range(inputs))
        self._columns = [dict(members) for members in keys]
        self._synopses = [
            Synopsis(tuple(_code(j) for j, members in enumerate(self._columns) if i in members)) for i in range(inputs)
        ]

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """The combinations of new elements with all others."""
        for synopsis, table in zip(self._synopses, inputs, strict=True):
            synopsis.append(table.slice(0, 0))  # all columns are known before the first probe
        results = [self._joined(i, table, tick) for i, table in enumerate(inputs)]
        self._tidy(tick)
        return stacked(results)

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Keep the new elements without joining them."""
        for synopsis, table in zip(self._synopses, inputs, strict=True):
            synopsis.append(table)
        self._tidy(tick)

    def snapshot(self) -> list[pa.Table]:
        """The elements of each input."""
        return [synopsis.table() for synopsis in self._synopses if synopsis.seen]

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over elements."""
        for synopsis, table in zip(self._synopses, tables, strict=False):
            synopsis.append(table)

    @property
    def held_rows(self) -> int:
        """Elements of all inputs."""
        return sum(map(len, self._synopses))

    @property
    def held_bytes(self) -> int:
        """Bytes of all inputs in memory, with their indexes."""
        return sum(synopsis.nbytes for synopsis in self._synopses)

    def _joined(self, new: int, table: pa.Table, tick: Tick) -> pa.Table:
        rows = self._synopses[new].append(table)
        start, end, weight = (self._synopses[new].values(name)[rows] for name in (START, END, WEIGHT))
        partial = _Partial({new: rows}, start, end, weight)
        for other in self.probes[new]:
            partial = self._extended(partial, other, tick)
        parts = [synopsis.take(partial.rows[i]) for i, synopsis in enumerate(self._synopses)]
        names = [name for part in parts for name in part.column_names]
        joined = pa.table([column for part in parts for column in part.columns], names=names)
        return elements(joined, partial.start, partial.end, partial.weight)

    def _extended(self, partial: _Partial, other: int, tick: Tick) -> _Partial:
        """The combinations with a row of one more input."""
        synopsis, shared = self._synopses[other], self._shared(partial, other)
        if shared:
            through, key = shared[0]
            codes = self._synopses[through].values(_code(key))[partial.rows[through]]
            places, rows = synopsis.overlapping(_code(key), codes, partial.start, partial.end)
        else:
            live, size = synopsis.live(tick.start), len(partial.start)
            places, rows = np.repeat(np.arange(size), len(live)), np.tile(live, size)
        start = np.maximum(partial.start[places], synopsis.values(START)[rows])
        end = np.minimum(partial.end[places], synopsis.values(END)[rows])
        kept = np.flatnonzero((start < end) & self._codes_agree(partial, places, other, rows, shared[1:]))
        kept = kept[self._values_agree(partial, places[kept], other, rows[kept], shared)]
        places, rows = places[kept], rows[kept]
        combined = {each: numbers[places] for each, numbers in partial.rows.items()} | {other: rows}
        return _Partial(combined, start[kept], end[kept], partial.weight[places] * synopsis.values(WEIGHT)[rows])

    def _shared(self, partial: _Partial, other: int) -> list[tuple[int, int]]:
        """Inputs of the combinations that have a key in common with another input, each with the key."""
        found = []
        for key, members in enumerate(self._columns):
            if other in members and (known := [each for each in partial.rows if each in members]):
                found.append((known[0], key))
        return found

    def _codes_agree(
        self, partial: _Partial, places: Rows, other: int, rows: Rows, shared: list[tuple[int, int]]
    ) -> Flags:
        alike = np.ones(len(rows), np.bool_)
        for through, key in shared:
            left = self._synopses[through].values(_code(key))[partial.rows[through][places]]
            alike &= left == self._synopses[other].values(_code(key))[rows]
        return alike

    def _values_agree(
        self, partial: _Partial, places: Rows, other: int, rows: Rows, shared: list[tuple[int, int]]
    ) -> Flags:
        left, right = [], []
        for through, key in shared:
            mine, theirs = self._columns[key][through], self._columns[key][other]
            left.append(self._synopses[through].take(partial.rows[through][places], [mine]).column(mine))
            right.append(self._synopses[other].take(rows, [theirs]).column(theirs))
        return agree(left, right, len(rows))

    def _tidy(self, tick: Tick) -> None:
        for synopsis in self._synopses:
            synopsis.tidy(tick.until)


def connected_first(new: int, inputs: int, keys: tuple[KeyClass, ...]) -> tuple[int, ...]:
    """The other inputs, each connected by a key with one before it as far as that goes.

    >>> connected_first(0, 4, (((0, "a"), (3, "b")), ((3, "c"), (1, "d"))))
    (3, 1, 2)
    """
    order, left = [new], [i for i in range(inputs) if i != new]
    classes = [{i for i, _ in members} for members in keys]
    while left:
        linked = {i for members in classes if members & set(order) for i in members}
        chosen = next((i for i in left if i in linked), left[0])
        order.append(chosen)
        left.remove(chosen)
    return tuple(order[1:])


def _code(key: int) -> str:
    return f"_key{key}"
