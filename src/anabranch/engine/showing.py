"""Tables of what is registered, for `Show` and for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from anabranch.cells.base import EVER
from anabranch.engine.manifest import Manifest
from anabranch.engine.registry import Registry
from anabranch.errors import QueryError, suggest
from anabranch.model.continuous import scans
from anabranch.spark.cell_task import Reports

KINDS = ("queries", "streams", "relations", "views")


def showing(kind: str, registry: Registry, manifest: Manifest) -> str:
    """A table as text."""
    if kind == "queries":
        states = manifest.queries
        return _table(
            ("query", "status", "up to", "rows"),
            [
                (name, query.status, _time(states[name].position), f"{states[name].rows:,}")
                for name, query in registry.queries.items()
            ],
        )
    if kind == "streams":
        return _table(
            ("stream", "up to", "rows", "late", "unusable", "columns"),
            [
                (name, _time(state.newest), *(f"{n:,}" for n in (state.rows, state.late, state.unusable)), columns)
                for name, stream in registry.streams.items()
                for state, columns in [(manifest.streams[name], ", ".join(stream.df.columns))]
            ],
        )
    if kind == "relations":
        return _table(
            ("relation", "columns"), [(name, ", ".join(df.columns)) for name, df in registry.relations.items()]
        )
    if kind == "views":
        return _table(("view", "query"), [(name, " ".join(text.split())) for name, text in registry.views.items()])
    raise QueryError(f"there are no {kind!r}", hint=suggest(kind, KINDS, "kinds"))


def progress(registry: Registry, manifest: Manifest, reports: Reports) -> list[dict[str, object]]:
    """How far each query is; the lag is what its newest stream has shown and the query has not answered yet."""
    rows: list[dict[str, object]] = []
    for name, query in registry.queries.items():
        state = manifest.queries[name]
        newest = [manifest.streams[stream].newest for stream in scans(query.query.plan, "stream")]
        shown = [each for each in newest if each is not None]
        lag = (max(shown) - state.position) / 1e6 if shown and state.position != EVER else None
        held = [report for (owner, _, _), report in reports.items() if owner == name]
        rows.append(
            {
                "query": name,
                "status": query.status,
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


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines)
