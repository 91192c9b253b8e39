"""Tables of what is registered, for `Show` and for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from anabranch.cells.base import EVER
from anabranch.cql.dialect import written
from anabranch.engine.manifest import Manifest
from anabranch.engine.registry import Registry
from anabranch.errors import QueryError, in_a_line, suggest
from anabranch.model.continuous import scans
from anabranch.spark.cell_task import Reports

KINDS = ("queries", "streams", "relations", "views")


def showing(kind: str, registry: Registry, manifest: Manifest) -> str:
    """A table as text."""
    if kind == "queries":
        states, some_failed = manifest.queries, any(each.error for each in registry.queries.values())
        return _table(
            ("query", "status", "up to", "rows", *(["why"] if some_failed else [])),
            [
                (name, query.status, _time(states[name].position), f"{states[name].rows:,}", *why)
                for name, query in registry.queries.items()
                for why in [[in_a_line(query.error) if query.error else ""] if some_failed else []]
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
        views = registry.views.items()
        return _table(("view", "query"), [(name, " ".join(written(view).split())) for name, view in views])
    raise QueryError(f"there are no {kind!r}", hint=suggest(kind, KINDS, "kinds"))


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
        held = [report for (owner, _, _), report in reports.items() if owner == name]
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


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines)
