"""Turns a ledger into a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anabranch.model.predicates import Predicate
from anabranch.ordering.pipeline import Tally
from anabranch.report import FilterReport, PredicateReport, RouteReport
from anabranch.routing.routed import RouteState
from anabranch.spark.ledger import Entry, Ledger, Part
from anabranch.spark.native_order import NativeOrder

SMALLEST_SHARE = 0.05


def build_report(
    policy: str,
    predicates: Sequence[Predicate],
    parts: Sequence[Part],
    ledger: Ledger,
    native: Mapping[Part, NativeOrder],
) -> FilterReport:
    """The report of a filter, from what its tasks sent and what pilots sampled; `parts` are its stages as they run."""
    entries = ledger.totals()
    totals = {part: entry.tally for part, entry in entries.items()}
    order = _order(predicates, [*parts, *(part for part in totals if part not in parts)], ledger, native)
    lines = {}
    for part, decided in native.items():
        for at, i in enumerate(part):
            lines[i] = _native_line(predicates[i], order.index(i) + 1, decided.sampled(at))
    for part, tally in totals.items():
        for at, i in enumerate(part):
            lines[i] = _arrow_line(predicates[i], order.index(i) + 1, tally, at)
    for i, p in enumerate(predicates):
        lines.setdefault(i, _unmeasured(p, "-", order.index(i) + 1, "not run yet"))
    spent = sum(float(t.seconds.sum()) for t in totals.values())
    return FilterReport(
        policy=policy,
        order=tuple(predicates[i].name for i in order),
        predicates=tuple(lines[i] for i in range(len(predicates))),
        rows=max((t.rows for t in totals.values()), default=0),
        evaluations=sum(int(t.calls.sum()) for t in totals.values()),
        evaluations_written=_written(policy, totals, with_costs=False),
        seconds=spent,
        seconds_written=_written(policy, totals, with_costs=True),
        profiling_share=sum(t.profiling_seconds for t in totals.values()) / spent if spent else 0.0,
        deciding_share=sum(t.deciding_seconds for t in totals.values()) / spent if spent else 0.0,
        events=ledger.events(),
        routes=_routes(predicates, order, entries, native),
    )


def _routes(
    predicates: Sequence[Predicate],
    order: Sequence[int],
    entries: Mapping[Part, Entry],
    native: Mapping[Part, NativeOrder],
) -> list[RouteReport]:
    """The routes of the stage that has most of them; rows from before they were found are left out."""
    ways = [(part, list(entry.routes.values())) for part, entry in entries.items()]
    ways += [(part, decided.routes()) for part, decided in native.items()]
    part, states = max(ways, key=lambda way: len(way[1]), default=((), []))
    total = sum(s.rows for s in states)
    shown = [s for s in states if s.tests or s.rows >= SMALLEST_SHARE * total]
    if len(shown) < 2:
        return [RouteReport(1.0, tuple(predicates[i].name for i in order), None)]
    rows = sum(s.rows for s in shown)
    return [
        RouteReport(s.rows / rows, tuple(predicates[part[f]].name for f in s.order), _row_us(s), s.tests)
        for s in sorted(shown, key=lambda s: -s.rows)
    ]


def _row_us(state: RouteState) -> float | None:
    return state.seconds / state.rows * 1e6 if state.seconds else None


def _order(
    predicates: Sequence[Predicate], parts: Sequence[Part], ledger: Ledger, native: Mapping[Part, NativeOrder]
) -> list[int]:
    """Current places: stage by stage, each in the order decided or learned for it, then what never ran."""
    order: list[int] = []
    for part in parts:
        known = native.get(part) or ledger.learned(part)
        order += [part[f] for f in (known.order if known else range(len(part)))]
    return order + [i for i in range(len(predicates)) if i not in order]


def _unmeasured(p: Predicate, executor: str, place: int, basis: str) -> PredicateReport:
    return PredicateReport(p.name, executor, place, None, None, None, None, None, None, basis)


def _arrow_line(p: Predicate, place: int, tally: Tally, at: int) -> PredicateReport:
    seen, passed, errors, calls = (int(a[at]) for a in (tally.seen, tally.passed, tally.errors, tally.calls))
    cost = float(tally.seconds[at]) / calls * 1e6 if calls else None
    return PredicateReport(
        p.name, "arrow", place, seen, passed, seen - passed - errors, errors, calls, cost, "all rows"
    )


def _native_line(p: Predicate, place: int, sampled: tuple[int, int, float] | None) -> PredicateReport:
    if sampled is None:
        return _unmeasured(p, "catalyst", place, "not measured")
    seen, passed, cost = sampled
    cost_us = None if np.isnan(cost) else cost * 1e6
    return PredicateReport(p.name, "catalyst", place, seen, passed, seen - passed, 0, seen, cost_us, "sample")


def _written(policy: str, totals: Mapping[Part, Tally], *, with_costs: bool) -> float | None:
    """What the written order would have spent on the same rows, from the profile of dropped rows."""
    total = 0.0
    for tally in totals.values():
        weights = tally.written_drops.sum()
        costs = tally.seconds / np.maximum(tally.calls, 1) if with_costs else np.ones(len(tally.calls))
        dropped = int((tally.seen - tally.passed - tally.errors).sum())
        if policy == "fixed":
            total += float(tally.seconds.sum() if with_costs else tally.calls.sum())
            continue
        if dropped and not weights:
            return None
        prefix = np.cumsum(costs)
        mean = float(tally.written_drops @ prefix / weights) if weights else 0.0
        total += dropped * mean + (tally.rows - dropped) * float(prefix[-1])
    return total if totals else None
