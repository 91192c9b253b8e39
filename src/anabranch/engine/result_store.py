"""What queries have answered: files in the checkpoint, and from there to sinks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch import storage
from anabranch.engine.answer_blocks import Entries, conformed, read_index
from anabranch.engine.answer_files import AnswerFiles, rows_of
from anabranch.engine.answer_keeping import AnswerKeeper
from anabranch.engine.descriptions import Description
from anabranch.engine.failures import unwrap
from anabranch.engine.layout import ANSWERS, STATE, UNCONFIRMED, tick_of
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.sinks import Delivery, Memory, Sink
from anabranch.engine.tick_files import TickFiles
from anabranch.model.names import OP
from anabranch.spark.mapping import map_in_arrow
from anabranch.spark.quiet_errors import quiet_errors
from anabranch.spark.schemas import arrow_schema, empty_frame

TASKS_AT_ONCE = 4
"""Tasks for each core that read an answer, at most."""


@dataclass(frozen=True)
class ReadTask:
    """Reads rows of a query from files of answers, in a worker.

    Parameters
    ----------
    query
        Its number.
    files
        Each task gets the places of some of these.
    schema
        Of the answer.
    """

    query: int
    files: tuple[Path, ...]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows in the files whose places are given."""
        for batch in batches:
            for place in batch.column(0).to_pylist():
                for table in rows_of(self.query, [self.files[place]]):
                    yield from conformed(table, self.schema).to_batches()


class ResultStore:
    """The answers of one engine's queries, and rows that it has put aside.

    Parameters
    ----------
    spark
        The session in which they are read.
    folder
        Of the checkpoint.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._schemas: dict[str, StructType] = {}
        self._arrow_schemas: dict[str, pa.Schema] = {}
        self._described: set[str] = set()
        self._up_to_date: dict[str, Sink] = {}  # sinks that have had all answers of their queries
        self._keeper = AnswerKeeper(spark, folder, self._delivered)

    def expect(self, name: str, schema: StructType) -> None:
        """The columns of a query's answer."""
        self._schemas[name] = schema
        self._arrow_schemas[name] = arrow_schema(schema)

    def note(self, answered: Iterable[str]) -> None:
        """Queries have answered something in a tick: sinks of others are not looked at."""
        for name in answered:
            self._up_to_date.pop(name, None)

    def describe(self, queries: Iterable[ContinuousQuery], manifest: Manifest) -> None:
        """Write down what queries answer, before a manifest names them: readers without Spark have to know."""
        for query in (each for each in queries if each.name not in self._described):
            about = Description(query.text, query.query.is_stream, self._arrow_schemas[query.name])
            about.save(self._folder, query.name, manifest.queries[query.name].fingerprint)
            self._described.add(query.name)

    def read(self, name: str, state: QueryState, tick: int) -> DataFrame:
        """What a query has answered up to a tick."""
        files = self._files(name, state)
        return self._frame(name, state.number, [*files.at_floor(), *files.plain(0, tick)])

    def contents(self, name: str, state: QueryState, tick: int) -> DataFrame:
        """Changes of a relation that amount to what is there after a tick: as few as possible."""
        return self._frame(name, state.number, self._files(name, state).paths_up_to(tick))

    def aside(self, kind: str, stream: str, schema: StructType) -> DataFrame:
        """Rows of a stream that were late or unusable."""
        files = storage.listed(self._folder / kind / stream, "*.parquet")
        if not files:
            return empty_frame(self._spark, schema)
        return self._spark.read.schema(schema).parquet(*map(storage.uri, files))

    @quiet_errors()
    def deliver(self, queries: Iterable[ContinuousQuery], manifest: Manifest) -> None:
        """Give sinks what they have not had yet; a sink that fails stops its query alone."""
        there, indexes = TickFiles(self._folder), dict[Path, Entries]()
        for query in queries:
            waits = query.sink is not None and not isinstance(query.sink, Memory) and query.status != "failed"
            if waits and self._up_to_date.get(query.name) is not query.sink:
                self._deliver(query, manifest, there, indexes)

    def _deliver(
        self, query: ContinuousQuery, manifest: Manifest, there: TickFiles, indexes: dict[Path, Entries]
    ) -> None:
        assert query.sink is not None
        state, schema = manifest.queries[query.name], self._arrow_schemas[query.name]
        begin, read = max(state.registered, state.floor), partial(self._frame, query.name, state.number)
        by_tick: dict[int, list[Path]] = defaultdict(list)
        for path in there.plain(max(begin, self._delivered(query, manifest.tick)) + 1, manifest.tick):
            if path not in indexes:
                indexes[path] = read_index(path)
            if state.number in indexes[path]["query"]:
                by_tick[tick_of(path)].append(path)
        for tick, paths in by_tick.items():
            try:
                query.sink.deliver(Delivery(tick, paths, state.number, schema, read))
            except Exception as error:
                query._fail(unwrap(error))
                return
            storage.make_folder(self._marker(query).parent)
            storage.write_text(self._marker(query), str(tick))
        self._up_to_date[query.name] = query.sink

    def keep(self, queries: Iterable[ContinuousQuery], manifest: Manifest) -> None:
        """Do what is due about files after a tick."""
        self._keeper.keep(list(queries), self._arrow_schemas, manifest)

    def _marker(self, query: ContinuousQuery) -> Path:
        return self._folder / "delivered" / query.name

    def _delivered(self, query: ContinuousQuery, tick: int) -> int:
        """The last tick that the sink has had."""
        if query.sink is None or isinstance(query.sink, Memory):
            return tick
        return int(storage.read_text(self._marker(query))) if storage.is_there(self._marker(query)) else 0

    def dropped(self, state: QueryState, tick: int) -> None:
        """A query is gone: its answers go in time."""
        self._keeper.dropped(state, tick)

    def clear(self, name: str, *kinds: str) -> None:
        """Delete what something has left that is gone."""
        self._described.discard(name)
        self._up_to_date.pop(name, None)
        for kind in kinds:
            storage.remove(self._folder / kind / name)

    def sweep(self, manifest: Manifest, waiting: Iterable[str]) -> None:
        """Delete what an interrupted tick has left; files in the buffer may wait for a tick."""
        named = {file.path for stream in manifest.streams.values() for file in stream.files} | set(waiting)
        named |= {file.path for relation in manifest.relations.values() for file in relation.files}
        named |= {f"{STATE}/{path}" for path in manifest.segments()}
        for kind in ("kept", STATE):
            for path in storage.files(self._folder / kind):
                if str(path.relative_to(self._folder)) not in named:
                    storage.remove(path)
        for path in storage.listed(self._folder / ANSWERS, "*/*-*"):
            if path.suffix == UNCONFIRMED or tick_of(path) > manifest.tick:
                storage.remove(path)
        for pattern in ("*", "delivered/*", "late/*/*", "unusable/*/*"):
            for path in storage.listed(self._folder, pattern + UNCONFIRMED):
                storage.remove(path)

    def _files(self, name: str, state: QueryState) -> AnswerFiles:
        schema = self._arrow_schemas[name]
        summed = OP in schema.names and state.summed
        return AnswerFiles(self._folder, state.number, state.registered, state.floor, schema, summed=summed)

    def _frame(self, name: str, number: int, files: Sequence[Path]) -> DataFrame:
        """Rows of a query in some files, read by workers."""
        if not files:
            return empty_frame(self._spark, self._schemas[name])
        tasks = min(len(files), TASKS_AT_ONCE * self._spark.sparkContext.defaultParallelism)
        places = self._spark.range(0, len(files), 1, tasks)
        return map_in_arrow(places, ReadTask(number, tuple(files), self._arrow_schemas[name]), self._schemas[name])
