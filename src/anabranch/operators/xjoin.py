"""XJoin: a tree of joins of two, in which the result of every inner one is kept like a window.

The first two inputs are joined, the result with the third, and so on. What was found once is never looked for again;
it has to be held, and to change the tree would mean to compute it anew. A user can ask for it, and it is what the
adaptive join is measured against.

>>> tree = XJoin(3, ((((0, "a"), (1, "b"))), ((1, "c"), (2, "d"))))
>>> def rows(**columns):
...     return pa.table({**columns, "_start": [1], "_end": [9], "_weight": [1]})
>>> tree.advance([rows(a=[1]), rows(b=[1], c=[2]), rows(d=[2])], Tick(0, 9)).to_pylist()
[{'a': 1, 'b': 1, 'c': 2, 'd': 2, '_start': 1, '_end': 9, '_weight': 1}]

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from anabranch.joins.graph import tree_of
from anabranch.operators.base import ELEMENT, Operator, Tick
from anabranch.operators.comparisons import Comparison
from anabranch.operators.elements import without
from anabranch.operators.join import KeyClass, MultiJoin
from anabranch.operators.join_window import code_name


class XJoin(Operator):
    """Combinations as of `MultiJoin`, with the results of all inner joins in the state.

    Parameters
    ----------
    inputs, keys, comparisons
        As for `MultiJoin`.

    Attributes
    ----------
    inner_rows
        Combinations that inner joins have found so far, all of which were put into the state.
    """

    goes_to_disk = True

    def __init__(self, inputs: int, keys: tuple[KeyClass, ...] = (), comparisons: tuple[Comparison, ...] = ()) -> None:
        self._keys = keys
        self._order = [0, *tree_of(0, inputs, [dict(members) for members in keys]).parents]
        self._shared: list[list[int]] = []
        self._joins: list[MultiJoin] = []
        self.inner_rows = 0
        for place, other in enumerate(self._order[1:], start=1):
            before = self._order[:place]
            shared = [
                number
                for number, members in enumerate(keys)
                if other in dict(members) and any(each in dict(members) for each in before)
            ]
            own = [((0, _first(keys[number], before)[1]), (1, dict(keys[number])[other])) for number in shared]
            tests = tuple(_between(each, before, other) for each in comparisons if _meets(each, before, other))
            self._shared.append(shared)
            self._joins.append(MultiJoin(2, tuple(own), tests))

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those that follow from them."""
        named = [_with_codes_kept(table, number, len(self._keys)) for number, table in enumerate(inputs)]
        found = named[self._order[0]]
        for place, join in enumerate(self._joins):
            other = self._order[place + 1]
            self.inner_rows += len(found) if place else 0
            left = self._coded(found, self._order[: place + 1], self._shared[place])
            found = join.advance([left, self._coded(named[other], [other], self._shared[place])], tick)
        codes = [code_name(number) for number in range(len(self._keys))]
        return found.select(
            [*(name for each in inputs for name in without(each, [*codes, *ELEMENT]).column_names), *ELEMENT]
        )

    def limit_memory(self, limit: int | None) -> None:
        """Each join gets the same part."""
        for join in self._joins:
            join.limit_memory(None if limit is None else limit // len(self._joins))

    def take_peak(self) -> int:
        """The most bytes in memory since the last call."""
        return sum(join.take_peak() for join in self._joins)

    @property
    def file_bytes(self) -> int:
        """Bytes on disk."""
        return sum(join.file_bytes for join in self._joins)

    def snapshot(self) -> list[pa.Table]:
        """Both windows of each join."""
        return [table for join in self._joins for table in join.snapshot()]

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Set the state to that of a snapshot."""
        for place, join in enumerate(self._joins):
            join.restore(tables[2 * place : 2 * place + 2])

    @property
    def steps(self) -> int:
        """Probes, partners listed and comparisons so far, in all joins."""
        return sum(join.steps for join in self._joins)

    @property
    def held_rows(self) -> int:
        """Elements of all windows, and of all inner results."""
        return sum(join.held_rows for join in self._joins)

    @property
    def held_bytes(self) -> int:
        """Bytes of all windows and inner results in memory, with their indexes."""
        return sum(join.held_bytes for join in self._joins)

    def _coded(self, table: pa.Table, inputs: Sequence[int], shared: Sequence[int]) -> pa.Table:
        """With the codes of the classes that the next join compares, where they have some."""
        for place, number in enumerate(shared):
            name = _kept_code(_first(self._keys[number], inputs)[0], number)
            if name in table.column_names:
                table = table.append_column(code_name(place), table[name])
        return table


def _first(members: KeyClass, inputs: Sequence[int]) -> tuple[int, str]:
    """A column that some of the inputs have in a class, and whose it is."""
    return next((each, dict(members)[each]) for each in inputs if each in dict(members))


def _kept_code(number: int, key: int) -> str:
    return f"_code{key}_of{number}"


def _with_codes_kept(table: pa.Table, number: int, keys: int) -> pa.Table:
    """Codes under names of the input's own, as columns that joins pass on."""
    names = {code_name(key): _kept_code(number, key) for key in range(keys)}
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def _meets(comparison: Comparison, before: Sequence[int], other: int) -> bool:
    """Whether a comparison can be tested when another input joins those before it, and not earlier."""
    one, two = comparison.inputs
    return (one == other and two in before) or (two == other and one in before)


def _between(comparison: Comparison, before: Sequence[int], other: int) -> Comparison:
    sides = [(int(number == other), name) for number, name in comparison.sides]
    return Comparison((sides[0], sides[1]), comparison.sign)
