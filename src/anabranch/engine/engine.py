"""The engine: streams, relations and queries are registered with it, and it advances them, tick by tick.

Queries come and go between ticks; see `loop.py` for what runs when, and `ticks.py` for what a tick does.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from anabranch import storage
from anabranch.cells.base import EVER
from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog, FunctionInfo, folded
from anabranch.engine import sysstream
from anabranch.engine.answering import Answering
from anabranch.engine.answers import Answers
from anabranch.engine.failures import of_stream
from anabranch.engine.inputs import StreamInput, require_different
from anabranch.engine.intake import RECORDS, Intake
from anabranch.engine.lock import CheckpointLock
from anabranch.engine.loop import Loop
from anabranch.engine.manifest import Manifest, QueryState, StreamState
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.registry import Registry
from anabranch.engine.script import execute
from anabranch.engine.shelving import Shelving, Wanted
from anabranch.engine.showing import Rates, progress, showing
from anabranch.engine.ticks import Offer, TickRunner
from anabranch.engine.warm_up import warm_up
from anabranch.errors import QueriesFailed, QueryError, suggest
from anabranch.model.continuous import Query, scans
from anabranch.spark.attempts import attempt
from anabranch.spark.expression_types import said
from anabranch.spark.filter import Filter
from anabranch.spark.summaries import stream_of

MOST_PUBLISHED = 10_000
log = logging.getLogger("anabranch")
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
        warm_up(spark)
        self._spark = spark
        self._folder = folder
        self._manifest = Manifest.load(self._folder, cells, spark.sparkContext.defaultParallelism)
        self._lock = CheckpointLock(self._folder)
        self._registry = Registry()
        self._registry.streams[sysstream.NAME] = sysstream.sys_stream(spark)
        self._manifest.streams.setdefault(sysstream.NAME, StreamState())
        self._published: list[sysstream.Row] = []
        self._rates = Rates()
        self._answers = Answers(spark, self._folder)
        self._answering = Answering(spark, self._folder, self._manifest.cells, self._registry, state_bytes)
        self._intake = Intake(self._folder, self._manifest, Shelving(self._folder, self._answering.over))
        self._runner = TickRunner(spark, self._folder, self._registry, self._intake, self._answering)
        self._loop = Loop(
            self._folder / "sources",
            self._registry.streams,
            self._intake,
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
        keep: str | timedelta = "0 seconds",
        horizon: str | timedelta | None = "1 day",
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
            A stream that is silent for so long does not hold others up.
        keep
            For how long rows are kept for queries that are registered later and ask for history.
        horizon
            Rows whose time is further ahead of the clock are not believed; None believes all.
        """
        self._fresh(name)
        made = StreamInput.of(name, df, timestamp, skew, sequence, idle, keep, horizon)
        with self._loop.between_ticks():
            self._registry.streams[name] = made
            self._manifest.streams.setdefault(name, StreamState())
            self._want()

    def relation(self, name: str, df: DataFrame) -> None:
        """Register a table that does not change."""
        self._fresh(name)
        if df.isStreaming:
            raise QueryError(f"relation {name!r} is a streaming DataFrame", hint="register it with Engine.stream")
        require_different(df, f"relation {name!r}")
        self._registry.relations[name] = df.persist()  # read once: it does not change, whatever its files do

    def function(self, name: str, function: Callable[..., Any], returns: str = "boolean") -> None:
        """Register a function for use in queries; conditions that call it are ordered while they run."""
        self._fresh(name)
        self._answering.functions.add(name, function, returns)
        self._registry.functions[name] = F.udf(function, returns).returnType.simpleString()

    def view(self, name: str, text: str | exp.Query) -> None:
        """Register a query that others read by name; it does not run by itself."""
        self._fresh(name)
        bind(text, self.catalog, name)
        self._registry.views[name] = text

    def query(self, text: str | exp.Query, name: str, *, history: bool = False) -> ContinuousQuery:
        """Register a query.

        It sees all rows of streams that have not begun yet. Of a stream that runs already it sees rows from now on, or,
        with `history`, all that the stream has kept.
        """
        self._fresh(name)
        bound = bind(text, self.catalog, name)
        handle = ContinuousQuery(self, bound)
        summing = self._may_sum(bound)
        try:
            with attempt():
                self._answers.expect(name, self._answering.compile(handle, summing=summing))
        except AnalysisException as error:
            raise QueryError(
                f"query {name!r} is invalid: {said(error, bound)}", hint="check its functions and types"
            ) from None
        with self._loop.between_ticks(), self._intake.standing_still():
            if summing and not self._may_sum(bound):  # its first rows came meanwhile
                self._answering.compile(handle, summing=False)
            self._restore(handle, history)
            self._registry.queries[name] = handle
            self._want()
        return handle

    def bind(self, text: str | exp.Query, name: str = "query") -> Query:
        """The plan of a query that is not registered."""
        return bind(text, self.catalog, name)

    def execute(self, script: str, *, bounded: bool = False) -> list[str]:
        """Carry out statements (`Create Stream`, `Create Query`, `Show`, ...) and return what they have to say.

        Streams are read as they grow, or, if `bounded`, as they are, for `run_batch`.
        """
        return execute(self, self._spark, script, bounded=bounded)

    def show(self, kind: str = "queries") -> str:
        """A table of what is registered: `queries`, `streams`, `relations` or `views`."""
        return showing(kind, self._registry, self._manifest)

    def progress(self) -> list[dict[str, object]]:
        """For each query its status, rate, rows out, rows in its state, memory of its state, and how far it is behind.

        The rate is that of rows which its streams have brought since this was asked before.
        """
        return progress(self._registry, self._manifest, self._runner.reports, self._rates)

    def rows_taken(self, stream: str) -> int:
        """Rows of a stream that have been taken so far."""
        return self._manifest.streams[self.catalog.own_name("stream", stream)].rows

    def held_bytes(self) -> int:
        """What all queries hold together: rows on the shelf, once per stream, and the state of operators."""
        shelf = sum(storage.size(self._folder / file.path) for s in self._manifest.streams.values() for file in s.files)
        return shelf + sum(report.held_bytes for report in self._runner.reports.values())

    def drop(self, name: str) -> None:
        """Remove a stream, relation, view or query; what others read stays until they are dropped."""
        name = folded(name, [*self.catalog.names(), *self._manifest.queries])
        if name == sysstream.NAME:
            raise QueryError(f"{name!r} is always there", hint="leave it: it costs nothing while nobody reads it")
        readers = [
            each.name
            for each in self._registry.queries.values()
            if name in (*scans(each.query.plan, "stream"), *scans(each.query.plan, "relation"))
        ]
        if readers:
            raise QueryError(f"{name!r} is read by {', '.join(readers)}", hint="drop them first")
        query = self._registry.queries.get(name)
        if query is not None:
            self._stop_query(query)
        with self._loop.between_ticks():
            if query is not None or name in self._manifest.queries:
                self._registry.queries.pop(name, None)
                self._manifest.queries.pop(name, None)
                self._answering.forget(name)
                self._want()
                self._clear(name, "answers", "state", "delivered")  # summaries for it alone go with the next tick
            elif name in self._registry.streams:
                del self._registry.streams[name]
                shelves = [shelf for shelf in self._manifest.streams if stream_of(shelf) == name]
                for shelf in shelves:
                    del self._manifest.streams[shelf]
                self._intake.forget(name)
                self._clear(name, "sources", "late", "unusable", RECORDS)
                for shelf in shelves:
                    self._answers.clear(shelf, "kept")
            elif name in self._registry.relations:
                del self._registry.relations[name]
            elif name in self._registry.views:
                del self._registry.views[name]
            else:
                raise QueryError(f"there is no {name!r} to drop", hint=suggest(name, self.catalog.names(), "names"))

    def _clear(self, name: str, *kinds: str) -> None:
        """Commit that something is gone, then delete what it has left."""
        if self._manifest.tick:
            self._manifest.save(self._folder)
        self._answers.clear(name, *kinds)

    @property
    def catalog(self) -> Catalog:
        """What queries may name."""
        registry = self._registry
        return Catalog(
            {name: tuple(stream.df.columns) for name, stream in registry.streams.items()},
            {name: tuple(df.columns) for name, df in registry.relations.items()},
            {name: query.query for name, query in registry.queries.items()},
            dict(self._registry.views),
            {name: FunctionInfo(name) for name in self._answering.functions.names},
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
            self._answering.rest()
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
        self._answering.rest()
        self._lock.release()

    def late(self, stream: str) -> DataFrame:
        """Rows of a stream that came too late."""
        return self._aside("late", stream)

    def unusable(self, stream: str) -> DataFrame:
        """Rows of a stream without a time, or with one that cannot be."""
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
        offers = [Offer(each, 0, each.df) for name, each in registry.streams.items() if name != sysstream.NAME]
        self._manifest = self._runner.run(self._manifest, offers, {}, until=EVER)
        for offer in offers:
            if offer.error is not None:
                self._lost(offer.stream.name, offer.error)
        for until in self._runner.cuts(self._manifest):
            self._manifest = self._runner.run(self._manifest, [], {}, until=until)
        for query in registry.queries.values():
            self._answers.deliver(query, self._manifest.tick)
        for query in registry.queries.values():
            if query.error is None:
                query.status = "ended"

    def _take_over(self, streams: Sequence[StreamInput]) -> None:
        """From here on nobody else touches the checkpoint; what it knows of these streams has to fit."""
        first = self._lock.acquire()
        try:
            if first and (Manifest.committed(self._folder) != self._manifest.tick or not self._intake.current()):
                hint = "make a new Engine on it"
                raise QueryError("the checkpoint has gone on since this engine was made", hint=hint)
            for stream in streams:
                self._loop.check(stream)
        except QueryError:
            if first:
                self._lock.release()
            raise
        if first:
            self._answers.sweep(self._manifest, self._intake.files())
            self._intake.sweep()

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
        return self._answers.read(query.name, self._manifest.tick)

    def _filters(self, query: Query) -> list[Filter]:
        return self._answering.functions.filters(query.name)

    # -- ticks

    def _tick(self, offers: Sequence[Offer], idle: Mapping[str, bool]) -> None:
        began, old = time.perf_counter(), self._manifest
        manifest = self._runner.run(old, [*offers, *self._introspection()], idle)
        seconds = time.perf_counter() - began
        self._manifest = manifest
        did = sysstream.Did(self._runner.last, self._runner.queued, seconds)
        self._published += sysstream.published(old, manifest, did, self._answering.titles)
        del self._published[:-MOST_PUBLISHED]
        for offer in offers:
            offer.done.set()
        self._loop.committed()
        for query in list(self._registry.queries.values()):
            self._answers.deliver(query, manifest.tick)
            self._answers.let_go(query, manifest.queries[query.name].position, manifest.tick)

    def _lost(self, stream: str, error: BaseException) -> None:
        """A stream cannot go on: queries that read it stand still, others do not notice."""
        for query in self._registry.queries.values():
            if stream in scans(query.query.plan, "stream") and query.status in ("running", "paused"):
                query.error, query.status = query.error or of_stream(stream, error), "failed"
                log.error("query %s stands still: %s", query.name, query.error)

    def _introspection(self) -> list[Offer]:
        """What earlier ticks have published, if some query wants to know."""
        read = any(sysstream.NAME in scans(each.query.plan, "stream") for each in self._registry.queries.values())
        if not (read and self._published):
            return []
        rows, self._published = self._published, []
        stream = self._registry.streams[sysstream.NAME]
        return [Offer(stream, self._manifest.tick, sysstream.frame(self._spark, rows))]

    # -- helpers

    def _restore(self, handle: ContinuousQuery, history: bool) -> None:
        """A query that the checkpoint knows goes on; another under its name is refused."""
        query = handle.query
        print_ = self._registry.fingerprint(query)
        known = self._manifest.queries.get(query.name)
        own = folded(query.name, list(self._manifest.queries))
        if own != query.name:
            hint = "write its name as it is, drop it first, or give this one another name"
            raise QueryError(f"the checkpoint holds a query {own!r}, which {query.name!r} would be, too", hint=hint)
        if known is not None:
            if known.fingerprint != print_ or known.summaries != handle.summaries:
                raise QueryError(
                    f"the checkpoint holds another query, or other inputs, under the name {query.name!r}",
                    hint="drop it first, give this one another name, or start with a new folder",
                )
            return
        names = scans(query.plan, "stream")
        states, reads = self._manifest.streams, handle.reads
        begins = [self._intake.since(name, reads.get(name, []), states[name], history=history) for name in names]
        since = max(begins, default=EVER)
        fresh = since == EVER
        self._manifest.queries[query.name] = QueryState(
            print_,
            position=since,
            since=since,
            tick=0 if fresh else self._manifest.tick,
            needs=handle.needs,
            reads=handle.reads,
            summaries=handle.summaries,
            direct=handle.direct,
        )

    def _want(self) -> None:
        """Say what of streams is needed: columns that queries read, or all where history is kept, and summaries."""
        for name, stream in self._registry.streams.items():
            readers, summaries = self._manifest.readers(name), self._manifest.summaries(name)
            read = {column for state in readers for column in state.reads.get(name, [])}
            columns = tuple(each for each in stream.df.columns if stream.keep or each in read)
            rows = bool(stream.keep or readers or not summaries)
            self._intake.want(name, Wanted(columns, rows, tuple(summaries.items())))

    def _may_sum(self, query: Query) -> bool:
        """Whether a query's streams may be summed up as they come: not if something has come before."""
        known = self._manifest.queries.get(query.name)
        return bool(known.summaries) if known else not any(map(self._intake.begun, scans(query.plan, "stream")))

    def _known_to_spark(self) -> list[str]:
        return [row[0].split(".")[-1] for row in self._spark.sql("SHOW FUNCTIONS").collect()]

    def _fresh(self, name: str) -> None:
        if not _NAME.match(name):
            raise QueryError(f"{name!r} is no name", hint="letters, digits and _, not beginning with a digit")
        taken = [*self.catalog.names(), *self._answering.functions.names]
        if name.lower() in (each.lower() for each in taken):
            raise QueryError(f"there is already something named {name!r}", hint="drop it first, or choose another name")

    def _aside(self, kind: str, name: str) -> DataFrame:
        name = self.catalog.own_name("stream", name)
        return self._answers.aside(kind, name, self._registry.streams[name].df.schema)
