"""The two tables of the thesis on operator scheduling, section 2.3.2."""

from __future__ import annotations

import pytest

from anabranch.reproduce.thesis.chain_scheduling import Priorities, QueuedOperator, chain, fifo, greedy, queue_sizes

STEEP = (QueuedOperator(1, 0.2), QueuedOperator(1, 0))
LATE = (QueuedOperator(1, 0.9), QueuedOperator(1, 1), QueuedOperator(1, 0))


@pytest.mark.parametrize(
    ("stages", "priorities", "sizes", "mean"),
    [
        (STEEP, fifo(STEEP), [1.0, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0], 2.4),
        (STEEP, greedy(STEEP), [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2], 1.6),
        (LATE, fifo(LATE), [1.0, 1.9, 2.9, 3.0, 3.9, 4.9, 5.0], 3.2),
        (LATE, greedy(LATE), [1.0, 1.9, 2.8, 3.7, 4.6, 5.5, 6.4], 3.7),
    ],
)
def test_queue_sizes_are_those_of_the_thesis(
    stages: tuple[QueuedOperator, ...], priorities: Priorities, sizes: list[float], mean: float
) -> None:
    found = queue_sizes(stages, priorities, arrivals=7)
    assert found == pytest.approx(sizes)
    assert round(sum(found) / 7, 1) == mean


@pytest.mark.parametrize(("stages", "best"), [(STEEP, greedy(STEEP)), (LATE, fifo(LATE))])
def test_chains_are_as_good_as_the_better_of_both(stages: tuple[QueuedOperator, ...], best: Priorities) -> None:
    assert queue_sizes(stages, chain(stages), 7) == queue_sizes(stages, best, 7)
