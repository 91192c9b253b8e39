"""What is registered with an engine and how far it is, as plain values that any thread may take at any time.

A tick is never waited for: an overview reads what the last tick has committed. Dictionaries that other threads change
are copied by one call each, which Python does not interrupt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.cql.dialect import written
from anabranch.engine.manifest import Manifest, QueryState, StreamState
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.registry import Registry
from anabranch.errors import in_a_line
from anabranch.logical_plan import scans
from anabranch.operators.base import EVER
from anabranch.spark.continuous.cell_task import CellReport, Reports
from anabranch.spark.continuous.summaries import stream_of

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StreamOverview:
    """A stream; times and durations in microseconds.

    `timestamp` is None if rows get the time of their arrival. `closed` is the time before which rows come too late;
    `buffered` counts the rows that some query may still need. `may_be_late` is the share of rows that may come late,
    if the skew follows them. `suggested_skew` would have kept all but one row of a thousand in time, `largest_delay`
    all of them. When batches of it came, it was at most `behind` the most advanced of the other streams in 95 of 100
    cases, at most `largest_behind` in all; None if it was not compared with any.
    """

    name: str
    columns: Columns
    timestamp: str | None
    sequence: str | None
    skew: int
    may_be_late: float | None
    idle: int | None
    retain: int
    newest: int | None
    closed: int | None
    rows: int
    late: int
    unusable: int
    buffered: int
    readers: tuple[str, ...]
    suggested_skew: int
    largest_delay: int
    behind: int | None
    largest_behind: int | None


@dataclass(frozen=True)
class RelationOverview:
    """A relation; `changed` is the time of its last change, if it has changed."""

    name: str
    columns: Columns
    changing: bool
    changed: int | None


@dataclass(frozen=True)
class OperatorOverview:
    """An operator of the network, with what it did in the last tick in which it ran, over all cells."""

    node: str
    title: str
    queries: tuple[str, ...]
    rows_in: int
    rows_out: int
    seconds: float
    held_rows: int
    held_bytes: int
    segments: int


@dataclass(frozen=True)
class QueryOverview:
    """A query; `lag` is how many microseconds its newest stream is ahead of its answer."""

    name: str
    text: str
    status: str
    error: str | None
    is_stream: bool
    columns: tuple[str, ...]
    streams: tuple[str, ...]
    relations: tuple[str, ...]
    position: int | None
    lag: int | None
    rows: int
    share: bool
    nodes: tuple[str, ...]
    state_rows: int
    state_bytes: int
    seconds: float


@dataclass(frozen=True)
class Overview:
    """An engine after a tick."""

    tick: int
    cells: int
    streams: tuple[StreamOverview, ...]
    relations: tuple[RelationOverview, ...]
    views: tuple[tuple[str, str], ...]
    functions: tuple[str, ...]
    queries: tuple[QueryOverview, ...]
    operators: tuple[OperatorOverview, ...]


def overview(
    registry: Registry, manifest: Manifest, reports: Reports, titles: Mapping[tuple[str, int], str]
) -> Overview:
    """All that there is to see."""
    operators = _operators(manifest, dict(reports), dict(titles))
    by_node = {each.node: each for each in operators}
    states = dict(manifest.queries)
    queries = [
        _query(query, states[query.name], manifest, by_node)
        for query in list(registry.queries.values())
        if query.name in states  # one that is being dropped is not
    ]
    readers: dict[str, list[str]] = defaultdict(list)
    for query in queries:
        for name in query.streams:
            readers[name].append(query.name)
    return Overview(
        manifest.tick,
        manifest.cells,
        _streams(registry, manifest, readers),
        _relations(registry, manifest),
        tuple((name, written(view)) for name, view in list(registry.views.items())),
        tuple(registry.functions),
        tuple(queries),
        tuple(operators),
    )


def _streams(registry: Registry, manifest: Manifest, readers: Mapping[str, list[str]]) -> tuple[StreamOverview, ...]:
    found, states = [], dict(manifest.streams)
    for name, stream in list(registry.streams.items()):
        state = states.get(name, StreamState())
        kept = [buffer for key, buffer in states.items() if stream_of(key) == name]
        found.append(
            StreamOverview(
                name,
                tuple((field.name, field.dataType.simpleString()) for field in stream.df.schema.fields),
                stream.timestamp,
                stream.sequence,
                stream.skew if stream.late is None or state.skew is None else state.skew,
                stream.late,
                stream.idle_timeout,
                stream.retain,
                state.newest,
                _known(state.closed),
                state.rows,
                state.late,
                state.unusable,
                sum(file.rows for buffer in kept for file in list(buffer.files)),
                tuple(readers.get(name, ())),
                state.suggested_skew,
                state.largest_delay,
                state.behind,
                None if state.behind is None else state.largest_behind,
            )
        )
    return tuple(found)


def _relations(registry: Registry, manifest: Manifest) -> tuple[RelationOverview, ...]:
    found, states = [], dict(manifest.relations)
    for name, relation in list(registry.relations.items()):
        fields = relation.df.schema.fields
        columns = tuple((field.name, field.dataType.simpleString()) for field in fields)
        changed = _known(states[name].changed) if name in states else None
        found.append(RelationOverview(name, columns, relation.changing, changed))
    return tuple(found)


def _operators(manifest: Manifest, reports: Reports, titles: Mapping[tuple[str, int], str]) -> list[OperatorOverview]:
    users: dict[str, dict[str, int]] = defaultdict(dict)
    for name, state in list(manifest.queries.items()):
        for stage, node in list(state.nodes.items()):
            users[node].setdefault(name, stage)
    cells: dict[str, list[CellReport]] = defaultdict(list)
    for (node, _), report in reports.items():
        cells[node].append(report)
    found = []
    for node, queries in users.items():
        done, first = cells.get(node, []), next(iter(queries.items()))
        logs = manifest.nodes.get(node, {})
        found.append(
            OperatorOverview(
                node,
                titles.get(first, "operator"),
                tuple(queries),
                sum(each.rows_in for each in done),
                sum(each.rows_out for each in done),
                float(sum(each.seconds for each in done)),
                sum(each.held_rows for each in done),
                sum(each.held_bytes for each in done),
                sum(len(log) for log in list(logs.values())),
            )
        )
    return found


def _query(
    query: ContinuousQuery, state: QueryState, manifest: Manifest, operators: Mapping[str, OperatorOverview]
) -> QueryOverview:
    streams = tuple(scans(query.query.plan, "stream"))
    found = (manifest.streams.get(name) for name in streams)
    shown = [stream.newest for stream in found if stream is not None]
    newest = max((time for time in shown if time is not None), default=None)
    lag = None if newest is None or state.position == EVER else max(0, newest - state.position)
    nodes = tuple(dict.fromkeys(state.nodes.values()))
    used = [operators[node] for node in nodes if node in operators]
    return QueryOverview(
        query.name,
        query.text,
        query.status,
        None if query.error is None else in_a_line(query.error),
        query.query.is_stream,
        tuple(query.query.output),
        streams,
        tuple(scans(query.query.plan, "relation")),
        _known(state.position),
        lag,
        state.rows,
        query.share,
        nodes,
        sum(each.held_rows for each in used),
        sum(each.held_bytes for each in used),
        sum(each.seconds for each in used),
    )


def _known(time: int) -> int | None:
    return None if time == EVER else time
