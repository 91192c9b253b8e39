from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.arrays import BoolMatrix
from anabranch.stats.profile_window import ProfileWindow


def batch(size: int, start: int = 0) -> BoolMatrix:
    """Rows that differ: the bits of consecutive numbers."""
    return (((start + np.arange(size))[:, np.newaxis] >> np.arange(12)) & 1).astype(np.bool_)


def numbers(rows: BoolMatrix) -> list[int]:
    return [int(n) for n in rows @ (1 << np.arange(12))]


@given(
    tuples=st.integers(1, 7),
    seconds=st.none() | st.integers(1, 5),
    steps=st.lists(st.tuples(st.sampled_from(["insert", "expire", "clear"]), st.integers(0, 12), st.integers(0, 3))),
)
def test_behaves_like_a_plain_list(tuples: int, seconds: int | None, steps: list[tuple[str, int, int]]) -> None:
    window = ProfileWindow(12, tuples=tuples, seconds=seconds)
    model: list[tuple[int, int]] = []
    now = arrived = 0
    for action, size, passed in steps:
        now += passed
        left: list[int] = []
        if action == "insert":
            model += [(n, now) for n in range(arrived, arrived + size)]
            gone = window.insert(batch(size, arrived), now)
            arrived += size
            aged = [n for n, at in model if seconds is not None and now - at >= seconds]
            left = aged + [n for n, _ in model if n not in aged][: max(0, len(model) - len(aged) - tuples)]
            assert numbers(gone) == left
        elif action == "expire":
            left = [n for n, at in model if seconds is not None and now - at >= seconds]
            assert numbers(window.expire(now)) == left
        else:
            left = [n for n, _ in model]
            window.clear()
        model = [(n, at) for n, at in model if n not in left]
        assert numbers(window.rows()) == [n for n, _ in model]
        assert len(window) == len(model)


def test_of_a_batch_beyond_the_capacity_only_the_latest_rows_enter() -> None:
    window = ProfileWindow(12, tuples=3)
    window.insert(batch(2))
    assert numbers(window.insert(batch(5, start=10))) == [0, 1, 10, 11]
    assert numbers(window.rows()) == [12, 13, 14]


def test_rows_leave_at_the_age_limit_and_not_before() -> None:
    window = ProfileWindow(12, tuples=10, seconds=5.0)
    window.insert(batch(2), now=100.0)
    window.insert(batch(1, start=2), now=101.0)
    assert numbers(window.expire(104.9)) == []
    assert numbers(window.expire(105.0)) == [0, 1]
    assert numbers(window.insert(batch(1, start=3), now=106.0)) == [2]
    assert numbers(window.rows()) == [3]


def test_rows_leave_together_where_the_buffer_wraps() -> None:
    window = ProfileWindow(12, tuples=3, seconds=5.0)
    window.insert(batch(3), now=0.0)
    window.insert(batch(2, start=3), now=1.0)
    assert numbers(window.expire(5.0)) == [2]
    window.insert(batch(1, start=5), now=5.0)
    assert numbers(window.expire(6.0)) == [3, 4]
    window.insert(batch(2, start=6), now=6.0)
    assert numbers(window.expire(99.0)) == [5, 6, 7]
    assert len(window) == 0


def test_a_clock_that_runs_backwards_stands_still() -> None:
    window = ProfileWindow(12, tuples=10, seconds=5.0)
    window.insert(batch(1), now=100.0)
    window.insert(batch(1, start=1), now=50.0)
    assert numbers(window.expire(104.0)) == []
    assert numbers(window.expire(105.0)) == [0, 1]


def test_what_comes_out_is_a_copy() -> None:
    window = ProfileWindow(12, tuples=4)
    rows = batch(4, start=1)
    window.insert(rows)
    rows[:] = False
    window.rows()[:] = False
    assert numbers(window.rows()) == [1, 2, 3, 4]
    window.clear()
    flood = batch(6, start=10)
    gone = window.insert(flood)
    flood[:] = False
    assert numbers(gone) == [10, 11]


@pytest.mark.parametrize("rows", [np.array([[0, 1]]), [[False, True]]])
def test_takes_anything_that_reads_as_booleans(rows: BoolMatrix) -> None:
    window = ProfileWindow(2)
    window.insert(rows)
    assert window.rows().tolist() == [[False, True]]


def test_pickles() -> None:
    window = ProfileWindow(12, tuples=3)
    window.insert(batch(5))
    again = pickle.loads(pickle.dumps(window))
    assert numbers(again.insert(batch(1, start=5))) == numbers(window.insert(batch(1, start=5))) == [2]
