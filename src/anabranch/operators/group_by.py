"""Grouping: a row per group, with its aggregates after every change.

The aggregate functions are a table (`aggregate_functions.py`). Counts, sums, averages and variances read running totals
(`totals.py`); minima, maxima and quantiles, and what looks at distinct values only, read the sorted values
(`order_statistics.py`). Both are exact: a result does not depend on the order of the rows, nor on what came and went
before.

>>> schema = pa.schema([("city", pa.string()), ("n", pa.int64()), ("mean", pa.float64())])
>>> grouping = GroupBy(("city",), (Aggregation("n", "count"), Aggregation("mean", "avg", "heat")), schema)
>>> table = pa.table({"city": ["Oslo", "Oslo"], "heat": [4.0, 5.0], "_key": [1, 1]})
>>> out = grouping.advance([elements(table, [10, 20], [30, 30], [1, 1])], Tick(0, 30, origin=10))
>>> out.select(["n", "mean", "_start", "_end"]).to_pylist()
[{'n': 1, 'mean': 4.0, '_start': 10, '_end': 20}, {'n': 2, 'mean': 4.5, '_start': 20, '_end': 9223372036854775807}]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.errors import DataError, QueryError
from anabranch.logical_plan import Aggregation
from anabranch.operators.aggregate_functions import FUNCTIONS, Needs
from anabranch.operators.base import ELEMENT, END, EVER, FOREVER, START, TIME, WEIGHT, Operator, Tick
from anabranch.operators.elements import KEY, Rows, concat, elements, ints, with_ints, without
from anabranch.operators.exact_sums import HEAVIEST
from anabranch.operators.groups import GROUP, GroupEvents, grown
from anabranch.operators.order_statistics import Bag
from anabranch.operators.steps import Steps
from anabranch.operators.totals import Result, Totals, numbers

ROWS, STARTED = "_rows", b"anabranch.started"

ResultOf: TypeAlias = Callable[[Aggregation, pa.DataType], Result]
"""The values of an aggregate at all steps, as a type."""


class Argument:
    """All that is held of one argument, for the aggregates over it."""

    def __init__(self, kind: pa.DataType, aggregations: Sequence[Aggregation]) -> None:
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        self._floating = pa.types.is_floating(kind)
        needs = [(each, FUNCTIONS[each.function].needs) for each in aggregations]
        ordered = any(need is Needs.VALUES for _, need in needs)
        self.bag = Bag(kind) if ordered or any(each.distinct for each in aggregations) else None
        wanted = {(False, False): {Needs.COUNTS}} if ordered else {}
        for each, need in needs:
            if need is not Needs.VALUES:
                wanted.setdefault(self._totals_of(each), set()).add(need)
        self.totals = {
            key: Totals(kind, sums=max(found) >= Needs.SUMS, squares=Needs.SQUARES in found)
            for key, found in wanted.items()
        }

    def _totals_of(self, aggregation: Aggregation) -> tuple[bool, bool]:
        """Which totals an aggregate reads: whether those of distinct values, and whether of values as doubles."""
        needs = FUNCTIONS[aggregation.function].needs
        return aggregation.distinct and needs is not Needs.VALUES, needs is Needs.SQUARES and not self._floating

    def add(self, values: pa.Array, weights: Rows, steps: Steps, capacity: int) -> ResultOf:
        """Add what the events bring, in the order of the steps; returns what gives the results of aggregates."""
        change = self.bag.add(values, weights, steps) if self.bag is not None else None
        runs = {}
        for key, totals in self.totals.items():
            used = change.presence() if key[0] and change is not None else weights
            runs[key] = replace(totals.add(values, used, steps, capacity), values=change)

        def result_of(aggregation: Aggregation, kind: pa.DataType) -> Result:
            return FUNCTIONS[aggregation.function].compute(runs[self._totals_of(aggregation)], aggregation, kind)

        return result_of


class GroupBy(Operator):
    """One row per group that is not empty; without keys one row, from the first instant of the query on.

    Parameters
    ----------
    keys
        Columns whose values make a group.
    aggregations
        The aggregates of a group.
    schema
        Names and types of the result: keys, then aggregates.
    """

    def __init__(self, keys: tuple[str, ...], aggregations: tuple[Aggregation, ...], schema: pa.Schema) -> None:
        for each in aggregations:
            function = FUNCTIONS.get(each.function)
            if function is None or (each.distinct and not function.distinct):
                of = " of distinct values" if function else ""
                what = f"{each.function!r}{of} is not an aggregate"
                raise QueryError(what, hint=f"the aggregates are {', '.join(FUNCTIONS)}")
        self._keys = keys
        self._aggregations = aggregations
        self._schema = schema
        self._begin()

    def _begin(self) -> None:
        self._group_events = GroupEvents()
        self._rows: Rows = np.zeros(0, np.int64)
        self._arguments: dict[str, Argument] = {}
        self._started = bool(self._keys)

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those of the result."""
        started = self._started
        steps, rows, results_of = self._step(inputs[0], tick)
        present = rows > 0 if self._keys else (steps.times > EVER) | started
        kinds = self._schema.types[len(self._keys) :]
        results = [
            numbers(rows, ~present) if each.argument is None else results_of[each.argument](each, kind)
            for each, kind in zip(self._aggregations, kinds, strict=True)
        ]
        changed = np.zeros(len(rows), np.bool_)
        for mark in (present, *(mark for result in results for mark in result.marks)):
            changed[1:] |= mark[1:] != mark[:-1]
        at, start, end, weight = steps.elements(present.astype(np.int64), changed)
        table = self._table(steps.slots[steps.owner[at]], [result.at(at) for result in results])
        self._release(steps)
        return elements(table, start, end, weight)

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Bring the state up to date."""
        steps, _, _ = self._step(inputs[0], tick)
        self._release(steps)

    def _step(self, table: pa.Table, tick: Tick) -> tuple[Steps, Rows, dict[str, ResultOf]]:
        if not self._arguments:
            self._learn(table.schema)
        events = self._group_events.due([self._arrival(table, tick)], tick)
        capacity = self._group_events.groups.capacity
        self._rows = grown(self._rows, capacity)
        steps = Steps.of(ints(events, GROUP), ints(events, TIME))
        weights = ints(events, WEIGHT)[steps.order]
        if int(np.abs(weights).sum()) >= HEAVIEST:
            raise DataError("rows are repeated too often to be summed up", hint="take smaller steps in time")
        rows = steps.running(weights, self._rows[steps.slots])
        self._rows[steps.slots] = rows[steps.final]
        order = pa.array(steps.order)
        results_of = {
            name: argument.add(plain_array(events[name]).take(order), weights, steps, capacity)
            for name, argument in self._arguments.items()
        }
        return steps, rows, results_of

    def _arrival(self, table: pa.Table, tick: Tick) -> tuple[pa.Table, pa.Table]:
        carried = table.select([*self._arguments, *ELEMENT, KEY])
        if self._keys:
            return carried, pa.table({name: table[name] for name in self._keys})
        if not self._started and tick.origin is not None and tick.origin < tick.until:
            self._started = True
            nothing = pa.table({name: pa.nulls(1, carried.schema.field(name).type) for name in self._arguments})
            row = {START: [EVER], END: [FOREVER], WEIGHT: [0], KEY: [0]}
            carried = concat([with_ints(carried, {}), with_ints(nothing, row)])
        zeros = np.zeros(len(carried), np.int64)
        return with_ints(carried, {KEY: zeros}), pa.table({"_one": zeros})

    def _learn(self, schema: pa.Schema) -> None:
        over: dict[str, list[Aggregation]] = {}
        for each in self._aggregations:
            if each.argument is not None:
                over.setdefault(each.argument, []).append(each)
        self._arguments = {name: Argument(schema.field(name).type, uses) for name, uses in over.items()}

    def _table(self, slots: Rows, columns: list[pa.Array]) -> pa.Table:
        keys: list[pa.ChunkedArray] = []
        if self._keys:
            known = self._group_events.groups.keys(slots) if len(slots) else None
            fields = [self._schema.field(place) for place in range(len(self._keys))]
            keys = [pa.array([], field.type) if known is None else known[field.name] for field in fields]
        try:
            arrays = [each.cast(kind) for each, kind in zip([*keys, *columns], self._schema.types, strict=True)]
        except pa.ArrowInvalid as error:
            hint = "cast the argument to a wider type"
            raise DataError(f"a result does not fit its type: {error}", hint=hint) from error
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _release(self, steps: Steps) -> None:
        if self._keys:
            self._group_events.release(steps.slots[self._rows[steps.slots] == 0])

    def snapshot(self) -> list[pa.Table]:
        """Groups, changes to come, and what is held of each argument."""
        slots, groups, events = self._group_events.snapshot()
        if events is None:
            return []
        groups = with_ints(groups, {ROWS: self._rows[slots]})
        tables = [groups.replace_schema_metadata({STARTED: str(int(self._started))}), events]
        for argument in self._arguments.values():
            tables += [argument.bag.snapshot()] if argument.bag is not None else []
            tables += [totals.snapshot(slots) for totals in argument.totals.values()]
        return tables

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Set the state to that of a snapshot."""
        self._begin()
        if not tables:
            return
        left = iter(tables)
        groups, events = next(left), next(left)
        self._started = groups.schema.metadata[STARTED] == b"1"
        slots = self._group_events.restore(without(groups, (ROWS,)).replace_schema_metadata(None), events)
        capacity = self._group_events.groups.capacity
        self._rows = np.zeros(capacity, np.int64)
        self._rows[slots] = ints(groups, ROWS)
        self._learn(events.schema)
        for argument in self._arguments.values():
            if argument.bag is not None:
                argument.bag.restore(next(left))
            for totals in argument.totals.values():
                totals.restore(next(left), slots, capacity)

    @property
    def held_rows(self) -> int:
        """Groups, changes to come, and values in bags."""
        bags = sum(len(each.bag) for each in self._arguments.values() if each.bag is not None)
        return len(self._group_events.groups) + self._group_events.waiting + bags

    @property
    def held_bytes(self) -> int:
        """Bytes of the state in memory, approximately."""
        held = self._group_events.nbytes + self._rows.nbytes
        for each in self._arguments.values():
            held += each.bag.nbytes if each.bag is not None else 0
            held += sum(totals.nbytes for totals in each.totals.values())
        return held


def plain_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, without a dictionary."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
