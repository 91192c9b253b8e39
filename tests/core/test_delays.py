"""The sketch of delays: within a tenth of what sorting all of them gives, merged or not, in bounded memory."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from anabranch.stats.delays import GROWTH, Delays, bucket_of, followed, largest_of

SECOND = 1_000_000
LISTS = st.lists(st.one_of(st.just(0), st.integers(1, 2**40)), min_size=1, max_size=200)


def sketch(found: list[int]) -> Delays:
    delays = Delays()
    for each in found:
        delays.add(each)
    return delays


@given(st.integers(1, 2**62))
def test_a_delay_is_in_a_bucket_a_tenth_wide(delay: int) -> None:
    bucket = bucket_of(delay)
    assert largest_of(bucket) >= delay * (1 - 1e-9)
    assert largest_of(bucket) <= delay * GROWTH * (1 + 1e-9) + 1
    assert bucket <= 460


@given(LISTS, st.sampled_from([0.001, 0.01, 0.1, 0.5]))
def test_the_skew_keeps_all_but_the_share_and_is_a_tenth_too_large_at_most(found: list[int], late: float) -> None:
    skew = sketch(found).skew_for(late)
    exact = sorted(found, reverse=True)[int(late * len(found))]
    assert exact <= skew * (1 + 1e-9)
    assert skew <= exact * GROWTH * (1 + 1e-9) + 1
    assert skew <= max(found)


@given(LISTS, LISTS)
def test_merged_sketches_are_the_sketch_of_all(one: list[int], other: list[int]) -> None:
    both, merged = sketch(one + other), sketch(one)
    merged.merge(sketch(other))
    assert (merged.rows, merged.largest) == (both.rows, both.largest)
    assert all(merged.skew_for(late) == both.skew_for(late) for late in (0.01, 0.1, 0.5))


def test_what_was_long_ago_is_forgotten() -> None:
    delays = Delays(memory_rows=1000)
    delays.add(60 * SECOND, 100)
    for _ in range(100):
        delays.add(SECOND, 100)
    assert delays.rows < 1000
    assert delays.largest == 60 * SECOND
    assert delays.skew_for(0.001) <= SECOND * GROWTH + 1


def test_late_rows_use_up_the_share() -> None:
    delays = Delays()
    delays.add(0, 990)
    delays.add(SECOND, 10, late=10)
    assert delays.skew_for(0.01) == 0
    assert delays.skew_for(0.01, after=delays.late) == SECOND


def test_the_skew_goes_up_at_once_and_down_slowly() -> None:
    delays = Delays()
    delays.add(0, 10_000)
    skews = [10 * SECOND]
    for _ in range(50):
        skews.append(followed(skews[-1], delays, 0.001))
    assert all(0.95 * one - 1 <= other < one for one, other in pairwise(skews))
    delays.add(30 * SECOND, 11, late=11)
    assert followed(skews[-1], delays, 0.001) == 30 * SECOND


@given(st.integers(0, 20))
def test_a_followed_skew_keeps_the_share_of_late_rows(seed: int) -> None:
    """Delays are exponential with a mean that doubles half way."""
    draw, delays, skew, late = random.Random(seed), Delays(), 10 * SECOND, 0
    for batch in range(200):
        mean = SECOND * (1 + (batch >= 100))
        for delay in [int(draw.expovariate(1 / mean)) for _ in range(200)]:
            delays.add(delay, late=int(delay > skew))
            late += delay > skew
        skew = followed(skew, delays, 0.005)
    assert late <= 0.005 * 200 * 200
    assert skew < 20 * SECOND
