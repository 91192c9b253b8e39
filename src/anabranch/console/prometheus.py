"""Figures as text for Prometheus (exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Sample = tuple[Mapping[str, str], float | None]


def exposition(metrics: Mapping[str, Any]) -> str:
    """What `/metrics` answers, given what `/api/metrics` answers.

    >>> streams = [{"name": "s", "rows": 5, "late": 0, "unusable": 0, "buffered": 2}]
    >>> print(exposition({"tick": 3, "streams": streams, "queries": [], "filters": [], "decisions": 1}))
    # HELP anabranch_tick_total Ticks that were committed.
    # TYPE anabranch_tick_total counter
    anabranch_tick_total 3
    ...
    """
    streams, queries, filters = metrics["streams"], metrics["queries"], metrics["filters"]
    families: list[tuple[str, str, str, list[Sample]]] = [
        ("tick_total", "counter", "Ticks that were committed.", [({}, metrics["tick"])]),
        ("decisions_total", "counter", "Decisions and failures that were seen.", [({}, metrics["decisions"])]),
        ("stream_rows_total", "counter", "Rows that a stream has brought.", _of(streams, "stream", "name", "rows")),
        ("stream_late_total", "counter", "Rows that came too late.", _of(streams, "stream", "name", "late")),
        ("stream_unusable_total", "counter", "Rows without a usable time.", _of(streams, "stream", "name", "unusable")),
        ("stream_buffered_rows", "gauge", "Rows that queries may need.", _of(streams, "stream", "name", "buffered")),
        ("query_rows_total", "counter", "Rows of a query's answer.", _of(queries, "query", "name", "rows")),
        ("query_lag_seconds", "gauge", "Time by which a query is behind.", _of(queries, "query", "name", "lag", 1e-6)),
        ("query_state_rows", "gauge", "Rows in a query's state.", _of(queries, "query", "name", "state_rows")),
        ("query_state_bytes", "gauge", "Bytes of a query's state.", _of(queries, "query", "name", "state_bytes")),
        (
            "query_up",
            "gauge",
            "Whether a query runs.",
            [({"query": q["name"]}, q["status"] == "running") for q in queries],
        ),
        ("filter_rows_total", "counter", "Rows that reached a filter.", _of(filters, "filter", "id", "rows")),
        (
            "filter_evaluations_total",
            "counter",
            "Evaluations of predicates.",
            _of(filters, "filter", "id", "evaluations"),
        ),
        ("filter_seconds_total", "counter", "Time of predicates.", _of(filters, "filter", "id", "seconds")),
    ]
    lines = []
    for name, kind, about, samples in families:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            lines += [f"# HELP anabranch_{name} {about}", f"# TYPE anabranch_{name} {kind}"]
            lines += [f"anabranch_{name}{_labels(labels)} {_number(value)}" for labels, value in known]
    return "\n".join(lines) + "\n"


def _of(found: Iterable[Mapping[str, Any]], label: str, name: str, key: str, unit: float = 1) -> list[Sample]:
    return [({label: str(each[name])}, None if each[key] is None else each[key] * unit) for each in found]


def _labels(labels: Mapping[str, str]) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    said = ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items())
    return f"{{{said}}}" if said else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
