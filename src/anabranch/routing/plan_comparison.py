"""Two plans beside each other on live rows, with a control: what would the other plan cost, and how sure is that?

Chunks are dealt at random, three at a time: two go by the plan in use, one by its rival. A ratio is taken of every
three: what the rival took per row, by the mean of the two others. The control is the ratio of these two, which would be
1 if no chance were in it. All rows are judged once, by whichever plan; the answer is the same.

>>> import numpy as np
>>> blocks = [Block(2.0, 1.9, 1.0), Block(2.0, 2.2, 1.1), Block(2.0, 2.0, 1.0)]
>>> found = Comparison.of(blocks, rows=300)
>>> round(found.ratio, 2), round(found.control, 2), found.verdict
(0.51, 1.0, 'rival')
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.base import Reoptimizer
from anabranch.ordering.pipeline import Evaluate, Outcome, Tally
from anabranch.routing.chunk_pipeline import ChunkPipeline
from anabranch.routing.route_plan import NewRoutes, RoutePlan, RouteState
from anabranch.routing.sampled_rows import SampledRows

ARMS = 3
RIVAL = 2
MOST_BLOCKS = 1_000
"""That a task hands over."""
RECENT_BLOCKS = 5_000
ENOUGH_BLOCKS = 6
LONGEST_CHUNK_ROWS = 2_000
"""Short chunks make many comparisons."""


@dataclass(frozen=True)
class Block:
    """Seconds per row of three chunks: two of the plan in use, and one of its rival."""

    first: float
    again: float
    rival: float


@dataclass(frozen=True)
class Comparison:
    """What two plans have taken so far.

    Parameters
    ----------
    blocks
        How often they were compared.
    rows
        That went by the rival.
    ratio, margin
        What the rival takes, by what the plan in use takes: the median, and two of its standard errors.
    control, control_margin
        The same, of the plan in use and itself.
    verdict
        Which is faster, as far as can be told.
    """

    blocks: int
    rows: int
    ratio: float
    margin: float
    control: float
    control_margin: float
    verdict: Literal["unknown", "alike", "rival", "present"]

    @classmethod
    def of(cls, blocks: Sequence[Block], rows: int) -> Comparison:
        """From the blocks of all tasks."""
        if not blocks:
            return cls(0, rows, 1.0, float("inf"), 1.0, float("inf"), "unknown")
        ratio, margin = _middle([2 * each.rival / (each.first + each.again) for each in blocks])
        control, around = _middle([each.again / each.first for each in blocks])
        verdict: Literal["unknown", "alike", "rival", "present"] = "alike"
        if len(blocks) < ENOUGH_BLOCKS and (len(blocks) < ARMS or abs(ratio - 1) < 0.2):
            verdict = "unknown"
        elif abs(ratio - 1) > margin + abs(control - 1):
            verdict = "rival" if ratio < 1 else "present"
        return cls(len(blocks), rows, ratio, margin, control, around, verdict)


def _middle(ratios: Sequence[float]) -> tuple[float, float]:
    """The median, and two standard errors of it by the median deviation."""
    middle = statistics.median(ratios)
    deviation = statistics.median(abs(each - middle) for each in ratios)
    return middle, 2 * 1.253 * 1.4826 * deviation / len(ratios) ** 0.5


class ComparisonLog:
    """The blocks of all tasks; the oldest make room."""

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque(maxlen=RECENT_BLOCKS)
        self._rows = 0

    def enter(self, blocks: Sequence[Block], rows: int) -> None:
        """Take in those of a task."""
        self._blocks.extend(blocks)
        self._rows += rows

    def found(self) -> Comparison:
        """What they say."""
        return Comparison.of(list(self._blocks), self._rows)


class ComparedPlans:
    """A pipeline that sends a third of its chunks through another one; see `ChunkPipeline`.

    Parameters
    ----------
    present
        The plan in use: it decides, learns, and is what is handed over.
    rival
        The other one; what it decides is its own affair.
    seed
        Of the deal.
    clock
        A monotonic clock in seconds.

    Attributes
    ----------
    by_rival
        Whether the last chunk went by the rival.
    """

    def __init__(
        self,
        present: ChunkPipeline,
        rival: ChunkPipeline,
        seed: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.present, self.rival = present, rival
        self._rng, self._clock = np.random.default_rng(seed), clock
        self._turns: list[int] = []
        self._taken: dict[int, float] = {}
        self._blocks: list[Block] = []
        self._rival_rows = 0
        self.by_rival = False

    def process(self, rows: int, evaluate: Evaluate, columns: AttributeArrays) -> Outcome:
        """Run one chunk by the plan whose turn it is."""
        if not self._turns:
            self._turns, self._taken = self._rng.permutation(ARMS).tolist(), {}
        arm, began = self._turns.pop(), self._clock()
        by: ChunkPipeline = self.rival if arm == RIVAL else self.present
        outcome = by.process(rows, evaluate, columns)
        self._taken[arm] = (self._clock() - began) / max(rows, 1)
        self.by_rival = arm == RIVAL
        if self.by_rival:
            self._rival_rows += rows
            outcome = replace(outcome, decisions=())
        if not self._turns and all(self._taken.values()) and len(self._blocks) < MOST_BLOCKS:
            self._blocks.append(Block(*(self._taken[each] for each in range(ARMS))))
        return outcome

    def take_blocks(self) -> tuple[tuple[Block, ...], int]:
        """Hand over the comparisons since the last call, and the rows that went by the rival."""
        taken, rows = tuple(self._blocks), self._rival_rows
        self._blocks, self._rival_rows = [], 0
        return taken, rows

    def chunk_rows(self, available: int) -> int:
        """Three chunks of one size each."""
        return min(self.present.chunk_rows(available), LONGEST_CHUNK_ROWS)

    def take_tally(self) -> Tally:
        """Hand over the counts of both: every row is in one of them."""
        total = self.present.take_tally()
        total.add(self.rival.take_tally())
        return total

    @property
    def version(self) -> int:
        """Of the plan in use."""
        return self.present.version

    @property
    def rows_done(self) -> int:
        """Rows from which the plan in use has learned."""
        return self.present.rows_done

    @property
    def reoptimizer(self) -> Reoptimizer:
        """The policy in use."""
        return self.present.reoptimizer

    @property
    def plan(self) -> RoutePlan | None:
        """The routes in use."""
        return self.present.plan

    @property
    def on_trial(self) -> RoutePlan | None:
        """The routes that the policy in use tries out."""
        return self.present.on_trial

    def switch(self, plan: RoutePlan | None, version: int, reason: str) -> None:
        """Change the plan in use."""
        self.present.switch(plan, version, reason)

    def new_routes(self) -> NewRoutes:
        """The ways of the plan in use."""
        return self.present.new_routes()

    def costs(self) -> Floats:
        """As the plan in use has measured them."""
        return self.present.costs()

    def take_routes(self) -> tuple[RouteState, ...]:
        """Hand over those of the plan in use."""
        return self.present.take_routes()

    def take_profiles(self) -> BoolMatrix:
        """Hand over those of the plan in use."""
        return self.present.take_profiles()

    def take_sample(self) -> SampledRows:
        """Hand over that of the plan in use."""
        return self.present.take_sample()

    def take_given_up(self) -> RoutePlan | None:
        """Hand over that of the plan in use."""
        return self.present.take_given_up()
