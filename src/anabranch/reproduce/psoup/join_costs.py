"""Figure 8 and figure 11: what joins cost, when they are invoked and when a query arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from anabranch.measure import at_least, at_most, informed
from anabranch.reproduce.psoup import workload
from anabranch.reproduce.psoup.data_stem import DataStem
from anabranch.reproduce.psoup.joins import JoinSoup, composite, separate
from anabranch.reproduce.psoup.names import COMPLETE, HALF_ORDER, NOMAT, PARTIAL, TWO_ORDERS
from anabranch.reproduce.psoup.predicates import Factor, JoinFactor, JoinQuery, Query, Relop
from anabranch.reproduce.psoup.running import MATERIALISE, microseconds, response
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

PAPER_WINDOW, PAPER_RATIO = 576, 29.98 / 8.54
INEQUALITIES: tuple[Relop, ...] = ("<", "<=", ">=", ">")
# RELOP2 joins, RELOP3 is shared by all hybrid structs.
WORKLOADS: dict[str, tuple[Relop, Relop]] = {
    "shared =, join >": (">", "="),
    "shared >, join =": ("=", ">"),
    "shared >, join >": (">", ">"),
}


@dataclass(frozen=True)
class Plan:
    """Windows of figure 8 and queries per point; tuples of R and S for figure 11."""

    windows: Sequence[int] = (64, 128, 256, 384, 576)
    queries: int = 24
    tuples: Sequence[int] = (250, 500, 1000, 2000)


QUICK = Plan(windows=(64, 256, 576), queries=8, tuples=(250, 1000))


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figures 8 and 11."""
    plan = QUICK if quick else Plan()
    return [_figure_8(plan), _figure_11(plan)]


def join_queries(count: int, rng: np.random.Generator) -> list[JoinQuery]:
    """An inequality on R, one on S, and ``R.a RELOP S.b +/- c``."""
    found = []
    for _ in range(count):
        relops = [INEQUALITIES[place] for place in rng.integers(0, len(INEQUALITIES), 3)]
        left, right, both = (int(constant) for constant in workload.constants(3, rng))
        join = JoinFactor(0, relops[1], 0, both if rng.random() < 0.5 else -both)
        found.append(JoinQuery(Query((Factor(0, relops[0], left),)), Query((Factor(0, relops[2], right),)), join))
    return found


def responses(window: int, queries: Sequence[JoinQuery]) -> tuple[dict[str, float], float]:
    """Microseconds per invocation by system, and the pairs that a query answers."""
    rng = np.random.default_rng([8, window])
    rows = {"R": workload.rows(window, rng, 2), "S": workload.rows(window, rng, 2)}
    micros, answers = {}, []
    for name, materialise in MATERIALISE.items():
        soup = JoinSoup((2, 2), window, materialise)
        soup.insert_all("R", rows["R"])
        soup.insert_all("S", rows["S"])
        numbers = [soup.register(query) for query in queries]
        micros[name] = response(soup.invoke, len(numbers))
        answers.append([sorted(zip(*(part.tolist() for part in soup.matches(n)), strict=True)) for n in numbers])
    if any(each != answers[0] for each in answers):
        raise AssertionError("systems disagree about a query's answer")
    return micros, float(np.mean([len(each) for each in answers[0]]))


def _figure_8(plan: Plan) -> Exhibit:
    queries = join_queries(plan.queries, np.random.default_rng(88))
    found = [responses(window, queries) for window in plan.windows]
    last, pairs = found[-1]
    ratios = {name: last[NOMAT] / last[name] for name in (PARTIAL, COMPLETE)}
    order = last[PARTIAL] / last[COMPLETE]
    return Exhibit(
        "Figure 8",
        f"Windows of {plan.windows[-1]}, {pairs:,.0f} of {plan.windows[-1] ** 2:,} pairs: NoMat "
        f"{last[NOMAT] / 1000:.1f} ms, PSoup-P {last[PARTIAL] / 1000:.2f} ms, PSoup-C {last[COMPLETE] / 1000:.2f} ms.",
        [
            at_least("Figure 8 NoMat / PSoup-P", ratios[PARTIAL], TWO_ORDERS, "paper: two orders of magnitude"),
            at_least("Figure 8 NoMat / PSoup-C", ratios[COMPLETE], TWO_ORDERS, "paper: two orders of magnitude"),
            at_least("Figure 8 PSoup-P / PSoup-C", order, PAPER_RATIO / HALF_ORDER, f"paper {PAPER_RATIO:.1f}"),
            at_most("Figure 8 PSoup-P / PSoup-C", order, 10.0, "paper: less than one order of magnitude"),
            at_least("Figure 8 NoMat / PSoup-P, direction", ratios[PARTIAL], 1.0),
            at_least("Figure 8 NoMat / PSoup-C, direction", ratios[COMPLETE], 1.0),
        ],
        [
            Chart(
                "tuples in each window",
                "ms per invocation",
                plan.windows,
                [Series(name, [micros[name] / 1000 for micros, _ in found]) for name in MATERIALISE],
            )
        ],
    )


@dataclass(frozen=True)
class Probed:
    """Separate hybrid structs against a composite tuple: microseconds, factors that probe, entries visited."""

    micros: tuple[float, float]
    factors: tuple[int, int]
    entries: tuple[int, int]


def probes(name: str, tuples: int) -> Probed:
    """Step 5 of figure 4 for one query, both ways."""
    rng = np.random.default_rng([11, tuples])
    stems = []
    for _ in "RS":
        stem = DataStem(1, tuples)
        stem.insert(workload.rows(tuples, rng, 1))
        stems.append(stem)
    join, shared = WORKLOADS[name]
    query = JoinQuery(Query(()), Query((Factor(0, shared, 128),)), JoinFactor(0, join, 0))
    r, s = stems
    left = np.arange(tuples)
    s.index(0)
    micros, factors, entries, pairs = [], [], [], []
    for probe in (separate, composite):
        before, asked = s.steps, s.factors
        found = probe(query, left, r, s)
        factors.append(s.factors - asked)
        entries.append(s.steps - before + (len(found[0]) if probe is composite else 0))
        pairs.append(sorted(zip(*(part.tolist() for part in found), strict=True)))
        micros.append(microseconds(partial(probe, query, left, r, s)))
    if pairs[0] != pairs[1]:
        raise AssertionError("composite tuples and separate hybrid structs disagree")
    return Probed((micros[0], micros[1]), (factors[0], factors[1]), (entries[0], entries[1]))


def _figure_11(plan: Plan) -> Exhibit:
    found = {name: [probes(name, tuples) for tuples in plan.tuples] for name in WORKLOADS}
    last = {name: runs[-1] for name, runs in found.items()}
    gains = {name: run.micros[0] / run.micros[1] for name, run in last.items()}
    equal, sorted_, neither = WORKLOADS
    halved = last[equal].factors[0] / last[equal].factors[1]
    series = []
    for name, runs in found.items():
        for place, how in enumerate(("separate", "composite")):
            series.append(Series(f"{name}, {how}", [float(np.log10(run.micros[place])) for run in runs]))
    return Exhibit(
        "Figure 11",
        "Separate / composite, in time: " + "; ".join(f"{name}: {gain:.0f}" for name, gain in gains.items()) + ".",
        [
            at_least("Figure 11 factors that probe, separate / composite", halved, 1.9, "counted; paper: half as many"),
            at_least(f"Figure 11 time, separate / composite, {equal}", gains[equal], 2.0, "paper: about 2"),
            at_least(f"Figure 11 time, separate / composite, {sorted_}", gains[sorted_], 1.0, "paper: above 1"),
            at_most(f"Figure 11 time, separate / composite, {neither}", gains[neither], 1.0, "paper: below 1"),
            informed(
                f"Figure 11 entries, separate / composite, {neither}",
                last[neither].entries[0] / last[neither].entries[1],
                "counted",
            ),
        ],
        [Chart("tuples of R and of S", "log10 of us per query", plan.tuples, series, log_x=True)],
    )
