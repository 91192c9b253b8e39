"""Runs the routers over the same stream, and tells how much fewer calls and how much less time one takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anabranch.model.arrays import BoolMatrix
from anabranch.reproduce.content.streams import KINDS, Stream
from anabranch.routing.content_knows import ContentKnows, best_orders
from anabranch.routing.content_learns import ContentLearns, Kind, LearningConfig, Profiled, TrialEnded
from anabranch.routing.eddy import Eddy, EddyRun, Router
from anabranch.routing.partitioning import Column
from anabranch.routing.sbr import SourceBased

SBR, LEARNS, KNOWS, GREEDY = "sbr", "content_learns", "content_knows", "greedy"
BATCH_ROWS = 25
CALL_SECONDS = 20e-6
BLIND = LearningConfig(profile_probability=0.0)

Tell = Callable[[Profiled | TrialEnded], None]


def star(
    stream: Stream, seed: int, *, config: LearningConfig | None = None, batch_rows: int = BATCH_ROWS
) -> dict[str, EddyRun]:
    """All routers on a Stream-Star stream."""
    found = race(stream.outcomes, stream.columns, KINDS, seed, config=config, batch_rows=batch_rows, truth=0)
    knows = ContentKnows(best_orders(stream.selectivities))
    found[KNOWS] = Eddy(knows, batch_rows=len(stream.outcomes)).run(stream.outcomes, stream.columns)
    return same_answers(found)


def race(
    outcomes: BoolMatrix,
    columns: Sequence[Column],
    kinds: Sequence[Kind],
    seed: int,
    *,
    config: LearningConfig | None = None,
    batch_rows: int = BATCH_ROWS,
    truth: int = -1,
    tell: Tell | None = None,
) -> dict[str, EddyRun]:
    """SBR and Content-Learns on the same stream, with their CPU time."""
    operators = outcomes.shape[1]
    routers: dict[str, Router] = {
        SBR: SourceBased(operators, seed=seed),
        LEARNS: ContentLearns(kinds, operators, config=config, seed=seed, tell=tell),
    }
    truths = np.full(operators, truth)
    return same_answers(
        {
            name: Eddy(router, batch_rows=batch_rows, truth=truths, clock=time.process_time).run(outcomes, columns)
            for name, router in routers.items()
        }
    )


def greedy(outcomes: BoolMatrix, columns: Sequence[Column], kinds: Sequence[Kind]) -> EddyRun:
    """The least selectivity first, like Content-Learns, but never by content."""
    router = ContentLearns(kinds, outcomes.shape[1], config=BLIND)
    return Eddy(router, batch_rows=BATCH_ROWS).run(outcomes, columns)


def same_answers(found: dict[str, EddyRun]) -> dict[str, EddyRun]:
    """The runs, after a look at whether all have the same survivors."""
    first, *others = (tally.remaining for tally in found.values())
    if not all(np.array_equal(first, other) for other in others):
        raise AssertionError("routers disagree on the answer")
    return found


def fewer(found: Mapping[str, EddyRun], name: str = LEARNS) -> float:
    """Share of SBR's routing calls that a router saves."""
    return 1.0 - found[name].calls / found[SBR].calls


def seconds(tally: EddyRun, call_seconds: float = CALL_SECONDS) -> float:
    """Measured routing and learning, plus the operators at a cost per call."""
    return tally.routing_seconds + tally.learning_seconds + tally.calls * call_seconds


def faster(found: Mapping[str, EddyRun], call_seconds: float = CALL_SECONDS) -> float:
    """Share of SBR's time that Content-Learns saves."""
    return 1.0 - seconds(found[LEARNS], call_seconds) / seconds(found[SBR], call_seconds)
