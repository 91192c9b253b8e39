from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import DataError
from anabranch.operators.exact_sums import (
    DOUBLE_UNIT,
    SQUARE_UNIT,
    Exact,
    ExactSums,
    decimal_parts,
    double_parts,
    from_halves,
    halves,
    long_parts,
    square_parts,
    squared_deviations,
)
from anabranch.operators.steps import Steps

finite = st.floats(allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e100, 1e100)
summands = st.lists(st.tuples(finite, st.integers(-5, 5)), min_size=1, max_size=30)


def one_group(size: int) -> Steps:
    return Steps.of(np.zeros(size, np.int64), np.arange(size))


def totals(bins: int = 0) -> ExactSums:
    sums = ExactSums(bins)
    sums.grow(1)
    return sums


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def value_of(total: Exact, column: int) -> Fraction:
    limbs = total.limbs[:, column].tolist()
    return sum((Fraction(limb) * Fraction(2) ** (32 * i) for i, limb in enumerate(limbs)), Fraction(0)) * (
        Fraction(2) ** total.exponent
    )


@given(summands)
def test_running_sums_of_doubles_are_exact_and_correctly_rounded(listed: list[tuple[float, int]]) -> None:
    values, weights = np.array([v for v, _ in listed]), np.array([w for _, w in listed])
    found = totals().add(double_parts(values, weights), one_group(len(listed)), DOUBLE_UNIT)
    so_far = [Fraction(0)]
    for value, weight in listed:
        so_far.append(so_far[-1] + weight * Fraction(value))
    assert [value_of(found, column) for column in range(len(so_far))] == so_far
    assert found.doubles().tolist() == [nearest(total) for total in so_far]


@given(summands)
def test_squares_are_exact(listed: list[tuple[float, int]]) -> None:
    values, weights = np.array([v for v, _ in listed]), np.array([w for _, w in listed])
    found = totals().add(square_parts(values, weights), one_group(len(listed)), SQUARE_UNIT)
    assert value_of(found, len(listed)) == sum(weight * Fraction(value) ** 2 for value, weight in listed)


@given(st.lists(summands, min_size=1, max_size=5))
def test_what_is_taken_back_leaves_no_trace(batches: list[list[tuple[float, int]]]) -> None:
    sums, rest = totals(), totals()
    for sign in (1, -1):
        for batch in batches[1:]:
            values, weights = np.array([v for v, _ in batch]), sign * np.array([w for _, w in batch])
            sums.add(double_parts(values, weights), one_group(len(batch)), DOUBLE_UNIT)
    values, weights = np.array([v for v, _ in batches[0]]), np.array([w for _, w in batches[0]])
    steps = one_group(len(values))
    one, other = (each.add(double_parts(values, weights), steps, DOUBLE_UNIT) for each in (sums, rest))
    assert one.doubles().tolist() == other.doubles().tolist()


def test_bins_come_and_go_with_the_values() -> None:
    sums, one = totals(), np.array([1])
    sums.add(double_parts(np.array([1.5]), one), one_group(1), DOUBLE_UNIT)
    small = len(sums.limbs)
    for weight in (1, -1):
        sums.add(double_parts(np.array([1e300, 1e-300]), np.array([weight, weight])), one_group(2), DOUBLE_UNIT)
    assert len(sums.limbs) > 10 * small
    total = sums.add(double_parts(np.array([-4.0]), one), one_group(1), DOUBLE_UNIT)
    assert total.doubles()[-1] == -2.5
    assert len(sums.limbs) <= small + 9


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=10))
def test_longs_are_summed_exactly_or_refused(values: list[int]) -> None:
    found = totals(3).add(long_parts(np.array(values), np.ones(len(values), np.int64)), one_group(len(values)))
    so_far = [sum(values[:place]) for place in range(len(values) + 1)]
    if all(-(2**63) <= total < 2**63 for total in so_far):
        assert found.longs("n").tolist() == so_far
    else:
        with pytest.raises(DataError, match="'n' exceeds the range of a long"):
            found.longs("n")
    assert found.doubles().tolist() == [float(total) for total in so_far]


decimals = st.integers(-(10**36), 10**36)


@given(st.lists(st.tuples(decimals, st.integers(-3, 3)), min_size=1, max_size=10))
def test_decimals_are_summed_exactly(listed: list[tuple[int, int]]) -> None:
    array = pa.array([Decimal(f"{value}E-5") for value, _ in listed], pa.decimal128(38, 5))
    weights = np.array([weight for _, weight in listed])
    found = totals(5).add(decimal_parts(*halves(array), weights), one_group(len(listed)))
    so_far = [sum(value * weight for value, weight in listed[:place]) for place in range(len(listed) + 1)]
    assert from_halves(*found.halves("n"), 5).to_pylist() == [Decimal(f"{total}E-5") for total in so_far]


def test_sums_of_more_than_38_digits_are_refused() -> None:
    array = pa.array([Decimal("9" * 38)], pa.decimal128(38, 0))
    found = totals(5).add(decimal_parts(*halves(array), np.array([4])), one_group(1))
    with pytest.raises(DataError, match="38 digits"):
        found.halves("n")


@given(decimals, st.integers(1, 2**40), st.integers(0, 4))
def test_division_rounds_half_up(value: int, divisor: int, digits: int) -> None:
    array = pa.array([Decimal(value)], pa.decimal128(38, 0))
    total = totals(5).add(decimal_parts(*halves(array), np.array([1])), one_group(1))
    found = total.divided(np.full(2, divisor), digits)
    exact = Fraction(abs(value) * 10**digits, divisor)
    assert value_of(found, 1) == math.floor(exact + Fraction(1, 2)) * (1 if value >= 0 else -1)


def test_null_decimals_count_as_nothing() -> None:
    array = pa.array([None, Decimal("1.5"), None], pa.decimal128(10, 1)).slice(1)
    assert [half.tolist() for half in halves(array)] == [[15, 0], [0, 0]]
    assert from_halves(np.array([15, 0]), np.array([0, 0]), 1, np.array([False, True])).to_pylist() == [
        Decimal("1.5"),
        None,
    ]


@given(st.lists(moderate, min_size=1, max_size=20))
def test_squared_deviations(values: list[float]) -> None:
    array, ones, steps = np.array(values), np.ones(len(values), np.int64), one_group(len(values))
    sums = totals().add(double_parts(array, ones), steps, DOUBLE_UNIT)
    squares = totals().add(square_parts(array, ones), steps, SQUARE_UNIT)
    found = squared_deviations(sums, squares, np.arange(len(values) + 1))[-1]
    mean = sum(map(Fraction, values), Fraction(0)) / len(values)
    exact = sum(((Fraction(value) - mean) ** 2 for value in values), Fraction(0))
    whole = sum((Fraction(value) ** 2 for value in values), Fraction(0))
    assert abs(Fraction(float(found)) - exact) <= max(exact / 10**12, whole / 2**85, Fraction(1, 2**1070))
