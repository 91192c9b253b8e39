from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from anabranch.model.arrays import BoolMatrix, Order
from anabranch.stats.matrix_view import MatrixView


@st.composite
def windows(draw: st.DrawFn) -> tuple[BoolMatrix, Order, list[int]]:
    """Profile tuples (also some that nothing drops), an order, and small whole costs."""
    filters = draw(st.integers(1, 6))
    rows = draw(hnp.arrays(np.bool_, (draw(st.integers(0, 25)), filters)))
    order = tuple(draw(st.permutations(range(filters))))
    return rows, order, draw(st.lists(st.integers(1, 4), min_size=filters, max_size=filters))


def tuple_by_tuple(rows: BoolMatrix, order: Order) -> list[list[int]]:
    """Figure 4.5."""
    counts = [[0] * len(order) for _ in order]
    for row in rows:
        dropped = [bool(row[f]) for f in order]
        if not any(dropped):
            continue
        first = dropped.index(True)
        for column in range(first, len(order)):
            if dropped[column]:
                for line in range(first + 1):
                    counts[line][column] += 1
    return counts


def first_violation(rows: BoolMatrix, order: Order, costs: list[int], alpha: Fraction) -> int | None:
    """Equation 4.4, in exact arithmetic."""
    counts = tuple_by_tuple(rows, order)
    for i in range(len(order)):
        ranks = [Fraction(counts[i][j], costs[order[j]]) for j in range(len(order))]
        if any(ranks[i] < alpha * rank for rank in ranks[i + 1 :]):
            return i
    return None


@given(windows(), st.integers(0, 25))
def test_a_batch_counts_like_its_tuples_one_by_one(case: tuple[BoolMatrix, Order, list[int]], cut: int) -> None:
    rows, order, _ = case
    view = MatrixView(order)
    view.insert(rows[:cut])
    view.insert(rows[cut:])
    assert view.counts.tolist() == tuple_by_tuple(rows, order)
    view.delete(rows[:cut])
    assert view.counts.tolist() == tuple_by_tuple(rows[cut:], order)


@given(windows(), st.sampled_from([1.0, 0.75, 0.5, 0.0]))
def test_the_violation_is_the_first_place_by_definition(
    case: tuple[BoolMatrix, Order, list[int]], alpha: float
) -> None:
    rows, order, costs = case
    view = MatrixView(order)
    view.insert(rows)
    assert view.violation(np.array(costs, dtype=float), alpha) == first_violation(rows, order, costs, Fraction(alpha))


@given(windows())
def test_correcting_restores_the_greedy_invariant(case: tuple[BoolMatrix, Order, list[int]]) -> None:
    rows, order, costs = case
    view, prices = MatrixView(order), np.array(costs, dtype=float)
    view.insert(rows)
    corrected = -1
    while (place := view.violation(prices, 1.0)) is not None:
        assert place > corrected
        assert view.correct(place, rows, prices)[:place] == order[:place]
        order, corrected = view.order, place
        assert view.counts.tolist() == tuple_by_tuple(rows, order)
    assert sorted(order) == list(range(len(order)))
    assert first_violation(rows, order, costs, Fraction(1)) is None


@given(windows())
def test_a_greedy_order_is_left_alone(case: tuple[BoolMatrix, Order, list[int]]) -> None:
    rows, order, costs = case
    prices = np.array(costs, dtype=float)
    view = MatrixView(order)
    view.insert(rows)
    view.correct(0, rows, prices)
    while (place := view.violation(prices, 1.0)) is not None:
        view.correct(place, rows, prices)
    settled = view.order
    assert view.correct(0, rows, prices) == settled


def test_correcting_costs_no_more_than_it_must() -> None:
    rows = np.array([[0, 0, 0, 1]] * 3 + [[0, 1, 0, 0]] * 2 + [[1, 0, 0, 0]], dtype=np.bool_)
    view = MatrixView((1, 0, 2, 3))
    view.insert(rows)
    assert view.violation(np.ones(4), 0.9) == 0
    assert view.correct(0, rows, np.ones(4)) == (3, 1, 0, 2)


def test_unknown_and_worthless_costs_are_no_obstacle() -> None:
    rows = np.array([[True, True], [False, True]])
    view = MatrixView((0, 1))
    view.insert(rows)
    assert view.violation(np.array([np.nan, np.nan]), 1.0) == 0
    assert view.violation(np.array([2.0, np.nan]), 1.0) == 0
    assert view.violation(np.array([0.0, 1.0]), 1.0) is None
    assert view.correct(0, rows, np.array([np.nan, 1.0])) == (1, 0)
