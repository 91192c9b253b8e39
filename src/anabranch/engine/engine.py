"""The engine: streams, relations and queries are registered with it, and it advances them, tick by tick.

Each stream is a Structured Streaming query of its own. It offers its batches and waits until the tick that took them is
committed, so Spark's bookkeeping of sources and ours of queries agree: a batch that comes again after a crash is taken
once. Queries come and go between ticks.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from anabranch.cells.base import EVER
from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog, FunctionInfo
from anabranch.engine import sysstream
from anabranch.engine.durations import duration
from anabranch.engine.failures import plain
from anabranch.engine.functions import Functions
from anabranch.engine.inputs import StreamInput
from anabranch.engine.manifest import Manifest, QueryState, StreamState
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.script import execute
from anabranch.engine.showing import progress, showing
from anabranch.engine.sinks import Memory
from anabranch.engine.store import UNCONFIRMED, tick_of
from anabranch.engine.ticks import Offer, Registry, TickRunner
from anabranch.errors import InternalError, QueryError, UnknownColumn, suggest
from anabranch.model.continuous import Query, scans

GATHERING_SECONDS = 0.02
MOST_PUBLISHED = 10_000
WATCH_SECONDS = 0.2
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


class Engine:
    """Runs continuous queries on a Spark session.

    Parameters
    ----------
    spark
        The session.
    checkpoint
        A folder for state and answers: an engine that is started on it again goes on where the last one stood. A
        temporary one if not given.
    cells
        Into how many parts windows, joins and groups are spread; as many as Spark runs tasks at a time if not given.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str | os.PathLike[str] | None = None, *, cells: int | None = None
    ) -> None:
        self._spark = spark
        self._folder = Path(checkpoint or tempfile.mkdtemp(prefix="anabranch-")).absolute()
        self._manifest = Manifest.load(self._folder)
        self._registry = Registry()
        self._functions = Functions(spark)
        self._registry.apply_filter = self._functions.apply
        self._views: dict[str, str] = {}
        self._schemas: dict[str, StructType] = {}
        self._runner = TickRunner(spark, self._folder, cells or spark.sparkContext.defaultParallelism, self._registry)
        self._changed = threading.Condition()
        self._offers: list[Offer] = []
        self._heard: dict[str, float] = {}
        self._idled: dict[str, bool] = {}
        self._wanted = self._busy = self._stopping = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._sources: dict[str, StreamingQuery] = {}
        self._published: list[sysstream.Row] = []
        self._registry.streams[sysstream.NAME] = sysstream.sys_stream(spark)
        self._manifest.streams.setdefault(sysstream.NAME, StreamState())
        self._sweep()

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
        for column in (timestamp, *([sequence] if sequence else [])):
            if column not in df.columns:
                raise UnknownColumn(column, df.columns, where=f"stream '{name}'")
        kind = df.schema[timestamp].dataType.typeName()
        if kind not in ("timestamp", "timestamp_ntz", "date"):
            raise QueryError(
                f"column {timestamp!r} of stream {name!r} is of type {kind}, not a time",
                hint=f"convert it first, as in df.withColumn({timestamp!r}, F.timestamp_micros({timestamp!r}))",
            )
        made = StreamInput(
            name,
            df,
            timestamp,
            duration(skew, "skew"),
            sequence,
            None if idle is None else duration(idle, "idle"),
            duration(keep, "keep"),
            None if horizon is None else duration(horizon, "horizon"),
        )
        with self._between_ticks():
            self._registry.streams[name] = made
            self._manifest.streams.setdefault(name, StreamState())

    def relation(self, name: str, df: DataFrame) -> None:
        """Register a table that does not change."""
        self._fresh(name)
        if df.isStreaming:
            raise QueryError(f"relation {name!r} is a streaming DataFrame", hint="register it with Engine.stream")
        self._registry.relations[name] = df.persist()  # read once: it does not change, whatever its files do

    def function(self, name: str, function: Callable[..., Any], returns: str = "boolean") -> None:
        """Register a function for use in queries; conditions that call it are ordered while they run."""
        self._fresh(name)
        self._functions.add(name, function, returns)

    def view(self, name: str, text: str) -> None:
        """Register a query that others read by name; it does not run by itself."""
        self._fresh(name)
        bind(text, self.catalog, name)
        self._views[name] = text

    def query(self, text: str, name: str, *, history: bool = False) -> ContinuousQuery:
        """Register a query.

        It sees all rows of streams that have not begun yet. Of a stream that runs already it sees rows from now on, or,
        with `history`, all that the stream has kept.
        """
        self._fresh(name)
        bound = bind(text, self.catalog, name)
        handle = ContinuousQuery(self, bound)
        try:
            self._schemas[name] = self._runner.schema_of(handle)
        except AnalysisException as error:
            first = str(error).splitlines()[0]
            raise QueryError(f"query {name!r} cannot be: {first}", hint="check its functions and types") from None
        with self._between_ticks():
            self._restore(handle, history)
            self._registry.queries[name] = handle
        return handle

    def bind(self, text: str, name: str = "query") -> Query:
        """The plan of a query that is not registered."""
        return bind(text, self.catalog, name)

    def execute(self, script: str, *, bounded: bool = False) -> list[str]:
        """Carry out statements (`Create Stream`, `Create Query`, `Show`, ...) and return what they have to say.

        Streams are read as they grow, or, if `bounded`, as they are, for `run_batch`.
        """
        return execute(self, self._spark, script, bounded=bounded)

    def show(self, kind: str = "queries") -> str:
        """A table of what is registered: `queries`, `streams`, `relations` or `views`."""
        return showing(kind, self._registry, self._manifest, self._views)

    def progress(self) -> list[dict[str, object]]:
        """For each query its status, rows out, rows in its state, memory of its state, and how far it is behind."""
        return progress(self._registry, self._manifest, self._runner.reports)

    def rows_taken(self, stream: str) -> int:
        """Rows of a stream that have been taken so far."""
        return self._manifest.streams[stream].rows

    def held_bytes(self) -> int:
        """What all queries hold together: rows on the shelf, once per stream, and the state of operators."""
        shelf = sum(
            (self._folder / file.path).stat().st_size for s in self._manifest.streams.values() for file in s.files
        )
        return shelf + sum(report.held_bytes for report in self._runner.reports.values())

    def drop(self, name: str) -> None:
        """Remove a stream, relation, view or query; what others read stays until they are dropped."""
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
        with self._between_ticks():
            if query is not None or name in self._manifest.queries:
                self._registry.queries.pop(name, None)
                self._manifest.queries.pop(name, None)
                self._clear(name, "answers", "state")
            elif name in self._registry.streams:
                del self._registry.streams[name]
                self._manifest.streams.pop(name, None)
                self._clear(name, "sources", "kept", "late", "unusable")
            elif name in self._registry.relations:
                del self._registry.relations[name]
            elif name in self._views:
                del self._views[name]
            else:
                raise QueryError(f"there is no {name!r} to drop", hint=suggest(name, self.catalog.names(), "names"))

    def _clear(self, name: str, *kinds: str) -> None:
        """Commit that something is gone, then delete what it has left."""
        if self._manifest.tick:
            self._manifest.save(self._folder)
        for kind in kinds:
            shutil.rmtree(self._folder / kind / name, ignore_errors=True)

    @property
    def catalog(self) -> Catalog:
        """What queries may name."""
        registry = self._registry
        return Catalog(
            {name: tuple(stream.df.columns) for name, stream in registry.streams.items()},
            {name: tuple(df.columns) for name, df in registry.relations.items()},
            {name: query.query for name, query in registry.queries.items()},
            dict(self._views),
            {name: FunctionInfo(name) for name in self._functions.names},
        )

    @property
    def queries(self) -> Mapping[str, ContinuousQuery]:
        """Registered queries by name."""
        return self._registry.queries

    # -- running

    def run_batch(self) -> dict[str, DataFrame]:
        """Run all queries over bounded inputs to their end: the same answers as a stream of the same rows gives."""
        registry = self._registry
        for name, stream in registry.streams.items():
            if stream.df.isStreaming:
                raise QueryError(
                    f"stream {name!r} has no end", hint="use start() and await_idle(), or read it as a batch"
                )
        if self._manifest.tick:
            raise QueryError("this checkpoint holds a run already", hint="use a new folder for each run")
        for query in registry.queries.values():
            query.status = "running"
        offers = [Offer(each, 0, each.df) for name, each in registry.streams.items() if name != sysstream.NAME]
        self._manifest = self._runner.run(self._manifest, offers, {}, until=EVER)
        for until in self._runner.cuts(self._manifest):
            self._manifest = self._runner.run(self._manifest, [], {}, until=until)
        for query in registry.queries.values():
            if query.error is not None:
                raise query.error
            query.status = "ended"
        return {name: query.to_dataframe() for name, query in registry.queries.items()}

    def stop(self) -> None:
        """Stop all queries and streams; an engine on the same checkpoint goes on from here."""
        for query in self._registry.queries.values():
            if query.status in ("running", "paused"):
                query.status = "stopped"
        self._stop_sources(list(self._sources))
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._stopping = False

    def late(self, stream: str) -> DataFrame:
        """Rows of a stream that came too late."""
        return self._side("late", stream)

    def unusable(self, stream: str) -> DataFrame:
        """Rows of a stream without a time, or with one that cannot be."""
        return self._side("unusable", stream)

    # -- for queries

    def _start(self, query: ContinuousQuery) -> None:
        names = scans(query.query.plan, "stream")
        outer = [name for name in names if name != sysstream.NAME]
        for name in outer:
            if not self._registry.streams[name].df.isStreaming:
                raise QueryError(f"stream {name!r} is a bounded DataFrame", hint="use Engine.run_batch()")
        query.error = None
        self._set_status(query, "running")
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="anabranch-ticks", daemon=True)
            self._thread.start()
        for name in outer:
            if name not in self._sources:
                self._heard[name] = time.monotonic()
                self._sources[name] = self._source(self._registry.streams[name])

    def _source(self, stream: StreamInput) -> StreamingQuery:
        kept = self._folder / "sources" / stream.name
        if (kept / "offsets").exists() and not (kept / "offsets" / "0").exists():
            shutil.rmtree(kept)  # a first batch that was never written down, as on a full disk: Spark would refuse it
        writer = stream.df.writeStream.foreachBatch(partial(self._offer, stream))
        return writer.option("checkpointLocation", str(kept)).start()

    def _offer(self, stream: StreamInput, df: DataFrame, batch: int) -> None:
        """Called by Spark for every batch: wait until a tick has taken it."""
        if batch <= self._manifest.streams[stream.name].batch:
            return
        offer = Offer(stream, batch, df)
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self._offers.append(offer)
            self._heard[stream.name] = time.monotonic()
            self._changed.notify_all()
        offer.done.wait()
        if offer.error is not None:
            raise offer.error

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._something, timeout=self._patience())
                if self._stopping:
                    self._release(InternalError("the engine has stopped"))
                    return
                if not self._something() and self._idle() == self._idled:
                    continue
            if len(self._sources) > 1:
                time.sleep(GATHERING_SECONDS)  # streams that are ready at about the same time share a tick
            with self._changed:
                offers, self._offers = self._offers, []
                self._wanted, self._busy = False, True
            try:
                self._tick(offers)
            except BaseException as error:
                with self._changed:
                    self._failure = plain(error)
                    self._offers += offers
                    self._release(error)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _tick(self, offers: Sequence[Offer]) -> None:
        began, old = time.perf_counter(), self._manifest
        self._idled = self._idle()
        manifest = self._runner.run(old, [*offers, *self._introspection()], self._idled)
        seconds = time.perf_counter() - began
        with self._changed:
            self._manifest = manifest
        self._published += sysstream.published(old, manifest, self._runner.last, seconds, self._runner.titles)
        del self._published[:-MOST_PUBLISHED]
        for offer in offers:
            offer.done.set()
        for query in list(self._registry.queries.values()):
            self._deliver(query)

    def _introspection(self) -> list[Offer]:
        """What earlier ticks have published, if some query wants to know."""
        read = any(sysstream.NAME in scans(each.query.plan, "stream") for each in self._registry.queries.values())
        if not (read and self._published):
            return []
        rows, self._published = self._published, []
        stream = self._registry.streams[sysstream.NAME]
        return [Offer(stream, self._manifest.tick, sysstream.frame(self._spark, rows))]

    def _release(self, error: BaseException) -> None:
        for offer in self._offers:
            offer.error = error
            offer.done.set()
        self._offers = []

    def _something(self) -> bool:
        return self._stopping or (self._failure is None and (bool(self._offers) or self._wanted))

    def _patience(self) -> float | None:
        watched = self._failure is None and any(stream.idle for stream in list(self._registry.streams.values()))
        return WATCH_SECONDS if watched else None

    def _idle(self) -> dict[str, bool]:
        moment = time.monotonic()
        return {
            name: moment - self._heard.get(name, moment) > stream.idle / 1e6
            for name, stream in self._registry.streams.items()
            if stream.idle is not None
        }

    def _set_status(self, query: ContinuousQuery, status: str) -> None:
        with self._changed:
            query.status = status
            self._wanted = True
            self._changed.notify_all()

    def _stop_query(self, query: ContinuousQuery) -> None:
        with self._changed:
            if query.status in ("running", "paused"):
                query.status = "stopped"
        needed = {
            name
            for each in self._registry.queries.values()
            if each.status in ("running", "paused")
            for name in scans(each.query.plan, "stream")
        }
        self._stop_sources([name for name in self._sources if name not in needed])

    def _stop_sources(self, names: Sequence[str]) -> None:
        for name in names:
            source = self._sources.pop(name)
            while source.isActive and source.status["isTriggerActive"] and source.status["isDataAvailable"]:
                time.sleep(0.01)  # in the middle of a batch; Spark has no call that waits for its end
            source.stop()

    def _await_idle(self, query: ContinuousQuery, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        for name in scans(query.query.plan, "stream"):
            if name in self._sources:
                try:
                    self._sources[name].processAllAvailable()
                except StreamingQueryException as error:
                    raise self._failure or query.error or error from None
        with self._changed:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done = self._changed.wait_for(lambda: not (self._something() or self._busy), left)
        failed = self._failure or query.error
        if failed is not None:
            raise failed
        if not done:
            raise TimeoutError(f"query {query.name} was still busy after {timeout} s")

    def _answers(self, query: Query) -> DataFrame:
        files = self._answer_files(query.name, self._manifest.tick)
        schema = self._schemas[query.name]
        if not files:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*map(str, files))

    def _answer_files(self, name: str, last: int, first: int = 0) -> list[Path]:
        folder = self._folder / "answers" / name
        return sorted(path for path in folder.glob("*.parquet") if first <= tick_of(path) <= last)

    def _deliver(self, query: ContinuousQuery) -> None:
        """Give the sink what it has not had yet; a sink that fails stops its query alone."""
        if query.sink is None or isinstance(query.sink, Memory) or query.status == "failed":
            return
        marker = self._folder / "delivered" / query.name
        done = int(marker.read_text()) if marker.exists() else 0
        files = self._answer_files(query.name, self._manifest.tick, done + 1)
        for tick in sorted({tick_of(path) for path in files}):
            some = [path for path in files if tick_of(path) == tick]
            answer = self._spark.read.schema(self._schemas[query.name]).parquet(*map(str, some))
            try:
                query.sink.deliver(tick, answer, some)
            except Exception as error:
                query.error, query.status = error, "failed"
                return
            _write(marker, str(tick))

    # -- helpers

    @contextmanager
    def _between_ticks(self) -> Iterator[None]:
        """While no tick runs; sinks are called by the thread that runs them, after the tick."""
        with self._changed:
            if threading.current_thread() is not self._thread:
                self._changed.wait_for(lambda: not self._busy)
            yield

    def _restore(self, handle: ContinuousQuery, history: bool) -> None:
        """A query that the checkpoint knows goes on; another under its name is refused."""
        query = handle.query
        print_ = self._fingerprint(query)
        known = self._manifest.queries.get(query.name)
        if known is not None:
            if known.fingerprint != print_:
                raise QueryError(
                    f"the checkpoint holds another query, or other inputs, under the name {query.name!r}",
                    hint="drop it first, give this one another name, or start with a new folder",
                )
            return
        streams = [self._manifest.streams[name] for name in scans(query.plan, "stream")]
        begun = any(stream.newest is not None for stream in streams)
        now = max((stream.closed for stream in streams), default=EVER)
        fresh = history or not begun
        since = EVER if fresh else now
        self._manifest.queries[query.name] = QueryState(
            print_,
            position=since,
            since=since,
            tick=0 if fresh else self._manifest.tick,
            needs={name: handle.held.get(name, 0) for name in scans(query.plan, "stream")},
            direct=handle.direct,
        )

    def _fingerprint(self, query: Query) -> str:
        inputs = [
            (name, self._registry.streams[name].df.schema.simpleString(), self._registry.streams[name].timestamp)
            for name in scans(query.plan, "stream")
        ]
        return hashlib.sha256(repr((query.plan, query.output, inputs)).encode()).hexdigest()[:16]

    def _fresh(self, name: str) -> None:
        if not _NAME.match(name):
            raise QueryError(f"{name!r} is no name", hint="letters, digits and _, not beginning with a digit")
        taken = [*self.catalog.names(), *self._functions.names]
        if name.lower() in (each.lower() for each in taken):
            raise QueryError(f"there is already something named {name!r}", hint="drop it first, or choose another name")

    def _side(self, kind: str, name: str) -> DataFrame:
        if name not in self._registry.streams:
            raise QueryError(
                f"there is no stream {name!r}", hint=suggest(name, list(self._registry.streams), "streams")
            )
        schema = self._registry.streams[name].df.schema
        files = sorted((self._folder / kind / name).glob("*.parquet"))
        if not files:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*map(str, files))

    def _sweep(self) -> None:
        """Delete what an interrupted tick has left."""
        named = {file.path for stream in self._manifest.streams.values() for file in stream.files}
        named |= {
            f"state/{segment.path}"
            for query in self._manifest.queries.values()
            for cells in query.logs.values()
            for log in cells.values()
            for segment in log
        }
        for kind in ("kept", "state"):
            for path in (self._folder / kind).rglob("*.*"):
                if str(path.relative_to(self._folder)) not in named:
                    path.unlink()
        for kind in ("late", "unusable", "answers"):
            for path in (self._folder / kind).glob("*/*.*"):
                if path.suffix == UNCONFIRMED or tick_of(path) > self._manifest.tick:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    beside.write_text(text)
    beside.replace(path)
