"""All rows of a relation at every instant of its inputs: `Rstream`.

>>> table = pa.table({"n": [1, 2], "_key": [1, 2], "_start": [3, 5], "_end": [6, 9], "_weight": [1, 2]})
>>> Contents().advance([table], Tick(0, 10, 3, np.array([3, 5, 6]))).to_pydict()
{'n': [1, 1, 2, 2, 2, 2], '_time': [3, 5, 5, 5, 6, 6], '_weight': [1, 1, 1, 1, 1, 1]}

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 2.1.2: relation-to-stream
operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.cells.arrangement import Synopsis
from anabranch.cells.base import END, START, TIME, WEIGHT, Operator, Tick
from anabranch.cells.elements import KEY, Rows, bare, identities, net_weights, ranges, with_ints, without


class Contents(Operator):
    """Every row of the relation at each of `tick.instants`, as often as it is there, with `_time` and `_weight` 1."""

    def __init__(self) -> None:
        self._synopsis = Synopsis(())

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take elements, return the contents at the instants of the tick."""
        self._synopsis.append(inputs[0])
        if self._synopsis.negative and len(tick.instants):
            self._synopsis.settle(self._synopsis.live(tick.start))
        rows = self._synopsis.live(tick.start)
        low = np.searchsorted(tick.instants, self._synopsis.values(START)[rows])
        high = np.searchsorted(tick.instants, self._synopsis.values(END)[rows])
        owner, instant = ranges(low, np.maximum(high - low, 0))
        copies = self._copies(rows[owner], instant)
        owner, instant = np.repeat(owner, copies), np.repeat(instant, copies)
        order = np.argsort(instant, kind="stable")
        values = without(self._synopsis.take(rows[owner[order]]), (KEY,))
        self._synopsis.tidy(tick.until)
        return with_ints(values, {TIME: tick.instants[instant[order]], WEIGHT: np.ones(len(order))})

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Keep the elements."""
        self._synopsis.append(inputs[0])
        self._synopsis.tidy(tick.until)

    def snapshot(self) -> list[pa.Table]:
        """The elements."""
        return [self._synopsis.table()] if self._synopsis.seen else []

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over elements."""
        for table in tables:
            self._synopsis.append(table)

    @property
    def held_rows(self) -> int:
        """Elements."""
        return len(self._synopsis)

    @property
    def held_bytes(self) -> int:
        """Memory of the elements."""
        return self._synopsis.nbytes

    def _copies(self, rows: Rows, instant: Rows) -> Rows:
        """How often each row is there at its instant; equal rows are counted at one of them if some are negative."""
        weights = self._synopsis.values(WEIGHT)[rows]
        if (weights >= 0).all():
            return np.asarray(weights)
        used, place = np.unique(rows, return_inverse=True)
        values = self._synopsis.take(used)
        row = identities(values, values.column_names)[place]
        groups = identities(with_ints(bare(len(rows)), {"row": row, "instant": instant}), ("row", "instant"))
        return np.maximum(net_weights(groups, weights), 0)
