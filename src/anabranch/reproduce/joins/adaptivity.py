"""Figures 5.22 and 5.23: caches that follow a burst, and caches in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.joins.cache_candidates import prefix_candidates
from anabranch.joins.cache_cost import BYTES_PER_REFERENCE
from anabranch.measure import at_least, at_most, informed
from anabranch.reproduce.joins.plans import POINTS, trees
from anabranch.reproduce.joins.running import PLENTY, Mjoin, Run, run
from anabranch.reproduce.joins.tuplewise import Tree, Tuplewise
from anabranch.reproduce.joins.workload import burst, selective
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

FOR_T, FOR_R = "T with (R, S)", "R with (T, S)"
ADAPTIVE = "adaptive"
CACHES = {FOR_T: (2, (1, 0)), FOR_R: (0, (1, 2))}
ORDERS = ((1, 2), (0, 2), (1, 0))
ALIKE = ((3, 1, 2), (2, 3, 0), (1, 3, 0), (0, 1, 2))
"""At D8 all selectivities are equal, and so are all orders: in these caches have the prefix invariant."""
FASTER, MULTIPLICITY = 20, 5
NEAR, NEAR_AFTER = 1.1, 1.1
KILOBYTE = 1024


@dataclass(frozen=True)
class Plan:
    """Values, cycles before and in the burst, rows of a batch; rows and sizes of memory for D8."""

    values: int = 1_000
    calm: int = 20
    stormy: int = 10
    batch: int = 500
    interval: int = 100
    rows: int = 24_000
    window: int = 1_000
    kilobytes: Sequence[float] = (0, 8, 16, 32, 64, 128, 256, 512)


QUICK = Plan(300, 16, 8, 200, 60, 8_000, 500, (0, 16, 64, 256))


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Both figures."""
    plan = QUICK if quick else Plan()
    return [_burst(plan), _memory(plan)]


def _burst(plan: Plan) -> Exhibit:
    name = "Figure 5.22"
    feed, begins = burst(plan.values, plan.calm, plan.stormy, MULTIPLICITY, FASTER)
    adaptive = Mjoin(feed, PLENTY, 6, orders=ORDERS, interval=plan.interval)
    found = {ADAPTIVE: run(adaptive, feed, plan.batch)}
    for label, cache in CACHES.items():
        found[label] = run(Mjoin(feed, PLENTY, forced=[cache], orders=ORDERS), feed, plan.batch)
    if len({each.results for each in found.values()}) > 1:
        raise AssertionError("caches have changed the answer")
    lines = {label: _by_row(each) for label, each in found.items()}
    first = -(-begins // plan.batch)
    before, after = slice(first // 2, first), slice(first + (len(lines[ADAPTIVE]) - first) // 2, None)
    calm = {label: float(each[before].mean()) for label, each in lines.items()}
    storm = {label: float(each[after].mean()) for label, each in lines.items()}
    settled = _settled(lines[ADAPTIVE][first:], NEAR_AFTER * storm[FOR_R])
    uses = {
        label: float(np.mean([(number, frozenset(windows)) in each for each in adaptive.used_by_tick[part]]))
        for part, (label, (number, windows)) in zip((before, after), CACHES.items(), strict=True)
    }
    bars = [
        at_most(f"{name} steps before the burst, adaptive / {FOR_T}", calm[ADAPTIVE] / calm[FOR_T], NEAR),
        at_least(f"{name} steps in the burst, {FOR_T} / {FOR_R}", storm[FOR_T] / storm[FOR_R], 1.0),
        at_most(f"{name} steps in the burst, adaptive / {FOR_R}", storm[ADAPTIVE] / storm[FOR_R], NEAR_AFTER),
        at_least(f"{name} share of batches with the cache for T, before", uses[FOR_T], 0.5),
        at_least(f"{name} share of batches with the cache for R, in the burst", uses[FOR_R], 0.5),
        informed(f"{name} batches until within {NEAR_AFTER} of {FOR_R}", settled, f"of {plan.batch} rows"),
    ]
    told = "; ".join(f"{label} {calm[label]:.2f}, then {storm[label]:.2f}" for label in lines)
    chart = Chart(
        "rows",
        "steps for a row",
        [float(plan.batch * place) for place in range(len(lines[ADAPTIVE]))],
        [Series(label, each.tolist()) for label, each in lines.items()],
    )
    return Exhibit(
        name, f"Steps for a row before and in the burst: {told}; {settled} batches to settle.", bars, [chart]
    )


def _by_row(each: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([steps / max(rows, 1) for rows, steps, _ in each.by_batch])


def _settled(values: np.ndarray[tuple[int], np.dtype[np.float64]], limit: float) -> int:
    """After how many batches it stays below, on average of what is left."""
    means = np.cumsum(values[::-1])[::-1] / np.arange(len(values), 0, -1)
    return int(np.argmax((values <= limit) & (means <= limit))) if (means <= limit).any() else len(values)


def _memory(plan: Plan) -> Exhibit:
    name = "Figure 5.23"
    rates, selectivities = POINTS["D8"]
    scale = plan.window / 1_000
    feed = selective(rates, [each / scale for each in selectivities], plan.rows, plan.window)
    counted = Tuplewise(feed)
    orders = ALIKE
    used = counted.chosen(orders, prefix_candidates(orders))
    if not used:
        raise AssertionError("no cache is worth its memory")
    sizes = {_label(tree): _bytes(counted, tree, plan.window) for tree in trees()}
    best = min(trees(), key=lambda each: counted.tree(each).per_row)
    forced = [(each.pipeline, each.windows) for each in used]
    limits = [max(1, int(KILOBYTE * each)) for each in plan.kilobytes]
    plans = [Mjoin(feed, limit, forced=forced, orders=orders) for limit in limits]
    runs = [run(each, feed, plan.window // 5) for each in plans]
    hits = [each.hits for each in plans]
    with_caches, plain = counted.cached(orders, used).per_row, counted.plain(orders).per_row
    bushy = min(size for label, size in sizes.items() if label == "bushy")
    bars = [
        at_most(f"{name} P / M with enough memory, the paper's way", with_caches / plain, 1.0),
        at_least(f"{name} hits grow with memory, ours", float((np.diff(hits) >= -0.02).all()), 1.0, "smoothly"),
        at_most(f"{name} largest rise of hits from one size to the next, ours", float(np.diff(hits).max()), 0.7),
        informed(f"{name} KB that a left-deep tree keeps / a bushy one", sizes["left-deep"] / bushy, "paper: 5/4"),
        informed(f"{name} KB of the best X ({_label(best)})", _bytes(counted, best, plan.window) / KILOBYTE),
    ]
    told = ", ".join(f"{size:g} KB {hit:.2f}" for size, hit in zip(plan.kilobytes, hits, strict=True))
    charts = [
        Chart("KB", "share of look-ups", list(plan.kilobytes), [Series("hits", hits)]),
        Chart("KB", "steps for a row, ours", list(plan.kilobytes), [Series("P", [each.per_row for each in runs])]),
    ]
    return Exhibit(name, f"Hits of {len(used)} caches by memory: {told}.", bars, charts)


def _label(tree: Tree) -> str:
    return "left-deep" if isinstance(tree, tuple) and isinstance(tree[1], int) else "bushy"


def _bytes(counted: Tuplewise, tree: Tree, window: int) -> float:
    """What inner results take: references and both ends of an interval for each combination."""
    total = 0.0
    for inner in _inner(tree):
        total += window * counted.combinations(inner) * BYTES_PER_REFERENCE * (len(inner) + 2)
    return total


def _inner(tree: Tree) -> list[tuple[int, ...]]:
    """The windows of each inner result."""
    match tree:
        case (((int(a), int(b)), int(c)), int()):
            return [(a, b), (a, b, c)]
        case ((int(a), int(b)), (int(c), int(d))):
            return [(a, b), (c, d)]
    raise AssertionError(tree)
