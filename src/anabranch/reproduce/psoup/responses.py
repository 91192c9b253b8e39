"""Figure 7, Table 2 and where PSoup-P and PSoup-C cross: what an invocation of a selection costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.reproduce.psoup import workload
from anabranch.reproduce.psoup.names import (
    ARRAYS,
    COMPLETE,
    HALF_ORDER,
    NOMAT,
    ONE_ORDER,
    PARTIAL,
    TWO_ORDERS,
    UNCHANGED,
)
from anabranch.reproduce.psoup.predicates import Query
from anabranch.reproduce.psoup.running import response, same_answers, steps, systems
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Mark, Series

WINDOW = 2**15
PREDICATES = (1, 2, 4)
# Table 2 of the paper, in its milliseconds: NoMat, PSoup-P, PSoup-C.
TABLE_2 = {1: (0.3940, 0.0465, 0.0565), 2: (0.4905, 0.0240, 0.0210), 4: (0.8255, 0.0130, 0.0035)}


@dataclass(frozen=True)
class Plan:
    """Window sizes, queries per point, and the last values of the ranges for the crossover."""

    windows: Sequence[int] = tuple(2**power for power in range(7, 17))
    queries: int = 200
    ranges: Sequence[int] = (0, 1, 3, 7, 15, 31, 47, 63, 95, 127, 191, 255)
    repetitions: int = 20


QUICK = Plan(windows=(2**7, 2**10, 2**13, 2**16), queries=60, ranges=(0, 3, 15, 31, 63, 127, 255), repetitions=8)


@dataclass(frozen=True)
class Invoked:
    """What invocations cost, by system: microseconds, steps; and the tuples that they answer."""

    micros: dict[str, float]
    steps: dict[str, float]
    answered: float


def exhibits(*, quick: bool) -> list[Exhibit]:
    """Figure 7, Table 2 and the crossover."""
    plan = QUICK if quick else Plan()
    return [_figure_7(plan), _table_2(plan), _crossover(plan)]


def invocations(window: int, queries: Sequence[Query], seed: int) -> Invoked:
    """All systems on the same tuples and queries."""
    rows = workload.rows(window, np.random.default_rng([11, seed]))
    found, count = systems(rows, queries), len(queries)
    micros = {name: response(soup.invoke, count) for name, soup in found.items()}
    complete = found[COMPLETE]
    arrays = [complete.slots(query) for query in range(count)]
    micros[ARRAYS] = response(lambda query: complete.data.copy(arrays[query]), count)
    counted = {name: steps(soup, count) for name, soup in found.items()}
    return Invoked(micros, counted, same_answers(found, count))


def _figure_7(plan: Plan) -> Exhibit:
    kinds = {"equality": workload.equality_queries, "interval": workload.interval_queries}
    found = {
        kind: [
            invocations(window, make(plan.queries, np.random.default_rng([7, window])), window)
            for window in plan.windows
        ]
        for kind, make in kinds.items()
    }
    last = {kind: runs[-1] for kind, runs in found.items()}
    equality, interval = last["equality"], last["interval"]
    apart, alike = (_ratio(each, PARTIAL, COMPLETE) for each in (equality, interval))
    bits = plan.windows[-1] / max(equality.answered, 1)
    return Exhibit(
        "Figure 7",
        f"Window of {plan.windows[-1]:,}, equalities: {_told(equality)}; intervals: {_told(interval)}.",
        [
            at_least(
                "Figure 7a NoMat / PSoup-C, equality", _ratio(equality, NOMAT, COMPLETE), ONE_ORDER, "paper: much worse"
            ),
            at_least(
                "Figure 7b NoMat / PSoup-C, interval", _ratio(interval, NOMAT, COMPLETE), ONE_ORDER, "paper: much worse"
            ),
            at_least("Figure 7a NoMat / PSoup-P, equality", _ratio(equality, NOMAT, PARTIAL), 1.0, "paper: much worse"),
            at_least("Figure 7b NoMat / PSoup-P, interval", _ratio(interval, NOMAT, PARTIAL), 1.0, "paper: much worse"),
            at_least("Figure 7a PSoup-P / PSoup-C, equality", apart, TWO_ORDERS, "paper: two orders of magnitude"),
            at_least("Figure 7a bits that PSoup-P reads / results", bits, TWO_ORDERS, "counted; the paper's reason"),
            at_most("Figure 7b PSoup-P / PSoup-C, interval", alike, HALF_ORDER, "paper: comparable"),
            at_least("Figure 7b PSoup-P / PSoup-C, interval", alike, 1 / HALF_ORDER, "paper: comparable"),
            at_most(
                "Figure 7 PSoup-P, interval / equality",
                interval.micros[PARTIAL] / equality.micros[PARTIAL],
                UNCHANGED,
                "paper: no change",
            ),
        ],
        [_chart(f"window, {kind} queries", plan.windows, runs) for kind, runs in found.items()],
    )


def _ratio(run: Invoked, one: str, other: str) -> float:
    return run.micros[one] / run.micros[other]


def _told(run: Invoked) -> str:
    return ", ".join(f"{name} {run.micros[name]:.0f} us" for name in (NOMAT, PARTIAL, COMPLETE))


def _chart(label: str, x: Sequence[float], runs: Sequence[Invoked]) -> Chart:
    names = list(runs[0].micros)
    series = [Series(name, [float(np.log10(run.micros[name])) for run in runs]) for name in names]
    return Chart(label, "log10 of us per invocation", x, series, log_x=True)


def _table_2(plan: Plan) -> Exhibit:
    found = {
        count: invocations(
            WINDOW, workload.interval_queries(plan.queries, np.random.default_rng([2, count]), (count,)), 2
        )
        for count in PREDICATES
    }
    times = {count: run.micros for count, run in found.items()}
    order = {count: each[PARTIAL] / each[COMPLETE] for count, each in times.items()}
    nomat = {count: each[NOMAT] / each[PARTIAL] for count, each in times.items()}
    counted = {count: run.steps[NOMAT] / run.steps[PARTIAL] for count, run in found.items()}
    growth = {name: found[4].steps[name] / found[1].steps[name] for name in (NOMAT, PARTIAL, COMPLETE)}
    return Exhibit(
        "Table 2",
        f"NoMat / PSoup-P: {_listed(nomat)}, in steps {_listed(counted)}; PSoup-P / PSoup-C: {_listed(order)}.",
        [
            *_magnitudes(found),
            at_least("Table 2 NoMat / PSoup-P, 4 predicates / 1", nomat[4] / nomat[1], 2.0, "paper 7.5"),
            at_most("Table 2 PSoup-P / PSoup-C, 1 predicate", order[1], 1.0, "paper 0.82"),
            at_least("Table 2 PSoup-P / PSoup-C, 2 predicates", order[2], 1.0, "paper 1.14"),
            at_least("Table 2 PSoup-P / PSoup-C, 4 predicates", order[4], 1.0, "paper 3.7"),
            at_most(
                "Table 2 PSoup-P, time of 4 predicates / 1", times[4][PARTIAL] / times[1][PARTIAL], 1.0, "paper 0.28"
            ),
            at_most(
                "Table 2 PSoup-C, time of 4 predicates / 1", times[4][COMPLETE] / times[1][COMPLETE], 1.0, "paper 0.06"
            ),
            at_least("Table 2 NoMat, time of 4 predicates / 1", times[4][NOMAT] / times[1][NOMAT], 1.0, "paper 2.10"),
            at_least("Table 2 NoMat, steps of 4 predicates / 1", growth[NOMAT], 1.0, "counted"),
            at_most("Table 2 PSoup-P, steps of 4 predicates / 1", growth[PARTIAL], 1.0, "counted"),
            at_most("Table 2 PSoup-C, steps of 4 predicates / 1", growth[COMPLETE], 1.0, "counted"),
        ],
        table=_table(found),
    )


def _magnitudes(found: dict[int, Invoked]) -> list[Bar]:
    """NoMat against the others, within half an order of magnitude of Table 2."""
    bars = []
    for count, run in found.items():
        for place, name in ((1, PARTIAL), (2, COMPLETE)):
            paper = _paper(count, 0, place)
            detail = f"paper {paper:.1f}"
            bars.append(
                at_least(
                    f"Table 2 NoMat / {name}, predicates: {count}", _ratio(run, NOMAT, name), paper / HALF_ORDER, detail
                )
            )
    return bars


def _listed(numbers: dict[int, float]) -> str:
    return ", ".join(f"{number:.2f}" for number in numbers.values())


def _paper(count: int, one: int, other: int) -> float:
    return TABLE_2[count][one] / TABLE_2[count][other]


def _table(found: dict[int, Invoked]) -> list[tuple[str, ...]]:
    head = ("predicates", "tuples answered", *(f"{name}, us" for name in found[1].micros))
    ratios = ("NoMat / P", "paper", "NoMat / C", "paper", "P / C", "paper")
    pairs = ((0, 1), (0, 2), (1, 2))
    names = (NOMAT, PARTIAL, COMPLETE)
    rows = []
    for count, run in found.items():
        compared = []
        for one, other in pairs:
            compared += [f"{run.micros[names[one]] / run.micros[names[other]]:.2f}", f"{_paper(count, one, other):.2f}"]
        rows.append(
            (str(count), f"{run.answered:,.0f}", *(f"{micros:.1f}" for micros in run.micros.values()), *compared)
        )
    return [(*head, *ratios), *rows]


def crossing(x: Sequence[float], one: Sequence[float], other: Sequence[float]) -> float:
    """Where the first of two lines falls below the second for good; nan if it does not.

    >>> crossing([0.0, 1.0, 2.0], [4.0, 4.0, 4.0], [2.0, 3.0, 5.0])
    1.5
    """
    gaps = np.array(one) - np.array(other)
    if gaps[-1] > 0 or (gaps <= 0).all():
        return float("nan")
    above = int(np.flatnonzero(gaps > 0)[-1])
    share = gaps[above] / (gaps[above] - gaps[above + 1])
    return float(x[above] + share * (x[above + 1] - x[above]))


def paper_crossing() -> float:
    """The selectivity at which the lines through the first two rows of Table 2 meet.

    >>> round(paper_crossing(), 2)
    0.16
    """
    one, two = 1 / 3, 1 / 9
    slopes = [(TABLE_2[1][k] - TABLE_2[2][k]) / (one - two) for k in (1, 2)]
    starts = [TABLE_2[1][k] - slope * one for k, slope in zip((1, 2), slopes, strict=True)]
    return (starts[0] - starts[1]) / (slopes[1] - slopes[0])


def _crossover(plan: Plan) -> Exhibit:
    shares = [(last + 1) / workload.VALUES for last in plan.ranges]
    ask = partial(invocations, WINDOW, seed=3)
    runs = [ask([Query(workload.interval(0, 0, last))] * plan.repetitions) for last in plan.ranges]
    lines = {name: [run.micros[name] for run in runs] for name in runs[0].micros}
    found, arrays = (crossing(shares, lines[PARTIAL], lines[name]) for name in (COMPLETE, ARRAYS))
    ours = "none" if np.isnan(found) else f"{found:.1%}"
    series = [Series(name, values) for name, values in lines.items()]
    said = f"paper {paper_crossing():.2f}, from Table 2"
    return Exhibit(
        "Crossover",
        f"With linked lists {ours}; with arrays {'none' if np.isnan(arrays) else f'{arrays:.1%}'}.",
        [
            at_least("Crossover PSoup-P / PSoup-C, fewest results", lines[PARTIAL][0] / lines[COMPLETE][0], 1.0, said),
            at_most("Crossover PSoup-P / PSoup-C, all tuples", lines[PARTIAL][-1] / lines[COMPLETE][-1], 1.0, said),
            informed("Crossover selectivity, linked lists", found, said),
        ],
        [
            Chart(
                "share of the window that a query answers",
                "us per invocation",
                shares,
                series,
                marks=[Mark(f"paper {paper_crossing():.0%}", paper_crossing())],
            )
        ],
    )
