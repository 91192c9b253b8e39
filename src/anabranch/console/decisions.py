"""Decisions of filters, as cards: what changed, from what, why, when it was seen; and the plan after each of them.

Events carry no clock: they come from workers that may run anywhere. A decision gets the time at which it was first seen
here, and what the filter had measured by then: shares of routes, costs and pass rates of predicates.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anabranch.events import Event, PilotDecided, Reordered, RoutesChanged, Started
from anabranch.filter_report import FilterReport
from anabranch.html import described

MOST_ENTRIES = 2_000
MOST_FRAMES = 400
"""Decisions of a filter that are shown with what was measured at the time."""

Card = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """An event with its number, and the time at which it was first seen, in seconds since 1970."""

    number: int
    event: Event
    seen: float


class FilterLog:
    """The decisions of one filter, as far as they were seen here: a filter itself holds the latest ones only.

    Parameters
    ----------
    id
        What it is called: the query and a number, or the name under which it is watched.
    clock
        Seconds since 1970.
    """

    def __init__(self, id: str, clock: Callable[[], float] = time.time) -> None:
        self.id = id
        self._clock = clock
        self._entries: deque[Entry] = deque(maxlen=MOST_ENTRIES)
        self._measured: dict[int, dict[str, Any]] = {}
        self._next = 0

    def look(self, events: Sequence[Event], measure: Callable[[], FilterReport] | None) -> list[Card]:
        """Take note of events that are new; returns their cards."""
        last = self._entries[-1].event if self._entries else None
        known = next((at for at in range(len(events), 0, -1) if events[at - 1] is last), 0)
        new = [Entry(self._next + at, event, self._clock()) for at, event in enumerate(events[known:])]
        if new:
            self._entries.extend(new)
            self._next += len(new)
            if measure is not None:
                self._measured[new[-1].number] = measured(measure())
            for old in sorted(self._measured)[:-MOST_FRAMES]:
                del self._measured[old]
        return [_card(self.id, each) for each in new]

    def since(self, report: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
        """By the number of a decision: what the order before it would have cost, until the next one or until now."""
        found: dict[int, dict[str, Any]] = {}
        until = report
        for entry in reversed(list(self._entries)):
            then = self._measured.get(entry.number)
            match entry.event:
                case Reordered(before=before, after=after, route="") if then is not None:
                    cost = cost_since(before, after, then, until)
                    found |= {entry.number: cost} if cost else {}
            if then is not None and isinstance(entry.event, Reordered | RoutesChanged):
                until = then
        return found

    def frames(self) -> list[dict[str, Any]]:
        """The plan after each decision that changed one, for the time slider of the river."""
        frames: list[dict[str, Any]] = []
        order: tuple[str, ...] = ()
        routes: tuple[str, ...] = ()
        for entry in list(self._entries):
            event = entry.event
            match event:
                case Started(order=order):
                    routes = ()
                case PilotDecided(after=after):
                    order = after
                case Reordered(after=after, route=""):
                    order = after
                case Reordered(after=after, route=route):
                    routes = tuple(_with_order(each, route, after) for each in routes)
                case RoutesChanged(routes=given, order=given_order):
                    routes, order = (given if len(given) > 1 else ()), given_order or order
                case _:
                    continue
            what, why = described(event)
            frames.append(
                {
                    "number": entry.number,
                    "seen": entry.seen,
                    "kind": type(event).__name__,
                    "at": getattr(event, "at", None),
                    "partition": getattr(event, "partition", None),
                    "order": order,
                    "routes": [_route(each) for each in routes],
                    "what": what,
                    "why": why,
                    "measured": self._measured.get(entry.number),
                }
            )
        return frames[-MOST_FRAMES:]


def cost_since(
    before: Sequence[str], after: Sequence[str], then: Mapping[str, Any], until: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What the order before a change would have cost, from then on, beside what was paid; None if no row came.

    An estimate, by the pass rates and the costs of that time: what was paid is measured, and multiplied by what the one
    order costs by the other one, as if predicates were independent.

    >>> then = {"rows": 0, "seconds": 0.0, "evaluations": 0, "predicates": []}
    >>> a = {"predicate": "a", "seen": 10, "passed": 9, "cost_us": 9.0}
    >>> b = {"predicate": "b", "seen": 100, "passed": 10, "cost_us": 1.0}
    >>> until = {"rows": 100, "seconds": 0.001, "evaluations": 110, "predicates": [a, b]}
    >>> found = cost_since(["a", "b"], ["b", "a"], then, until)
    >>> [round(found[name], 4) for name in ("rows", "calls", "calls_before", "seconds_before")]
    [100, 110, 190.0, 0.0052]
    """
    rows = until["rows"] - then["rows"]
    known = {each["predicate"]: each for each in until["predicates"]}
    if rows <= 0 or set(before) != set(after) or not set(before) <= set(known):
        return None
    old = {each["predicate"]: each for each in then["predicates"]}
    facts = {name: _rate_and_cost(known[name], old.get(name)) for name in before}
    if any(cost is None for _, cost in facts.values()):
        return None
    (calls_before, price_before), (calls_after, price_after) = _priced(before, facts), _priced(after, facts)
    seconds, calls = until["seconds"] - then["seconds"], until["evaluations"] - then["evaluations"]
    return {
        "rows": rows,
        "seconds": seconds,
        "seconds_before": seconds * price_before / price_after if price_after else seconds,
        "calls": calls,
        "calls_before": calls * calls_before / calls_after,
    }


def _rate_and_cost(now: Mapping[str, Any], then: Mapping[str, Any] | None) -> tuple[float, float | None]:
    """The pass rate of a predicate since then, or of all time if it has seen nothing since; and its cost."""
    seen, passed = now["seen"], now["passed"]
    if then is not None and seen > then["seen"]:
        seen, passed = seen - then["seen"], passed - then["passed"]
    return (passed / seen if seen else 1.0), now["cost_us"]


def _priced(order: Sequence[str], facts: Mapping[str, tuple[float, float | None]]) -> tuple[float, float]:
    """Calls and microseconds per row."""
    calls = price = 0.0
    left = 1.0
    for name in order:
        rate, cost = facts[name]
        calls, price, left = calls + left, price + left * (cost or 0.0), left * rate
    return calls, price


def measured(report: FilterReport) -> dict[str, Any]:
    """What a report says, as plain values."""
    return {
        "policy": report.policy,
        "order": report.order,
        "rows": report.rows,
        "evaluations": report.evaluations,
        "evaluations_written": report.evaluations_written,
        "seconds": report.seconds,
        "seconds_written": report.seconds_written,
        "profiling_share": report.profiling_share,
        "deciding_share": report.deciding_share,
        "predicates": [asdict(each) for each in report.predicates],
        "routes": [asdict(each) for each in report.routes],
    }


def _route(line: str) -> dict[str, Any]:
    """A route from the line that an event has for it.

    >>> _route("port in (80): b -> a")
    {'tests': 'port in (80)', 'order': ['b', 'a']}
    """
    tests, _, order = line.rpartition(": ")
    return {"tests": tests, "order": order.split(" -> ")}


def _with_order(line: str, route: str, order: Sequence[str]) -> str:
    return f"{route}: {' -> '.join(order)}" if line.rpartition(": ")[0] == route else line


def _card(filter_id: str, entry: Entry) -> Card:
    what, why = described(entry.event)
    given = {key: value for key, value in vars(entry.event).items() if key != "reason"}
    common = {"filter": filter_id, "number": entry.number, "kind": type(entry.event).__name__, "seen": entry.seen}
    return {"id": f"{filter_id}#{entry.number}", **common, "what": what, "why": why, **given}


def totals(reports: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """What all filters together have saved against their written orders, where that is known."""
    known = [each for each in reports.values() if each["evaluations_written"] is not None]
    timed = [each for each in known if each["seconds_written"] is not None]
    return {
        "rows": sum(each["rows"] for each in reports.values()),
        "evaluations_saved": sum(each["evaluations_written"] - each["evaluations"] for each in known),
        "seconds_saved": sum(each["seconds_written"] - each["seconds"] for each in timed),
    }
