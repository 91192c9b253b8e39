"""Grouping: a row per group, and what it says after every change.

Counts, sums, averages and variances are running sums over the changes of a group; they are exact, so that a result does
not depend on the order of the rows, nor on what came and went before. Minima, maxima and quantiles, and what looks at
distinct values only, come from the bags of values.

>>> schema = pa.schema([("city", pa.string()), ("n", pa.int64()), ("mean", pa.float64())])
>>> grouping = GroupBy(("city",), (Aggregation("n", "count"), Aggregation("mean", "avg", "heat")), schema)
>>> table = pa.table({"city": ["Oslo", "Oslo"], "heat": [4.0, 5.0], "_key": [1, 1]})
>>> out = grouping.advance([elements(table, [10, 20], [30, 30], [1, 1])], Tick(0, 30, origin=10))
>>> out.select(["n", "mean", "_start", "_end"]).to_pylist()
[{'n': 1, 'mean': 4.0, '_start': 10, '_end': 20}, {'n': 2, 'mean': 4.5, '_start': 20, '_end': 9223372036854775807}]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.cells.base import ELEMENT, END, EVER, FOREVER, START, TIME, WEIGHT, Operator, Tick
from anabranch.cells.counting import Steps
from anabranch.cells.elements import KEY, Flags, Rows, concat, elements, ints, with_ints, without
from anabranch.cells.exact_sums import (
    DOUBLE_UNIT,
    HEAVIEST,
    SQUARE_UNIT,
    Exact,
    ExactSums,
    bundle_parts,
    decimal_parts,
    double_parts,
    from_halves,
    halves,
    is_bundle,
    long_parts,
    square_parts,
    squared_deviations,
)
from anabranch.cells.groups import GROUP, Timeline, grown
from anabranch.cells.order_statistics import Bag, Change
from anabranch.errors import DataError, QueryError
from anabranch.model.arrays import Floats
from anabranch.model.continuous import Aggregation

ORDERED = ("min", "max", "quantile")
SPREADS = {"var_pop": 0, "stddev_pop": 0, "var_samp": 1, "stddev_samp": 1}  # how many values are too few
LINEAR = ("count", "sum", "avg", *SPREADS)
ROWS, STARTED = "_rows", b"anabranch.started"


@dataclass(frozen=True)
class Result:
    """The values of an aggregate at all steps: numbers that are equal where the values are, and the values at some."""

    marks: tuple[Rows | Flags, ...]
    at: Callable[[Rows], pa.Array]


@dataclass(frozen=True)
class Running:
    """Totals after every step."""

    kind: pa.DataType
    counts: Rows
    sums: Exact | None = None
    squares: Exact | None = None
    odd: Rows | None = None  # how many NaN, infinities, and negative infinities

    def doubles(self) -> Floats:
        """The sums."""
        assert self.sums is not None
        if self.odd is None:
            return self.sums.doubles()
        nan, above, below = self.odd > 0
        infinite = np.where(above, np.inf, -np.inf)
        return np.where(nan | (above & below), np.nan, np.where(above | below, infinite, self.sums.doubles()))

    def sum(self, name: str) -> Result:
        """The sums, as longs, decimals or doubles."""
        assert self.sums is not None
        if pa.types.is_decimal(self.kind):
            return self._decimals(self.sums, name, self.kind.scale)
        if pa.types.is_integer(self.kind):
            return _numbers(self.sums.longs(name), self.counts == 0)
        return _numbers(self.doubles(), self.counts == 0)

    def average(self, name: str, kind: pa.DataType) -> Result:
        """The means; those of decimals are rounded half up."""
        assert self.sums is not None
        if pa.types.is_decimal(kind) and pa.types.is_decimal(self.kind) and kind.scale >= self.kind.scale:
            exact = self.sums.divided(np.maximum(self.counts, 1), kind.scale - self.kind.scale)
            return self._decimals(exact, name, kind.scale)
        scale = 10.0**self.kind.scale if pa.types.is_decimal(self.kind) else 1.0
        return _numbers(self.doubles() / np.maximum(self.counts, 1) / scale, self.counts == 0)

    def spread(self, function: str) -> Result:
        """Variances and standard deviations."""
        assert self.sums is not None
        assert self.squares is not None
        few = SPREADS[function]
        values = squared_deviations(self.sums, self.squares, self.counts) / np.maximum(self.counts - few, 1)
        if self.odd is not None:
            values[self.odd.any(axis=0)] = np.nan
        return _numbers(np.sqrt(values) if function.startswith("stddev") else values, self.counts <= few)

    def _decimals(self, exact: Exact, name: str, scale: int) -> Result:
        missing = self.counts == 0
        low, high = exact.halves(name)
        return Result((low, high, missing), lambda at: from_halves(low[at], high[at], scale, missing[at]))


Teller: TypeAlias = Callable[[Aggregation, pa.DataType], Result]


class Totals:
    """Per group how many values there are, their sum, and that of their squares; for values of one column."""

    def __init__(self, kind: pa.DataType, sums: bool, squares: bool) -> None:
        self._bundled = is_bundle(kind)
        kind = pa.int64() if self._bundled else kind
        exact = pa.types.is_decimal(kind) or pa.types.is_integer(kind)
        self._kind = kind if exact and not squares else pa.float64()
        self._counts: Rows = np.zeros(0, np.int64)
        self._odd: Rows = np.zeros((3 if sums and pa.types.is_floating(self._kind) else 0, 0), np.int64)
        fixed = 5 if pa.types.is_decimal(self._kind) else 0
        self._sums = {"sums": ExactSums(fixed)} if sums else {}
        if squares:
            self._sums["squares"] = ExactSums()

    @property
    def nbytes(self) -> int:
        """Memory, about."""
        return self._counts.nbytes + self._odd.nbytes + sum(each.limbs.nbytes for each in self._sums.values())

    def add(self, values: pa.Array, weights: Rows, steps: Steps, capacity: int) -> Running:
        """Add what the events bring, in the order of the steps."""
        self._grow(capacity)
        if self._bundled:
            return self._bundles(values, weights, steps)
        if values.null_count:
            weights = np.where(values.is_valid().to_numpy(zero_copy_only=False), weights, 0)
        counts = steps.running(weights, self._counts[steps.slots])
        self._counts[steps.slots] = counts[steps.final]
        if not self._sums:
            return Running(self._kind, counts)
        if pa.types.is_decimal(self._kind):
            sums = self._sums["sums"].add(decimal_parts(*halves(values), weights), steps)
            return Running(self._kind, counts, sums)
        plain = values.cast(self._kind, safe=False).fill_null(0).to_numpy(zero_copy_only=False)
        if pa.types.is_integer(self._kind):
            sums = self._sums["sums"].add(long_parts(plain.astype(np.int64), weights), steps)
            return Running(self._kind, counts, sums)
        return self._doubles(plain, weights, steps, counts)

    def _bundles(self, values: pa.StructArray, weights: Rows, steps: Steps) -> Running:
        counts, parts = bundle_parts(values, np.sign(weights))
        counts = steps.running(counts, self._counts[steps.slots])
        self._counts[steps.slots] = counts[steps.final]
        return Running(self._kind, counts, self._sums["sums"].add(parts, steps) if self._sums else None)

    def _doubles(self, values: Floats, weights: Rows, steps: Steps, counts: Rows) -> Running:
        finite, odd = np.isfinite(values), None
        if not finite.all() or self._odd.any():
            kinds = (np.isnan(values), values == np.inf, values == -np.inf)
            held = self._odd[:, steps.slots]
            odd = np.stack([steps.running(weights * kind, held[place]) for place, kind in enumerate(kinds)])
            self._odd[:, steps.slots] = odd[:, steps.final]
            values = np.where(finite, values, 0.0)
        sums, squares = self._sums["sums"].add(double_parts(values, weights), steps, DOUBLE_UNIT), None
        if "squares" in self._sums:
            squares = self._sums["squares"].add(square_parts(values, weights), steps, SQUARE_UNIT)
        return Running(self._kind, counts, sums, squares, odd)

    def _grow(self, capacity: int) -> None:
        self._counts, self._odd = grown(self._counts, capacity), grown(self._odd, capacity)
        for each in self._sums.values():
            each.grow(capacity)

    def snapshot(self, slots: Rows) -> pa.Table:
        """Totals of the groups with these slots."""
        columns = {"count": self._counts[slots]} | {f"odd.{i}": row[slots] for i, row in enumerate(self._odd)}
        for name, each in self._sums.items():
            columns |= {f"{name}.{each.low + i}": limb[slots] for i, limb in enumerate(each.limbs)}
        return pa.table(columns)

    def restore(self, table: pa.Table, slots: Rows, capacity: int) -> None:
        """Take over a snapshot."""
        self._grow(capacity)
        self._counts[slots] = ints(table, "count")
        for place, row in enumerate(self._odd):
            row[slots] = ints(table, f"odd.{place}")
        for name, each in self._sums.items():
            places = [int(column.split(".")[1]) for column in table.column_names if column.startswith(f"{name}.")]
            each.low = min(places, default=0)
            each.limbs = np.zeros((len(places), len(self._counts)), np.int64)
            for place in places:
                each.limbs[place - each.low, slots] = ints(table, f"{name}.{place}")


class Argument:
    """All that is held of one argument, for the aggregates over it."""

    def __init__(self, kind: pa.DataType, aggregations: Sequence[Aggregation]) -> None:
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        self._floating = pa.types.is_floating(kind)
        ordered = [each for each in aggregations if each.function in ORDERED]
        linear = [each for each in aggregations if each.function not in ORDERED]
        self.bag = Bag(kind) if ordered or any(each.distinct for each in linear) else None
        wanted: dict[tuple[bool, bool], set[str]] = {(False, False): set()} if ordered else {}
        for each in linear:
            wanted.setdefault(self._totals_of(each), set()).add(each.function)
        self.totals = {
            key: Totals(kind, functions != {"count"} and bool(functions), not functions.isdisjoint(SPREADS))
            for key, functions in wanted.items()
        }

    def _totals_of(self, aggregation: Aggregation) -> tuple[bool, bool]:
        return aggregation.distinct, aggregation.function in SPREADS and not self._floating

    def add(self, values: pa.Array, weights: Rows, steps: Steps, capacity: int) -> Teller:
        """Add what the events bring, in the order of the steps; what is returned tells aggregates after every step."""
        change = self.bag.add(values, weights, steps) if self.bag is not None else None
        runs = {}
        for key, totals in self.totals.items():
            used = change.presence() if key[0] and change is not None else weights
            runs[key] = totals.add(values, used, steps, capacity)

        def tell(aggregation: Aggregation, kind: pa.DataType) -> Result:
            if aggregation.function in ORDERED and change is not None:
                return _ordered(aggregation, change, runs[False, False].counts)
            return _linear(aggregation, runs[self._totals_of(aggregation)], kind)

        return tell


class GroupBy(Operator):
    """One row per group that is not empty; without keys one row, from the first instant of the query on.

    Parameters
    ----------
    keys
        Columns whose values make a group.
    aggregations
        What is said about it.
    schema
        Names and types of the result: keys, then aggregates.
    """

    def __init__(self, keys: tuple[str, ...], aggregations: tuple[Aggregation, ...], schema: pa.Schema) -> None:
        for each in aggregations:
            if each.function not in (*ORDERED, *LINEAR) or (each.distinct and each.function == "quantile"):
                raise QueryError(f"{each.function!r} is not an aggregate here", hint=f"use one of: {', '.join(LINEAR)}")
        self._keys = keys
        self._aggregations = aggregations
        self._schema = schema
        self._begin()

    def _begin(self) -> None:
        self._timeline = Timeline()
        self._rows: Rows = np.zeros(0, np.int64)
        self._arguments: dict[str, Argument] = {}
        self._started = bool(self._keys)

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take the elements that came, return those of the result."""
        started = self._started
        steps, rows, tellers = self._step(inputs[0], tick)
        present = rows > 0 if self._keys else (steps.times > EVER) | started
        kinds = self._schema.types[len(self._keys) :]
        results = [
            _numbers(rows, ~present) if each.argument is None else tellers[each.argument](each, kind)
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

    def _step(self, table: pa.Table, tick: Tick) -> tuple[Steps, Rows, dict[str, Teller]]:
        if not self._arguments:
            self._learn(table.schema)
        events = self._timeline.due([self._arrival(table, tick)], tick)
        capacity = self._timeline.groups.capacity
        self._rows = grown(self._rows, capacity)
        steps = Steps.of(ints(events, GROUP), ints(events, TIME))
        weights = ints(events, WEIGHT)[steps.order]
        if int(np.abs(weights).sum()) >= HEAVIEST:
            raise DataError("rows are repeated too often to be summed up", hint="take smaller steps in time")
        rows = steps.running(weights, self._rows[steps.slots])
        self._rows[steps.slots] = rows[steps.final]
        order = pa.array(steps.order)
        tellers = {
            name: argument.add(plain_array(events[name]).take(order), weights, steps, capacity)
            for name, argument in self._arguments.items()
        }
        return steps, rows, tellers

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
            known = self._timeline.groups.keys(slots) if len(slots) else None
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
            self._timeline.release(steps.slots[self._rows[steps.slots] == 0])

    def snapshot(self) -> list[pa.Table]:
        """Groups, changes to come, and what is held of each argument."""
        slots, groups, events = self._timeline.snapshot()
        if events is None:
            return []
        groups = with_ints(groups, {ROWS: self._rows[slots]})
        tables = [groups.replace_schema_metadata({STARTED: str(int(self._started))}), events]
        for argument in self._arguments.values():
            tables += [argument.bag.snapshot()] if argument.bag is not None else []
            tables += [totals.snapshot(slots) for totals in argument.totals.values()]
        return tables

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over a snapshot."""
        self._begin()
        if not tables:
            return
        left = iter(tables)
        groups, events = next(left), next(left)
        self._started = groups.schema.metadata[STARTED] == b"1"
        slots = self._timeline.restore(without(groups, (ROWS,)).replace_schema_metadata(None), events)
        capacity = self._timeline.groups.capacity
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
        return len(self._timeline.groups) + self._timeline.waiting + bags

    @property
    def held_bytes(self) -> int:
        """Memory of the state, about."""
        held = self._timeline.nbytes + self._rows.nbytes
        for each in self._arguments.values():
            held += each.bag.nbytes if each.bag is not None else 0
            held += sum(totals.nbytes for totals in each.totals.values())
        return held


def plain_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, without a dictionary."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _linear(aggregation: Aggregation, run: Running, kind: pa.DataType) -> Result:
    if aggregation.function == "count":
        return _numbers(run.counts, np.zeros(len(run.counts), np.bool_))
    if aggregation.function == "sum":
        return run.sum(aggregation.name)
    if aggregation.function == "avg":
        return run.average(aggregation.name, kind)
    return run.spread(aggregation.function)


def _ordered(aggregation: Aggregation, change: Change, counts: Rows) -> Result:
    targets = counts
    if aggregation.function == "min":
        targets = np.minimum(counts, 1)
    elif aggregation.function == "quantile":
        targets = _targets(counts, aggregation.parameter or 0.0)
    picked = change.at(targets)
    return Result((picked.keys, picked.missing), picked.to_array)


def _targets(counts: Rows, share: float) -> Rows:
    """The least numbers of values that are at least a share of all of them, and at least one."""
    targets = np.ceil(counts * share).astype(np.int64)
    number = np.maximum(counts, 1)
    targets -= (targets - 1) / number >= share
    targets += targets / number < share
    return np.asarray(np.minimum(np.maximum(targets, 1), counts))


def _numbers(values: Rows | Floats, missing: Flags) -> Result:
    values = np.where(missing, values.dtype.type(0), values)
    return Result((values.view(np.int64), missing), lambda at: pa.array(values[at], mask=missing[at]))
