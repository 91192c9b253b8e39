"""Figures 4.15 and 4.17, and the counted part of 4.16 and 4.18: what adaptivity costs once nothing changes any more.

All policies start from the written order, in which every group stands together, and are measured after they settled.

Notes
-----
Run-time overhead -> profiling evaluations, weighted by their cost; what is not an evaluation is timed in `breakdown`.

Differs from the paper
----------------------
The drop-profiling probability of figure 4.17 is not given: Table 4.1's is used, and 0.05 is shown next to it. Nor is
said which filters are expensive, where they stand at first, and for how long the policies run before they are measured:
here the first half of the written order, so that all policies have a long way to go, and 700,000 tuples. What becomes
of LocalSwaps later is shown next to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anabranch.measure import at_least, at_most, informed
from anabranch.reproduce.thesis.exhibit import LABELS, Chart, Exhibit, Mark, Series, rate_chart
from anabranch.reproduce.thesis.running import OURS, THESIS, Measured, Setting, Spent, means, ratio
from anabranch.reproduce.thesis.workload import Workload

POLICIES = (*THESIS, OURS)
FILTERS = 8
BUSY_PROBABILITY = 0.05
SEED = 415


@dataclass(frozen=True)
class Plan:
    """How much to measure: tuples before the policies have settled at both probabilities, and after."""

    filters: Sequence[int] = (3, 4, 5, 6, 7, 8)
    costs: Sequence[float] = (1, 10, 50, 100)
    before_busy: int = 200_000
    before: int = 700_000
    long_before: int = 1_500_000
    measured: int = 200_000
    repetitions: int = 4
    chunk: int = 500


QUICK = Plan((3, 5, 8), (1, 10, 100), 150_000, measured=100_000, repetitions=1, chunk=2000)


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figures 4.15 to 4.18."""
    plan = QUICK if quick else Plan()
    by_filters = [settled(n, 1, BUSY_PROBABILITY, plan) for n in plan.filters]
    by_cost = [settled(FILTERS, cost, None, plan) for cost in plan.costs]
    busy = means(settled(FILTERS, plan.costs[-1], BUSY_PROBABILITY, plan))["agreedy"].overhead
    later = settled(FILTERS, plan.costs[-1], None, replace(plan, before=plan.long_before), ("localswaps",))
    return [
        _rates_by_filters(plan, by_filters),
        _shares_by_filters(plan, [means(measured) for measured in by_filters]),
        _rates_by_cost(plan, by_cost, means(later)),
        _shares_by_cost(plan, [means(measured) for measured in by_cost], busy),
    ]


def settled(
    filters: int, expensive: float, probability: float | None, plan: Plan, policies: Sequence[str] = POLICIES
) -> Measured:
    """Each policy's cost of a tuple, per repetition; the first half of the filters has the given cost, the others 1."""
    before, found = plan.before if probability is None else plan.before_busy, Measured()
    costs = np.where(np.arange(filters) < filters // 2, expensive, 1.0)
    for repetition in range(plan.repetitions):
        passes = Workload(filters).draw(before + plan.measured, np.random.default_rng([SEED, repetition]))
        setting = Setting(costs, probability, chunk=plan.chunk, seed=repetition)
        found.setdefault("optimal", []).append(setting.optimum(passes[before:]))
        for name in policies:
            found.setdefault(name, []).append(setting.run(name, passes).between(before, len(passes)))
    return found


def _rates_by_filters(plan: Plan, found: Sequence[Measured]) -> Exhibit:
    averages, last = [means(measured) for measured in found], plan.filters[-1]
    gap = [ratio(each, "agreedy", "sweep") for each in averages]
    local, ours = ratio(averages[-1], "agreedy", "localswaps"), ratio(averages[-1], OURS, "optimal")
    return Exhibit(
        "Figure 4.15",
        f"A-Greedy / Sweep, total: {gap[0]:.3f} at n = {plan.filters[0]}, {gap[-1]:.3f} at n = {last}; "
        f"A-Greedy / LocalSwaps {local:.3f}; auto / Optimal {ours:.3f}.",
        [
            at_least(f"4.15 A-Greedy / Sweep, total, n = {last}", gap[-1], 1.05, "p = 0.05"),
            at_least(f"4.15 A-Greedy / LocalSwaps, total, n = {last}", local, 1.05, "p = 0.05"),
            at_least(
                "4.15 gap to Sweep, largest n / smallest n", (gap[-1] - 1) / (gap[0] - 1), 1.5, "increases with n"
            ),
            informed(f"4.15 auto / Optimal, total, n = {last}", ours, "profiling included"),
        ],
        [rate_chart("number of filters", plan.filters, found)],
    )


def _shares_by_filters(plan: Plan, averages: Sequence[Mapping[str, Spent]]) -> Exhibit:
    worst = {name: max(ratio(each, name, "optimal", "processing") for each in averages) for name in POLICIES}
    same = max(ratio(each, "sweep", "agreedy", "processing") for each in averages)
    few, many, last = averages[0], averages[-1], plan.filters[-1]
    growth = many["agreedy"].overhead / few["agreedy"].overhead
    good = ("agreedy", "sweep", "localswaps")
    return Exhibit(
        "Figure 4.16",
        f"Processing is within {max(worst[name] for name in good) - 1:.1%} of the optimum for A-Greedy, Sweep and "
        f"LocalSwaps. Profiling at n = {last}: {_shares(many)}.",
        [
            *(at_most(f"4.16 {LABELS[name]} / Optimal, processing, worst n", worst[name], 1.03) for name in good),
            at_most("4.16 Sweep / A-Greedy, processing, worst n", same, 1.02, "same order"),
            at_least("4.16 A-Greedy's profiling share, largest n / smallest n", growth, 2.0, "grows with n"),
            *(
                at_least(f"4.16 A-Greedy / {LABELS[name]}, profiling", ratio(many, "agreedy", name, "profiling"), 2.0)
                for name in ("sweep", "localswaps")
            ),
        ],
        [_columns("n", plan.filters, averages)],
        facts={"order": worst, "profiling": {name: many[name].overhead for name in POLICIES}},
    )


def _rates_by_cost(plan: Plan, found: Sequence[Measured], later: Mapping[str, Spent]) -> Exhibit:
    averages, top = [means(measured) for measured in found], f"c = {plan.costs[-1]:g}"
    dear = averages[-1]
    sweep, local = ratio(dear, "agreedy", "sweep"), ratio(dear, "agreedy", "localswaps")
    stuck, cheap, late = (ratio(each, "localswaps", "optimal", "processing") for each in (dear, averages[0], later))
    return Exhibit(
        "Figure 4.17",
        f"At {top}, total: A-Greedy / Sweep {sweep:.3f}, A-Greedy / LocalSwaps {local:.3f}, auto / Optimal "
        f"{ratio(dear, OURS, 'optimal'):.3f}. LocalSwaps / Optimal, processing: {stuck:.3f}, {cheap:.3f} at c = 1, and "
        f"{late:.3f} at {top} after {plan.long_before:,} tuples.",
        [
            at_least(f"4.17 A-Greedy / Sweep, total, {top}", sweep, 1.0, "p = 0.01"),
            at_least(f"4.17 A-Greedy / LocalSwaps, total, {top}", local, 1.0, "p = 0.01"),
            at_least(f"4.17 LocalSwaps / Sweep, total, {top}", sweep / local, 1.0, "Sweep performs better"),
            at_least(f"4.17 LocalSwaps / Optimal, processing, {top}", stuck, 1.02, "misses the best order"),
            at_most("4.17 LocalSwaps / Optimal, processing, c = 1", cheap, 1.02, "finds it"),
            informed(
                f"4.17 LocalSwaps / Optimal, processing, {top}, later", late, f"after {plan.long_before:,} tuples"
            ),
            informed(f"4.17 auto / Optimal, total, {top}", ratio(dear, OURS, "optimal"), "profiling included"),
        ],
        [rate_chart("cost c of the expensive filters", plan.costs, found, log_x=True)],
    )


def _shares_by_cost(plan: Plan, averages: Sequence[Mapping[str, Spent]], busy: float) -> Exhibit:
    share, top = {name: averages[-1][name].overhead for name in POLICIES}, f"c = {plan.costs[-1]:g}"
    cheap = averages[0]["agreedy"].overhead
    return Exhibit(
        "Figure 4.18",
        f"Profiling at {top}: {_shares(averages[-1])}. A-Greedy {cheap:.1%} at c = 1, and {busy:.1%} at {top} with "
        "p = 0.05.",
        [
            at_least(
                "4.18 A-Greedy's profiling share, largest c / c = 1", share["agreedy"] / cheap, 3.0, "much higher"
            ),
            informed(f"4.18 A-Greedy's profiling share, {top}, p = 0.01", share["agreedy"], "paper: about 0.25"),
            informed(f"4.18 A-Greedy's profiling share, {top}, p = 0.05", busy, "paper: about 0.25"),
            at_most(f"4.18 Sweep's profiling share, {top}", share["sweep"], 0.05, "stays low"),
            at_most(f"4.18 LocalSwaps' profiling share, {top}", share["localswaps"], 0.05, "stays low"),
        ],
        [_columns("c", plan.costs, averages), _overheads(plan.costs, averages)],
    )


def _shares(averages: Mapping[str, Spent]) -> str:
    return ", ".join(f"{LABELS[name]} {averages[name].overhead:.1%}" for name in POLICIES)


def _columns(letter: str, x: Sequence[float], averages: Sequence[Mapping[str, Spent]]) -> Chart:
    """Processing and profiling of each policy, relative to the optimum."""
    shown = [(value, name, each) for value, each in zip(x, averages, strict=True) for name in ("optimal", *POLICIES)]
    series = [
        Series(what, [float(getattr(each[name], what)) / each["optimal"].total for _, name, each in shown])
        for what in ("processing", "profiling")
    ]
    names = [f"{letter} = {value:g}|{LABELS[name]}" for value, name, _ in shown]
    return Chart("", "cost of a tuple / optimum", names, series, kind="columns")


def _overheads(x: Sequence[float], averages: Sequence[Mapping[str, Spent]]) -> Chart:
    series = [Series(LABELS[name], [100 * each[name].overhead for each in averages]) for name in POLICIES]
    marks = [Mark("paper: A-Greedy, about 25 %", 100, 25)]
    return Chart("cost c of the expensive filters", "profiling, % of the cost", x, series, log_x=True, marks=marks)
