"""Table 1 and figures 3 and 4: the more classes differ, the more there is to gain by routing them differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.reproduce.content.names import BOUND, CALLS, TIME
from anabranch.reproduce.content.running import BATCH_ROWS, KNOWS, LEARNS, SBR, faster, fewer, star
from anabranch.reproduce.content.streams import KINDS, draw, skewed
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Mark, Series
from anabranch.routing.content_learns import ContentLearns, LearningConfig
from anabranch.routing.eddy import Eddy, EddyRun
from anabranch.routing.gain_ratio import gain_ratio

PASSED = np.array([[32, 31, 27], [10, 20, 90], [55, 65, 60]])
PRINTED = (0.33, 0.63, 0.37)
TUPLES = 100_000
SEED = 63
STRICT = LearningConfig(trial_slack=0.0)

Sweep = Mapping[tuple[int, float], Mapping[str, EddyRun]]


@dataclass(frozen=True)
class Plan:
    """Numbers of joins and selectivities A to try."""

    joins: Sequence[int] = (2, 4, 6, 8)
    selectivities: Sequence[float] = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)


QUICK = Plan(selectivities=(0.05, 0.25, 0.45, 0.65, 0.95))


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Table 1, figures 3 and 4."""
    plan = QUICK if quick else Plan()
    found = {(n, a): point(n, a) for n in plan.joins for a in plan.selectivities}
    return [
        _table(),
        _figure("Figure 3", plan, found, 2, ()),
        _figure("Figure 4", plan, found, 6, _claims(plan, found)),
    ]


def point(joins: int, a: float, tuples: int = TUPLES) -> dict[str, EddyRun]:
    """All routers at one skew."""
    seed = _seed(joins, a)
    return star(draw(skewed(joins, a), tuples, seed), seed)


def _strictly(joins: int, a: float, plain: EddyRun) -> float:
    """Share of SBR's calls that is saved at one skew if a classifier on trial has to raise the processing rate."""
    seed = _seed(joins, a)
    stream = draw(skewed(joins, a), TUPLES, seed)
    router = ContentLearns(KINDS, joins, config=STRICT, seed=seed)
    return 1.0 - Eddy(router, batch_rows=BATCH_ROWS).run(stream.outcomes, stream.columns).calls / plain.calls


def _seed(joins: int, a: float) -> int:
    return SEED + 1000 * joins + round(100 * a)


def _table() -> Exhibit:
    ratios = gain_ratio(np.full((3, 3), 100.0), PASSED)
    rows = [
        (f"O{i + 1}", f"{printed:.2f}", f"{ours:.4f}")
        for i, (printed, ours) in enumerate(zip(PRINTED, ratios, strict=True))
    ]
    return Exhibit(
        "Table 1",
        ", ".join(f"{ours:.4f}" for ours in ratios) + ": the second operator dominates.",
        [at_least("Table 1 O2 / best other, gain ratio", ratios[1] / max(ratios[0], ratios[2]), 2.0, "dominates")],
        table=[("operator", "paper", "ours"), *rows],
    )


def _figure(name: str, plan: Plan, found: Sweep, joins: int, bars: Sequence[Bar]) -> Exhibit:
    points = [found[joins, a] for a in plan.selectivities]
    gains = [fewer(each) for each in points]
    low, high = plan.selectivities[0], plan.selectivities[-1]
    return Exhibit(
        name,
        f"{gains[0]:.1%} fewer routing calls at A = {low:.0%} (bound {fewer(points[0], KNOWS):.1%}), "
        f"{gains[-1]:.1%} at A = {high:.0%} (bound {fewer(points[-1], KNOWS):.1%}).",
        [at_least(f"{name} {joins} joins, fewer calls, A = {low:.0%}", gains[0], 0.1), *bars],
        [_chart(plan, points, f"{joins} joins", [])]
        + (
            [
                _chart(
                    plan, [found[8, a] for a in plan.selectivities], "8 joins", [Mark("paper: 67.8 %", 100 * low, 67.8)]
                )
            ]
            if bars
            else []
        ),
    )


def _chart(plan: Plan, points: Sequence[Mapping[str, EddyRun]], what: str, marks: Sequence[Mark]) -> Chart:
    series = [
        Series(CALLS, [100 * fewer(each) for each in points]),
        Series(BOUND, [100 * fewer(each, KNOWS) for each in points]),
        Series(TIME, [100 * faster(each) for each in points]),
    ]
    x = [100 * a for a in plan.selectivities]
    return Chart(f"selectivity A, % ({what})", "improvement over SBR, %", x, series, marks=marks)


def _claims(plan: Plan, found: Sweep) -> list[Bar]:
    less = [key for key in found if key[1] < skewed(*key)[0, 1]]
    more = [key for key in found if key not in less]
    strict = float(np.mean([_strictly(*key, found[key][SBR]) for key in less]))
    lowest = plan.selectivities[0]
    by_joins = [fewer(found[n, lowest]) for n in plan.joins]
    most = plan.joins[-1]
    return [
        at_least(f"6.3 {most} joins, largest skew, fewer calls", by_joins[-1], 0.60, "paper 0.678"),
        at_least("6.3 fewer calls on average, A < B", _mean(found, less), 0.20, f"paper 0.269; {_bound(found, less)}"),
        informed("6.3 fewer calls on average, A < B, strict trials", strict, "the rate has to rise"),
        at_least("6.3 fewer calls on average, A > B", _mean(found, more), 0.005, f"paper 0.102; {_bound(found, more)}"),
        at_least(
            "6.3 least growth from one number of joins to the next", float(np.diff(by_joins).min()), 0.0, "A = 5 %"
        ),
        at_most(
            "6.3 Learns / SBR, calls, worst point", max(_ratio(each, LEARNS, SBR) for each in found.values()), 1.02
        ),
        at_most(
            "6.3 Knows / Learns, calls, worst point", max(_ratio(each, KNOWS, LEARNS) for each in found.values()), 1.0
        ),
        informed("6.3 largest share of time saved", max(faster(each) for each in found.values()), "paper: up to 0.35"),
    ]


def _ratio(found: Mapping[str, EddyRun], above: str, below: str) -> float:
    return found[above].calls / found[below].calls


def _mean(found: Sweep, keys: Sequence[tuple[int, float]], name: str = LEARNS) -> float:
    return float(np.mean([fewer(found[key], name) for key in keys]))


def _bound(found: Sweep, keys: Sequence[tuple[int, float]]) -> str:
    return f"Knows {_mean(found, keys, KNOWS):.3f}"
