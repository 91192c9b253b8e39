"""The engine without Spark: the same plans, stages, cells and logs, over Arrow tables; DuckDB evaluates expressions."""

from __future__ import annotations

import random
import uuid
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot

from anabranch.constraints.config import Mode
from anabranch.logical_plan import Query, Scalar, Scan, scans
from anabranch.model.arrays import BoolMatrix
from anabranch.model.names import quoted
from anabranch.operators.base import END, EVER, FOREVER, START, TIME, WEIGHT, Operator, Tick
from anabranch.operators.exact_sums import BUNDLE
from anabranch.operators.join import MultiJoin
from anabranch.operators.segments import INPUT, LONGEST_LOG, CellState, LogFile, Segment, next_segment
from anabranch.operators.tapped import TappedOperator
from anabranch.planning.distribution import Distribution
from anabranch.planning.index_look_up import IndexLookUp
from anabranch.planning.placement import Placement, chosen
from anabranch.planning.probes import Probe
from anabranch.planning.reading import JoinPlan, read
from anabranch.planning.stages import VALID, VALID_FROM, VALID_TO, Items, Stage, first
from chaos import JoinChaos
from cql.oracle import normalised
from cql.placing import Place, measured_of, sent_to
from cql.streams import Case, Relation, Row, Stream

TYPES = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "decimal(38, 0)": pa.decimal128(38, 0),
    "decimal(20, 2)": pa.decimal128(20, 2),
    "decimal(12, 4)": pa.decimal128(12, 4),
    "decimal(9, 2)": pa.decimal128(9, 2),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
SEQUENCE = "_sequence"
SHORT_LOG = 2
LIMITS = (0, 500, 2000, 5000, 20_000, None)
"""Of the memory of an operator."""
ALONE = "alone"

connection = duckdb.connect(config={"threads": 1})
connection.execute("PRAGMA disable_optimizer")  # tables have a few rows
connection.execute("CREATE MACRO nanvl(a, b) AS CASE WHEN a = 'NaN'::DOUBLE THEN b ELSE a END")
connection.execute("CREATE MACRO isnan(a) AS coalesce(a = 'NaN'::DOUBLE, false)")  # of NULL it is false, for Spark


@cache
def translated(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]


def run(sql: str, flow: pa.Table) -> pa.Table:
    connection.register("flow", flow)
    return connection.sql(sql).to_arrow_table()


def joins(operator: Operator | TappedOperator) -> Iterator[MultiJoin]:
    """All joins within an operator."""
    if isinstance(operator, MultiJoin):
        yield operator
    for part in vars(operator).values():
        if isinstance(part, Operator):
            yield from joins(part)


def switch(operator: TappedOperator, rng: random.Random) -> None:
    """Another plan from here on: new elements of each input of a join probe the others in some other order."""
    for join in joins(operator):
        others = {new: [other for other in range(join.inputs) if other != new] for new in range(join.inputs)}
        join.pin({new: rng.sample(each, len(each)) for new, each in others.items()})


@dataclass
class Cells:
    """States of all cells, with or without a log; if `switches` is given, plans change from tick to tick."""

    count: int
    few_codes: bool = False
    folder: Path | None = None
    longest_log: int = LONGEST_LOG
    switches: random.Random | None = None
    chaotic: JoinChaos | None = None
    memory: random.Random | None = None
    states: dict[tuple[str, int, tuple[str, ...]], CellState] = field(default_factory=dict)
    logs: dict[tuple[str, int], list[Segment]] = field(default_factory=dict)
    place: Place = chosen
    placements: dict[str, Placement] = field(default_factory=dict)
    received: dict[str, Any] = field(default_factory=lambda: defaultdict(int))

    def node(self, stage: Stage) -> str:
        """Whose state it is."""
        return str(stage.number)

    def names(self, stage: Stage) -> tuple[str, ...]:
        """Its columns, in the order that all who share it have."""
        return ()

    def taps(self, stage: Stage) -> dict[str, Stage]:
        """The stages of all who want something of the operator, by what they want."""
        return {ALONE: stage}

    def tap(self, stage: Stage) -> str:
        """Which of them it is."""
        return ALONE

    def wanted(self, node: str) -> Collection[int]:
        """For which queries that differ in constants a state is wanted that may have forgotten others."""
        return ()

    def fold(self, state: CellState, cell: int, node: str, tick: Tick) -> None:
        """Keep what is wanted of a state for queries that differ in constants, and unite it with others."""

    def restart(self) -> None:
        """All memory is lost; only logs stay."""
        assert self.folder is not None
        self.states.clear()

    def advance(
        self, stage: Stage, cell: int, columns: Sequence[Sequence[str]], table: pa.Table, tick: Tick
    ) -> dict[str, pa.Table]:
        key, names = (self.node(stage), cell), self.names(stage)
        taps = {tap: each.tap.renamed(_there(each, stage)) for tap, each in self.taps(stage).items()}
        make = partial(TappedOperator, stage.make, taps)
        state = self.states.setdefault((*key, (*names, *sorted(taps))), CellState(make, columns, table.schema, names))
        log = self.logs.get(key, [])
        if self.memory is not None:
            state.limit_memory(self.memory.choice(LIMITS))
        if self.folder is not None:
            state.catch_up(log, self.folder, tick, self.wanted(key[0]))
            self.fold(state, cell, key[0], tick)
        if self.switches is not None:
            switch(state.operator, self.switches)
        if self.chaotic is not None:
            for join in joins(state.operator):
                self.chaotic.before_tick(join)
        out: dict[str, list[pa.Table]] = {tap: [] for tap in taps}
        for tap, part in state.advance(table, tick):
            out[tap].append(part)
        if self.folder is not None:
            file = LogFile(self.folder, f"{self.node(stage)}-{cell}-{uuid.uuid4().hex}")
            full = table.num_rows > 0 and len(log) >= self.longest_log  # repeated it is as long as the longest
            self.logs[key] = next_segment(state, log * LONGEST_LOG if full else log, table, tick, file)
            file.close()
            state.logged(self.logs[key])
        return {tap: pa.concat_tables(parts) for tap, parts in out.items()}


def _there(one: Stage, other: Stage) -> dict[str, str]:
    """What another stage with the same operator calls its columns."""
    return dict(zip(one.made.names, other.made.names, strict=True))


@dataclass
class LocalFlows:
    """The backend of one tick."""

    tick: Tick
    origins: Mapping[str, int]
    due: Mapping[str, pa.Table]
    history: Mapping[str, pa.Table]
    relations: Mapping[str, pa.Table]  # versions of rows
    sequenced: Mapping[str, bool]
    cells: Cells
    begins: bool
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def stream(self, scan: Scan) -> pa.Table:
        table = self.due[scan.name]
        return pa.table({**{name: table[source] for source, name in scan.renamed}, TIME: table[TIME]})

    def arriving(self, scan: Scan) -> pa.Table:
        return self.stream(scan)

    def summary(self, stream: str, flow: pa.Table) -> pa.Table:
        return flow

    def expired(self, scan: Scan, span: int) -> pa.Table:
        table = self.history[scan.name]
        times = table[TIME].to_numpy()
        table = table.filter(pa.array((times >= self.tick.start - span - 1) & (times < self.tick.until - span - 1)))
        return pa.table({**{name: table[source] for source, name in scan.renamed}, TIME: table[TIME]})

    def order_of(self, stream: str) -> tuple[str, ...]:
        columns = [name for name in self.due[stream].column_names if name not in (TIME, SEQUENCE)]
        return (SEQUENCE,) if self.sequenced[stream] else tuple(columns)

    def key_of(self, stream: str) -> tuple[str, ...]:
        return self.keys.get(stream, ())

    def relation(self, scan: Scan) -> pa.Table:
        table = self.relations[scan.name]
        since = EVER if self.begins else self.tick.start
        parts = []
        for bound, weight in ((VALID_FROM, 1), (VALID_TO, -1)):
            times = table[bound].to_numpy()
            rows = table.filter(pa.array((times >= since) & (times < self.tick.until)))
            ends, weights = (pa.array(np.full(len(rows), value)) for value in (FOREVER, weight))
            bounds = {START: rows[bound], END: ends, WEIGHT: weights}
            parts.append(pa.table({name: rows[source] for source, name in scan.renamed} | bounds))
        return pa.concat_tables(parts)

    def table(self, scan: Scan) -> pa.Table:
        table = self.relations[scan.name]
        assert not scan.changing
        bare = pa.table({"_none": pa.nulls(len(table))})
        return pa.table({name: table[source] for source, name in scan.renamed}) if scan.renamed else bare

    def versions(self, scan: Scan) -> pa.Table:
        table = self.relations[scan.name]
        table = table.filter(pa.array(table[VALID_FROM].to_numpy() < self.tick.until))
        return pa.table({name: table[source] for source, name in (*scan.renamed, *zip(VALID, VALID, strict=True))})

    def schema(self, flow: pa.Table) -> pa.Schema:
        return flow.schema

    def filter(self, flow: pa.Table, conditions: Sequence[Scalar]) -> pa.Table:
        wanted = " AND ".join(f"({translated(each.sql)})" for each in conditions)
        return run(f"SELECT * FROM flow WHERE {wanted}", flow)

    def project(self, flow: pa.Table, items: Items) -> pa.Table:
        if all(each.column is not None for _, each in items):
            return pa.table({name: flow[each.columns[0]] for name, each in items})
        listed = ", ".join(f"{translated(each.sql)} AS {translated(quoted(name))}" for name, each in items)
        return run(f"SELECT {listed} FROM flow", flow)

    def union(self, flows: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables([flow.select(flows[0].column_names).cast(flows[0].schema) for flow in flows])

    def sum_up(self, flow: pa.Table, keys: Sequence[str], sums: Mapping[str, str]) -> pa.Table:
        groups: dict[Row, list[dict[str, Any]]] = {}
        for row in flow.to_pylist():
            groups.setdefault(tuple(row[name] for name in (*keys, START, END)), []).append(row)
        columns: dict[str, pa.Array] = {
            name: pa.array([key[i] for key in groups], flow.schema.field(name).type)
            for i, name in enumerate((*keys, START, END))
        }
        columns[WEIGHT] = pa.array([sum(row[WEIGHT] for row in rows) for rows in groups.values()], pa.int64())
        for name, new in sums.items():
            numbers = pa.types.is_integer(flow.schema.field(name).type)
            bundles = [
                _bundle([row[name] for row in rows if row[name] is not None], numbers) for rows in groups.values()
            ]
            columns[new] = pa.array(bundles, BUNDLE)
        return pa.table(columns)

    def look_up(
        self, flow: pa.Table, table: pa.Table, pairs: Sequence[tuple[str, str]], probes: Sequence[Probe] = ()
    ) -> pa.Table:
        if probes:
            return IndexLookUp.over(table, pairs, probes).found(flow)
        connection.register("other", table)
        agree = " AND ".join(translated(f"{quoted(left)} = {quoted(right)}") for left, right in pairs) or "true"
        if VALID_FROM not in table.column_names:
            return run(f"SELECT * FROM flow JOIN other ON {agree}", flow)
        valid = f"{START} >= {VALID_FROM} AND {START} < {VALID_TO}"
        return run(f"SELECT * FROM flow JOIN other ON {agree} AND {valid}", flow).drop_columns(list(VALID))

    def instants(self, streams: Sequence[str]) -> pa.Table:
        return pa.concat_tables([self.due[name].select([TIME]) for name in streams])

    def stage(self, stage: Stage, flows: Sequence[pa.Table]) -> pa.Table:
        return stage.named(self.emitted(stage, flows)[self.cells.tap(stage)])

    def emitted(self, stage: Stage, flows: Sequence[pa.Table]) -> dict[str, pa.Table]:
        """What each tap of the operator gives."""
        coded = [self._coded(flow, distribution) for flow, distribution in zip(flows, stage.distributions, strict=True)]
        columns = [flow.column_names for flow in coded]
        tick = replace(self._with_instants(stage), origin=first(self.origins, stage.streams))
        sent = self._sent(stage, coded)
        out = []
        for cell in range(sent[0].shape[1]):
            parts = [
                _numbered(flow.filter(pa.array(here[:, cell])), number)
                for number, (flow, here) in enumerate(zip(coded, sent, strict=True))
            ]
            table = pa.concat_tables(parts, promote_options="default")
            out.append(self.cells.advance(stage, cell, columns, table, tick))
        return {tap: pa.concat_tables([each[tap] for each in out]) for tap in out[0]}

    def _sent(self, stage: Stage, coded: Sequence[pa.Table]) -> list[BoolMatrix]:
        """For each input to which cells each row goes, as was chosen when the first ones came."""
        if stage.single or self.cells.count == 1:
            return [np.ones((len(flow), 1), np.bool_) for flow in coded]
        node = self.cells.node(stage)
        if node not in self.cells.placements and any(len(flow) for flow in coded):
            self.cells.placements[node] = self.cells.place(
                stage.distributions, self.cells.count, measured_of(coded, stage.distributions, self._codes)
            )
        placement = self.cells.placements.get(node) or chosen(stage.distributions, self.cells.count)
        sent = [
            sent_to(placement.along(distribution, number), partial(self._codes, flow))
            for number, (flow, distribution) in enumerate(zip(coded, stage.distributions, strict=True))
        ]
        self.cells.received[node] += np.sum([each.sum(axis=0) for each in sent], axis=0)
        return sent

    def _with_instants(self, stage: Stage) -> Tick:
        times = {
            tap: np.unique(self.instants(each.asks)[TIME].to_numpy())
            for tap, each in self.cells.taps(stage).items()
            if each.asks
        }
        own = times[self.cells.tap(stage)] if stage.instants else self.tick.instants
        return replace(self.tick, instants=own, slides=stage.slides, taps=times)

    def _coded(self, flow: pa.Table, distribution: Distribution) -> pa.Table:
        for name, columns in distribution.codes:
            flow = flow.append_column(name, pa.array(self._codes(flow, columns)))
        return flow

    def _codes(self, flow: pa.Table, columns: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if not columns or not len(flow):
            return np.zeros(len(flow), np.int64)
        codes = np.array([_code(row.values()) for row in flow.select(list(columns)).to_pylist()])
        return codes % 3 if self.cells.few_codes else codes


def _code(values: Iterable[Any]) -> int:
    """The same in every process, for all NaN, and for zeros of both signs."""
    return zlib.crc32(repr([value + 0.0 if isinstance(value, float) else value for value in values]).encode())


def _bundle(values: list[int], numbers: bool) -> dict[str, int]:
    low, high = (sum(v & 0xFFFFFFFF for v in values), sum(v >> 32 for v in values)) if numbers else (0, 0)
    return {"_count": len(values), "_low": low, "_high": high}


def _numbered(flow: pa.Table, number: int) -> pa.Table:
    return flow.append_column(INPUT, pa.array(np.full(len(flow), number, np.int32)))


class LocalEngine:
    """Runs one query over the arrivals of a case.

    Parameters
    ----------
    case
        Streams, relations, how rows arrive.
    query
        Bound.
    folder
        For logs; with it all memory is lost between ticks now and then, see `restart_every`.
    few_codes
        Whether the hash codes of rows are few, so that different rows have the same.
    longest_log
        After so many ticks with rows the state of a cell is written instead of what comes in.
    restart_every
        Ticks after which all memory is lost.
    switches
        Chooses another plan for every join before every tick.
    join
        How joins go about it.
    chaos
        Changes caches of all joins before every tick.
    constraints
        What becomes of rows that joins do not need.
    keys
        Columns that are declared to be keys, by stream.
    place
        Chooses where rows of joins go.
    memory
        Chooses another limit of memory for every operator before every tick.
    """

    def __init__(
        self,
        case: Case,
        query: Query,
        folder: Path | None = None,
        few_codes: bool = False,
        longest_log: int = SHORT_LOG,
        restart_every: int = 2,
        switches: random.Random | None = None,
        join: JoinPlan = "auto",
        chaos: JoinChaos | None = None,
        constraints: Mode = "off",
        keys: Mapping[str, tuple[str, ...]] | None = None,
        place: Place = chosen,
        memory: random.Random | None = None,
    ) -> None:
        self._query = query
        self._join, self._constraints, self._keys = join, constraints, keys or {}
        self._streams = {stream.name: stream for stream in case.streams}
        self._relations = {relation.name: relation_of(relation) for relation in case.relations}
        self._cells = Cells(case.cuts.cells, few_codes, folder, longest_log, switches, chaos, memory, place=place)
        self._restart_every = restart_every
        self._batches = case.cuts.batches
        self._inputs = scans(query.plan, "stream")
        self._position = EVER
        self._arrived: dict[str, list[Row]] = {name: [] for name in self._streams}

    def answer(self) -> Counter[Row]:
        """The bag of (row..., time, weight)."""
        out: Counter[Row] = Counter()
        left = {name: list(stream.arrived) for name, stream in self._streams.items()}
        for tick in range(max(len(batches) for batches in self._batches.values())):
            for name, batches in self._batches.items():
                for _ in range(batches[tick]):
                    self._arrived[name].append(left[name].pop(0))
            out += self._advance(self._watermark())
            if self._cells.folder is not None and (tick + 1) % self._restart_every == 0:
                self._cells.restart()
        ends = max((row[1] for name in self._inputs for row in self._arrived[name]), default=None)
        return out + self._advance(None if ends is None else ends + 1)

    @property
    def placements(self) -> dict[str, Placement]:
        """Where rows go, by the number of the stage."""
        return self._cells.placements

    @property
    def received(self) -> dict[str, list[int]]:
        """How many rows each cell has got, by the number of the stage."""
        return {node: list(map(int, rows)) for node, rows in self._cells.received.items()}

    @property
    def snapshots(self) -> int:
        """How many cells have written their state instead of what came in."""
        return sum(segment.kind == "snapshot" for log in self._cells.logs.values() for segment in log)

    def _watermark(self) -> int | None:
        shown: list[int | None] = [max((row[1] for row in self._arrived[name]), default=None) for name in self._inputs]
        if any(each is None for each in shown):
            return None
        return min(
            each - self._streams[name].skew for each, name in zip(shown, self._inputs, strict=True) if each is not None
        )

    def _advance(self, until: int | None) -> Counter[Row]:
        if until is None or until <= self._position:
            return Counter()
        due = {
            name: table_of(self._streams[name], [r for r in rows if self._position <= r[1] < until])
            for name, rows in self._arrived.items()
        }
        seen = {name: [row[1] for row in rows if row[1] < until] for name, rows in self._arrived.items()}
        origins = {name: min(times) for name, times in seen.items() if times}
        sequenced = {name: stream.sequenced for name, stream in self._streams.items()}
        history = {name: table_of(self._streams[name], rows) for name, rows in self._arrived.items()}
        tick, begins = Tick(self._position, until), self._position == EVER
        flows = LocalFlows(tick, origins, due, history, self._relations, sequenced, self._cells, begins, self._keys)
        read_as = (self._join, self._constraints)
        emitted = read(self._query, flows, *read_as).select([*self._query.plan.columns, TIME, WEIGHT])
        self._position = until
        return Counter(normalised(row.values()) for row in emitted.to_pylist())


def table_of(stream: Stream, rows: Sequence[Row]) -> pa.Table:
    names = [(SEQUENCE, pa.int64()), (TIME, pa.int64()), *((name, TYPES[its]) for name, its in stream.columns)]
    return pa.table({name: pa.array([row[i] for row in rows], its) for i, (name, its) in enumerate(names)})


def relation_of(relation: Relation) -> pa.Table:
    found = relation.versions
    columns = {
        name: pa.array([row[i] for row, _, _ in found], TYPES[its]) for i, (name, its) in enumerate(relation.columns)
    }
    columns[VALID_FROM] = pa.array([EVER if start is None else start for _, start, _ in found], pa.int64())
    columns[VALID_TO] = pa.array([FOREVER if end is None else end for _, _, end in found], pa.int64())
    return pa.table(columns)
