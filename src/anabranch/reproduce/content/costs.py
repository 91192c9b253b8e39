"""Figures 9 and 10 and the worst case: what routing by content costs, and from which operator costs on it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.measure import at_least, at_most, informed
from anabranch.reproduce.content.names import CALLS, TIME
from anabranch.reproduce.content.running import (
    BATCH_ROWS,
    CALL_SECONDS,
    LEARNS,
    SBR,
    faster,
    fewer,
    race,
    seconds,
    star,
)
from anabranch.reproduce.content.sensors import Sensors, generated
from anabranch.reproduce.content.streams import draw, random
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series
from anabranch.routing.content_learns import LearningConfig
from anabranch.routing.eddy import EddyRun

LARGE_BATCH = 250
MICRO = 1e-6


@dataclass(frozen=True)
class Plan:
    """Costs of an operator call in microseconds, queries, streams, repetitions and their lengths."""

    costs: Sequence[float] = (1, 5, 20, 50, 100, 500)
    queries: int = 10
    joins: Sequence[int] = (2, 4, 6, 8)
    streams: int = 4
    repetitions: int = 10
    tuples: int = 100_000


QUICK = Plan(queries=4, joins=(2, 8), streams=1, repetitions=3, tuples=50_000)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figures 9 and 10, and the worst case."""
    plan = QUICK if quick else Plan()
    return [_by_cost(plan), _overheads(plan), _worst_case(plan)]


def _by_cost(plan: Plan) -> Exhibit:
    lab = generated(3, 2.0, seed=9)
    found = [
        race(lab.ranges(seed), lab.columns, lab.kinds, seed, batch_rows=LARGE_BATCH) for seed in range(plan.queries)
    ]
    calls = float(np.mean([fewer(run) for run in found]))
    times = [float(np.mean([faster(run, cost * MICRO) for run in found])) for cost in plan.costs]
    series = [Series(CALLS, [100 * calls] * len(times)), Series(TIME, [100 * each for each in times])]
    return Exhibit(
        "Figure 9",
        f"Time saved: {times[0]:.1%} at {plan.costs[0]:g} us per operator call, {times[-1]:.1%} at "
        f"{plan.costs[-1]:g} us; {calls:.1%} fewer routing calls.",
        [
            at_least("Figure 9 growth of the time saved, dearest - cheapest operators", times[-1] - times[0], 0.0),
            at_least("Figure 9 share of time saved, dearest operators", times[-1], 0.0, f"calls {calls:.3f}"),
        ],
        [Chart("us per operator call", "improvement over SBR, %", list(plan.costs), series, log_x=True)],
    )


def _overheads(plan: Plan) -> Exhibit:
    star(draw(random(2, 0), 1_000, 0), 0)  # what is imported on first use is no cost of a routing call
    found = {
        (n, batch): [
            star(draw(random(n, seed), plan.tuples, seed), seed, batch_rows=batch) for seed in range(plan.streams)
        ]
        for n in plan.joins
        for batch in (BATCH_ROWS, LARGE_BATCH)
    }
    columns = {
        f"{n} joins, {batch} rows|{label}": _per_call([run[name] for run in runs])
        for (n, batch), runs in found.items()
        for name, label in ((SBR, "SBR"), (LEARNS, "Learns"))
    }
    layers = zip(("routing", "learning"), zip(*columns.values(), strict=True), strict=True)
    large = [run for (_, batch), runs in found.items() for run in runs if batch == LARGE_BATCH]
    shares = {name: _share([run[name] for run in large]) for name in (SBR, LEARNS)}
    small, per_call = (_total(found, plan.joins[-1], batch) for batch in (BATCH_ROWS, LARGE_BATCH))
    said = "paper 0.04-0.05; operators of 20 us"
    return Exhibit(
        "Figure 10",
        f"Per routing call, {plan.joins[-1]} joins: SBR {small[SBR]:.2f} and Content-Learns {small[LEARNS]:.2f} us in "
        f"batches of {BATCH_ROWS}, {per_call[SBR]:.2f} and {per_call[LEARNS]:.2f} us in batches of {LARGE_BATCH}: "
        f"{shares[SBR]:.1%} and {shares[LEARNS]:.1%} of the time, with operators of 20 us.",
        [
            at_most(
                f"Figure 10 share of Content-Learns' overhead, batches of {LARGE_BATCH}", shares[LEARNS], 0.05, said
            ),
            informed(f"Figure 10 share of SBR's overhead, batches of {LARGE_BATCH}", shares[SBR], said),
        ],
        [Chart("", "us per routing call", list(columns), [Series(a, list(v)) for a, v in layers], kind="columns")],
    )


def _per_call(tallies: Sequence[EddyRun]) -> tuple[float, float]:
    calls = sum(tally.calls for tally in tallies) * MICRO
    return sum(t.routing_seconds for t in tallies) / calls, sum(t.learning_seconds for t in tallies) / calls


def _total(
    found: Mapping[tuple[int, int], Sequence[Mapping[str, EddyRun]]], joins: int, batch: int
) -> dict[str, float]:
    return {name: sum(_per_call([run[name] for run in found[joins, batch]])) for name in (SBR, LEARNS)}


def _share(tallies: Sequence[EddyRun]) -> float:
    overhead = sum(seconds(tally, 0.0) for tally in tallies)
    return overhead / sum(seconds(tally) for tally in tallies)


def _worst_case(plan: Plan) -> Exhibit:
    lab = generated(3, 2.0, seed=10)
    ratios = {prune: _slower(lab, prune, plan.repetitions) for prune in (False, True)}
    return Exhibit(
        "Worst case",
        f"{ratios[False]:.2%} more time than SBR if the only operator is profiled all the same, {ratios[True]:.2%} if "
        "it is pruned.",
        [
            at_most("One operator, more time than SBR, pruned", ratios[True], 0.01, "paper 0.008"),
            informed("One operator, more time than SBR, profiled all the same", ratios[False], "paper 0.008"),
        ],
    )


def _slower(lab: Sensors, prune: bool, repetitions: int) -> float:
    runs = [
        race(lab.bright(), lab.columns, lab.kinds, seed, config=LearningConfig(prune=prune), batch_rows=LARGE_BATCH)
        for seed in range(repetitions)
    ]
    learns, sbr = (min(seconds(run[name], CALL_SECONDS) for run in runs) for name in (LEARNS, SBR))
    return learns / sbr - 1.0
