from __future__ import annotations

import pickle
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.stats.processing_times import SMALLEST_COST, ProcessingTimes, usable_costs


@given(
    calls=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8)), min_size=1, max_size=30),
    samples=st.integers(1, 12),
)
def test_is_the_median_of_the_latest_calls_with_each_tuple_counted_once(
    calls: list[tuple[int, int]], samples: int
) -> None:
    times = ProcessingTimes(1, samples=samples)
    for rate, tuples in calls:
        times.record(0, float(rate * tuples), tuples)
    latest = sorted(rate for rate, tuples in calls[-samples:] for _ in range(tuples))
    assert times.per_tuple()[0] == latest[ceil(len(latest) / 2) - 1]


def test_pauses_and_tiny_calls_do_not_mislead() -> None:
    times = ProcessingTimes(1)
    for turn in range(20):
        times.record(0, 1e-3, 1000)
        times.record(0, 5e-5, 1)
        if turn % 3 == 0:
            times.record(0, 0.5, 1000)
    assert times.per_tuple()[0] == pytest.approx(1e-6)


def test_old_calls_are_forgotten() -> None:
    times = ProcessingTimes(1, samples=4)
    for seconds in (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0):
        times.record(0, seconds, 1)
    assert times.per_tuple().tolist() == [2.0]


def test_a_filter_that_was_never_timed_is_unknown() -> None:
    times = ProcessingTimes(3)
    times.record(1, 2.0, 4)
    times.record(2, 1.0, 0)
    np.testing.assert_array_equal(times.per_tuple(), [np.nan, 0.5, np.nan])


def test_a_new_call_shows_after_an_answer_was_given() -> None:
    times = ProcessingTimes(2)
    times.record(0, 1.0, 1)
    given = times.per_tuple()
    given[:] = 7.0
    times.record(1, 3.0, 1)
    assert times.per_tuple().tolist() == [1.0, 3.0]


def test_pickles_and_continues() -> None:
    times = ProcessingTimes(2, samples=3)
    for seconds in (1.0, 2.0, 3.0, 4.0):
        times.record(0, seconds, 1)
    again = pickle.loads(pickle.dumps(times))
    for each in (times, again):
        each.record(0, 5.0, 1)
        np.testing.assert_array_equal(each.per_tuple(), [4.0, np.nan])


@pytest.mark.parametrize(
    ("costs", "usable"),
    [
        ([np.nan, np.nan], [1.0, 1.0]),
        ([1.0, np.nan, 3.0, 8.0], [1.0, 3.0, 3.0, 8.0]),
        ([2.0, np.inf], [2.0, 2.0]),
        ([0.0, -1.0, 4.0], [SMALLEST_COST, SMALLEST_COST, 4.0]),
        ([], []),
    ],
)
def test_costs_become_positive_numbers(costs: list[float], usable: list[float]) -> None:
    given = np.array(costs)
    assert usable_costs(given).tolist() == usable
    np.testing.assert_array_equal(given, costs)
