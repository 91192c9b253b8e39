"""Partitioning functions: buckets for values of all kinds, the same everywhere, with one of their own for NULL."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.routing.partitioning import Column, HashPartition, RangePartition, unfit


def test_neighbouring_integers_never_collide_and_multiples_spread() -> None:
    hashed = HashPartition(24)
    for start in (0, 24, -48, 24_000_000):
        assert len(set(hashed.codes(np.arange(start, start + 24)))) == 24
    assert len(set(hashed.codes(np.arange(0, 24 * 500, 24)))) == 24


def test_keys_spread_evenly() -> None:
    counts = np.bincount(HashPartition(24).codes(np.random.default_rng(1).integers(0, 10**9, 48_000)))
    assert len(counts) == 24
    assert counts.min() > 1800
    assert counts.max() < 2200


def test_null_has_a_bucket_of_its_own() -> None:
    texts = np.array(["a", None, float("nan"), "a"], dtype=object)
    times = np.array(["2024-01-01", "NaT"], dtype="datetime64[s]")
    assert HashPartition(8).codes(texts).tolist()[1:3] == [8, 8]
    assert HashPartition(8).codes(np.array([1.0, np.nan, 1.0])).tolist() == [1, 8, 1]
    assert HashPartition(8).codes(times)[1] == 8
    assert RangePartition(8).codes(np.array([1.0, np.nan])).tolist() == [0, 8]
    assert RangePartition(8).codes(np.array([None, 2.0], dtype=object)).tolist() == [8, 0]


def test_the_same_value_has_the_same_bucket_as_an_integer_and_as_a_float() -> None:
    values = np.array([-5, 0, 3, 10**9])
    assert HashPartition().codes(values).tolist() == HashPartition().codes(values.astype(float)).tolist()
    assert HashPartition().codes(np.array([-0.0])).tolist() == HashPartition().codes(np.array([0.0])).tolist()


def test_any_object_is_hashed_by_its_text() -> None:
    mixed = np.array([1, "1", ("a", 2), None], dtype=object)
    codes = HashPartition(24).codes(mixed)
    assert codes[0] == codes[1]
    assert codes[3] == 24


def test_hashes_are_the_same_in_every_process() -> None:
    program = (
        "import numpy as np; from anabranch.routing.partitioning import HashPartition;"
        "print(HashPartition(24).codes(np.array(['a', 'b', 'c', None], dtype=object)).tolist())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


@given(st.lists(st.one_of(st.none(), st.floats(), st.integers(-(2**40), 2**40)), min_size=1))
def test_codes_are_always_within_the_width(values: list[float | None]) -> None:
    floats = np.array([np.nan if value is None else float(value) for value in values])
    for partition in (HashPartition(5), RangePartition(5)):
        codes = partition.codes(floats)
        assert codes.dtype == np.int64
        assert ((codes >= 0) & (codes < partition.width)).all()
        assert ((codes == 5) == np.isnan(floats)).all()


def test_ranges_follow_the_running_extremes_and_hold_infinities_at_the_ends() -> None:
    ranges = RangePartition(4)
    assert ranges.codes(np.array([0.0, 4.0])).tolist() == [0, 3]
    assert ranges.codes(np.array([3.0, 8.0, np.inf, -np.inf])).tolist() == [1, 3, 3, 0]
    assert (ranges.low, ranges.high) == (0.0, 8.0)
    assert RangePartition(4).codes(np.array([5.0, 5.0])).tolist() == [0, 0]
    assert RangePartition(4).codes(np.zeros(0)).tolist() == []


@pytest.mark.parametrize(
    ("values", "discrete", "reason"),
    [
        (np.full(150, 7), True, "constant"),
        (np.full(150, np.nan), False, "constant"),
        (np.arange(150), True, "monotone"),
        (np.arange(150.0)[::-1], False, "monotone"),
        (np.repeat(np.arange(5), 30), True, ""),
        (np.random.default_rng(1).integers(0, 10_000, 150), True, "distinct"),
        (np.random.default_rng(1).random(150), False, ""),
        (np.array([f"comment {i * 7919 % 151}" for i in range(150)], dtype=object), True, "distinct"),
        (np.array(["a", None] * 75, dtype=object), True, ""),
        (np.array([1.0, np.nan] * 75), True, ""),
    ],
)
def test_constants_sequences_and_keys_are_unfit(values: Column, discrete: bool, reason: str) -> None:
    assert unfit(values, buckets=24, discrete=discrete) == reason
