"""Figures 6.17 and 6.18: two constraints that help each other, and two of which one gets in the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anabranch.constraints.config import ConstraintConfig, Kind, Selection
from anabranch.constraints.constraint_set import Given
from anabranch.measure import at_least, at_most, informed
from anabranch.reproduce.constraints import streams
from anabranch.reproduce.constraints.running import Run, run, thinned
from anabranch.reproduce.constraints.streams import Feed
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

CA_ALONE, OAC_ALONE, BOTH, BY_COST = "CA", "OAC", "both", "by cost"
NEAR = 1.15


@dataclass(frozen=True)
class Plan:
    """Rows of a window, tuples of a batch, how late S3 is, spread of clusters, values of k, windows of tuples."""

    window: int = 50_000
    batch: int = 1_000
    late: int = 5_000
    clusters: int = 5_000
    ks: Sequence[int] = (0, 500, 1_000, 2_000, 4_000, 8_000)
    windows_long: int = 6


QUICK = Plan(window=2_500, batch=100, late=250, clusters=250, ks=(0, 25, 50, 100, 200, 400), windows_long=5)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Both figures."""
    plan = QUICK if quick else Plan()
    return [_figure_6_17(plan), _figure_6_18(plan)]


def _config(*kinds: Kind, selection: Selection = "all") -> ConstraintConfig:
    return ConstraintConfig("discard", "tuples", sample_share=0, kinds=frozenset(kinds), selection=selection)


def _figure_6_17(plan: Plan) -> Exhibit:
    name = "Figure 6.17"
    feed = streams.dangling(plan.late, 0.25, 10 * plan.window, 17)
    clusters: Given = {("ca", 0, 1): 0}
    ordered: Given = {("oac", 0, 2): streams.worst_scrambling(feed, 2)}
    found = {
        CA_ALONE: run(feed, plan.window, plan.batch, _config("ca"), clusters),
        OAC_ALONE: run(feed, plan.window, plan.batch, _config("oac"), ordered),
        BOTH: run(feed, plan.window, plan.batch, _config("ca", "oac"), {**clusters, **ordered}),
    }
    least = min(found[CA_ALONE].late, found[OAC_ALONE].late)
    times = {label: each.microseconds for label, each in found.items()}
    return Exhibit(
        name,
        "; ".join(f"{label}: {each.late:,.0f} KB, {times[label]:.2f} us per tuple" for label, each in found.items()),
        [
            at_most(f"{name} memory, both / the better one alone", found[BOTH].late / least, 1.0, "paper: least"),
            at_most(f"{name} results missed", _missed(found), 0),
            informed(f"{name} time, both / OAC alone", times[BOTH] / times[OAC_ALONE], "paper: 28.22 / 23.14"),
            informed(f"{name} time, CA alone / OAC alone", times[CA_ALONE] / times[OAC_ALONE], "paper: 25.2 / 23.14"),
        ],
        [
            Chart(
                "tuples",
                "KB",
                thinned(found[BOTH].tuples),
                [Series(label, thinned(each.kilobytes)) for label, each in found.items()],
            )
        ],
    )


def _missed(found: Mapping[str, Run]) -> int:
    counts = [len(each.results_at) for each in found.values()]
    return max(counts) - min(counts)


def _figure_6_18(plan: Plan) -> Exhibit:
    name = "Figure 6.18"
    sizes: dict[str, list[float]] = {CA_ALONE: [], BOTH: [], BY_COST: []}
    for k in plan.ks:
        feed = streams.clustered_and_referential(plan.clusters, k, plan.windows_long * plan.window, 18)
        for label, each in _alternatives(feed, plan).items():
            sizes[label].append(each.late)
    ratios = np.divide(sizes[BOTH], sizes[CA_ALONE])
    best = np.minimum(sizes[BOTH], sizes[CA_ALONE])
    crossing = _crossing(plan.ks, ratios.tolist())
    listed = ", ".join(f"{k:,}: {ratio:.2f}" for k, ratio in zip(plan.ks, ratios, strict=True))
    return Exhibit(
        name,
        f"Memory of both / CA alone by k: {listed}; "
        f"equal near k = {crossing:,.0f}, which is {crossing / plan.clusters:.2f} of the clusters' k.",
        [
            at_most(f"{name} both / CA alone, smallest k", ratios[0], 1.0, "paper: better"),
            at_least(f"{name} both / CA alone, largest k", ratios[-1], 1.0, "paper: worse from about 2,000 on"),
            at_least(f"{name} k where both are equal / k of CA", crossing / plan.clusters, 0.1, "paper: 0.4"),
            at_most(f"{name} k where both are equal / k of CA, at most", crossing / plan.clusters, 1.0, "paper: 0.4"),
            at_most(f"{name} chosen by cost / the better one", float(np.max(sizes[BY_COST] / best)), NEAR, "ours"),
        ],
        [Chart("k of RIDS", "KB", plan.ks, [Series(label, each) for label, each in sizes.items()])],
    )


def _alternatives(feed: Feed, plan: Plan) -> dict[str, Run]:
    clusters: Given = {("ca", 0, 1): streams.worst_clustering(feed, 0)}
    both: Given = {**clusters, ("rids", 0, 1): streams.worst_join_distance(feed, 0)}
    found = {
        CA_ALONE: run(feed, plan.window, plan.batch, _config("ca"), clusters),
        BOTH: run(feed, plan.window, plan.batch, _config("ca", "rids"), both),
        BY_COST: run(feed, plan.window, plan.batch, _config("ca", "rids", selection="cost"), both),
    }
    if _missed(found):
        raise AssertionError("constraints that hold have lost results")
    return found


def _crossing(ks: Sequence[int], ratios: Sequence[float]) -> float:
    """Where the ratio passes 1."""
    for (k, ratio), (next_k, following) in pairwise(zip(ks, ratios, strict=True)):
        if ratio <= 1 < following:
            return k + (next_k - k) * (1 - ratio) / (following - ratio)
    return float("nan")
