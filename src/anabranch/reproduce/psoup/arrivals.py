"""Figure 9 and the choice of section 5.3: what the arrival of a tuple costs, alone and with invocations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.measure import at_least, at_most, informed
from anabranch.model.arrays import Counts
from anabranch.reproduce.psoup import workload
from anabranch.reproduce.psoup.names import COMPLETE, NOMAT, ONE_ORDER, PARTIAL, TWO_ORDERS, UNCHANGED
from anabranch.reproduce.psoup.predicates import Query
from anabranch.reproduce.psoup.query_stem import Probing
from anabranch.reproduce.psoup.running import MATERIALISE, MICRO, system
from anabranch.reproduce.psoup.system import PSoup
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

WINDOW = 1000
KINDS: dict[str, Probing] = {"index": "index", "one by one": "one by one", "as arrays": "all at once"}
SHARED, UNSHARED, VECTORS = ((PARTIAL, kind) for kind in KINDS)
COMPLETE_SHARED, COMPLETE_UNSHARED = (COMPLETE, "index"), (COMPLETE, "one by one")
SYSTEMS = (SHARED, UNSHARED, VECTORS, COMPLETE_SHARED, COMPLETE_UNSHARED)

Rates = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Plan:
    """Numbers of queries, tuples that arrive; for the choice: invocations per tuple, and at most so many in all."""

    queries: Sequence[int] = tuple(2**power for power in range(7, 13))
    tuples: int = 400
    invocations: Sequence[float] = (0.01, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
    most: int = 30_000


QUICK = Plan(queries=(2**7, 2**9, 2**12), tuples=100, invocations=(0.01, 0.1, 1, 10, 100), most=5_000)


@dataclass(frozen=True)
class Arrived:
    """Tuples per second by system, and what a probe counted: factors compared, cells and nodes of the index."""

    rates: Rates
    comparisons: float
    cells: float
    nodes: float


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figure 9 and the choice."""
    plan = QUICK if quick else Plan()
    return [_figure_9(plan), _choice(plan)]


def arrivals(count: int, tuples: int) -> Arrived:
    """All systems, with so many queries of one to four intervals."""
    rng = np.random.default_rng([9, count])
    rows, new, queries = workload.rows(WINDOW, rng), workload.rows(tuples, rng), workload.interval_queries(count, rng)
    rates: Rates = {}
    answers, comparisons, cells = [], 0, 0
    for name, kind in SYSTEMS:
        soup = system(MATERIALISE[name], KINDS[kind], rows, queries)
        rates[name, kind] = tuples / _seconds(soup, new)
        answers.append([sorted(soup.slots(query).tolist()) for query in range(0, count, 16)])
        comparisons = max(comparisons, soup.queries.steps.comparisons if kind == "one by one" else 0)
        cells = max(cells, soup.queries.steps.cells)
    if any(each != answers[0] for each in answers):
        raise AssertionError("systems disagree about a query's answer")
    nodes = [soup.queries.visited(row) for row in new[:20].tolist()]
    return Arrived(rates, comparisons / tuples, cells / tuples, float(np.mean(nodes)))


def _seconds(soup: PSoup, rows: Counts) -> float:
    soup.queries.build()
    begin = time.perf_counter()
    soup.insert_all(rows)
    return time.perf_counter() - begin


def _figure_9(plan: Plan) -> Exhibit:
    found = [arrivals(count, plan.tuples) for count in plan.queries]
    first, last = found[0], found[-1]
    gains = [each.rates[SHARED] / each.rates[UNSHARED] for each in found]
    counted = [each.comparisons / each.nodes for each in found]
    behind = last.rates[SHARED] / last.rates[COMPLETE_SHARED]
    series = [Series(", ".join(each), [float(np.log10(run.rates[each])) for run in found]) for each in SYSTEMS]
    return Exhibit(
        "Figure 9",
        f"{plan.queries[-1]:,} queries: PSoup-P with the index takes {last.rates[SHARED]:,.0f} tuples/s, "
        f"{gains[-1]:.1f} times as many as without ({gains[0]:.1f} times with {plan.queries[0]} queries), "
        f"{last.rates[SHARED] / last.rates[VECTORS]:.2f} times as many as with factors as arrays, {behind:.1f} and "
        f"{last.rates[SHARED] / last.rates[COMPLETE_UNSHARED]:.1f} times as many as PSoup-C with and without it.",
        [
            at_least(
                "Figure 9 PSoup-P shared / unshared, most queries", gains[-1], ONE_ORDER, "paper: an order of magnitude"
            ),
            at_least(
                "Figure 9 PSoup-P shared / unshared, most queries / fewest", gains[-1] / gains[0], 2.0, "paper: grows"
            ),
            at_least(
                "Figure 9 PSoup-P / PSoup-C, both shared, most queries",
                behind,
                TWO_ORDERS,
                "paper: two orders of magnitude",
            ),
            at_most(
                "Figure 9 PSoup-C shared / unshared, most queries",
                last.rates[COMPLETE_SHARED] / last.rates[COMPLETE_UNSHARED],
                UNCHANGED,
                "paper: almost no difference",
            ),
            informed(
                "Figure 9 PSoup-P index / as arrays, most queries", last.rates[SHARED] / last.rates[VECTORS], "ours"
            ),
            at_least("Figure 9 factors compared / nodes visited, growth", counted[-1] / counted[0], 2.0, "counted"),
            at_most("Figure 9 nodes visited, growth / that of queries", _growth(plan, first, last), 0.5, "counted"),
            informed("Figure 9 cells counted per tuple, most queries", last.cells, "counted; not in the paper"),
        ],
        [Chart("queries", "log10 of tuples per second", plan.queries, series, log_x=True)],
        table=_table(plan, found),
    )


def _growth(plan: Plan, first: Arrived, last: Arrived) -> float:
    return (last.nodes / first.nodes) / (plan.queries[-1] / plan.queries[0])


def _table(plan: Plan, found: Sequence[Arrived]) -> list[tuple[str, ...]]:
    head = ("queries", *(f"{', '.join(each)}, tuples/s" for each in SYSTEMS))
    counts = ("factors compared one by one", "nodes visited", "cells counted")
    rows = [
        (
            f"{count:,}",
            *(f"{run.rates[each]:,.0f}" for each in SYSTEMS),
            f"{run.comparisons:,.0f}",
            f"{run.nodes:,.0f}",
            f"{run.cells:,.0f}",
        )
        for count, run in zip(plan.queries, found, strict=True)
    ]
    return [(*head, *counts), *rows]


def mixed(soup: PSoup, rows: Counts, invocations: float, queries: int) -> float:
    """Microseconds per arriving tuple, with so many invocations each, of one query after the other."""
    due, query = 0.0, 0
    begin = time.perf_counter()
    for row in rows.tolist():
        soup.insert(row)
        due += invocations
        while due >= 1:
            soup.invoke(query % queries)
            due, query = due - 1, query + 1
    return (time.perf_counter() - begin) / MICRO / len(rows)


def _choice(plan: Plan) -> Exhibit:
    rng = np.random.default_rng(53)
    rows, queries = workload.rows(WINDOW, rng), workload.interval_queries(1024, rng)
    costs = {name: [_mixed(plan, name, rows, queries, each) for each in plan.invocations] for name in MATERIALISE}
    cheapest = [min(zip(each, costs, strict=True))[1] for each in zip(*costs.values(), strict=True)]
    listed = "; ".join(f"{each:g}: {name}" for each, name in zip(plan.invocations, cheapest, strict=True))
    return Exhibit(
        "Section 5.3",
        f"The cheapest of the three by invocations per tuple: {listed}.",
        [
            at_least("Section 5.3 PSoup-P / NoMat, fewest invocations", costs[PARTIAL][0] / costs[NOMAT][0], 1.0),
            at_least("Section 5.3 PSoup-C / PSoup-P, fewest invocations", costs[COMPLETE][0] / costs[PARTIAL][0], 1.0),
            at_least("Section 5.3 NoMat / PSoup-P, most invocations", costs[NOMAT][-1] / costs[PARTIAL][-1], 1.0),
            at_least("Section 5.3 PSoup-P / PSoup-C, most invocations", costs[PARTIAL][-1] / costs[COMPLETE][-1], 1.0),
        ],
        [
            Chart(
                "invocations per tuple, 1024 queries, window of 1000",
                "log10 of us per tuple",
                [100 * each for each in plan.invocations],
                [Series(name, [float(np.log10(each)) for each in values]) for name, values in costs.items()],
                log_x=True,
            )
        ],
    )


def _mixed(plan: Plan, name: str, rows: Counts, queries: Sequence[Query], invocations: float) -> float:
    soup = system(MATERIALISE[name], "index", rows, queries)
    soup.queries.build()
    tuples = int(min(plan.tuples, max(plan.most / max(invocations, 1), 20)))
    return mixed(soup, workload.rows(tuples, np.random.default_rng(1)), invocations, len(queries))
