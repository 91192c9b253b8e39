"""Tables of what is registered, for `Show` and for people."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape

from anabranch import html
from anabranch.cql.dialect import written
from anabranch.engine.inputs import StreamInput
from anabranch.engine.manifest import Manifest, StreamState
from anabranch.engine.registry import Registry
from anabranch.engine.shared_nodes import SharedNode, shared_nodes
from anabranch.errors import QueryError, in_a_line, suggest
from anabranch.logical_plan import scans
from anabranch.operators.base import EVER
from anabranch.planning.memory_growth import state_of
from anabranch.spark.continuous.cell_task import CellReport, Reports
from anabranch.tables import text_table

KINDS = ("queries", "streams", "relations", "views", "sharing", "memory")
MOST_NAMES = 8
MOST_SHOWN = 100
"""Rows of a table; of more it tells how many there are."""
STREAM_NUMBERS = ("rows", "late", "unusable", "skew", "suggested skew", "behind", "most behind")
NUMBERS = (*STREAM_NUMBERS, "queries", "state rows", "saved rows", "saved bytes", "bytes", "on disk")


@dataclass(frozen=True)
class Listing:
    """What is registered of one kind, as a table."""

    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def text(self) -> str:
        """For terminals."""
        shown = self.rows[:MOST_SHOWN]
        table = text_table(self.titles, shown, left=[each for each in self.titles if each not in NUMBERS])
        return "\n".join([table, *self._rest()])

    def html(self) -> str:
        """For notebooks."""
        table = html.table(self.titles, self.rows[:MOST_SHOWN], words=len(self.titles))
        return "".join([table, *(f"<p>{escape(each)}</p>" for each in self._rest())])

    def like(self, pattern: str) -> Listing:
        """Only rows whose first column fits a pattern of SQL: `%` stands for any text, `_` for any character."""
        parts = (".*" if each == "%" else "." if each == "_" else re.escape(each) for each in pattern)
        fits = re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
        return replace(self, rows=[row for row in self.rows if fits.fullmatch(row[0])])

    def _rest(self) -> list[str]:
        """How many there are, if they are too many to be shown."""
        if len(self.rows) <= MOST_SHOWN:
            return []
        kinds = Counter(row[1] for row in self.rows) if "status" in self.titles else {}
        counts = f" ({', '.join(f'{count:,} {kind}' for kind, count in kinds.items())})" if kinds else ""
        return [f"the first {MOST_SHOWN} of {len(self.rows):,}{counts}; Like 'a%' shows those whose names begin with a"]


def listing(
    kind: str,
    registry: Registry,
    manifest: Manifest,
    titles: Mapping[tuple[str, int], str],
    reports: Reports,
    folds: Mapping[tuple[str, str], Sequence[str]],
    like: str | None = None,
) -> Listing:
    """The table of a kind, failed queries first; `folds` are the queries that are answered as one."""
    found = _listing(kind, registry, manifest, titles, reports, folds)
    return found if like is None else found.like(like)


def _listing(
    kind: str,
    registry: Registry,
    manifest: Manifest,
    titles: Mapping[tuple[str, int], str],
    reports: Reports,
    folds: Mapping[tuple[str, str], Sequence[str]],
) -> Listing:
    match kind:
        case "queries":
            return _queries(registry, manifest)
        case "streams":
            return Listing(
                ("stream", "up to", *STREAM_NUMBERS, "columns"),
                [_stream(stream, manifest.streams[name]) for name, stream in registry.streams.items()],
            )
        case "relations":
            relations = registry.relations.items()
            return Listing(
                ("relation", "changed at", "columns"),
                [(name, _changed(manifest, name), ", ".join(each.df.columns)) for name, each in relations],
            )
        case "views":
            views = registry.views.items()
            return Listing(("view", "query"), [(name, " ".join(written(view).split())) for name, view in views])
        case "sharing":
            return _sharing(shared_nodes(manifest, titles, reports), folds)
        case "memory":
            return _memory(registry, manifest, titles, reports)
    raise QueryError(f"there are no {kind!r}", hint=suggest(kind, (*KINDS, "advice"), "kinds"))


def _stream(stream: StreamInput, state: StreamState) -> tuple[str, ...]:
    """How far a stream is, the skew that it has and the suggested one, and how far it is behind the others."""
    counts = (f"{number:,}" for number in (state.rows, state.late, state.unusable))
    skews = ("-", "-")
    if stream.timestamp is not None:
        present = stream.skew if stream.late is None or state.skew is None else state.skew
        skews = (_seconds(present), _seconds(state.suggested_skew))
    behind = ("-", "-") if state.behind is None else (_seconds(state.behind), _seconds(state.largest_behind))
    return (stream.name, _time(state.newest), *counts, *skews, *behind, ", ".join(stream.df.columns))


def _seconds(micros: int) -> str:
    return f"{micros / 1e6:,.3f} s"


def _queries(registry: Registry, manifest: Manifest) -> Listing:
    states, some_failed = manifest.queries, any(each.error for each in registry.queries.values())
    return Listing(
        ("query", "status", "up to", "rows", *(["why"] if some_failed else [])),
        [
            (name, query.status, _time(states[name].position), f"{states[name].rows:,}", *why)
            for name, query in sorted(registry.queries.items(), key=lambda each: each[1].error is None)
            for why in [[in_a_line(query.error) if query.error else ""] if some_failed else []]
        ],
    )


def _sharing(nodes: Sequence[SharedNode], folds: Mapping[tuple[str, str], Sequence[str]]) -> Listing:
    """Operators that several queries use, and what that saves; queries that are answered as one."""
    rows: list[tuple[str, ...]] = []
    for each in nodes:
        numbers = (len(each.queries), each.rows, each.saved_rows, each.saved_bytes)
        rows.append((each.title, each.node, *(f"{number:,}" for number in numbers), _some(each.queries)))
    for (title, template), members in sorted(folds.items()):
        rows.append((title, template, f"{len(members):,}", "", "", "", _some(members)))
    return Listing(("operator", "node", "queries", "state rows", "saved rows", "saved bytes", "used by"), rows)


def _memory(registry: Registry, manifest: Manifest, titles: Mapping[tuple[str, int], str], reports: Reports) -> Listing:
    """What each operator keeps, how that grows, and what it takes by now; shared ones are told for each query."""
    held: dict[str, list[CellReport]] = defaultdict(list)
    for (node, _), report in reports.items():
        held[node].append(report)
    rows: list[tuple[str, ...]] = []
    for name, query in sorted(registry.queries.items()):
        for stage, node in sorted(manifest.queries[name].nodes.items()):
            title, cells = titles.get((name, stage), "operator"), held[node]
            state = state_of(query.query.plan, title)
            counts = (sum(getattr(each, kind) for each in cells) for kind in ("held_rows", "held_bytes", "file_bytes"))
            numbers = (f"{count:,}" for count in counts)
            rows.append((name, title, state.keeps, state.growth, *numbers, state.hint))
    return Listing(("query", "operator", "keeps", "grows", "state rows", "bytes", "on disk", "hint"), rows)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (" ..." if len(names) > MOST_NAMES else "")


def _changed(manifest: Manifest, name: str) -> str:
    """When a relation was changed for the last time."""
    state = manifest.relations.get(name)
    return "-" if state is None else _time(state.changed)


class Rates:
    """Rows per second, each time since the last look.

    Parameters
    ----------
    clock
        Seconds.

    >>> rates = Rates(iter([0.0, 2.0, 4.0]).__next__)
    >>> rates.since("q", 100), rates.since("q", 400), rates.since("q", 400)
    (None, 150.0, 0.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}

    def since(self, name: str, rows: int) -> float | None:
        """The rate, given how many rows there are by now; None at the first look."""
        last, self._seen[name] = self._seen.get(name), (self._clock(), rows)
        return None if last is None else (rows - last[1]) / max(self._seen[name][0] - last[0], 1e-9)


def progress(registry: Registry, manifest: Manifest, reports: Reports, rates: Rates) -> list[dict[str, object]]:
    """How far each query is; the lag is what its newest stream has shown and the query has not answered yet."""
    rows: list[dict[str, object]] = []
    for name, query in registry.queries.items():
        state = manifest.queries[name]
        streams = [manifest.streams[stream] for stream in scans(query.query.plan, "stream")]
        shown = [each.newest for each in streams if each.newest is not None]
        rate = rates.since(name, sum(each.rows for each in streams)) if query.status == "running" else None
        lag = (max(shown) - state.position) / 1e6 if shown and state.position != EVER else None
        held = [report for (node, _), report in reports.items() if node in state.nodes.values()]
        rows.append(
            {
                "query": name,
                "status": query.status,
                "rows/s": "-" if rate is None else f"{rate:,.1f}",
                "up to": _time(state.position),
                "lag s": "-" if lag is None else f"{max(0.0, lag):.1f}",
                "rows out": f"{state.rows:,}",
                "state rows": f"{sum(each.held_rows for each in held):,}",
                "state MB": f"{sum(each.held_bytes for each in held) / 1e6:.1f}",
            }
        )
    return rows


def _time(micros: int | None) -> str:
    if micros is None or micros == EVER:
        return "-"
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
