"""Every worked example of chapter 4 of the thesis, with its numbers. Filters F1, F2, ... are 0, 1, ... here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering import Precedence, Seed, expected_cost, greedy_order, make, optimal_order
from anabranch.stats.matrix_view import MatrixView
from anabranch.stats.profile_window import ProfileWindow

Run = Callable[..., list[Order]]

FATE = {1: (0, 0, 0, 0), 2: (0, 0, 1, 0), 4: (0, 1, 1, 1), 5: (1, 1, 0, 1), 7: (1, 0, 0, 0)}
ARRIVALS = (1, 2, 1, 4, 7, 2, 5, 4)
PROFILED = (2, 4, 7, 2, 5, 4)
UNIT = np.ones(4)
START = (2, 0, 1, 3)


def fates(*tuples: int) -> BoolMatrix:
    return np.array([FATE[t] for t in tuples], dtype=np.bool_)


@pytest.mark.parametrize(("order", "probes"), [((0, 1, 2, 3), 20), ((2, 1, 3, 0), 18), ((2, 0, 1, 3), 16)])
def test_example_4_2_1_counts_the_hash_probes(order: Order, probes: int) -> None:
    assert expected_cost(order, fates(*ARRIVALS), UNIT) * len(ARRIVALS) == pytest.approx(probes)
    assert expected_cost(order, fates(*PROFILED), UNIT, passed=2) * len(ARRIVALS) == pytest.approx(probes)


def test_example_4_2_1_has_no_order_below_16_probes() -> None:
    probes = [expected_cost(order, fates(*ARRIVALS), UNIT) * len(ARRIVALS) for order in permutations(range(4))]
    assert min(probes) == pytest.approx(16)
    best = optimal_order(fates(*PROFILED), UNIT, Precedence.none(4))
    assert expected_cost(best, fates(*ARRIVALS), UNIT) * len(ARRIVALS) == pytest.approx(16)


def test_example_4_3_1_profiles_every_dropped_tuple_in_a_window_of_six(run: Run) -> None:
    config = OrderingConfig(profile_probability=1.0, window_tuples=6, minimum_profiles=6)
    policy = make("agreedy", 4, config=config)
    run(policy, [fates(t) for t in (5, 7, *ARRIVALS)])
    np.testing.assert_array_equal(policy.profiles(), fates(*PROFILED))


def test_example_4_3_2_counts_the_matrix_view_of_figure_4_4() -> None:
    view = MatrixView(START)
    view.insert(fates(*PROFILED))
    assert view.counts.tolist() == [[4, 2, 3, 3], [0, 2, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert view.violation(UNIT, alpha=1.0) is None
    assert greedy_order(fates(*PROFILED), UNIT, Precedence.none(4)) == START


def window_after(third: tuple[int, ...], sixth: tuple[int, ...]) -> tuple[MatrixView, BoolMatrix]:
    """Example 4.3.3: the tuples 3 and 6 enter the window of six, and the two oldest leave."""
    window, view = ProfileWindow(4, tuples=6), MatrixView(START)
    for rows in (fates(*PROFILED), np.array([third, sixth], dtype=np.bool_)):
        view.insert(rows)
        view.delete(window.insert(rows))
    return view, window.rows()


def corrected_by_swapping(order: Order, place: int, rows: BoolMatrix) -> Order:
    """Figure 4.7 to the letter, for equal costs: the best filter and the one at the place change places."""
    filters, last = list(order), place
    while place <= last:
        alive = rows[~rows[:, filters[:place]].any(axis=1)]
        counts = alive[:, filters].sum(axis=0)
        best = place + int(counts[place:].argmax())
        last = max(last, best)
        filters[place], filters[best] = filters[best], filters[place]
        place += 1
    return tuple(filters)


def test_example_4_3_3_reaches_its_order_by_moving_and_never_by_swapping() -> None:
    wanted, moved, swapped = (3, 2, 0, 1), 0, 0
    patterns = [bits for bits in product((0, 1), repeat=4) if any(bits)]
    for third, sixth in product(patterns, patterns):
        view, rows = window_after(third, sixth)
        if view.violation(UNIT, alpha=1.0) != 0:
            continue
        swapped += corrected_by_swapping(START, 0, rows) == wanted
        if view.correct(0, rows, UNIT) == wanted:
            moved += 1
            assert view.violation(UNIT, alpha=1.0) is None
    assert (moved, swapped) == (27, 0)


@pytest.mark.parametrize("filters", [2, 3, 5, 8])
def test_example_4_5_1_independent_misses_the_correlation(run: Run, filters: int) -> None:
    values = np.arange(1, 101)[:, np.newaxis]
    drops = np.hstack([np.repeat(values > 49, filters - 1, axis=1), values < 50])
    config = OrderingConfig(profile_probability=1.0, thrash_avoidance=1.0)
    backwards = Seed(tuple(range(filters))[::-1], np.zeros((0, filters), dtype=np.bool_), np.ones(filters))

    independent = run(make("independent", filters, config=config, seed=backwards), [drops] * 10)[-1]
    assert independent[-1] == filters - 1
    assert expected_cost(independent, drops, np.ones(filters)) == pytest.approx(0.49 * filters + 0.51)

    greedy = run(make("agreedy", filters, config=config, seed=backwards), [drops] * 10)[-1]
    assert greedy[0] != filters - 1
    assert greedy[1] == filters - 1
    assert expected_cost(greedy, drops, np.ones(filters)) == pytest.approx(1.49)
    assert expected_cost(greedy, drops, np.ones(filters)) == pytest.approx(optimal_cost(drops, np.ones(filters)))


def optimal_cost(drops: BoolMatrix, costs: Floats) -> float:
    return expected_cost(optimal_order(drops, costs, Precedence.none(len(costs))), drops, costs)


@pytest.mark.parametrize("filters", [4, 5, 10])
def test_example_4_6_1_localswaps_is_stuck(run: Run, filters: int) -> None:
    """The thesis prints 50(n + 1) and 1 + 200/n filters per tuple.

    By equation 4.1 it is (n + 1)/2 and 1 + 1/n: tuples of the i-th slice need i filters in the old order; in the new
    one all need the first, and one slice of n needs the second. 50(n + 1) is the former per 100 tuples; 200/n matches
    no reading of the example.
    """
    slices = np.arange(100) * filters // 100
    before = slices[:, np.newaxis] == np.arange(filters)
    after = before.copy()
    after[:, -1] = slices != filters - 2
    written = tuple(range(filters))
    costs = np.ones(filters)
    config = OrderingConfig(profile_probability=1.0)

    stuck = run(make("localswaps", filters, config=config), [before] * 10 + [after] * 30)
    assert set(stuck) == {written}
    assert expected_cost(written, after, costs) == pytest.approx((filters + 1) / 2)

    greedy = run(make("agreedy", filters, config=config), [before] * 10 + [after] * 30)
    assert set(greedy[:10]) == {written}
    assert greedy[-1][:2] == (filters - 1, filters - 2)
    assert expected_cost(greedy[-1], after, costs) == pytest.approx(1 + 1 / filters)
    assert optimal_cost(after, costs) == pytest.approx(1 + 1 / filters)
