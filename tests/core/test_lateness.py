"""What streams have shown: how far each is behind the most advanced of the others."""

from __future__ import annotations

import random

from anabranch.engine.lateness import Lateness
from anabranch.engine.manifest import Manifest, StreamState

SECOND = 1_000_000


def told(lateness: Lateness, stream: str, state: StreamState | None = None) -> tuple[int | None, int]:
    state = state or StreamState()
    lateness.tell(stream, state)
    return state.behind, state.largest_behind


def test_a_stream_is_compared_with_the_most_advanced_of_the_others() -> None:
    lateness = Lateness(Manifest(cells=1))
    for stream, newest in (("a", 10), ("b", 4), ("c", 9), ("a", 8), ("b", 13)):
        lateness.compare(stream, newest * SECOND)
    assert told(lateness, "a") == (0, 0)  # the newest time counts, not that of the last batch
    assert told(lateness, "b") == (6 * SECOND, 6 * SECOND)
    assert told(lateness, "c") == (SECOND, SECOND)
    lateness.forget("a")
    lateness.compare("c", 12 * SECOND)
    assert told(lateness, "c") == (SECOND, SECOND)


def test_alone_it_is_compared_with_none() -> None:
    lateness = Lateness(Manifest(cells=1))
    lateness.compare("a", SECOND)
    assert told(lateness, "a") == (None, 0)


def test_what_is_told_covers_95_of_100_batches_and_the_largest_is_kept() -> None:
    lateness, draw, found = Lateness(Manifest(cells=1)), random.Random(5), []
    for batch in range(1, 1001):
        late = int(draw.expovariate(1 / SECOND))
        lateness.compare("a", 60 * batch * SECOND)
        lateness.compare("b", 60 * batch * SECOND - late)
        found.append(late)
    behind, largest = told(lateness, "b", StreamState(largest_behind=7))
    exact = sorted(found)[950]
    assert behind is not None
    assert exact * 0.9 <= behind <= exact * 1.11
    assert largest == max(found)
    assert told(lateness, "b", StreamState(largest_behind=2 * largest))[1] == 2 * largest
