"""Two operators in one cell, where the rows that the second one has to see together are in the same cell already.

What follows from a group is in the cell of the group, so its changes can be computed there: one shuffle serves both.

>>> from anabranch.operators.changelog import Changelog
>>> from anabranch.operators.set_operation import SetOperator
>>> both = FusedOperators(lambda: SetOperator(1, "distinct"), (("city", "place"),), lambda: Changelog("relation"))
>>> table = pa.table({"city": [7, 7], "_key": [1, 1], "_start": [3, 5], "_end": [9, 9], "_weight": [1, 1]})
>>> both.advance([table], Tick(0, 10, origin=3)).to_pydict()
{'place': [7, 7], '_time': [3, 9], '_weight': [1, -1]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from anabranch.joins.probe_report import ProbeReport
from anabranch.operators.base import ELEMENT, Operator, Tick
from anabranch.operators.elements import KEY, codes, with_ints
from anabranch.ordering.base import Seed


class FusedOperators(Operator):
    """The second operator over what the first one returns.

    Parameters
    ----------
    first, second
        Start the operators; the second one has one input.
    names
        Columns that the second one gets: the name with the first, and its own.
    """

    def __init__(
        self, first: Callable[[], Operator], names: tuple[tuple[str, str], ...], second: Callable[[], Operator]
    ) -> None:
        self._names = names
        self._first = first()
        self._second = second()

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those that follow from them."""
        return self._second.advance([self._between(inputs, tick)], tick)

    def in_parts(self, inputs: Sequence[pa.Table], tick: Tick) -> Iterator[pa.Table]:
        """Like `advance`, in the parts of the second operator."""
        return self._second.in_parts([self._between(inputs, tick)], tick)

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Bring the state up to date."""
        self._second.absorb([self._between(inputs, tick)], tick)

    def _between(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        found = self._first.advance(inputs, tick)
        table = pa.table({new: found[old] for old, new in (*self._names, *((name, name) for name in ELEMENT))})
        return with_ints(table, {KEY: codes(table, [new for _, new in self._names])})

    def learn(self, seeds: Mapping[int, Seed]) -> None:
        """Begin with what the join has learned elsewhere."""
        self._first.learn(seeds)

    def take_probes(self) -> tuple[ProbeReport, ...]:
        """What the inputs of the join have probed since the last call."""
        return self._first.take_probes()

    def snapshot(self) -> list[pa.Table]:
        """State of both, and how many tables are the first one's."""
        first = self._first.snapshot()
        head = pa.table({"first": [len(first)]})
        return [head, *first, *self._second.snapshot()]

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Set the state to that of a snapshot."""
        cut = 1 + int(tables[0]["first"][0].as_py())
        self._first.restore(tables[1:cut])
        self._second.restore(tables[cut:])

    @property
    def held_rows(self) -> int:
        """Rows in the state of both."""
        return self._first.held_rows + self._second.held_rows

    @property
    def held_bytes(self) -> int:
        """Bytes of both in memory, approximately."""
        return self._first.held_bytes + self._second.held_bytes
