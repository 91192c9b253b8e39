"""The engine: streams, relations and queries are registered with it, and it advances them, tick by tick.

Queries come and go between ticks; see `loop.py` for what runs when, and `ticks.py` for what a tick does.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Never, get_args

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from sqlglot import exp

from anabranch import storage
from anabranch.config import OrderingConfig
from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog, FunctionInfo, folded
from anabranch.cql.dialect import parse_query
from anabranch.cql.statements import Statement
from anabranch.cql.templates import instantiated
from anabranch.engine import sysqueries, sysstream
from anabranch.engine.advising import advice
from anabranch.engine.batch_writer import BatchWriter, IngestSpec
from anabranch.engine.durations import refuse_renamed
from anabranch.engine.failures import of_stream, unwrap
from anabranch.engine.ingest import RECORDS, Ingest
from anabranch.engine.inputs import RelationInput, StreamInput, require_different
from anabranch.engine.join_ledger import reordered
from anabranch.engine.join_report import JoinReport
from anabranch.engine.layout import STATE
from anabranch.engine.leftovers import remove_leftovers
from anabranch.engine.lock import CheckpointLock
from anabranch.engine.loop import Loop
from anabranch.engine.manifest import MATERIALISE, SUMMED, QueryState, StreamState
from anabranch.engine.manifest_log import ManifestLog, committed
from anabranch.engine.network import forget_nodes, new_nodes
from anabranch.engine.network_graph import NetworkGraph
from anabranch.engine.overview import Overview, overview
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.query_runtime import QueryRuntime
from anabranch.engine.reader import Reader
from anabranch.engine.registry import Registry
from anabranch.engine.relations import Rows, change_time
from anabranch.engine.result_store import ResultStore
from anabranch.engine.rules import Rules, rule_columns
from anabranch.engine.script import execute
from anabranch.engine.shared_nodes import shared_nodes
from anabranch.engine.showing import KINDS, Listing, Rates, listing, progress
from anabranch.engine.stateless_queries import Offer
from anabranch.engine.ticks import TickRunner
from anabranch.engine.warm_up import warm_up
from anabranch.errors import QueriesFailed, QueryError, in_a_line, suggest
from anabranch.events import Event, StreamFailed
from anabranch.filter_report import Events
from anabranch.logical_plan import Query, scans
from anabranch.operators.base import EVER
from anabranch.planning.reading import JoinPlan
from anabranch.spark.connect import require_classic
from anabranch.spark.continuous.expression_types import said
from anabranch.spark.continuous.summaries import stream_of
from anabranch.spark.filters.filter import Filter
from anabranch.spark.quiet_errors import quiet_errors
from anabranch.spark.schemas import empty_frame
from anabranch.workload.advice import AdviceReport

MOST_PUBLISHED = 10_000
MOST_RECENT = 50_000
"""Rows of SysStream that `recent_ticks` holds."""
RECENT_EVENTS = 1_000
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


class Engine:
    """Runs continuous queries on a Spark session.

    Parameters
    ----------
    spark
        The session.
    checkpoint
        A folder for state and answers: an engine that is started on it again goes on where the last one stood. On a
        cluster all nodes have to see it. A temporary one if not given.
    cells
        Into how many parts windows, joins and groups are spread; as many as Spark runs tasks at a time if not given. A
        checkpoint keeps its number.
    state_bytes
        What each Python worker holds in memory of state, between ticks; the rest is read again when it is needed. A
        quarter of what `spark.executor.pyspark.memory` gives a worker, or of the machine's memory for each core, if not
        given.

    >>> from anabranch.spark.session import local_session
    >>> spark = local_session(cores=2, **{"spark.sql.shuffle.partitions": 2})
    >>> calls = spark.sql("SELECT timestamp_seconds(id) AS ts, id % 2 AS host FROM range(4)")
    >>> engine = Engine(spark)
    >>> engine.stream("calls", calls, timestamp="ts")
    >>> text = "Select Istream(host, Count(*) As n) From calls [Range 1 Minute] Group By host"
    >>> busy = engine.query(text, name="busy")
    >>> engine.run_batch()["busy"].orderBy("_ts").show()
    +----+---+-------------------+
    |host|  n|                _ts|
    +----+---+-------------------+
    |   0|  1|1970-01-01 00:00:00|
    |   1|  1|1970-01-01 00:00:01|
    |   0|  2|1970-01-01 00:00:02|
    |   1|  2|1970-01-01 00:00:03|
    +----+---+-------------------+
    <BLANKLINE>
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        cells: int | None = None,
        state_bytes: int | None = None,
    ) -> None:
        folder = storage.folder_of(checkpoint, "the checkpoint") if checkpoint else storage.temporary_folder()
        if state_bytes is not None and state_bytes < 0:
            raise QueryError(f"state_bytes is {state_bytes}", hint="give a number of bytes; 0 holds nothing")
        require_classic(spark)
        warm_up(spark)
        self._spark = spark
        self._folder = folder
        self._log = ManifestLog(self._folder)
        self._manifest = self._log.load(cells, spark.sparkContext.defaultParallelism)
        self._lock = CheckpointLock(self._folder)
        self._registry = Registry()
        self._registry.streams[sysstream.NAME] = sysstream.sys_stream(spark)
        self._manifest.streams.setdefault(sysstream.NAME, StreamState())
        described = empty_frame(spark, sysqueries.SCHEMA)
        self._registry.relations[sysqueries.NAME] = RelationInput(sysqueries.NAME, described, changing=True)
        self._published: list[sysstream.Row] = []
        self._recent: deque[tuple[int, list[sysstream.Row]]] = deque()
        self._rule_sets: dict[str, Rules] = {}
        self._rates = Rates()
        self._events: deque[Event] = deque(maxlen=RECENT_EVENTS)
        self._results = ResultStore(spark, self._folder)
        self._runtime = QueryRuntime(spark, self._folder, self._manifest.cells, self._registry, state_bytes)
        self._ingest = Ingest(self._folder, self._manifest, BatchWriter(self._folder, self._runtime.over))
        self._runner = TickRunner(spark, self._folder, self._registry, self._ingest, self._runtime, self._log)
        self._loop = Loop(
            self._folder / "sources",
            self._registry.streams,
            self._ingest,
            lambda stream: self._runner.waits(self._manifest, stream),
            self._tick,
            self._lost,
        )

    # -- registering

    def stream(
        self,
        name: str,
        df: DataFrame,
        *,
        timestamp: str,
        skew: str | timedelta = "0 seconds",
        sequence: str | None = None,
        idle: str | timedelta | None = None,
        retain: str | timedelta = "0 seconds",
        horizon: str | timedelta | None = "1 day",
        **renamed: Never,
    ) -> None:
        """Register a stream.

        Parameters
        ----------
        df
            A streaming DataFrame, or a bounded one for `run_batch`.
        timestamp
            The column with each row's time.
        skew
            By how much rows may be out of order; what is later than that goes to `late`.
        sequence
            A column that orders rows of the same time; without it the row's values do.
        idle
            A stream that brings no rows for so long does not hold others up.
        retain
            For how long rows stay for queries that are registered later and ask for history.
        horizon
            Rows whose time is further ahead of the clock are not believed; None believes all.
        """
        refuse_renamed(renamed)
        for unknown in renamed:
            raise TypeError(f"Engine.stream() got an unexpected keyword argument {unknown!r}")
        self._fresh(name)
        made = StreamInput.of(name, df, timestamp, skew, sequence, idle, retain, horizon)
        with self._loop.between_ticks():
            self._registry.streams[name] = made
            self._manifest.streams.setdefault(name, StreamState())
            self._want()

    def relation(self, name: str, df: DataFrame, *, changing: bool = False) -> None:
        """Register a table.

        Its rows are read once: files that change later do not matter. `insert`, `delete` and `replace` change it, at an
        instant. Where a checkpoint holds changes, those count and not the rows of `df`.

        Parameters
        ----------
        changing
            Say so if it will change while queries with windows run. Queries that have begun without it have joined its
            rows once and for all; only those that read rows at their own instant, as `[Now]` does, follow every change.
        """
        self._fresh(name)
        if df.isStreaming:
            raise QueryError(f"relation {name!r} is a streaming DataFrame", hint="register it with Engine.stream")
        require_different(df, f"relation {name!r}")
        known = self._manifest.relations.get(name)
        if known is not None and known.columns != df.schema.simpleString():
            raise QueryError(
                f"the checkpoint holds a relation {name!r} with the columns {known.columns}",
                hint="register it with the same columns, give this one another name, or start with a new folder",
            )
        self._registry.relations[name] = RelationInput(name, df.persist(), changing or known is not None)

    def insert(self, name: str, rows: Rows, *, at: datetime | None = None) -> int:
        """Add rows to a relation: a DataFrame, or a list of tuples or dicts. Returns how many.

        Parameters
        ----------
        at
            The instant at which they are there for the first time. It must not be answered yet. If not given, it is the
            one after all rows that have come so far, and from ever if none has.
        """
        return self._change(name, self._runtime.relations.insert, rows, at)

    def delete(self, name: str, rows: Rows | str | Column, *, at: datetime | None = None) -> int:
        """Take rows out of a relation: one copy of each of some rows, or all that meet a condition.

        Returns how many; `at` is the first instant without them, as for `insert`.
        """
        return self._change(name, self._runtime.relations.delete, rows, at)

    def replace(self, name: str, rows: Rows, *, at: datetime | None = None) -> int:
        """Let a relation hold these rows and no others; rows that were there already just stay.

        Returns how many enter or leave; `at` is as for `insert`.
        """
        return self._change(name, self._runtime.relations.replace, rows, at)

    def function(self, name: str, function: Callable[..., Any], returns: str = "boolean", **calling: Any) -> None:
        """Register a function for use in queries; conditions that call it are ordered while they run.

        One that calls a model or a service, as any `async def` function does, takes the options of `ab.predicate` for
        that: `cache`, `timeout`, `rate`, `retries`, `concurrency`, `version`.
        """
        self._fresh(name)
        self._runtime.functions.add(name, function, returns, calling)
        self._registry.functions[name] = F.udf(function, returns).returnType.simpleString()

    def view(self, name: str, text: str | exp.Query) -> None:
        """Register a query that others read by name; it does not run by itself."""
        self._fresh(name)
        bind(text, self.catalog, name)
        self._registry.views[name] = text

    def query(
        self,
        text: str | exp.Query,
        name: str,
        *,
        history: bool = False,
        share: bool = True,
        materialise: str = "auto",
        join: JoinPlan = "auto",
    ) -> ContinuousQuery:
        """Register a query.

        It sees all rows of streams that have not begun yet. Of a stream that runs already it sees rows from now on, or,
        with `history`, all that the stream has kept (`filled_since` says how far back that is). Operators that are
        equal to those of other queries are one with them, unless `share` is False: that changes what it costs, never
        what it answers.

        Parameters
        ----------
        materialise
            What is kept of its answer for those who ask for it. `none`: nothing, once its sink has had it. `matches`:
            its rows or changes, and who asks for the relation adds them up. `current`: the relation as well, again and
            again. `auto`: the relation whenever its changes are as many as its rows, so that asking costs the same at
            any age, and keeping at most twice the changes.
        join
            `auto`: joins probe windows in an order that follows the data; `fixed`: in the order in which the inputs
            are written; `xjoin`: as a tree of joins of two that keeps what it finds on the way.
        """
        if join not in get_args(JoinPlan):
            raise QueryError(f"unknown plan of joins {join!r}", hint=suggest(join, list(get_args(JoinPlan)), "plans"))
        self._fresh(name)
        if materialise not in MATERIALISE:
            raise QueryError(
                f"materialise is {materialise!r}", hint=suggest(materialise, MATERIALISE, "ways to materialise")
            )
        bound = bind(text, self.catalog, name)
        handle = ContinuousQuery(self, bound, text, share=share, join=join)
        summing = self._may_sum(bound)
        self._compile(handle, summing=summing)
        with self._loop.between_ticks(), self._ingest.standing_still():
            if summing and not self._may_sum(bound):  # its first rows came meanwhile
                self._runtime.compile(handle, summing=False)
            self._restore(handle, history, materialise)
            self._registry.queries[name] = handle
            self._want()
        return handle

    def rules(
        self,
        name: str,
        template: str | exp.Query,
        *,
        key: str = "rule",
        types: Mapping[str, str] | None = None,
        over: str | None = None,
        history: bool = False,
    ) -> Rules:
        """Register many queries as one: a template with parameters, and a rule with values for each of them.

        Answers carry the rule's key in front of the template's columns. Groups are per rule: one that has no row has no
        group. Rules see what windows hold when they are added; a template that names no window sees rows from then on.

        Parameters
        ----------
        template
            A query with parameters, as in `Where sensor = :sensor And value > :limit`.
        key
            The column that tells rules apart.
        types
            Types of parameters, in Spark's SQL; by default that of what a parameter is compared with. The key is a
            text.
        over
            A relation that holds the rules already, with a column for the key and for every parameter; by default a new
            one, whose name ends in `_rules`.
        history
            As for `query`.

        >>> from anabranch.spark.session import local_session
        >>> spark = local_session(cores=2, **{"spark.sql.shuffle.partitions": 2})
        >>> engine = Engine(spark)
        >>> engine.stream("s", spark.sql("SELECT timestamp_seconds(id) AS ts, id AS v FROM range(5)"), timestamp="ts")
        >>> rules = engine.rules("high", "Select v From s Where v > :limit")
        >>> rules.add_all([{"rule": "a", "limit": 2}, {"rule": "b", "limit": 3}])
        2
        >>> sorted((row["rule"], row["v"]) for row in engine.run_batch()["high"].collect())
        [('a', 3), ('a', 4), ('b', 4)]
        """
        tree = parse_query(template) if isinstance(template, str) else template
        self._fresh(name)
        relation = f"{name}_rules" if over is None else self.catalog.own_name("relation", over)
        if over is None:
            schema = rule_columns(self._spark, tree, key, self._schemas(tree), types or {})
            self.relation(relation, empty_frame(self._spark, schema), changing=True)
        else:
            with self._loop.between_ticks():
                self._let_change(self._registry.relations[relation])
        try:
            columns = self.schema_of(relation).names
            query = self.query(instantiated(tree, relation, folded(key, columns), columns), name, history=history)
        except BaseException:
            if over is None:
                del self._registry.relations[relation]
            raise
        self._rule_sets[name] = Rules(self, query, relation, folded(key, columns))
        return self._rule_sets[name]

    def bind(self, text: str | exp.Query, name: str = "query") -> Query:
        """The plan of a query that is not registered."""
        return bind(text, self.catalog, name)

    def execute(self, script: str | Sequence[Statement], *, bounded: bool = False) -> list[str]:
        """Carry out statements (`Create Stream`, `Create Query`, `Show`, ...) and return what they have to say.

        Streams are read as they grow, or, if `bounded`, as they are, for `run_batch`.
        """
        return execute(self, self._spark, script, bounded=bounded)

    def show(self, kind: str = "queries", *, like: str | None = None) -> None:
        """Print a table of what is registered: `queries`, `streams`, `relations`, `views`, `sharing`; or `advice`."""
        print(self.describe(kind, like=like))

    def describe(self, kind: str = "queries", *, like: str | None = None) -> str:
        """The table that `show` prints; with `like` only those whose names fit a pattern, as in `alert%`."""
        if kind == "advice":
            return self.advise().describe()
        return self._listing(kind, like).text()

    def _listing(self, kind: str, like: str | None = None) -> Listing:
        folds = self._runtime.folds(self._registry.queries) if kind == "sharing" else {}
        return listing(kind, self._registry, self._manifest, self._runtime.titles, self._runner.reports, folds, like)

    def _repr_html_(self) -> str:
        """What is registered, as tables for notebooks."""
        found = {kind: self._listing(kind) for kind in KINDS}
        tables = (f"<h4>{kind.capitalize()}</h4>{table.html()}" for kind, table in found.items() if table.rows)
        return f"<div>{''.join(tables)}</div>"

    def advise(self) -> AdviceReport:
        """What a change of queries or streams would save, and whether the mix of queries has changed."""
        return advice(self._registry, self._manifest, self._runner.reports)

    def progress(self) -> list[dict[str, object]]:
        """For each query its status, rate, rows out, rows in its state, memory of its state, and how far it is behind.

        The rate is that of rows which its streams have brought since this was asked before.
        """
        return progress(self._registry, self._manifest, self._runner.reports, self._rates)

    def overview(self) -> Overview:
        """All that is registered, and how far it is, as plain values.

        Any thread may ask at any time: it reads what the last tick has committed and waits for nothing.
        """
        return overview(self._registry, self._manifest, self._runner.reports, self._runtime.titles)

    @property
    def tick(self) -> int:
        """The number of the last tick that was committed."""
        return self._manifest.tick

    def registered(self) -> list[str]:
        """The names of streams, relations and views; for any thread, as `overview`."""
        registry = self._registry
        return [*registry.streams, *registry.relations, *registry.views]

    def network(self) -> NetworkGraph:
        """Streams, operators and queries as a graph; for any thread, as `overview`."""
        nodes = {name: dict(state.nodes) for name, state in list(self._manifest.queries.items())}
        return self._runtime.graph(nodes)

    def recent_ticks(self, after: int = 0) -> list[tuple[int, list[sysstream.Row]]]:
        """What recent ticks, later than one, have published on SysStream; for any thread, as `overview`."""
        return [(tick, rows) for tick, rows in list(self._recent) if tick > after]

    def filters(self) -> dict[str, list[Filter]]:
        """The adaptive filters of queries, as `ContinuousQuery.filters`, by query; for any thread, as `overview`."""
        found = self._runtime.functions.filters_by_query()
        return {name: each for name, each in found.items() if name in self._registry.queries}

    @property
    def rule_sets(self) -> Mapping[str, Rules]:
        """Registered rules by name."""
        return {name: rules for name, rules in list(self._rule_sets.items()) if name in self._registry.queries}

    @property
    def state_bytes(self) -> int | None:
        """What each Python worker holds in memory of state, as it was set; None is the default."""
        return self._runtime.state_bytes

    def hold(self, state_bytes: int | None) -> None:
        """Change what each Python worker holds in memory of state, from the next tick on."""
        if state_bytes is not None and state_bytes < 0:
            raise QueryError(f"state_bytes is {state_bytes}", hint="give a number of bytes; 0 holds nothing")
        with self._loop.between_ticks():
            self._runtime.state_bytes = state_bytes

    def use_policy(self, of: Filter, policy: str, config: OrderingConfig | None = None) -> None:
        """Let a filter of a query go on with another policy, from the next tick on."""
        with self._loop.between_ticks():
            of.use(policy, config)

    def serve(self, port: int = 8765, **options: Any) -> Any:
        """Serve the console: a web page, an API and metrics of this engine; returns the running service.

        Options are those of `anabranch.console.service.serve`.
        """
        return import_module("anabranch.console.service").serve(self, port=port, **options)

    def events(self) -> Events:
        """What happened to streams and queries lately: `StreamFailed`, `QueryFailed` and `ProbesReordered`."""
        return Events(self._events)

    def rows_taken(self, stream: str) -> int:
        """Rows of a stream that have been taken so far."""
        return self._manifest.streams[self.catalog.own_name("stream", stream)].rows

    def held_bytes(self) -> int:
        """What all queries hold together: rows in the buffer, once per stream, and the state of operators."""
        files = [file for state in self._manifest.streams.values() for file in state.files]
        buffered = sum(storage.size(self._folder / file.path) for file in files)
        return buffered + sum(report.held_bytes for report in self._runner.reports.values())

    def drop(self, name: str) -> None:
        """Remove a stream, relation, view or query; what others read stays until they are dropped."""
        name = folded(name, [*self.catalog.names(), *self._manifest.queries])
        if name in (sysstream.NAME, sysqueries.NAME):
            raise QueryError(
                f"{name!r} is built in and cannot be dropped", hint="it costs nothing while no query reads it"
            )
        readers = [
            each.name
            for each in self._registry.queries.values()
            if name in (*scans(each.query.plan, "stream"), *scans(each.query.plan, "relation"))
        ]
        readers += [] if readers else self._naming(name)
        if readers:
            raise QueryError(f"{name!r} is read by {', '.join(readers)}", hint="drop them first")
        query = self._registry.queries.get(name)
        if query is not None:
            self._stop_query(query)
        with self._loop.between_ticks():
            if query is not None or name in self._manifest.queries:
                self._registry.queries.pop(name, None)
                state = self._manifest.queries.pop(name)
                before = self._manifest.segments()
                forget_nodes(self._manifest)
                self._runtime.forget(name)
                self._want()
                self._clear(name, "delivered", "queries")  # summaries for it alone go with the next tick
                self._results.dropped(state, self._manifest.tick)
                for path in before - self._manifest.segments():
                    self._results.clear(path, STATE)
            elif name in self._registry.streams:
                del self._registry.streams[name]
                self._runtime.forget_source(name)
                buffers = [buffer for buffer in self._manifest.streams if stream_of(buffer) == name]
                for buffer in buffers:
                    del self._manifest.streams[buffer]
                self._ingest.forget(name)
                self._clear(name, "sources", "late", "unusable", RECORDS)
                for buffer in buffers:
                    self._results.clear(buffer, "kept")
            elif name in self._registry.relations:
                del self._registry.relations[name]
                self._runtime.forget_source(name)
                if self._manifest.relations.pop(name, None) is not None:
                    self._clear(name, "kept")
            elif name in self._registry.views:
                del self._registry.views[name]
            else:
                raise QueryError(f"there is no {name!r} to drop", hint=suggest(name, self.catalog.names(), "names"))

    def _naming(self, name: str) -> list[str]:
        """Queries and views that read another query, or a view, by its name."""
        written = {each.name: each.written for each in self._registry.queries.values()} | self._registry.views
        found = []
        for reader, text in written.items():
            if reader != name and (not isinstance(text, str) or name.lower() in text.lower()):
                tree = parse_query(text) if isinstance(text, str) else text
                own = {each.alias.lower() for each in tree.find_all(exp.CTE)}
                named = {each.name.lower() for each in tree.find_all(exp.Table)} - own
                found += [reader] if name.lower() in named else []
        return found

    def _clear(self, name: str, *kinds: str) -> None:
        """Commit that something is gone, then delete what it has left."""
        if self._manifest.tick or self._manifest.relations:
            self._log.commit_between_ticks(self._manifest)
        self._results.clear(name, *kinds)

    @property
    def catalog(self) -> Catalog:
        """What queries may name."""
        registry = self._registry
        return Catalog(
            {name: tuple(stream.df.columns) for name, stream in registry.streams.items()},
            {name: tuple(relation.df.columns) for name, relation in registry.relations.items()},
            {name: query.query for name, query in registry.queries.items()},
            dict(self._registry.views),
            {name: FunctionInfo(name) for name in self._runtime.functions.names},
            [name for name, relation in registry.relations.items() if relation.changing],
            self._known_to_spark,
        )

    @property
    def queries(self) -> Mapping[str, ContinuousQuery]:
        """Registered queries by name."""
        return self._registry.queries

    # -- running

    def run_batch(self) -> dict[str, DataFrame]:
        """Run all queries over bounded inputs to their end: the same answers as a stream of the same rows gives.

        Sinks are given them then, tick by tick.

        Raises
        ------
        QueriesFailed
            If some queries have failed, once all the others have come to the end and their sinks have had the answers.
            It says which and why, and its `answers` are those of the others.
        """
        registry = self._registry
        for name, stream in registry.streams.items():
            if stream.df.isStreaming:
                raise QueryError(
                    f"stream {name!r} has no end", hint="use start() and await_idle(), or read it as a batch"
                )
        if self._manifest.tick:
            raise QueryError("this checkpoint holds a run already", hint="use a new folder for each run")
        try:
            self._run_to_the_end()
        finally:
            self._runtime.rest()
        failures = {name: query.error for name, query in registry.queries.items() if query.error is not None}
        answers = {name: query.to_dataframe() for name, query in registry.queries.items() if name not in failures}
        if failures:
            raise QueriesFailed(failures, answers)
        return answers

    def stop(self) -> None:
        """Stop all queries and streams; an engine on the same checkpoint goes on from here."""
        for query in self._registry.queries.values():
            if query.status in ("running", "paused"):
                query.status = "stopped"
        self._loop.stop()
        self._runtime.rest()
        self._lock.release()

    def late(self, stream: str) -> DataFrame:
        """Rows of a stream that came too late."""
        return self._aside("late", stream)

    def unusable(self, stream: str) -> DataFrame:
        """Rows of a stream without a time, or with one too far ahead of the clock."""
        return self._aside("unusable", stream)

    # -- for queries

    def _start(self, query: ContinuousQuery) -> None:
        outer = [name for name in scans(query.query.plan, "stream") if name != sysstream.NAME]
        for name in outer:
            if not self._registry.streams[name].df.isStreaming:
                raise QueryError(f"stream {name!r} is a bounded DataFrame", hint="use Engine.run_batch()")
        streams = [self._registry.streams[name] for name in outer]
        self._take_over(streams)
        query.error = None
        self._set_status(query, "running")
        self._loop.start(streams)

    def _run_to_the_end(self) -> None:
        registry = self._registry
        for query in registry.queries.values():
            query.status = "running"
        self._results.describe(registry.queries.values(), self._manifest)
        self._describe_queries()
        for stream in registry.streams.values():
            self._ingest.caught_up(stream)
        offers = [Offer(each, 0, each.df) for name, each in registry.streams.items() if name != sysstream.NAME]
        self._manifest = self._runner.run(self._manifest, offers, {}, until=EVER)
        for offer in offers:
            if offer.error is not None:
                self._lost(offer.stream.name, offer.error)
        for until in self._runner.cuts(self._manifest):
            self._manifest = self._runner.run(self._manifest, [], {}, until=until)
        self._results.deliver(registry.queries.values(), self._manifest)
        for query in registry.queries.values():
            if query.error is None:
                query.status = "ended"

    def _take_over(self, streams: Sequence[StreamInput]) -> None:
        """Lock the checkpoint, and check that it fits these streams."""
        first = self._lock.acquire()
        try:
            if first and (committed(self._folder) != self._manifest.tick or not self._ingest.current()):
                hint = "create a new Engine on it"
                raise QueryError("another engine has used the checkpoint since this one was created", hint=hint)
            for stream in streams:
                self._loop.check(stream)
        except QueryError:
            if first:
                self._lock.release()
            raise
        if first:
            self._results.sweep(self._manifest, self._ingest.files())
            self._ingest.sweep()
            remove_leftovers(self._folder, self._manifest)

    def _set_status(self, query: ContinuousQuery, status: str) -> None:
        def change() -> None:
            query.status = status

        self._loop.want(change)

    def _stop_query(self, query: ContinuousQuery) -> None:
        if query.status in ("running", "paused"):
            query.status = "stopped"
        alive = [each for each in self._registry.queries.values() if each.status in ("running", "paused")]
        self._loop.keep({name for each in alive for name in scans(each.query.plan, "stream")})

    def _await_idle(self, query: ContinuousQuery, timeout: float | None) -> None:
        done = self._loop.await_idle(scans(query.query.plan, "stream"), timeout)
        failed = self._loop.failure or query.error
        if failed is not None:
            raise failed
        if not done:
            raise TimeoutError(f"query {query.name} was still busy after {timeout} s")

    def _answer(self, query: Query) -> DataFrame:
        return self._results.read(query.name, self._manifest.queries[query.name], self._manifest.tick)

    def _contents(self, query: Query) -> DataFrame:
        return self._results.contents(query.name, self._manifest.queries[query.name], self._manifest.tick)

    def _filters(self, query: Query) -> list[Filter]:
        return self._runtime.functions.filters(query.name)

    def _explained(self, query: ContinuousQuery) -> list[str]:
        """How a query is run."""
        summaries = sorted({stream_of(name) for name in self._runtime.requirements(query.name).summaries})
        summed = [f"summed up as rows come: {', '.join(summaries)}"] if summaries else []
        nodes = shared_nodes(self._manifest, self._runtime.titles, self._runner.reports)
        shared = [each.in_words(query.name) for each in nodes if query.name in each.queries]
        folds = self._runtime.folds(self._registry.queries).values()
        folded = [f"1 of {len(names):,} queries that differ in constants" for names in folds if query.name in names]
        look_ups, joins = self._runtime.look_ups(query), self._join_report(query).lines()
        return [*self._runtime.described(query.name), *shared, *summed, *folded, *look_ups, *joins]

    def _join_report(self, query: ContinuousQuery) -> JoinReport:
        nodes, joined = self._manifest.queries[query.name].nodes, self._runtime.joined(query.name)
        return self._runtime.joins.report(query.join, {nodes[stage]: names for stage, names in joined.items()})

    # -- ticks

    def _tick(self, offers: Sequence[Offer], silent: Mapping[str, bool]) -> None:
        began, old = time.perf_counter(), self._manifest
        self._describe_queries()
        self._results.describe(self._registry.queries.values(), old)
        manifest = self._runner.run(old, [*offers, *self._introspection()], silent)
        seconds = time.perf_counter() - began
        self._manifest = manifest
        did = sysstream.TickStatistics(self._runner.last, self._runner.queued, seconds)
        joined = {name: self._runtime.joined(name) for name in manifest.queries}
        published = sysstream.published(old, manifest, did, self._runtime.titles, joined)
        self._published += published
        self._events += reordered(manifest, self._runner.last, joined)
        del self._published[:-MOST_PUBLISHED]
        self._recent.append((manifest.tick, published))
        while len(self._recent) > 1 and sum(len(rows) for _, rows in self._recent) > MOST_RECENT:
            self._recent.popleft()
        for offer in offers:
            offer.done.set()
        self._loop.committed()
        self._results.note(self._runner.answered)
        queries = list(self._registry.queries.values())
        self._results.deliver(queries, manifest)
        self._results.keep(queries, manifest)

    def _lost(self, stream: str, error: BaseException) -> None:
        """A stream cannot be read: queries that read it stop, others go on."""
        self._events.append(StreamFailed(stream, in_a_line(unwrap(error))))
        for query in self._registry.queries.values():
            if stream in scans(query.query.plan, "stream") and query.status in ("running", "paused"):
                query._fail(query.error or of_stream(stream, error))

    def _describe_queries(self) -> None:
        """Let SysQueries hold what queries are and cost by now, if some query reads it."""
        name = sysqueries.NAME
        if any(name in scans(each.query.plan, "relation") for each in self._registry.queries.values()):
            rows = sysqueries.sys_queries(self._registry, self._manifest, self._runner.reports)
            relation, (_, now) = self._registry.relations[name], self._settled(name)
            self._runtime.relations.replace(relation, self._manifest, rows, now)

    def _introspection(self) -> list[Offer]:
        """What earlier ticks have published, if some query wants to know."""
        read = any(sysstream.NAME in scans(each.query.plan, "stream") for each in self._registry.queries.values())
        if not (read and self._published):
            return []
        rows, self._published = self._published, []
        stream = self._registry.streams[sysstream.NAME]
        return [Offer(stream, self._manifest.tick, sysstream.frame(self._spark, rows))]

    # -- relations

    def _schemas(self, tree: exp.Query) -> list[StructType]:
        """The columns of the streams and relations that a query names."""
        streams, relations = self._registry.streams, self._registry.relations
        known = {name: stream.df.schema for name, stream in streams.items()}
        known |= {name: relation.df.schema for name, relation in relations.items()}
        named = (folded(table.name, list(known)) for table in tree.find_all(exp.Table))
        return [known[name] for name in named if name in known]

    def contents(self, relation: str) -> DataFrame:
        """The rows of a relation after all changes so far."""
        found = self._registry.relations[self.catalog.own_name("relation", relation)]
        return self._runtime.relations.contents(found, self._manifest)

    def reader(self) -> Reader:
        """What queries have answered, read without Spark, as `anabranch.open` does."""
        return Reader(self._folder)

    def schema_of(self, relation: str) -> StructType:
        """The columns of a relation."""
        return self._registry.relations[self.catalog.own_name("relation", relation)].df.schema

    @quiet_errors()
    def _change(self, name: str, change: Callable[..., int], rows: Rows | str | Column, at: datetime | None) -> int:
        relation = self._registry.relations[self.catalog.own_name("relation", name)]
        with self._loop.between_ticks(), self._ingest.standing_still():
            self._let_change(relation)
            time = change_time(relation.name, at, *self._settled(relation.name))
            count = change(relation, self._manifest, rows, time)
            if count:
                self._log.commit_between_ticks(self._manifest)
                self._runtime.relations.remove_merged()
        return count

    def _settled(self, name: str) -> tuple[int, int]:
        """The time before which a relation cannot be changed any more, and the time after all rows that have come."""
        readers = [each for each in self._registry.queries.values() if name in scans(each.query.plan, "relation")]
        streams = {stream for each in readers for stream in scans(each.query.plan, "stream")}
        states = {stream: self._manifest.streams[stream] for stream in streams}
        passed = [state.passed + 1 for state in states.values() if state.passed is not None]
        closed = [max(state.closed, self._ingest.closed(stream)) for stream, state in states.items()]
        answered = [self._manifest.queries[each.name].position for each in readers]
        known = self._manifest.relations.get(name)
        earliest = max([EVER, *passed, *closed, *answered, *([known.changed] if known else [])])
        newest = [time + 1 for stream, state in states.items() for time in self._ingest.newest(stream, state)]
        return earliest, max([earliest, *newest])

    def _let_change(self, relation: RelationInput) -> None:
        """From now on a relation may change: queries that have not begun are made anew for that."""
        if relation.changing:
            return
        readers = [
            each for each in self._registry.queries.values() if relation.name in self._runtime.constants(each.name)
        ]
        begun = [each.name for each in readers if self._manifest.queries[each.name].has_begun]
        if begun:
            raise QueryError(
                f"relation {relation.name!r} was joined once and for all by {', '.join(begun)}, which has begun",
                hint="register it with relation(..., changing=True) before such queries",
            )
        relation.changing = True
        for each in readers:
            before = self._manifest.queries.pop(each.name)
            each.query = bind(each.written, self.catalog, each.name)
            self._compile(each, summing=self._may_sum(each.query))
            self._restore(each, history=False, materialise=before.materialise)
            state = self._manifest.queries[each.name]
            state.position = state.since = before.since
        self._want()

    # -- helpers

    def _compile(self, handle: ContinuousQuery, *, summing: bool) -> None:
        try:
            with quiet_errors():
                self._results.expect(handle.name, self._runtime.compile(handle, summing=summing))
        except AnalysisException as error:
            raise QueryError(
                f"query {handle.name!r} is invalid: {said(error, handle.query)}", hint="check its functions and types"
            ) from None

    def _restore(self, handle: ContinuousQuery, history: bool, materialise: str = "auto") -> None:
        """A query that the checkpoint knows goes on; another under its name is refused."""
        query, required = handle.query, self._runtime.requirements(handle.name)
        print_ = self._registry.fingerprint(query) + (" xjoin" if handle.join == "xjoin" else "")
        known = self._manifest.queries.get(query.name)
        own = folded(query.name, list(self._manifest.queries))
        if own != query.name:
            hint = "write its name as it is, drop it first, or give this one another name"
            raise QueryError(
                f"the checkpoint holds a query {own!r}; {query.name!r} differs from it by case alone", hint=hint
            )
        if known is not None:
            if known.fingerprint != print_ or known.summaries != required.summaries:
                raise QueryError(
                    f"the checkpoint holds another query, or other inputs, under the name {query.name!r}",
                    hint="drop it first, give this one another name, or start with a new folder",
                )
            if known.materialise != materialise and not (known.summed and materialise in SUMMED):
                raise QueryError(
                    f"the checkpoint holds query {query.name!r} with materialise={known.materialise!r}",
                    hint="register it as it was, or drop it first",
                )
            self._manifest.queries[query.name] = replace(known, materialise=materialise)
            return
        names = scans(query.plan, "stream")
        states, reads = self._manifest.streams, required.reads
        begins = [self._ingest.since(name, reads.get(name, []), states[name], history=history) for name in names]
        since = max(begins, default=EVER)
        fresh = since == EVER
        self._manifest.queries[query.name] = QueryState(
            print_,
            position=since,
            since=since,
            tick=0 if fresh else self._manifest.tick,
            needs=required.needs,
            reads=required.reads,
            summaries=required.summaries,
            direct=required.direct,
            registered=self._manifest.tick,
            nodes=new_nodes(self._runtime.signatures(query.name), self._manifest),
            number=self._manifest.new_number(),
            materialise=materialise,
        )

    def _want(self) -> None:
        """Say what of streams is needed: columns that queries read, or all where history is kept, and summaries."""
        for name, stream in self._registry.streams.items():
            readers, summaries = self._manifest.readers(name), self._manifest.summaries(name)
            read = {column for state in readers for column in state.reads.get(name, [])}
            columns = tuple(each for each in stream.df.columns if stream.retain or each in read)
            rows = bool(stream.retain or readers or not summaries)
            self._ingest.want(name, IngestSpec(columns, rows, tuple(summaries.items())))

    def _may_sum(self, query: Query) -> bool:
        """Whether a query's streams may be summed up as they come: not if something has come before."""
        known = self._manifest.queries.get(query.name)
        return bool(known.summaries) if known else not any(map(self._ingest.begun, scans(query.plan, "stream")))

    def _known_to_spark(self) -> list[str]:
        return [row[0].split(".")[-1] for row in self._spark.sql("SHOW FUNCTIONS").collect()]

    def _fresh(self, name: str) -> None:
        if not _NAME.match(name):
            raise QueryError(f"{name!r} is not a valid name", hint="letters, digits and _, not beginning with a digit")
        taken = [*self.catalog.names(), *self._runtime.functions.names]
        if name.lower() in (each.lower() for each in taken):
            raise QueryError(f"the name {name!r} is taken", hint="drop it first, or choose another name")

    def _aside(self, kind: str, name: str) -> DataFrame:
        name = self.catalog.own_name("stream", name)
        return self._results.aside(kind, name, self._registry.streams[name].df.schema)
