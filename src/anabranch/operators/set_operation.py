"""Set operations: a rule says how often a row is in the result, from how often it is in the inputs.

>>> table = pa.table({"n": [1, 1], "_start": [3, 5], "_end": [7, 9], "_weight": [1, 2], "_key": [8, 8]})
>>> SetOperator(1, "distinct").advance([table], Tick(0, 10, origin=3)).to_pydict()
{'n': [1], '_start': [3], '_end': [9], '_weight': [1]}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError, suggest
from anabranch.operators.base import ELEMENT, TIME, WEIGHT, Operator, Tick
from anabranch.operators.elements import KEY, Rows, elements, ints, with_ints, without
from anabranch.operators.groups import GROUP, GroupEvents, grown
from anabranch.operators.steps import Steps

SIDE = "_side"

RULES: dict[str, Callable[[Rows, Rows], Rows]] = {
    "distinct": lambda one, _: np.minimum(one, 1),
    "except all": lambda one, other: np.maximum(one - other, 0),
    "intersect all": np.minimum,
    "except": lambda one, other: ((one > 0) & (other == 0)).astype(np.int64),
    "intersect": lambda one, other: ((one > 0) & (other > 0)).astype(np.int64),
}


class SetOperator(Operator):
    """Rows as often as a rule says, from how often they are in one or two inputs.

    The inputs have the same columns, by place, and the codes of their rows; the result is named after the first.

    Parameters
    ----------
    inputs
        One or two.
    rule
        One of `RULES`.
    """

    def __init__(self, inputs: int, rule: str) -> None:
        if rule not in RULES:
            raise QueryError(f"{rule!r} is not a set operation", hint=suggest(rule, list(RULES), "set operations"))
        self._inputs = inputs
        self._rule = rule
        self._schema: pa.Schema | None = None
        self._begin()

    def _begin(self) -> None:
        self._group_events = GroupEvents()
        self._counts: Rows = np.zeros((2, 0), np.int64)

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those of the result."""
        steps, counts = self._step(inputs, tick)
        weight = RULES[self._rule](*counts)
        changed = np.concatenate((np.ones(min(1, len(weight)), np.bool_), weight[1:] != weight[:-1]))
        at, start, end, weight = steps.elements(weight, changed)
        assert self._schema is not None
        rows = self._group_events.groups.keys(steps.slots[steps.owner[at]]) if len(at) else self._schema.empty_table()
        self._release(steps)
        return elements(rows, start, end, weight)

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Bring the state up to date."""
        steps, _ = self._step(inputs, tick)
        self._release(steps)

    def _step(self, inputs: Sequence[pa.Table], tick: Tick) -> tuple[Steps, tuple[Rows, Rows]]:
        events = self._group_events.due([self._arrival(side, table) for side, table in enumerate(inputs)], tick)
        self._counts = grown(self._counts, self._group_events.groups.capacity)
        steps = Steps.of(ints(events, GROUP), ints(events, TIME))
        weight, side = ints(events, WEIGHT)[steps.order], ints(events, SIDE)[steps.order]
        held = self._counts[:, steps.slots]
        one = steps.running(np.where(side == 0, weight, 0), held[0])
        other = steps.running(np.where(side == 1, weight, 0), held[1]) if self._inputs == 2 else np.zeros_like(one)
        self._counts[:, steps.slots] = one[steps.final], other[steps.final]
        return steps, (one, other)

    def _arrival(self, side: int, table: pa.Table) -> tuple[pa.Table, pa.Table]:
        keys = without(table, (*ELEMENT, KEY))
        if self._schema is None:
            self._schema = pa.schema([pa.field(field.name, field.type) for field in keys.schema])
        keys = keys.rename_columns(self._schema.names).cast(self._schema)
        return with_ints(table.select([*ELEMENT, KEY]), {SIDE: np.full(len(table), side)}), keys

    def _release(self, steps: Steps) -> None:
        self._group_events.release(steps.slots[(self._counts[:, steps.slots] == 0).all(axis=0)])

    def snapshot(self) -> list[pa.Table]:
        """Rows with their counts, and the changes to come."""
        slots, groups, events = self._group_events.snapshot()
        if events is None or self._schema is None:
            return []
        one, other = self._counts[:, slots]
        return [self._schema.empty_table(), with_ints(groups, {"_one": one, "_other": other}), events]

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Set the state to that of a snapshot."""
        self._begin()
        if not tables:
            return
        empty, groups, events = tables
        self._schema = empty.schema
        slots = self._group_events.restore(without(groups, ("_one", "_other")), events)
        self._counts = np.zeros((2, self._group_events.groups.capacity), np.int64)
        self._counts[:, slots] = ints(groups, "_one"), ints(groups, "_other")

    @property
    def held_rows(self) -> int:
        """Distinct rows, and changes to come."""
        return len(self._group_events.groups) + self._group_events.waiting

    @property
    def held_bytes(self) -> int:
        """Bytes of the state in memory, approximately."""
        return self._group_events.nbytes + self._counts.nbytes
