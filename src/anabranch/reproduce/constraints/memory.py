"""Figures 6.10, 6.12, 6.14 and 6.16: memory as tuples arrive, by k, against SWJ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anabranch.constraints.config import ConstraintConfig, Kind
from anabranch.constraints.constraint_set import Given
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.reproduce.constraints import streams
from anabranch.reproduce.constraints.running import Run, run, thinned
from anabranch.reproduce.constraints.streams import Feed
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

BELOW = 1.05
HALF_WAY = 0.5
SWJ = "SWJ"


@dataclass(frozen=True)
class Plan:
    """Rows of a window, values of k, and tuples of a batch; streams are so many windows long."""

    window: int = 50_000
    ks: Sequence[int] = (0, 5_000, 10_000, 20_000)
    batch: int = 1_000
    windows_long: float = 1.0


QUICK = Plan(window=2_500, ks=(0, 250, 500, 1_000), batch=100)
LENGTHS = {"Figure 6.10": 9, "Figure 6.12": 14, "Figure 6.14": 14, "Figure 6.16": 8}
"""How many windows of tuples arrive: enough to fill the window of the slowest stream."""

Runs = Mapping[str, Run]


def exhibits(*, quick: bool) -> list[Exhibit]:
    """All four."""
    plan = QUICK if quick else Plan()
    return [_rids(plan), _ca(plan), _oap(plan), _oac(plan)]


def known_of(kind: Kind, feed: Feed) -> Given:
    """The values of k that hold for a feed."""
    if kind == "rids":
        found = enumerate(feed.graph.edges)
        return {("rids", edge.parent, edge.child): streams.worst_join_distance(feed, n) for n, edge in found}
    worst = streams.worst_clustering if kind == "ca" else streams.worst_scrambling
    child = kind == "oac"
    return {(kind, e.parent, e.child): worst(feed, e.child if child else e.parent) for e in feed.graph.edges}


def config_of(kind: Kind) -> ConstraintConfig:
    """One kind of constraint, and its k given."""
    return ConstraintConfig("discard", "tuples", sample_share=0, kinds=frozenset({kind}), selection="all")


def _runs(name: str, kind: Kind, plan: Plan, make: Callable[[int, int, int], Feed]) -> Runs:
    tuples = int(LENGTHS[name] * plan.window * plan.windows_long)
    found: dict[str, Run] = {}
    for k in plan.ks:
        feed = make(k, tuples, 6)
        found[f"k = {k:,}"] = run(feed, plan.window, plan.batch, config_of(kind), known_of(kind, feed))
        if k == plan.ks[-1]:
            found[SWJ] = run(feed, plan.window, plan.batch)
        if k == plan.ks[-1] and len(found[SWJ].results_at) != len(found[f"k = {k:,}"].results_at):
            raise AssertionError("a constraint that holds has lost results")
    return found


def _rids(plan: Plan) -> Exhibit:
    name = "Figure 6.10"
    found = _runs(name, "rids", plan, streams.referential)
    return Exhibit(name, _told(found), _bars(name, found), [_chart(found)], table=_table(found))


def _ca(plan: Plan) -> Exhibit:
    name = "Figure 6.12"
    found = _runs(name, "ca", plan, streams.clustered)
    peaks = [_peak_at(each) for label, each in found.items() if label != SWJ]
    full = 11 * plan.window
    bars = [
        *_bars(name, found),
        at_most(f"{name} tuples at half of the peak / at which windows are full", max(peaks) / full, HALF_WAY),
    ]
    return Exhibit(name, _told(found), bars, [_chart(found, log=True)], table=_table(found))


def _oap(plan: Plan) -> Exhibit:
    name = "Figure 6.14"
    found = _runs(name, "oap", plan, streams.clustered)
    spreads = [_spread(each) for label, each in found.items() if label != SWJ]
    bars = [
        *_bars(name, found),
        at_least(f"{name} variation, largest k / second smallest", spreads[-1] / max(spreads[1], 1e-9), 1.0),
    ]
    return Exhibit(name, _told(found), bars, [_chart(found, log=True)], table=_table(found))


def _oac(plan: Plan) -> Exhibit:
    name = "Figure 6.16"
    found = _runs(name, "oac", plan, streams.children_ordered)
    drops = {label: _drop(each) for label, each in found.items() if label != SWJ}
    third, last = list(drops.values())[-2:]
    bars = [
        *_bars(name, found),
        informed(f"{name} fall from a peak, second largest k", third, "share of the peak; paper: sharp"),
        informed(f"{name} fall from a peak, largest k", last, "share of the peak; paper: weaker"),
    ]
    return Exhibit(name, _told(found), bars, [_chart(found)], table=_table(found))


def _bars(name: str, found: Runs) -> list[Bar]:
    """It grows with k and stays below SWJ."""
    swj = found[SWJ].late
    sizes = [each.late for label, each in found.items() if label != SWJ]
    growth = min(b / a for a, b in pairwise(sizes))
    return [
        at_least(f"{name} memory, larger k / smaller k, least", growth, 1 / BELOW, "paper: grows with k"),
        at_most(f"{name} memory, largest k / SWJ", sizes[-1] / swj, BELOW, "paper: below SWJ"),
        informed(f"{name} memory, smallest k / SWJ", sizes[0] / swj),
    ]


def _told(found: Runs) -> str:
    listed = "; ".join(f"{label}: {each.late:,.0f} KB" for label, each in found.items())
    return f"Memory over the last quarter: {listed}."


def _table(found: Runs) -> list[tuple[str, ...]]:
    head = ("", "memory at the end, KB", "highest, KB", "results")
    rows = [(n, f"{e.late:,.0f}", f"{e.kilobytes.max():,.0f}", f"{len(e.results_at):,}") for n, e in found.items()]
    return [head, *rows]


def _chart(found: Runs, *, log: bool = False) -> Chart:
    series = []
    for label, each in found.items():
        values = np.log10(np.maximum(each.kilobytes, 0.1)) if log else each.kilobytes
        series.append(Series(label, thinned(values)))
    x = thinned(next(iter(found.values())).tuples)
    return Chart("tuples", "log10 of KB" if log else "KB", x, series)


def _peak_at(each: Run) -> float:
    """After how many tuples memory is half of its highest."""
    return float(each.tuples[np.argmax(each.kilobytes >= each.kilobytes.max() / 2)])


def _spread(each: Run) -> float:
    half = each.kilobytes[len(each.kilobytes) // 2 :]
    return float(half.max() - half.min())


def _drop(each: Run) -> float:
    """The largest fall from a peak, as a share of it."""
    return float((1 - each.kilobytes / np.maximum.accumulate(each.kilobytes)).max())
