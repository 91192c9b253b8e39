"""Figures 6.11, 6.13 and 6.15: k that is learned while it changes, and the results that are missed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anabranch.constraints.config import ConstraintConfig, Kind
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.model.arrays import Floats
from anabranch.reproduce.constraints import streams
from anabranch.reproduce.constraints.running import Run, missing, run, thinned
from anabranch.reproduce.constraints.streams import Feed, Level
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

BLOCK = 4_000
CALM = 0.2
SLACK = 1.2
LEAST_SHARE_OF_K, MOST_MISSED, MOST_MISSED_CALM = 0.8, 2.3, 0.5


@dataclass(frozen=True)
class Plan:
    """Tuples in all, rows of a window, tuples of a batch, and the two levels between which k changes."""

    tuples: int = 400_000
    window: int = 50_000
    batch: int = 250
    low: int = 1_000
    high: int = 4_000


QUICK = Plan(tuples=60_000, window=8_000, batch=200, low=100, high=400)


def level(low: float, high: float) -> Level:
    """No variation, a gradual rise, a gradual fall, a quick rise, a quick fall: a fifth of the tuples each."""

    def at(progress: Floats) -> Floats:
        places = [0.0, 0.2, 0.4, 0.6, 0.62, 0.8, 0.82, 1.0]
        values = [low, low, high, low, high, high, low, low]
        return np.interp(progress, places, values)

    return at


def exhibits(*, quick: bool) -> list[Exhibit]:
    """All three."""
    plan = QUICK if quick else Plan()
    return [
        _figure("Figure 6.11", "rids", plan, streams.referential, slack=1.0, window=500),
        _figure("Figure 6.13", "ca", plan, streams.clustered, slack=SLACK, window=1000),
        _figure("Figure 6.15", "oap", plan, streams.clustered, slack=SLACK, window=1000),
    ]


def _figure(
    name: str, kind: Kind, plan: Plan, make: Callable[[float, int, int, Level], Feed], slack: float, window: int
) -> Exhibit:
    follows = level(plan.low, plan.high)
    feed = make(0, plan.tuples, 11, follows)
    config = ConstraintConfig(
        "discard", "tuples", slack=slack, sample_share=0.01, window_arrivals=window, kinds=frozenset({kind})
    )
    truth, found = run(feed, plan.window, plan.batch), run(feed, plan.window, plan.batch, config)
    missed = missing(truth, found, BLOCK, len(feed.owner))
    more = []
    if slack < SLACK:
        wider = run(feed, plan.window, plan.batch, replace(config, slack=SLACK))
        most = missing(truth, wider, BLOCK, len(feed.owner)).max()
        more.append(at_most(f"{name} the same with c = {SLACK}, percent", most, MOST_MISSED, "ours"))
    return _exhibit(name, follows(found.tuples / len(feed.owner)), truth, found, missed, more)


def _exhibit(name: str, actual: Floats, truth: Run, found: Run, missed: Floats, more: Sequence[Bar]) -> Exhibit:
    calm = missed[: max(1, int(CALM * len(missed)))]
    used = ~np.isnan(found.used)
    ratio = float(np.median(found.used[used] / actual[used]))
    lost = len(truth.results_at) - len(found.results_at)
    memory = found.late / truth.late
    return Exhibit(
        name,
        f"In use {100 * used.mean():.0f} % of the time, with {ratio:.2f} of the actual k (median); at most "
        f"{missed.max():.2f} % of the results of {BLOCK:,} tuples are missed, {lost:,} of {len(truth.results_at):,} in "
        f"all (estimated from the sample: {found.estimated_missing:,.0f}); memory / SWJ at the end {memory:.2f}.",
        [
            at_most(f"{name} most results missed in a block, percent", missed.max(), MOST_MISSED, "paper: 2 to 2.3"),
            at_most(f"{name} missed while k is constant, percent", calm.mean(), MOST_MISSED_CALM, "paper: near 0"),
            at_least(f"{name} k in use / actual k, median", ratio, LEAST_SHARE_OF_K, "paper: tracks it closely"),
            *more,
            informed(f"{name} share of time in use", float(used.mean())),
            informed(f"{name} memory / SWJ, last quarter", memory),
        ],
        [_chart(found, actual), _missed_chart(missed)],
    )


def _chart(found: Run, actual: Floats) -> Chart:
    used = np.nan_to_num(found.used)
    series = [Series("actual k", thinned(actual, 120)), Series("k in use, 0 if none", thinned(used, 120))]
    return Chart("tuples", "k", thinned(found.tuples, 120), series)


def _missed_chart(missed: Floats) -> Chart:
    x: Sequence[float] = [float(BLOCK * (place + 1)) for place in range(len(missed))]
    return Chart("tuples", "percent of results missed", x, [Series("false negatives", [float(m) for m in missed])])
