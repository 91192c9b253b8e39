"""Turns a ledger into a report, and finds the report of a DataFrame that a filter has returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from weakref import WeakKeyDictionary

import numpy as np
from pyspark.sql import DataFrame

from anabranch.calls.reply import Bill
from anabranch.errors import QueryError
from anabranch.filter_report import NOT_RUN, CallReport, Events, FilterReport, PredicateReport, RouteReport
from anabranch.model.arrays import Floats
from anabranch.model.predicates import Predicate, PythonPredicate, constraints
from anabranch.ordering.pipeline import Tally
from anabranch.ordering.precedence import Precedence
from anabranch.routing.route_plan import RoutePlan, RouteState, shown
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.filters.task_counts import StageCounts
from anabranch.spark.filters.task_record import Part

_reports: WeakKeyDictionary[DataFrame, Callable[[], FilterReport]] = WeakKeyDictionary()


def attach_report(df: DataFrame, build: Callable[[], FilterReport]) -> DataFrame:
    """Let `report` find the report of a DataFrame for as long as it lives; `build` must not refer to the DataFrame."""
    _reports.setdefault(df, build)
    return df


def report(df: DataFrame) -> FilterReport:
    """The report of the filter that returned a DataFrame: what its predicates have counted so far.

    Parameters
    ----------
    df
        The DataFrame that `anabranch.where` or `Filter.apply` returned, or one that a sink of `Filter.foreach_batch`
        was given. A DataFrame that was made from it, by `select` say, has no report.

    Examples
    --------
    >>> import anabranch as ab
    >>> third = ab.predicate(lambda n: n % 3 == 0, "id", name="third")
    >>> multiples = ab.where(ab.local_session(cores=2).range(100), third)
    >>> multiples.count(), ab.report(multiples).predicates[0].passed
    (34, 34)
    """
    try:
        build = _reports.get(df)
    except TypeError:  # something that is no DataFrame of Spark, and cannot be a key
        build = None
    if build is None:
        raise QueryError(
            f"no filter has returned this {type(df).__name__}",
            hint="pass the DataFrame that ab.where or Filter.apply returned, not one that was made from it",
        )
    return build()


def saved_report(policy: str, predicates: Sequence[Predicate], ledger: Ledger, *, strict: bool) -> FilterReport:
    """The report, once the state file has the same counts."""
    ledger.save()
    return build_report(policy, predicates, ledger, strict=strict)


def build_report(policy: str, predicates: Sequence[Predicate], ledger: Ledger, *, strict: bool) -> FilterReport:
    """The report of a filter, from what its tasks sent and what pilots sampled."""
    natives, parts = ledger.natives(), ledger.parts()
    totals = {part: entry.tally for part, entry in ledger.totals().items()}
    order = _order(predicates, [*parts, *(part for part in totals if part not in parts)], ledger)
    lines = {}
    for part in sorted(natives, key=parts.__contains__):  # stages of another input first, to be replaced
        for at, i in enumerate(part):
            lines[i] = _native_line(predicates[i], order.index(i) + 1, natives[part].sampled(at))
    for i, p in enumerate(predicates):
        counted = [(tally, part.index(i)) for part, tally in totals.items() if i in part]
        if counted:
            lines[i] = _arrow_line(p, order.index(i) + 1, counted)
        lines.setdefault(i, _unmeasured(p, "-", order.index(i) + 1, NOT_RUN))
    spent = sum(float(t.seconds.sum()) for t in totals.values())
    written = {part: _written_order([predicates[i] for i in part], strict) for part in totals}
    return FilterReport(
        policy=policy,
        order=tuple(predicates[i].name for i in order),
        predicates=tuple(lines[i] for i in range(len(predicates))),
        rows=_rows(totals),
        evaluations=sum(int(t.calls.sum()) for t in totals.values()),
        evaluations_written=_written(policy, totals, written, cost=lambda tally: np.ones(len(tally.calls))),
        seconds=spent,
        seconds_written=_written(
            policy, totals, written, cost=lambda tally: tally.seconds / np.maximum(tally.calls, 1)
        ),
        profiling_share=sum(t.profiling_seconds for t in totals.values()) / spent if spent else 0.0,
        deciding_share=sum(t.deciding_seconds for t in totals.values()) / spent if spent else 0.0,
        events=Events(ledger.events()),
        routes=_routes(predicates, order, ledger),
        calls=_calls(predicates, totals),
        money_written=_written(policy, totals, written, cost=_money_costs),
    )


def _rows(totals: Mapping[Part, Tally]) -> int:
    """Rows that reached Python predicates: those of the first stage, of every way that inputs were cut into stages."""
    cuts: list[list[Part]] = []
    rows = 0
    for part in sorted(totals, key=lambda part: -totals[part].rows):
        cut = next((cut for cut in cuts if all(set(part).isdisjoint(other) for other in cut)), None)
        if cut is None:
            cuts.append([part])
            rows += totals[part].rows
        else:
            cut.append(part)
    return rows


def _routes(predicates: Sequence[Predicate], order: Sequence[int], ledger: Ledger) -> list[RouteReport]:
    """The routes in use, of the stage that has most of them; rows that went other ways before are left out."""
    entries, plans = ledger.totals(), ledger.plans()
    ways = [(part, _taken(entries[part], plan)) for part, plan in plans.items() if part in entries]
    ways += [(part, state.routes()) for part, state in ledger.natives().items()]
    part, states = max(ways, key=lambda way: len(way[1]), default=((), []))
    if len(states) < 2:
        places = iter([part[f] for state in states for f in state.order])
        names = tuple(predicates[next(places) if states and i in part else i].name for i in order)
        cost = next(map(_row_us, states), None) or _single_us(entries.values())
        return [RouteReport(1.0, names, cost)]
    rows = sum(s.rows for s in states)
    return [
        RouteReport(s.rows / rows, tuple(predicates[part[f]].name for f in s.order), _row_us(s), s.tests)
        for s in sorted(states, key=lambda s: -s.rows)
    ]


def _taken(entry: StageCounts, plan: RoutePlan) -> list[RouteState]:
    """The routes of a plan that rows have taken, as people should see them."""
    ways = [(plan.classifier.tests(route), order) for route, order in enumerate(plan.orders)]
    held = {i: replace(entry.routes[t], order=order) for i, (t, order) in enumerate(ways) if t and t in entry.routes}
    return shown(plan, held)


def _single_us(entries: Iterable[StageCounts]) -> float | None:
    """What a row costs in one order for all: the stages together, for every row that reaches the first."""
    alone = [entry.routes[()] for entry in entries if () in entry.routes]
    rows = max((s.rows for s in alone), default=0)
    return sum(s.seconds for s in alone) / rows * 1e6 if rows else None


def _row_us(state: RouteState) -> float | None:
    return state.seconds / state.rows * 1e6 if state.seconds else None


def _order(predicates: Sequence[Predicate], parts: Sequence[Part], ledger: Ledger) -> list[int]:
    """Current places: stage by stage, each in the order decided or learned for it, then what never ran."""
    order: list[int] = []
    natives = ledger.natives()
    for part in parts:
        known = natives[part].seed if part in natives else ledger.learned(part)
        places = [part[f] for f in (known.order if known else range(len(part)))]
        order += [i for i in places if i not in order]  # inputs of other kinds may have been cut differently
    return order + [i for i in range(len(predicates)) if i not in order]


def _unmeasured(p: Predicate, executor: str, place: int, basis: str) -> PredicateReport:
    return PredicateReport(p.name, executor, place, None, None, None, None, None, None, basis)


def _arrow_line(p: Predicate, place: int, counted: Sequence[tuple[Tally, int]]) -> PredicateReport:
    """One predicate, which stands at some place of each of some tallies."""
    seen, passed, errors, calls = (
        sum(int(getattr(tally, what)[at]) for tally, at in counted) for what in ("seen", "passed", "errors", "calls")
    )
    cost = sum(float(tally.seconds[at]) for tally, at in counted) / calls * 1e6 if calls else None
    return PredicateReport(
        p.name, "arrow", place, seen, passed, seen - passed - errors, errors, calls, cost, "all rows"
    )


def _native_line(p: Predicate, place: int, sampled: tuple[int, int, float] | None) -> PredicateReport:
    if sampled is None:
        return _unmeasured(p, "catalyst", place, "not measured")
    seen, passed, cost = sampled
    cost_us = None if np.isnan(cost) else cost * 1e6
    return PredicateReport(p.name, "catalyst", place, seen, passed, seen - passed, 0, seen, cost_us, "sample")


def _calls(predicates: Sequence[Predicate], totals: Mapping[Part, Tally]) -> tuple[CallReport, ...]:
    found = []
    for i, p in enumerate(predicates):
        bills = [tally.bills[part.index(i)] for part, tally in totals.items() if i in part]
        if bills and isinstance(p, PythonPredicate) and p.calls is not None:
            bill = Bill(*np.sum(bills, axis=0).tolist())
            calls, hits, retries, unasked = map(int, (bill.calls, bill.hits, bill.retries, bill.unasked))
            found.append(CallReport(p.name, calls, hits, retries, bill.tokens, bill.money, unasked))
    return tuple(found)


def _money_costs(tally: Tally) -> Floats:
    """Money per row; rows that the budget did not suffice for are not in it."""
    at, unasked = ([f.name for f in fields(Bill)].index(name) for name in ("money", "unasked"))
    costs: Floats = tally.bills[:, at] / np.maximum(tally.calls - tally.bills[:, unasked], 1)
    return costs


def _written_order(members: Sequence[Predicate], strict: bool) -> list[int]:
    """The written order, as far as constraints allow it: a predicate may be written before one that it depends on."""
    return list(Precedence(len(members), constraints(members, strict=strict)).legal(range(len(members))))


def _written(
    policy: str,
    totals: Mapping[Part, Tally],
    orders: Mapping[Part, list[int]],
    *,
    cost: Callable[[Tally], Floats],
) -> float | None:
    """What the written order would have spent on the same rows, from the profile of dropped rows."""
    total = 0.0
    for part, tally in totals.items():
        weights = tally.written_drops.sum()
        costs = cost(tally)
        dropped = int((tally.seen - tally.passed - tally.errors).sum())
        if policy == "fixed":
            total += float(costs @ tally.calls)
            continue
        if dropped and not weights:
            return None
        prefix = np.cumsum(costs[orders[part]])
        mean = float(tally.written_drops[orders[part]] @ prefix / weights) if weights else 0.0
        total += dropped * mean + (tally.rows - dropped) * float(prefix[-1])
    return total if totals else None
