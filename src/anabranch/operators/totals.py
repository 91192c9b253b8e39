"""Totals per group: how many values there are, their exact sum, and that of their squares.

They are running sums over the changes of a group, so that a result does not depend on the order of the rows, nor on
what came and went before.

>>> totals = Totals(pa.int64(), sums=True, squares=False)
>>> steps = Steps.of(np.zeros(3, np.int64), times=np.array([10, 20, 30]))
>>> running = totals.add(pa.array([4, 6, 4]), np.array([1, 1, -1]), steps, capacity=1)
>>> running.average("mean", pa.float64()).at(np.arange(4)).to_pylist()
[None, 4.0, 5.0, 6.0]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import Floats
from anabranch.operators.elements import Flags, Rows, ints
from anabranch.operators.exact_sums import (
    DOUBLE_UNIT,
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
from anabranch.operators.groups import grown
from anabranch.operators.order_statistics import Change
from anabranch.operators.steps import Steps


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
    values: Change | None = None  # the values themselves, sorted, where some aggregate looks at them

    def count(self) -> Result:
        """How many values there are."""
        return numbers(self.counts, np.zeros(len(self.counts), np.bool_))

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
            return numbers(self.sums.longs(name), self.counts == 0)
        return numbers(self.doubles(), self.counts == 0)

    def average(self, name: str, kind: pa.DataType) -> Result:
        """The means; those of decimals are rounded half up."""
        assert self.sums is not None
        if pa.types.is_decimal(kind) and pa.types.is_decimal(self.kind) and kind.scale >= self.kind.scale:
            exact = self.sums.divided(np.maximum(self.counts, 1), kind.scale - self.kind.scale)
            return self._decimals(exact, name, kind.scale)
        scale = 10.0**self.kind.scale if pa.types.is_decimal(self.kind) else 1.0
        return numbers(self.doubles() / np.maximum(self.counts, 1) / scale, self.counts == 0)

    def variance(self, few: int) -> Result:
        """Variances, NULL for `few` values or less: 0 for the population's, 1 for the sample's."""
        return numbers(self._variances(few), self.counts <= few)

    def deviation(self, few: int) -> Result:
        """Standard deviations, NULL for `few` values or less."""
        return numbers(np.sqrt(self._variances(few)), self.counts <= few)

    def ranked(self, ranks: Rows) -> Result:
        """The values with these ranks, counted from 1 in ascending order; NULL for rank 0."""
        assert self.values is not None
        picked = self.values.at(ranks)
        return Result((picked.keys, picked.missing), picked.to_array)

    def _variances(self, few: int) -> Floats:
        assert self.sums is not None
        assert self.squares is not None
        found = squared_deviations(self.sums, self.squares, self.counts) / np.maximum(self.counts - few, 1)
        if self.odd is not None:
            found[self.odd.any(axis=0)] = np.nan
        return found

    def _decimals(self, exact: Exact, name: str, scale: int) -> Result:
        missing = self.counts == 0
        low, high = exact.halves(name)
        return Result((low, high, missing), lambda at: from_halves(low[at], high[at], scale, missing[at]))


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
        """Bytes in memory, approximately."""
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
        """Set the state to that of a snapshot."""
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


def numbers(values: Rows | Floats, missing: Flags) -> Result:
    """The result of an aggregate that is a number, or NULL where it is missing."""
    values = np.where(missing, values.dtype.type(0), values)
    return Result((values.view(np.int64), missing), lambda at: pa.array(values[at], mask=missing[at]))
