"""SysStream: what operators, streams and queries did in each tick, as a stream that queries can read.

`Select Istream(entity, value) From SysStream [Now] Where property = 'memory' And value > 1e9` watches the state of all
operators. The rows of a tick come with the next tick that streams cause.

Notes
-----
After STREAM's introspection queries (thesis, section 2.4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.constraints.constraint_report import ConstraintReport
from anabranch.engine.inputs import StreamInput
from anabranch.engine.join_ledger import of_node
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.shared_nodes import shared_nodes
from anabranch.operators.base import EVER
from anabranch.spark.continuous.cell_task import CellReport, Reports
from anabranch.spark.continuous.summaries import stream_of
from anabranch.spark.schemas import empty_frame

NAME = "SysStream"
SCHEMA = (
    StructType()
    .add("ts", "timestamp")
    .add("seq", "long")
    .add("query", "string")
    .add("entity", "string")
    .add("property", "string")
    .add("value", "double")
)

Joined = Mapping[str, Mapping[int, tuple[str, ...]]]
"""What joins call their inputs, by query and stage."""
Row = tuple[datetime, int, str | None, str, str, float]


@dataclass(frozen=True)
class TickStatistics:
    """What a tick did: reports of operators, rows that were put in each buffer, and how long it took."""

    reports: Reports
    queued: Mapping[str, int]
    seconds: float

    def rate(self, rows: int) -> float:
        """Rows per second of the tick."""
        return rows / max(self.seconds, 1e-9)


def sys_stream(spark: SparkSession) -> StreamInput:
    """The stream, as it is registered with every engine."""
    return StreamInput(NAME, empty_frame(spark, SCHEMA), "ts", 0, "seq", None, 0, None)


def published(
    old: Manifest, new: Manifest, did: TickStatistics, titles: dict[tuple[str, int], str], joined: Joined
) -> list[Row]:
    """The rows of a tick: counts, rates, selectivities, memory, lag, and the probes of joins."""
    moment = datetime.now(UTC)
    found = [("", "engine", "seconds", did.seconds), *_streams(old, new, did), *_queries(old, new)]
    found += [*_operators(new, did, titles), *_shared(new, did, titles), *_probes(new, did, titles, joined)]
    return [
        (moment, new.tick * 1_000_000 + number, query or None, entity, what, float(value))
        for number, (query, entity, what, value) in enumerate(found)
    ]


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """The rows as a batch of the stream."""
    return spark.createDataFrame(list(rows), SCHEMA)


def _streams(old: Manifest, new: Manifest, did: TickStatistics) -> Iterator[tuple[str, str, str, float]]:
    for name, state in new.streams.items():
        if name != NAME and name == stream_of(name):
            came = state.rows - (old.streams[name].rows if name in old.streams else 0)
            yield "", f"stream {name}", "rate", did.rate(came)
            yield "", f"stream {name}", "late", state.late
            yield "", f"stream {name}", "late share", state.late / max(1, state.rows + state.late)
            yield "", f"stream {name}", "suggested skew", state.suggested_skew / 1e6
            yield "", f"stream {name}", "largest delay", state.largest_delay / 1e6
            if state.behind is not None:
                yield "", f"stream {name}", "behind", state.behind / 1e6
                yield "", f"stream {name}", "largest behind", state.largest_behind / 1e6
            yield "", f"stream {name}", "unusable", state.unusable
        if stream_of(name) != NAME:
            yield "", f"queue {name}", "rows", sum(file.rows for file in state.files)
            yield "", f"queue {name}", "rate", did.rate(did.queued.get(name, 0))


def _queries(old: Manifest, new: Manifest) -> Iterator[tuple[str, str, str, float]]:
    for name, state in new.queries.items():
        before = old.queries[name].rows if name in old.queries else 0
        yield name, "query", "rows", state.rows - before
        lag = _lag(new, state)
        if lag is not None:
            yield name, "query", "lag", lag


def _lag(manifest: Manifest, state: QueryState) -> float | None:
    """Seconds by which the newest of a query's streams is ahead of what the query has answered."""
    shown = [manifest.streams[name].newest for name in map(stream_of, state.needs) if name in manifest.streams]
    newest = max((time for time in shown if time is not None), default=None)
    return None if newest is None or state.position == EVER else max(0.0, (newest - state.position) / 1e6)


def _shared(
    manifest: Manifest, did: TickStatistics, titles: dict[tuple[str, int], str]
) -> Iterator[tuple[str, str, str, float]]:
    """Operators that several queries use, and the state that this saves."""
    ran = {node for node, _ in did.reports}
    for each in shared_nodes(manifest, titles, did.reports):
        if each.node in ran:
            yield "", f"{each.title} {each.node}", "queries", len(each.queries)
            yield "", f"{each.title} {each.node}", "saved rows", each.saved_rows
            yield "", f"{each.title} {each.node}", "saved bytes", each.saved_bytes


def _operators(
    manifest: Manifest, did: TickStatistics, titles: dict[tuple[str, int], str]
) -> Iterator[tuple[str, str, str, float]]:
    """An operator is as far as its query."""
    nodes: dict[str, list[CellReport]] = defaultdict(list)
    for (node, _), report in did.reports.items():
        nodes[node].append(report)
    used = [(query, stage, node) for query, state in manifest.queries.items() for stage, node in state.nodes.items()]
    for query, stage, found in ((query, stage, nodes[node]) for query, stage, node in used if node in nodes):
        entity = f"{titles.get((query, stage), 'operator')} {stage}"
        came, went = (sum(getattr(each, name) for each in found) for name in ("rows_in", "rows_out"))
        yield query, entity, "rows in", came
        yield query, entity, "rows out", went
        yield query, entity, "rate", did.rate(came)
        yield query, entity, "selectivity", went / came if came else 0.0
        yield query, entity, "seconds", sum(each.seconds for each in found)
        yield query, entity, "synopsis rows", sum(each.held_rows for each in found)
        yield query, entity, "memory", sum(each.held_bytes for each in found)
        yield query, entity, "segments read", sum(each.segments_read for each in found)
        yield query, entity, "lag", _lag(manifest, manifest.queries[query]) or 0.0


def _probes(
    manifest: Manifest, did: TickStatistics, titles: dict[tuple[str, int], str], joined: Joined
) -> Iterator[tuple[str, str, str, float]]:
    """For each input of a join and each window that it probes: the place of that in the order, and what it drops."""
    for query, stages in joined.items():
        for stage, names in stages.items():
            for probes in of_node(did.reports, manifest.queries[query].nodes[stage]):
                for other, counts in probes.windows.items():
                    title = titles.get((query, stage), "join")
                    entity = f"{title} {stage} probe {names[probes.input]} -> {names[other]}"
                    yield query, entity, "place", probes.order.index(other) + 1
                    yield query, entity, "rows", counts.seen
                    yield query, entity, "dropped", counts.dropped
                    yield query, entity, "seconds", counts.seconds
                for cache in probes.caches:
                    windows = ", ".join(names[each] for each in cache.windows)
                    entity = f"{titles.get((query, stage), 'join')} {stage} cache {names[probes.input]} -> {windows}"
                    yield query, entity, "rows", cache.probes
                    yield query, entity, "misses", cache.misses
                    yield query, entity, "memory", cache.nbytes
            yield from _constraints(query, f"{titles.get((query, stage), 'join')} {stage}", manifest, did, stage)


def _constraints(
    query: str, title: str, manifest: Manifest, did: TickStatistics, stage: int
) -> Iterator[tuple[str, str, str, float]]:
    """What constraints of a join's inputs have saved, and may have lost."""
    node = manifest.queries[query].nodes[stage]
    found = [each.constraints for (of, _), each in did.reports.items() if of == node and each.constraints is not None]
    if found:
        whole, entity = reduce(ConstraintReport.together, found), f"{title} constraints"
        yield query, entity, "used", len(whole.keys) + len(whole.used)
        yield query, entity, "rows", whole.rows
        yield query, entity, "set aside", whole.aside
        yield query, entity, "bytes on disk", whole.aside_bytes
        yield query, entity, "forgotten", whole.forgotten
        yield query, entity, "rescued", whole.rescued
        yield query, entity, "missing", whole.missing
