"""Figures 5, 6 and 7: random selectivities, with and without a fixed aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.measure import at_least, at_most, informed
from anabranch.reproduce.content.names import BOUND, CALLS, TIME
from anabranch.reproduce.content.running import GREEDY, KNOWS, LEARNS, SBR, faster, fewer, greedy, star
from anabranch.reproduce.content.streams import KINDS, draw, random
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series, interval
from anabranch.routing.content_learns import LearningConfig
from anabranch.routing.eddy import EddyRun

TUPLES = 100_000
SIX = 6
UNPRUNED = LearningConfig(prune=False)

Runs = Sequence[Mapping[str, EddyRun]]


@dataclass(frozen=True)
class Plan:
    """Streams per point, and the points."""

    streams: int = 50
    unpruned_streams: int = 10
    joins: Sequence[int] = (2, 4, 6, 8)
    aggregates: Sequence[float] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
    aggregate_streams: int = 50


QUICK = Plan(streams=3, unpruned_streams=1, aggregates=(0.05, 0.35), aggregate_streams=2)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figures 5 to 7."""
    plan = QUICK if quick else Plan()
    by_joins = {n: [_stream(n, seed) for seed in range(plan.streams)] for n in plan.joins}
    unpruned = [_unpruned(n, seed) for n in plan.joins for seed in range(plan.unpruned_streams)]
    by_aggregate = {
        a: [star(draw(random(SIX, seed, a), TUPLES, seed), seed) for seed in range(plan.aggregate_streams)]
        for a in plan.aggregates
    }
    return [_breakdown(by_joins, unpruned), _by_joins(by_joins), _by_aggregate(by_aggregate)]


def _stream(joins: int, seed: int) -> dict[str, EddyRun]:
    stream = draw(random(joins, seed), TUPLES, seed)
    return star(stream, seed) | {GREEDY: greedy(stream.outcomes, stream.columns, KINDS)}


def _unpruned(joins: int, seed: int) -> EddyRun:
    return star(draw(random(joins, seed), TUPLES, seed), seed, config=UNPRUNED)[LEARNS]


def _breakdown(found: Mapping[int, Runs], unpruned: Sequence[EddyRun]) -> Exhibit:
    learns = {n: [run[LEARNS] for run in runs] for n, runs in found.items()}
    everything = [tally for tallies in learns.values() for tally in tallies]
    calls = sum(tally.calls for tally in everything)
    right, wrong, without = _shares(everything)
    columns = {f"{n} joins|all streams": _shares(tallies) for n, tallies in learns.items()}
    columns["all|unpruned"] = _shares(unpruned)
    layers = zip(
        ("right classifier", "wrong classifier", "no classifier"), zip(*columns.values(), strict=True), strict=True
    )
    return Exhibit(
        "Figure 5",
        f"Of {calls:,} routing calls {right:.1%} used the right classifier, {wrong:.2%} the wrong one, {without:.1%} "
        f"none. Without pruning {_shares(unpruned)[1]:.2%} used the wrong one.",
        [
            at_most("Figure 5 wrong classifier, share of routing calls", wrong, 0.064, "paper 0.064"),
            at_most("Figure 5 wrong classifier, without pruning", _shares(unpruned)[1], 0.064, "paper 0.064"),
            informed("Figure 5 right classifier, share of routing calls", right),
        ],
        [
            Chart(
                "",
                "% of routing calls",
                list(columns),
                [Series(label, [100 * value for value in values]) for label, values in layers],
                kind="columns",
            )
        ],
    )


def _shares(tallies: Sequence[EddyRun]) -> tuple[float, float, float]:
    calls = max(sum(tally.calls for tally in tallies), 1)
    right, wrong, without = (
        sum(getattr(tally, what) for tally in tallies) / calls for what in ("right", "wrong", "without")
    )
    return right, wrong, without


def _by_joins(found: Mapping[int, Runs]) -> Exhibit:
    gains = {n: _gains(runs) for n, runs in found.items()}
    means = [float(np.mean(gain)) for gain in gains.values()]
    ratios = [(_ratio(runs, KNOWS, LEARNS), _ratio(runs, LEARNS, SBR)) for runs in found.values()]
    saved = float(np.mean([faster(run) for run in [*found.values()][-1]]))
    rows = [
        (str(n), f"{np.mean(gains[n]):.1%}", f"{np.mean([faster(run) for run in runs]):.1%}", *_means(runs))
        for n, runs in found.items()
    ]
    return Exhibit(
        "Figure 6",
        "Fewer routing calls than SBR: "
        + ", ".join(f"{mean:.1%} ({n} joins)" for n, mean in zip(found, means, strict=True))
        + ".",
        [
            at_least("Figure 6 least growth from one number of joins to the next", float(np.diff(means).min()), 0.0),
            at_most("Figure 6 Knows / Learns, calls, worst number of joins", max(each[0] for each in ratios), 1.0),
            at_most("Figure 6 Learns / SBR, calls, worst number of joins", max(each[1] for each in ratios), 1.0),
            at_least("Figure 6 share of time saved, most joins", saved, 0.0, "operators of 20 us"),
        ],
        [_chart("number of joins", list(found), list(found.values()))],
        table=[("joins", "fewer calls", "less time", "Knows, fewer calls", "least overall selectivity first"), *rows],
    )


def _by_aggregate(found: Mapping[float, Runs]) -> Exhibit:
    means = [float(np.mean(_gains(runs))) for runs in found.values()]
    return Exhibit(
        "Figure 7",
        "Fewer routing calls than SBR: "
        + ", ".join(f"{m:.1%} (at {a:.0%})" for a, m in zip(found, means, strict=True))
        + ".",
        [at_least("Figure 7 fewer calls, worst aggregate selectivity", min(means), 0.03)],
        [_chart("aggregate selectivity, %", [100 * a for a in found], list(found.values()))],
    )


def _chart(x_label: str, x: Sequence[float], found: Sequence[Runs]) -> Chart:
    lines = {
        CALLS: [_gains(runs) for runs in found],
        BOUND: [_gains(runs, KNOWS) for runs in found],
        TIME: [[faster(run) for run in runs] for runs in found],
    }
    series = [
        Series(label, [100 * float(np.mean(v)) for v in values], [100 * interval(v) for v in values])
        for label, values in lines.items()
    ]
    return Chart(x_label, "improvement over SBR, %", x, series)


def _gains(runs: Runs, name: str = LEARNS) -> list[float]:
    return [fewer(run, name) for run in runs]


def _means(runs: Runs) -> list[str]:
    return [f"{np.mean(_gains(runs, name)):.1%}" for name in (KNOWS, GREEDY)]


def _ratio(runs: Runs, above: str, below: str) -> float:
    return sum(run[above].calls for run in runs) / sum(run[below].calls for run in runs)
