"""Counting what is there: the steps that changes make, and how often each row is there after a set operation.

The events of a tick, sorted by group and time, make *steps*: one for what was before, and one for every instant at
which a group changes. Whatever can be summed up is then a running sum over the events, read off at the steps.

>>> steps = Steps.of(slots=np.array([4, 7, 4]), times=np.array([20, 10, 10]))
>>> steps.slots.tolist(), steps.times[steps.times > EVER].tolist()
([4, 7], [10, 20, 10])
>>> steps.running(np.array([1, 1, 1])[steps.order], held=np.array([5, 0])).tolist()
[5, 6, 7, 0, 1]

A set operation is a rule that says how often a row is there, from how often it is in the inputs.

>>> table = pa.table({"n": [1, 1], "_start": [3, 5], "_end": [7, 9], "_weight": [1, 2], "_key": [8, 8]})
>>> Counting(1, "distinct").advance([table], Tick(0, 10, origin=3)).to_pydict()
{'n': [1], '_start': [3], '_end': [9], '_weight': [1]}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.cells.base import ELEMENT, EVER, FOREVER, TIME, WEIGHT, Micros, Operator, Tick
from anabranch.cells.elements import KEY, Flags, Rows, elements, ints, with_ints, without
from anabranch.cells.groups import GROUP, Timeline, ends_of, grown, starts_of
from anabranch.errors import QueryError, suggest

SIDE = "_side"

RULES: dict[str, Callable[[Rows, Rows], Rows]] = {
    "distinct": lambda one, _: np.minimum(one, 1),
    "except all": lambda one, other: np.maximum(one - other, 0),
    "intersect all": np.minimum,
    "except": lambda one, other: ((one > 0) & (other == 0)).astype(np.int64),
    "intersect": lambda one, other: ((one > 0) & (other > 0)).astype(np.int64),
}


@dataclass(frozen=True)
class Steps:
    """The events of a tick by group and time, and the steps that they make.

    Parameters
    ----------
    order
        Places of the events, by slot and time.
    slots
        Groups with events, ascending.
    owner
        Per step the place of its group in `slots`.
    times
        Per step its instant; `EVER` for the step of each group that stands for what was before.
    first
        Per group the place of its first event in `order`.
    last
        Per step the number of events in `order` up to its end.
    initial, final
        Per group its first and last step.
    """

    order: Rows
    slots: Rows
    owner: Rows
    times: Micros
    first: Rows
    last: Rows
    initial: Rows
    final: Rows

    @classmethod
    def of(cls, slots: Rows, times: Micros) -> Steps:
        """The steps of events."""
        order = ordering(slots, times)
        slots, times = slots[order], times[order]
        opens = starts_of(slots)
        instants = np.flatnonzero(opens | starts_of(times))
        first = np.flatnonzero(opens)
        group = np.cumsum(opens)[instants] - 1
        initial = np.flatnonzero(opens[instants]) + np.arange(len(first))
        owner = np.insert(group, initial - np.arange(len(first)), np.arange(len(first)))
        last = np.insert(ends_of(instants, len(order)), initial - np.arange(len(first)), first)
        when = np.insert(times[instants], initial - np.arange(len(first)), EVER)
        return cls(order, slots[first], owner, when, first, last, initial, ends_of(initial, len(owner)) - 1)

    def running(self, changes: Rows, held: Rows) -> Rows:
        """Per step the sum of what its group held before and of the changes so far, which are in `order`."""
        total = np.concatenate((np.zeros(1, np.int64), np.cumsum(changes)))
        return np.asarray(total[self.last] + (held - total[self.first])[self.owner])

    def elements(self, weight: Rows, changed: Flags) -> tuple[Rows, Micros, Micros, Rows]:
        """Elements that tell of the steps with a change: steps whose rows they show, starts, ends and weights."""
        kept = changed.copy()
        kept[self.initial] = True
        at = np.flatnonzero(kept)
        times, weight = self.times[at], weight[at]
        until = np.full(len(at), FOREVER)
        follows = np.flatnonzero(self.owner[at][1:] == self.owner[at][:-1])
        until[follows] = times[follows + 1]
        before = times == EVER
        start, end = np.where(before, until, times), np.where(before, FOREVER, until)
        told = np.flatnonzero((weight != 0) & (start < FOREVER))
        return at[told], start[told], end[told], np.where(before, -weight, weight)[told]


class Counting(Operator):
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
        self._timeline = Timeline()
        self._counts: Rows = np.zeros((2, 0), np.int64)

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those of the result."""
        steps, counts = self._step(inputs, tick)
        weight = RULES[self._rule](*counts)
        changed = np.concatenate((np.ones(min(1, len(weight)), np.bool_), weight[1:] != weight[:-1]))
        at, start, end, weight = steps.elements(weight, changed)
        assert self._schema is not None
        rows = self._timeline.groups.keys(steps.slots[steps.owner[at]]) if len(at) else self._schema.empty_table()
        self._release(steps)
        return elements(rows, start, end, weight)

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Bring the state up to date."""
        steps, _ = self._step(inputs, tick)
        self._release(steps)

    def _step(self, inputs: Sequence[pa.Table], tick: Tick) -> tuple[Steps, tuple[Rows, Rows]]:
        events = self._timeline.due([self._arrival(side, table) for side, table in enumerate(inputs)], tick)
        self._counts = grown(self._counts, self._timeline.groups.capacity)
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
        self._timeline.release(steps.slots[(self._counts[:, steps.slots] == 0).all(axis=0)])

    def snapshot(self) -> list[pa.Table]:
        """Rows with their counts, and the changes to come."""
        slots, groups, events = self._timeline.snapshot()
        if events is None or self._schema is None:
            return []
        one, other = self._counts[:, slots]
        return [self._schema.empty_table(), with_ints(groups, {"_one": one, "_other": other}), events]

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over a snapshot."""
        self._begin()
        if not tables:
            return
        empty, groups, events = tables
        self._schema = empty.schema
        slots = self._timeline.restore(without(groups, ("_one", "_other")), events)
        self._counts = np.zeros((2, self._timeline.groups.capacity), np.int64)
        self._counts[:, slots] = ints(groups, "_one"), ints(groups, "_other")

    @property
    def held_rows(self) -> int:
        """Distinct rows, and changes to come."""
        return len(self._timeline.groups) + self._timeline.waiting

    @property
    def held_bytes(self) -> int:
        """Memory of the state, about."""
        return self._timeline.nbytes + self._counts.nbytes


def ordering(*columns: Rows) -> Rows:
    """Places that sort rows by columns, the first one first; ties come in any order."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    lowest = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lowest, strict=True)]
    if np.prod(spans, dtype=object) < 2**63:
        mixed = np.zeros(len(columns[0]), np.int64)
        for column, low, span in zip(columns, lowest, spans, strict=True):
            mixed = mixed * span + (column - low)
        return np.asarray(np.argsort(mixed))
    widest = spans.index(max(spans))
    if max(spans) <= len(columns[0]):
        return np.asarray(np.lexsort(columns[::-1]))
    ranks = np.unique(columns[widest], return_inverse=True)[1]
    return ordering(*columns[:widest], ranks, *columns[widest + 1 :])
