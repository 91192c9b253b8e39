"""Chain scheduling: which operator of a pipeline runs next, so that little waits in its queues.

An operator that drops many rows quickly is worth running early, and so is a row of operators whose last one does. The
pipeline is cut into chains: from the first operator on, the block that reduces the total queue size fastest, then the
same from the next operator on. Chains that reduce faster run first; within a chain the oldest rows go on first.

>>> steep = (QueuedOperator(1, 0.2), QueuedOperator(1, 0))
>>> [f"{size:.1f}" for size in queue_sizes(steep, greedy(steep), arrivals=7)]
['1.0', '1.2', '1.4', '1.6', '1.8', '2.0', '2.2']

Notes
-----
Thesis, section 2.3.2, whose two tables are tests. Spark runs the operators of a tick as one job, to the end, and
nothing waits between them from tick to tick: there the policy has no choice to make (see the decision record 009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class QueuedOperator:
    """An operator: time for a batch that began as one unit of rows, and the share of its rows that it passes on."""

    seconds: float
    selectivity: float


Priorities = Sequence[float]
"""Per operator; of those with rows waiting, the one with the highest runs, at the same priority the oldest batch."""


def chains(stages: Sequence[QueuedOperator]) -> list[range]:
    """The blocks of consecutive operators that reduce queues fastest.

    >>> chains([QueuedOperator(1, 0.9), QueuedOperator(1, 1), QueuedOperator(1, 0)])
    [range(0, 3)]
    """
    found = []
    begin = 0
    while begin < len(stages):
        end = max(range(begin + 1, len(stages) + 1), key=lambda end: (_reduction(stages, begin, end), end))
        found.append(range(begin, end))
        begin = end
    return found


def fifo(stages: Sequence[QueuedOperator]) -> Priorities:
    """The oldest batch goes through all operators before the next one begins."""
    return [0.0] * len(stages)


def greedy(stages: Sequence[QueuedOperator]) -> Priorities:
    """The operator that reduces queues fastest runs first."""
    return [_reduction(stages, place, place + 1) for place in range(len(stages))]


def chain(stages: Sequence[QueuedOperator]) -> Priorities:
    """The chain that reduces queues fastest runs first."""
    priorities = [0.0] * len(stages)
    for block in chains(stages):
        for place in block:
            priorities[place] = _reduction(stages, block.start, block.stop)
    return priorities


def queue_sizes(stages: Sequence[QueuedOperator], priorities: Priorities, arrivals: int) -> list[float]:
    """The total queue size at each instant while a unit of rows arrives at every one; operators take a unit of time."""
    waiting: list[tuple[int, int]] = []  # (number of the batch, the operator it waits for)
    sizes = []
    for now in range(arrivals):
        waiting.append((now, 0))
        sizes.append(sum(_size(stages, place) for _, place in waiting))
        batch, place = max(waiting, key=lambda each: (priorities[each[1]], -each[0]))
        waiting.remove((batch, place))
        if stages[place].selectivity and place + 1 < len(stages):
            waiting.append((batch, place + 1))
    return sizes


def _size(stages: Sequence[QueuedOperator], place: int) -> float:
    """What is left of a unit of rows before an operator."""
    size = 1.0
    for stage in stages[:place]:
        size *= stage.selectivity
    return size


def _reduction(stages: Sequence[QueuedOperator], begin: int, end: int) -> float:
    lost = _size(stages, begin) - _size(stages, end)
    return lost / sum(stage.seconds for stage in stages[begin:end])
