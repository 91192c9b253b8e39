"""Semi and anti joins: rows with, or without, a partner in a set of keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.operators.base import END, START, WEIGHT, Operator, Tick
from anabranch.operators.elements import concat, elements, ints
from anabranch.operators.join import MultiJoin


class SemiJoin(Operator):
    """Elements of the first input while the second has (negated: has not) an element that agrees on the keys.

    The second input holds every key once, so joining with it repeats nothing. For an anti join the joined elements are
    taken back from all elements of the first input: what is left has no partner, at every instant.

    Parameters
    ----------
    columns
        Of the first input; they come out.
    keys
        Classes of columns that have to agree, as in `MultiJoin`.
    negated
        Anti join.
    """

    def __init__(self, columns: tuple[str, ...], keys: tuple[tuple[tuple[int, str], ...], ...], negated: bool) -> None:
        self._columns = columns
        self._negated = negated
        self._join = MultiJoin(2, keys)

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those that follow from them."""
        found = self._join.advance(self._known(inputs), tick).select([*self._columns, START, END, WEIGHT])
        if not self._negated:
            return found
        taken = elements(found, ints(found, START), ints(found, END), np.negative(ints(found, WEIGHT)))
        return concat([inputs[0].select([*self._columns, START, END, WEIGHT]), taken])

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Bring the state up to date."""
        self._join.absorb(self._known(inputs), tick)

    def _known(self, inputs: Sequence[pa.Table]) -> list[pa.Table]:
        """Without rows of the first input whose keys are NULL: they have no partner."""
        rows = inputs[0]
        for name in [dict(key)[0] for key in self._join.keys]:
            if rows[name].null_count:
                rows = rows.filter(rows[name].is_valid())
        return [rows, inputs[1]]

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
