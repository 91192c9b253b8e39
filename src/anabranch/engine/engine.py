"""The engine: streams, relations and queries are registered with it, and it advances them, tick by tick.

This is the interface; its parts do the work: `registration.py`, `dropping.py` and `relation_changes.py` between ticks,
`scheduler.py` with the loop and its ticks. See `loop.py` for what runs when, and `ticks.py` for what a tick does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from sqlglot import exp

from anabranch import storage
from anabranch.constraints.config import ConstraintConfig, Mode
from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog, folded
from anabranch.cql.dialect import parse_query
from anabranch.cql.statements import Statement
from anabranch.cql.templates import instantiated
from anabranch.engine import sysqueries, sysstream
from anabranch.engine.advising import advice
from anabranch.engine.batch_writer import BatchWriter
from anabranch.engine.checkpoint import Checkpoint
from anabranch.engine.dropping import Dropping
from anabranch.engine.durations import refuse_renamed
from anabranch.engine.ingest import Ingest
from anabranch.engine.inputs import RelationInput, StreamInput, require_different
from anabranch.engine.manifest import Manifest, StreamState
from anabranch.engine.memory_sizes import bytes_of, limit_of
from anabranch.engine.network_graph import NetworkGraph
from anabranch.engine.overview import Overview, overview
from anabranch.engine.parts import EngineParts
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.query_host import QueryHost
from anabranch.engine.query_runtime import QueryRuntime
from anabranch.engine.reader import Reader
from anabranch.engine.registration import Registration, require_join_plan, require_materialise
from anabranch.engine.registry import Registry
from anabranch.engine.relation_changes import RelationChanges
from anabranch.engine.relations import Rows
from anabranch.engine.result_store import ResultStore
from anabranch.engine.rules import Rules, rule_columns
from anabranch.engine.scheduler import Scheduler
from anabranch.engine.script import execute
from anabranch.engine.showing import KINDS, Listing, Rates, listing, progress
from anabranch.engine.tick_history import TickHistory
from anabranch.engine.warm_up import warm_up
from anabranch.errors import QueriesFailed, QueryError
from anabranch.filter_report import Events
from anabranch.logical_plan import Query
from anabranch.model.stream_times import Arrival, AutoSkew
from anabranch.planning.reading import JoinPlan
from anabranch.spark.connect import require_classic
from anabranch.spark.filters.filter import Filter
from anabranch.spark.schemas import empty_frame
from anabranch.workload.advice import AdviceReport

CACHE_MEMORY = "256 MB"
CACHES_OF_MEMORY = 4
"""Where memory is limited, caches get this part of it at most, one in so many."""


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
        What each host, a process per core of a machine, holds in memory of state, between ticks; the rest is read again
        when it is needed. A quarter of what `spark.executor.pyspark.memory` gives a worker, or of the machine's memory
        for each core, if not given.
    cache_memory
        What joins may take to keep partial results that are asked for again, in all cells together: a number of bytes,
        or a text such as `"64 MB"`. With 0 they keep none.
    memory
        What all operators together may take in all cells, their windows, indexes, groups and caches: a number of bytes,
        or a text such as `"1 GB"`. The oldest rows of joins go to disk, and come back when they are needed: slower, and
        the same answers. What cannot go to disk is told by `MemoryExceeded` in `events()`, and by `Explain Memory`.

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
        cache_memory: int | str = CACHE_MEMORY,
        memory: int | str | None = None,
    ) -> None:
        folder = storage.folder_of(checkpoint, "the checkpoint") if checkpoint else storage.temporary_folder()
        if state_bytes is not None and state_bytes < 0:
            raise QueryError(f"state_bytes is {state_bytes}", hint="give a number of bytes; 0 holds nothing")
        cache_bytes, limit = bytes_of(cache_memory, "cache_memory"), limit_of(memory)
        if limit is not None:
            cache_bytes = min(cache_bytes, limit // CACHES_OF_MEMORY)
        require_classic(spark)
        warm_up(spark)
        self._spark = spark
        self._folder = folder
        self._checkpoint = Checkpoint(folder, cells, spark.sparkContext.defaultParallelism)
        manifest, registry = self._checkpoint.manifest, Registry()
        self._registry = registry
        registry.streams[sysstream.NAME] = sysstream.sys_stream(spark)
        manifest.streams.setdefault(sysstream.NAME, StreamState())
        described = empty_frame(spark, sysqueries.SCHEMA)
        registry.relations[sysqueries.NAME] = RelationInput(sysqueries.NAME, described, changing=True)
        self._rule_sets: dict[str, Rules] = {}
        self._rates = Rates()
        self._history = TickHistory()
        self._results = ResultStore(spark, folder)
        self._runtime = QueryRuntime(spark, folder, manifest.cells, registry, state_bytes, cache_bytes, limit)
        self._ingest = Ingest(folder, manifest, BatchWriter(folder, self._runtime.over))
        parts = EngineParts(
            spark, self._checkpoint, registry, self._ingest, self._runtime, self._results, self._history
        )
        self._scheduler = Scheduler(parts)
        self._loop, self._runner = self._scheduler.loop, self._scheduler.runner
        self._host = QueryHost(parts, self._scheduler)
        self._registration = Registration(parts, self._loop)
        self._changes = RelationChanges(parts, self._registration, self._loop)
        self._dropping = Dropping(parts, self._registration, self._scheduler)

    @property
    def _manifest(self) -> Manifest:
        return self._checkpoint.manifest

    # -- registering

    def stream(
        self,
        name: str,
        df: DataFrame,
        *,
        timestamp: str | Arrival,
        skew: str | timedelta | AutoSkew = "0 seconds",
        sequence: str | None = None,
        idle: str | timedelta | None = None,
        retain: str | timedelta = "0 seconds",
        horizon: str | timedelta | None = "1 day",
        key: str | Sequence[str] = (),
        **renamed: Never,
    ) -> None:
        """Register a stream.

        Parameters
        ----------
        df
            A streaming DataFrame, or a bounded one for `run_batch`.
        timestamp
            The column with each row's time; or `ab.ARRIVAL`: all rows of a batch get the time at which it is taken.
        skew
            By how much rows may be out of order; what is later than that goes to `late`. `"auto"`, or an `ab.AutoSkew`,
            follows the delays of rows.
        sequence
            A column that orders rows of the same time; without it the row's values do.
        idle
            A stream that brings no rows for so long does not hold others up.
        retain
            For how long rows stay for queries that are registered later and ask for history.
        horizon
            Rows whose time is further ahead of the clock are not believed; None believes all.
        key
            Columns that tell its rows apart. Joins with `constraints` go by it, and fail where they see that it is not
            so.
        """
        refuse_renamed(renamed)
        for unknown in renamed:
            raise TypeError(f"Engine.stream() got an unexpected keyword argument {unknown!r}")
        self._registration.require_free(name)
        declared = (timestamp, skew, sequence, idle, retain, horizon, key)
        self._registration.add_stream(StreamInput.of(name, df, *declared))

    def relation(self, name: str, df: DataFrame, *, changing: bool = False) -> None:
        """Register a table.

        Its rows are read once: files that change later do not matter. `insert`, `delete` and `replace` change it, at an
        instant. Where a checkpoint holds changes, those count and not the rows of `df`.

        Parameters
        ----------
        changing
            Whether it will change while queries with windows run. Queries that have begun without it have joined its
            rows once and for all; only those that read rows at their own instant, as `[Now]` does, follow every change.
        """
        self._registration.require_free(name)
        if df.isStreaming:
            raise QueryError(f"relation {name!r} is a streaming DataFrame", hint="register it with Engine.stream")
        require_different(df, f"relation {name!r}")
        self._registration.add_relation(name, df, changing=changing)

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
        that: `cache`, `timeout`, `rate`, `retries`, `concurrency`, `version`. With `on_error="null"` it is a look-up:
        where there is no answer, after a time-out say, it is NULL; by default the query fails.
        """
        self._registration.require_free(name)
        self._runtime.functions.add(name, function, returns, calling)
        self._registry.functions[name] = F.udf(function, returns).returnType.simpleString()

    def view(self, name: str, text: str | exp.Query) -> None:
        """Register a query that others read by name; it does not run by itself."""
        self._registration.require_free(name)
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
        constraints: Mode = "off",
        memory: int | str | None = None,
    ) -> ContinuousQuery:
        """Register a query.

        It sees all rows of streams that have not begun yet. Of a stream that runs already it sees rows from now on, or,
        with `history`, all that the stream has kept (`filled_since` says how far back that is). Operators that are
        equal to those of other queries are one with them, unless `share` is False: that changes what it costs, never
        what it answers.

        Parameters
        ----------
        materialise
            What is kept of its answer to be read. `none`: nothing, once its sink has had it. `matches`: its rows or
            changes, which a reader of the relation adds up. `current`: the relation as well, again and again. `auto`:
            the relation whenever its changes are as many as its rows, so that reading costs the same at any age, and
            keeping at most twice the changes.
        join
            `auto`: joins probe windows in an order that follows the data; `fixed`: in the order in which the inputs
            are written; `xjoin`: as a tree of joins of two that keeps what it finds on the way.
        constraints
            `exact`: joins find out which rows they will not need, and keep these on disk; `discard`: they forget them,
            and miss results where the data changes its ways; `off`: they keep whole windows in memory.
        memory
            What its operators may take in all cells together, such as `"200 MB"`, as for an engine. Operators that it
            shares keep to the limits of all queries that use them.
        """
        limit = limit_of(memory)
        require_join_plan(join)
        ConstraintConfig(constraints)
        self._registration.require_free(name)
        require_materialise(materialise)
        query = ContinuousQuery(
            self._host,
            bind(text, self.catalog, name),
            text,
            share=share,
            join=join,
            constraints=constraints,
            memory=limit,
        )
        self._registration.add_query(query, history=history, materialise=materialise)
        return query

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
        self._registration.require_free(name)
        relation = f"{name}_rules" if over is None else self.catalog.own_name("relation", over)
        if over is None:
            schema = rule_columns(self._spark, tree, key, self._registration.schemas(tree), types or {})
            self.relation(relation, empty_frame(self._spark, schema), changing=True)
        else:
            self._changes.let_change(self._registry.relations[relation])
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
        """Carry out statements (`Create Stream`, `Create Query`, `Show`, ...) and return their output.

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
        folds = self._runtime.as_one(self._manifest) if kind == "sharing" else {}
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

    @property
    def failure(self) -> BaseException | None:
        """Why no tick runs any more, if that is so; queries that have failed by themselves do not stop others."""
        return self._loop.failure

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
        return self._history.since(after)

    def filters(self) -> dict[str, list[Filter]]:
        """The adaptive filters of queries, as `ContinuousQuery.filters`, by query; for any thread, as `overview`."""
        found = self._runtime.functions.filters_by_query()
        return {name: each for name, each in found.items() if name in self._registry.queries}

    def joined(self) -> dict[str, list[tuple[str, ...]]]:
        """What the joins of queries combine, by query, where they combine windows; for any thread, as `overview`."""
        found = {name: list(self._runtime.joined(name).values()) for name in list(self._registry.queries)}
        return {name: inputs for name, inputs in found.items() if inputs}

    @property
    def rule_sets(self) -> Mapping[str, Rules]:
        """Registered rules by name."""
        return {name: rules for name, rules in list(self._rule_sets.items()) if name in self._registry.queries}

    @property
    def state_bytes(self) -> int | None:
        """What each host holds in memory of state, as it was set; None is the default."""
        return self._runtime.state_bytes

    def hold(self, state_bytes: int | None) -> None:
        """Change what each host holds in memory of state, from the next tick on."""
        if state_bytes is not None and state_bytes < 0:
            raise QueryError(f"state_bytes is {state_bytes}", hint="give a number of bytes; 0 holds nothing")
        with self._loop.between_ticks():
            self._runtime.state_bytes = state_bytes

    @property
    def cache_bytes(self) -> int:
        """Bytes that caches of joins may take together."""
        return self._runtime.cache_bytes

    def hold_caches(self, cache_memory: int | str) -> None:
        """Let caches of joins take so much from the next tick on; with 0 there are none."""
        given = bytes_of(cache_memory, "cache_memory")
        with self._loop.between_ticks():
            self._runtime.cache_bytes = given

    def set_skew(self, stream: str, skew: str | timedelta | AutoSkew) -> timedelta | AutoSkew:
        """Let rows of a stream be more, or less, out of order from now on than was said when it was registered.

        What has been answered stays: more skew holds queries back until time has gone on, less lets them answer at
        once, and rows that come later than it says go to `late`. After a restart it is as registered. Returns what it
        was.
        """
        found = self._registry.streams[self.catalog.own_name("stream", stream)]
        with self._loop.between_ticks():
            before = found.declared_skew
            self._loop.want(lambda: found.set_skew(skew))
        return before

    def share(self, query: str, *, share: bool) -> None:
        """Let a query use operators together with others, as `Engine.query` says, or its own, from the next tick on.

        Its state goes with it; what it answers stays the same.
        """
        self._registration.share(self.queries[self.catalog.own_name("query", query)], share=share)

    def between_ticks(self, change: Callable[[], None]) -> None:
        """Change something of queries' filters while no tick runs: it holds from the next one on."""
        with self._loop.between_ticks():
            change()

    def serve(self, port: int = 8765, **options: Any) -> Any:
        """Serve the console: a web page, an API and metrics of this engine; returns the running service.

        Options are those of `anabranch.console.service.serve`.
        """
        return import_module("anabranch.console.service").serve(self, port=port, **options)

    def events(self) -> Events:
        """What happened to streams and queries lately: `StreamFailed`, `QueryFailed`, and what joins change."""
        return Events(self._history.events)

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
        self._dropping.drop(name)

    @property
    def catalog(self) -> Catalog:
        """What queries may name."""
        return self._registration.catalog

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
            self._scheduler.run_to_the_end()
        finally:
            self._runtime.rest()
        failures = {name: query.error for name, query in registry.queries.items() if query.error is not None}
        answers = {name: query.to_dataframe() for name, query in registry.queries.items() if name not in failures}
        if failures:
            raise QueriesFailed(failures, answers)
        return answers

    def stop(self) -> None:
        """Stop all queries and streams; an engine on the same checkpoint goes on from here."""
        self._scheduler.stop()

    def late(self, stream: str) -> DataFrame:
        """Rows of a stream that came too late."""
        return self._aside("late", stream)

    def unusable(self, stream: str) -> DataFrame:
        """Rows of a stream without a time, or with one too far ahead of the clock."""
        return self._aside("unusable", stream)

    # -- what is there

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

    def _change(self, name: str, change: Callable[..., int], rows: Rows | str | Column, at: datetime | None) -> int:
        relation = self._registry.relations[self.catalog.own_name("relation", name)]
        return self._changes.change(relation, change, rows, at)

    def _aside(self, kind: str, name: str) -> DataFrame:
        name = self.catalog.own_name("stream", name)
        return self._results.aside(kind, name, self._registry.streams[name].df.schema)
