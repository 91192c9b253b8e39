"""What changes in a relation, instant by instant: `Istream`, `Dstream`, and both.

An element is two changes: it comes at its start and goes at its end. Changes that lie ahead wait, sorted by time, so
that a tick costs what is due in it. Those of one instant and one row are summed up: what comes and goes at once is no
change.

>>> table = pa.table({"n": [1, 1, 2], "_key": [1, 1, 2], "_start": [3, 5, 4], "_end": [5, 9, 8], "_weight": [1, 1, 2]})
>>> Changelog("istream").advance([table], Tick(0, 10, origin=3)).to_pydict()
{'n': [1, 2, 2], '_time': [3, 4, 4], '_weight': [1, 1, 1]}
>>> Changelog("dstream").advance([table], Tick(0, 10, origin=3)).to_pydict()
{'n': [2, 2, 1], '_time': [8, 8, 9], '_weight': [1, 1, 1]}

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 2.1.2: relation-to-stream
operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from anabranch.operators.base import ELEMENT, END, FOREVER, START, TIME, WEIGHT, Micros, Operator, Tick
from anabranch.operators.elements import KEY, Rows, concat, identities, ints, net_weights, take, with_ints, without
from anabranch.operators.pending_events import PendingEvents


class Changelog(Operator):
    """The net changes of every instant, a row for each copy, with `_time`, and `_weight` 1, or -1 for what goes.

    Parameters
    ----------
    kind
        istream
            What comes.
        dstream
            What goes, with `_weight` 1.
        relation
            Both.
    """

    def __init__(self, kind: Literal["istream", "dstream", "relation"]) -> None:
        self.kind = kind
        self._pending = PendingEvents()

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take elements, return the changes in the tick."""
        due = self._due(inputs[0], tick)
        time, weight = ints(due, TIME), ints(due, WEIGHT)
        net = net_weights(identities_at(due), weight)
        copies = {"istream": net, "dstream": -net, "relation": np.abs(net)}[self.kind]
        rows = np.repeat(np.arange(len(due)), np.maximum(copies, 0))
        rows = rows[np.argsort(time[rows], kind="stable")]
        sign = np.sign(net[rows]) if self.kind == "relation" else np.ones(len(rows))
        return with_ints(take(without(due, (KEY, TIME, WEIGHT)), rows), {TIME: time[rows], WEIGHT: sign})

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Keep the changes that lie ahead."""
        self._due(inputs[0], tick)

    def snapshot(self) -> list[pa.Table]:
        """The changes that lie ahead."""
        return [table] if len(self._pending) and (table := self._pending.table()) is not None else []

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over the changes that lie ahead."""
        for table in tables:
            self._pending.push(table)

    @property
    def held_rows(self) -> int:
        """Changes that lie ahead."""
        return len(self._pending)

    @property
    def held_bytes(self) -> int:
        """Bytes of the changes that lie ahead."""
        return self._pending.nbytes

    def _due(self, table: pa.Table, tick: Tick) -> pa.Table:
        """The changes in the tick, new and old; those that lie ahead are kept."""
        table, rows, time, weight = _split(table)
        now = tick.origin is not None and tick.origin < tick.until
        ahead = time >= tick.until if now else np.ones(len(time), np.bool_)
        old = self._pending.pop(tick.until) if now else []
        self._pending.push(_changes(table, rows[ahead], time[ahead], weight[ahead]))
        due = concat([_changes(table, rows[~ahead], time[~ahead], weight[~ahead]), *old])
        # What has always been there came with the first instant.
        times = ints(due, TIME) if tick.origin is None else np.maximum(ints(due, TIME), tick.origin)
        return with_ints(due, {TIME: times})


def identities_at(table: pa.Table) -> Rows:
    """A number per row, the same for equal rows of the same time only; most are told apart by time and code alone."""
    numbers = identities(table, (TIME, KEY))
    alike = np.flatnonzero(np.bincount(numbers)[numbers] > 1)
    values = [name for name in table.column_names if name != WEIGHT]
    exact = identities(take(table, alike), values)
    numbers[alike] = exact + int(numbers.max(initial=-1)) + 1
    return numbers


def _split(table: pa.Table) -> tuple[pa.Table, Rows, Micros, Micros]:
    """Elements as changes: the values, and per change the row, the time and the weight."""
    start, end, weight = (ints(table, name) for name in (START, END, WEIGHT))
    comes = np.flatnonzero((start < end) & (weight != 0))
    goes = comes[end[comes] < FOREVER]
    time, weights = np.concatenate((start[comes], end[goes])), np.concatenate((weight[comes], -weight[goes]))
    return without(table, ELEMENT), np.concatenate((comes, goes)), time, weights


def _changes(table: pa.Table, rows: Rows, time: Micros, weight: Micros) -> pa.Table:
    return with_ints(take(table, rows), {TIME: time, WEIGHT: weight})
