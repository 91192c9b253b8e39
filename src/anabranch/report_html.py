"""Reports, filters and events as HTML, for notebooks and for the demo's page.

>>> from anabranch.events import Reordered
>>> print(event_table([Reordered(64, "auto", ("a", "b"), ("b", "a"), "3 us instead of 5")]).replace("</tr>", chr(10)))
<table><tr><th>event</th><th>partition</th><th>rows before</th><th>what</th><th>why</th>
<tr><td>1</td><td>-</td><td>64</td><td>b → a</td><td>3 us instead of 5</td>
</table>
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING

from anabranch.errors import MissingExtra
from anabranch.events import Event
from anabranch.html import described, table
from anabranch.model.predicates import LookupPredicate, NativePredicate, Predicate

if TYPE_CHECKING:
    from anabranch.filter_report import FilterReport

SHOWN_EVENTS = 500


def report_html(report: FilterReport) -> str:
    """The whole report: predicates, routes, and the picture of the order if matplotlib is installed."""
    parts = [predicate_table(report), _route_table(report) if len(report.routes) > 1 else ""]
    if report.events:
        with suppress(MissingExtra):
            parts.append(figure(report))
        parts.append(folded_events(report.events))
    return f"<div>{''.join(parts)}</div>"


def filter_html(predicates: Sequence[Predicate], policy: str, report: FilterReport) -> str:
    """What a filter is made of, and the order that it uses now."""
    rows = [(p.name, _type(p), ", ".join(p.reads), p.kind, _options(p)) for p in predicates]
    titles = ("predicate", "type", "columns", "kind", "options")
    order = f"policy {policy}, order now: {' → '.join(report.order)}"
    return f"<div>{table(titles, rows, words=len(titles))}<p>{escape(order)}</p></div>"


def predicate_table(report: FilterReport) -> str:
    """Counts and costs of the predicates, by place, and the sum of it in a sentence."""
    titles = ["predicate", "place", "written", "seen", "passed", "dropped", "errors", "calls", "cost per row", "basis"]
    written = {p.predicate: place for place, p in enumerate(report.predicates, start=1)}
    rows = [
        (
            p.predicate,
            p.place,
            written[p.predicate],
            p.seen,
            p.passed,
            p.dropped,
            p.errors,
            p.calls,
            _microseconds(p.cost_us),
            p.basis,
        )
        for p in sorted(report.predicates, key=lambda p: p.place)
    ]
    return table(titles, rows) + "".join(f"<p>{escape(line)}</p>" for line in report.summary())


def event_table(events: Sequence[Event]) -> str:
    """Events in the order in which they reached the driver, the first ones if there are many."""
    rows = [
        (at, getattr(e, "partition", None), getattr(e, "at", None), *described(e))
        for at, e in enumerate(events[:SHOWN_EVENTS], start=1)
    ]
    note = f"<p>The first {SHOWN_EVENTS} are shown.</p>" if len(events) > SHOWN_EVENTS else ""
    return table(["event", "partition", "rows before", "what", "why"], rows, words=5) + note


def folded_events(events: Sequence[Event]) -> str:
    """The table of events under a line that opens it."""
    return f"<details><summary>{len(events):,} events of all workers</summary>{event_table(events)}</details>"


def figure(report: FilterReport) -> str:
    """The plot of a report as SVG within the page; it raises `MissingExtra` without matplotlib."""
    picture = io.StringIO()
    report.plot().savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    drawn = picture.getvalue()
    return f"<figure>{drawn[drawn.index('<svg') :]}</figure>"


def _route_table(report: FilterReport) -> str:
    rows = [
        (" or ".join(r.tests) or "all rows", " → ".join(r.order), f"{r.share:.0%}", _microseconds(r.cost_us))
        for r in report.routes
    ]
    return table(["route", "order", "rows", "cost per row"], rows, words=2)


def _type(p: Predicate) -> str:
    return "Spark" if isinstance(p, NativePredicate) else "look-up" if isinstance(p, LookupPredicate) else "Python"


def _options(p: Predicate) -> str:
    kept = [f"keep={p.keeps!r}"] if p.keeps else []
    return ", ".join([*(name for name in ("strict", "pinned") if getattr(p, name)), *kept])


def _microseconds(cost: float | None) -> str | None:
    return None if cost is None else f"{cost:,.2f} µs"
