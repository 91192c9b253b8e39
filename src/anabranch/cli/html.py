"""The demo's report: one HTML file that needs nothing else."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import anabranch
from anabranch.cli.packets import HOURS
from anabranch.errors import MissingExtra
from anabranch.events import EffortChanged, Event, PilotDecided, Reordered, RoutesChanged, Started
from anabranch.report import FilterReport

if TYPE_CHECKING:
    from anabranch.cli.demo import Comparison

SHOWN_EVENTS = 500

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2937; max-width: 66rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.lead { font-size: 1.05rem; color: #374151; margin-top: .2rem; }
table { border-collapse: collapse; margin: .6rem 0; } th { text-align: left; border-bottom: 2px solid #d1d5db; }
td, th { padding: .25rem .9rem .25rem 0; vertical-align: top; } td { border-bottom: 1px solid #eef0f3; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
pre { background: #f6f7f9; padding: .8rem 1rem; overflow-x: auto; } details { margin: .6rem 0; }
.big { font-size: 1.3rem; font-weight: 700; }
"""


def page(compared: Comparison) -> str:
    """The whole report as text."""
    report = compared.report
    parts = (
        "<h1>Anabranch demo</h1>",
        _lead(compared),
        _comparison(compared),
        "<h2>How the order moved</h2>",
        _story(),
        _figure(report),
        "<h2>Predicates</h2>",
        _predicates(report),
        "<h2>Plan</h2>",
        f"<pre>{escape(compared.explained)}</pre>",
        _events(report.events),
        "<h2>How this was measured</h2>",
        _method(compared),
    )
    head = f'<meta charset="utf-8"><title>Anabranch demo</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, words: int = 1) -> str:
    """An HTML table whose first `words` columns hold words, and the others numbers.

    >>> table(["name", "rows"], [["a<b", 1200]]).partition("</tr>")[2]
    '<tr><td>a&lt;b</td><td class="number">1,200</td></tr></table>'
    """

    def line(tag: str, cells: Sequence[object]) -> str:
        opened = (f"<{tag}>" if at < words else f'<{tag} class="number">' for at in range(len(cells)))
        return "".join(f"{start}{escape(_text(c))}</{tag}>" for start, c in zip(opened, cells, strict=True))

    lines = [line("th", titles), *(line("td", row) for row in rows)]
    return "<table>" + "".join(f"<tr>{cells}</tr>" for cells in lines) + "</table>"


def described(event: Event) -> tuple[str, str]:
    """What happened, and why, in words.

    >>> described(Reordered(64, "auto", ("a", "b"), ("b", "a"), "3 us per profiled row instead of 5"))
    ('b → a', '3 us per profiled row instead of 5')
    >>> described(Reordered(64, "auto", ("a", "b"), ("b", "a"), "3 us instead of 5", route="port in (80)"))
    ('port in (80): b → a', '3 us instead of 5')
    >>> described(RoutesChanged(500, "auto", ("port in (80): b -> a", "all other rows: a -> b"), "saves 20 %"))
    ('port in (80): b → a; all other rows: a → b', 'saves 20 %')
    """
    match event:
        case Started(order=order, learned=learned):
            return f"starts with {' → '.join(order)}", "learned before" if learned else "as written"
        case Reordered(after=after, reason=reason, route=route):
            return _on(route, " → ".join(after)), reason
        case PilotDecided(after=after, reason=reason):
            return " → ".join(after), reason
        case EffortChanged(mode=mode, profile_probability=share, reason=reason, route=route):
            return _on(route, f"{mode}: tries {share:.1%} of the dropped rows further"), reason
        case RoutesChanged(routes=routes, reason=reason):
            return "; ".join(routes).replace("->", "→"), reason
    return type(event).__name__, ""


def _on(route: str, what: str) -> str:
    return f"{route}: {what}" if route else what


def _lead(compared: Comparison) -> str:
    speed, calls = (f'<span class="big">{ratio:.1f}x</span>' for ratio in (compared.speed_up, compared.fewer_calls))
    return (
        f'<p class="lead">Five predicates on {compared.rows:,} packets: {speed} the speed of plain Spark, with {calls} '
        f"fewer predicate calls, and the same {compared.alerts:,} packets returned.</p>"
    )


def _comparison(compared: Comparison) -> str:
    names = list(compared.ours.calls)
    sides = (("plain Spark", compared.plain), ("Anabranch", compared.ours))
    rows = [
        [side, f"{run.seconds:.1f} s", sum(run.calls.values()), *(run.calls.get(name, 0) for name in names)]
        for side, run in sides
    ]
    return table(["", "time", "predicate calls", *names], rows)


def _story() -> str:
    hours = ", then ".join(f"<em>{escape(hour.name)}</em>" for hour in HOURS)
    return (
        f"<p>The packets are of four hours, a quarter of the rows each: {hours}. In each of them another predicate is "
        "the best one to begin with, and no order is good in all of them.</p>"
    )


def _figure(report: FilterReport) -> str:
    try:
        figure = report.plot()
    except MissingExtra as missing:
        return f"<p>{escape(missing.what)}: <code>{escape(missing.hint or '')}</code></p>"
    picture = io.StringIO()
    figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    drawn = picture.getvalue()
    return f"<figure>{drawn[drawn.index('<svg') :]}</figure>"


def _predicates(report: FilterReport) -> str:
    titles = ["predicate", "place", "written", "seen", "passed", "dropped", "calls", "cost per row", "basis"]
    written = {p.predicate: place for place, p in enumerate(report.predicates, start=1)}
    rows = [
        (
            p.predicate,
            p.place,
            written[p.predicate],
            p.seen,
            p.passed,
            p.dropped,
            p.calls,
            _microseconds(p.cost_us),
            p.basis,
        )
        for p in sorted(report.predicates, key=lambda p: p.place)
    ]
    return table(titles, rows) + f"<p>{escape(str(report).splitlines()[-1])}</p>"


def _events(events: Sequence[Event]) -> str:
    rows = [
        (at, getattr(e, "partition", None), e.at, *described(e)) for at, e in enumerate(events[:SHOWN_EVENTS], start=1)
    ]
    note = f"<p>The first {SHOWN_EVENTS} are shown.</p>" if len(events) > SHOWN_EVENTS else ""
    drawn = table(["decision", "partition", "rows before", "order", "why"], rows, words=5)
    return (
        f"<h2>Decisions</h2><details><summary>{len(events):,} decisions of all workers</summary>{drawn}{note}</details>"
    )


def _method(compared: Comparison) -> str:
    return (
        "<p>Both sides read the same Parquet files and wrote the packets that pass as Parquet, in the same Spark "
        "session, one after the other, Anabranch first. Both were warmed up on other packets before, and timed once. "
        "Plain Spark runs <code>df.where(udf1 &amp; udf2 &amp; ...)</code> with pandas UDFs of the same functions; "
        "its calls were counted batch by batch, ours by the filter itself, rows that it tried for profiling included. "
        "The results were compared as bags of whole rows, scores included: "
        f"{compared.missing:,} missing, {compared.surplus:,} too many. "
        f"Written by anabranch {escape(anabranch.__version__)}.</p>"
    )


def _microseconds(cost: float | None) -> str | None:
    return None if cost is None else f"{cost:,.2f} µs"


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)
