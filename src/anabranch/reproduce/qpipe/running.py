"""Runs queries on both engines: two that arrive some time apart, or two clients that take them from a mix."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import Counts
from anabranch.reproduce.qpipe.disk import COSTS, Costs, File, Meter
from anabranch.reproduce.qpipe.engine import StagedEngine
from anabranch.reproduce.qpipe.plans import Plan

Tables = Mapping[str, File]


@dataclass(frozen=True)
class Ran:
    """What some queries cost together.

    Parameters
    ----------
    elapsed
        From the first arrival until nothing is left to do, in pages.
    seconds
        Of processor time that it took here.
    """

    elapsed: float
    seconds: float
    meter: Meter
    answers: Sequence[Counts]


def run_pair(tables: Tables, plans: Sequence[Plan], gap: float, *, merging: bool, costs: Costs = COSTS) -> Ran:
    """Queries that arrive one after the other, so many pages of work apart."""
    engine = StagedEngine(tables, merging=merging, costs=costs)
    waiting = deque((number * gap, f"q{number}", plan) for number, plan in enumerate(plans))
    began = time.process_time()
    while waiting or engine.running:
        while waiting and (waiting[0][0] <= engine.meter.clock or not engine.running):
            at, name, plan = waiting.popleft()
            engine.meter.idle += max(0.0, at - engine.meter.clock)
            engine.submit(name, plan)
        engine.round()
    seconds = time.process_time() - began
    return Ran(engine.meter.clock, seconds, engine.meter, [engine.answer(f"q{n}") for n in range(len(plans))])


def run_clients(tables: Tables, queries: Sequence[Plan], clients: int, *, merging: bool) -> Ran:
    """Clients that take the next query of a sequence whenever they have an answer, until all have been answered."""
    engine = StagedEngine(tables, merging=merging)
    waiting = deque(enumerate(queries))
    began = time.process_time()
    ended = [""] * clients
    while waiting or engine.running:
        for _ in ended:
            if waiting:
                number, plan = waiting.popleft()
                engine.submit(f"q{number}", plan)
        ended = engine.round()
    seconds = time.process_time() - began
    return Ran(engine.meter.clock, seconds, engine.meter, [engine.answer(f"q{n}") for n in range(len(queries))])


def same(some: Sequence[Counts], others: Sequence[Counts]) -> bool:
    """Whether all queries have the same bags of rows."""
    return all(np.array_equal(_ordered(one), _ordered(other)) for one, other in zip(some, others, strict=True))


def _ordered(rows: Counts) -> Counts:
    return rows[np.lexsort(rows.T)] if rows.size else rows.reshape(0, 0)
