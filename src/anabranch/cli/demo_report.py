"""The demo's report: one HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import anabranch
from anabranch.cli.packets import HOURS
from anabranch.errors import MissingExtra
from anabranch.filter_report import FilterReport
from anabranch.html import table
from anabranch.report_html import figure, folded_events, predicate_table

if TYPE_CHECKING:
    from anabranch.cli.demo import Comparison

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
        predicate_table(report),
        "<h2>Plan</h2>",
        f"<pre>{escape(compared.explained)}</pre>",
        "<h2>Decisions</h2>",
        folded_events(report.events),
        "<h2>How this was measured</h2>",
        _method(compared),
    )
    head = f'<meta charset="utf-8"><title>Anabranch demo</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


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
        return figure(report)
    except MissingExtra as missing:
        return f"<p>{escape(missing.what)}: <code>{escape(missing.hint or '')}</code></p>"


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
