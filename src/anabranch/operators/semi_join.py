"""Semi and anti joins: rows with partners in sets of keys, or without one.

Tests for partners in several sets are one join, whose probes are put in order like those of any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.joins.probe_report import ProbeReport
from anabranch.operators.base import END, START, WEIGHT, Operator, Port, Tick
from anabranch.operators.elements import concat, elements, ints
from anabranch.operators.join import KeyClass, MultiJoin
from anabranch.operators.join_ranges import JoinRanges, shortened
from anabranch.ordering.base import Seed


class SemiJoin(Operator):
    """Elements of the first input while each other one has (negated: has not) an element that agrees on the keys.

    The other inputs hold every key once, so joining with them repeats nothing. For an anti join the joined elements are
    taken back from all elements of the first input: what is left has no partner, at every instant.

    Parameters
    ----------
    columns
        Of the first input; they come out.
    inputs
        Number of inputs; for an anti join two.
    keys
        Classes of columns that have to agree, as in `MultiJoin`; each has one of the first input.
    negated
        Anti join.
    policy
        As for `MultiJoin`.
    ranges
        The first input is a window over time, which is wanted in some lengths.
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        inputs: int,
        keys: tuple[KeyClass, ...],
        negated: bool,
        policy: str = "auto",
        ranges: JoinRanges | None = None,
    ) -> None:
        self._columns = columns
        self._negated = negated
        self._join = MultiJoin(inputs, keys, policy=policy, columns=columns, ranges=ranges)

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those that follow from them."""
        return self._left(inputs[0], self._join.advance(self._known(inputs), tick))

    def ports(self, inputs: Sequence[pa.Table], tick: Tick) -> Mapping[Port | None, pa.Table]:
        """The same, over windows of each wanted length."""
        found = self._join.ports(self._known(inputs), tick)
        rows = {port: shortened(inputs[0], *port) if port else inputs[0] for port in found}
        return {port: self._left(rows[port], each) for port, each in found.items()}

    def _left(self, rows: pa.Table, joined: pa.Table) -> pa.Table:
        found = joined.select([*self._columns, START, END, WEIGHT])
        if not self._negated:
            return found
        taken = elements(found, ints(found, START), ints(found, END), np.negative(ints(found, WEIGHT)))
        return concat([rows.select([*self._columns, START, END, WEIGHT]), taken])

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Bring the state up to date."""
        self._join.absorb(self._known(inputs), tick)

    def _known(self, inputs: Sequence[pa.Table]) -> list[pa.Table]:
        """Without rows of the first input whose keys are NULL: they have no partner."""
        rows = inputs[0]
        for name in [dict(key)[0] for key in self._join.keys]:
            if rows[name].null_count:
                rows = rows.filter(rows[name].is_valid())
        return [rows, *inputs[1:]]

    def learn(self, seeds: Mapping[int, Seed]) -> None:
        """Begin with what the join has learned elsewhere."""
        self._join.learn(seeds)

    def limit_caches(self, cache_bytes: int) -> None:
        """How much caches of the join may take from now on."""
        self._join.limit_caches(cache_bytes)

    def take_probes(self) -> tuple[ProbeReport, ...]:
        """What the inputs of the join have probed since the last call."""
        return self._join.take_probes()

    def snapshot(self) -> list[pa.Table]:
        """All state, as tables."""
        return self._join.snapshot()

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Set the state to that of a snapshot."""
        self._join.restore(tables)

    @property
    def held_rows(self) -> int:
        """Rows in the state."""
        return self._join.held_rows

    @property
    def held_bytes(self) -> int:
        """Bytes of the state in memory, approximately."""
        return self._join.held_bytes


def semi_join_of_ranges(
    columns: tuple[str, ...],
    inputs: int,
    keys: tuple[KeyClass, ...],
    negated: bool,
    policy: str,
    wanted: tuple[Port, ...],
) -> SemiJoin:
    """A semi or anti join whose first input is a window over time, for the lengths that are wanted."""
    return SemiJoin(columns, inputs, keys, negated, policy, JoinRanges((0,), wanted))
