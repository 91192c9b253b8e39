"""Figure 8 and query Q2: sensors whose selectivities and classifiers come and go with the time of day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.measure import Bar, at_least, informed
from anabranch.reproduce.content.names import HOUR, OTHERS, RATIO, SENSOR, SHARE
from anabranch.reproduce.content.running import GREEDY, LEARNS, SBR, faster, fewer, greedy, race
from anabranch.reproduce.content.sensors import Sensors, generated, room
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series
from anabranch.routing.content_learns import LearningConfig, Profiled, TrialEnded
from anabranch.routing.eddy import EddyRun

DAYS = 3
NIGHT = 0.01
WATCHING = LearningConfig(prune=False)
EXTREME = 0.02
WINDOW = 540
LEVELS = {SENSOR: 3.0, HOUR: 2.0, OTHERS: 1.0}


@dataclass(frozen=True)
class Plan:
    """How often sensors report, and how many queries are asked."""

    minutes: float = 0.52
    queries: int = 50
    query_minutes: float = 1.0


QUICK = Plan(minutes=2.0, queries=6, query_minutes=4.0)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figure 8 and query Q2."""
    plan = QUICK if quick else Plan()
    return [_first_query(plan), _second_query(plan)]


def watch(lab: Sensors) -> list[Profiled]:
    """What Content-Learns finds out about query Q1, profiling after profiling."""
    found: list[Profiled | TrialEnded] = []
    race(lab.bright(), lab.columns, lab.kinds, seed=8, config=WATCHING, tell=found.append)
    return [each for each in found if isinstance(each, Profiled)]


def _first_query(plan: Plan) -> Exhibit:
    lab = generated(DAYS, plan.minutes, seed=8)
    found = watch(lab)
    hours = [float(lab.hours[each.at - 1]) for each in found]
    best = [_best(lab, each) for each in found]
    counts, lit = Counter(best), [name for name, each in zip(best, found, strict=True) if each.selectivity > NIGHT]
    dark = [name for name, each in zip(best, found, strict=True) if each.selectivity == 0]
    sensor = lab.names.index(SENSOR)
    series = [
        Series(SHARE, [each.selectivity for each in found]),
        Series(RATIO, [each.ratios[sensor] for each in found]),
    ]
    levels = [Series(name, [y if b == name else float("nan") for b in best]) for name, y in LEVELS.items()]
    return Exhibit(
        "Figure 8",
        f"Best classifier in {len(found)} profilings: sensorID {counts[SENSOR]}, hour {counts[HOUR]}, others "
        f"{counts[OTHERS]}, none {counts['']}. Selectivity between {min(each.selectivity for each in found):.0%} and "
        f"{max(each.selectivity for each in found):.0%}." + _room_remark(),
        [
            at_least("Figure 8 sensorID is best, share of profilings with light", lit.count(SENSOR) / len(lit), 0.6),
            at_least("Figure 8 no classifier, share of dark profilings", dark.count("") / max(len(dark), 1), 0.99),
        ],
        [
            Chart("hours", "", hours, series),
            Chart("hours", "best classifier (3 sensorID, 2 hour, 1 other)", hours, levels),
        ],
    )


def _room_remark() -> str:
    real = room()
    if real is None:
        return " The real room is not at hand."
    counts = Counter(_best(real, each, ("occupied", HOUR)) or "none" for each in watch(real))
    return " Real room: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()) + "."


def _best(lab: Sensors, each: Profiled, known: Sequence[str] = (SENSOR, HOUR)) -> str:
    if each.classifier < 0:
        return ""
    name = lab.names[each.classifier]
    return name if name in known else OTHERS


def _second_query(plan: Plan) -> Exhibit:
    lab, real = generated(DAYS, plan.query_minutes, seed=66), room()
    runs = {"54 generated sensors": _queries(lab, plan.queries)}
    extremes = {"54 generated sensors": _extremes(lab, plan.queries)}
    if real is not None:
        runs["real room"], extremes["real room"] = _queries(real, plan.queries), _extremes(real, plan.queries)
    bars = [bar for name, found in runs.items() for bar in _bars(name, found)]
    bars += [
        informed(f"Q2 {name}: near 0 or 100 %", share, "paper 0.572, of the time") for name, share in extremes.items()
    ]
    said = [
        f"{name}: {_mean(found):.1%} fewer routing calls, {_until_drop(found):.1%} fewer until a drop, "
        f"{np.mean([faster(run) for run in found]):.1%} less time "
        f"(without content: {_mean(found, GREEDY):.1%} fewer calls)"
        for name, found in runs.items()
    ]
    return Exhibit("Query Q2", "; ".join(said) + ".", bars)


def _queries(lab: Sensors, queries: int) -> list[dict[str, EddyRun]]:
    found = []
    for passes, seed in ((lab.ranges(seed), seed) for seed in range(queries)):
        runs = race(passes, lab.columns, lab.kinds, seed)
        found.append(runs | {GREEDY: greedy(passes, lab.columns, lab.kinds)})
    return found


def _bars(name: str, found: Sequence[Mapping[str, EddyRun]]) -> list[Bar]:
    return [
        at_least(f"Q2 {name}: fewer calls", _mean(found), 0.0, f"{len(found)} queries; paper 0.08"),
        at_least(f"Q2 {name}: fewer calls until a drop", _until_drop(found), 0.0, "paper 0.18"),
        informed(f"Q2 {name}: fewer calls, least overall selectivity first", _mean(found, GREEDY), "never by content"),
        informed(f"Q2 {name}: less time", float(np.mean([faster(run) for run in found])), "paper 0.05"),
    ]


def _mean(found: Sequence[Mapping[str, EddyRun]], name: str = LEARNS) -> float:
    return float(np.mean([fewer(run, name) for run in found]))


def _until_drop(found: Sequence[Mapping[str, EddyRun]]) -> float:
    return float(np.mean([1 - run[LEARNS].calls_per_drop / run[SBR].calls_per_drop for run in found]))


def _extremes(lab: Sensors, queries: int) -> float:
    """Share of the stretches of ten rounds in which an operator's selectivity is close to 0 or 1."""
    near = []
    for seed in range(queries):
        passes = lab.ranges(seed)
        whole = passes[: len(passes) // WINDOW * WINDOW].reshape(-1, WINDOW, passes.shape[1]).mean(axis=1)
        near.append(np.mean((whole < EXTREME) | (whole > 1 - EXTREME)))
    return float(np.mean(near))
