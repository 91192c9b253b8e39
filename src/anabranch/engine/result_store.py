"""What queries have answered: files in the checkpoint, and from there to sinks.

The answers of a hundred ticks lie in a folder of their own, a *block*. A query that keeps its answer for a while only
lets go of whole blocks, once all of their rows are older and were delivered. Those of a stream are deleted. The changes
of a relation are first folded into one: the rows that are there after them, as if they had all come then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from anabranch import storage
from anabranch.engine.answer_files import AnswerFiles
from anabranch.engine.compaction import DRIVER_BYTES, compaction, takes_turn
from anabranch.engine.descriptions import Description
from anabranch.engine.failures import unwrap
from anabranch.engine.layout import ANSWERS, FOLDED, STATE, UNCONFIRMED, block_name, block_of, last_tick, tick_of
from anabranch.engine.manifest import Manifest
from anabranch.engine.marks import write_mark
from anabranch.engine.parquet_statistics import ParquetStatistics
from anabranch.engine.query import ContinuousQuery, fold_changelog
from anabranch.engine.sinks import Delivery, Memory, Sink
from anabranch.model.names import OP, TS, quoted
from anabranch.operators.base import EVER
from anabranch.spark.mapping import map_in_arrow
from anabranch.spark.quiet_errors import quiet_errors
from anabranch.spark.schemas import arrow_schema, empty_frame

WRITTEN_PATH = StructType([StructField("path", StringType())])
log = logging.getLogger("anabranch")


class ResultStore:
    """The answers of one engine's queries, and rows that it has put aside.

    Parameters
    ----------
    spark
        The session of those who read them.
    folder
        Of the checkpoint.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._schemas: dict[str, StructType] = {}
        self._described: set[str] = set()
        self._up_to_date: dict[str, Sink] = {}  # sinks that have had all answers of their queries
        self._unseen: set[str] = set()  # queries with answers that no compaction has looked at

    def expect(self, name: str, schema: StructType) -> None:
        """The columns of a query's answer."""
        self._schemas[name] = schema
        self._unseen.add(name)

    def note(self, answered: Iterable[str]) -> None:
        """Queries have answered something in a tick: nothing is looked for where the others keep their answers."""
        for name in answered:
            self._unseen.add(name)
            self._up_to_date.pop(name, None)

    def describe(self, queries: Iterable[ContinuousQuery], manifest: Manifest) -> None:
        """Write down what queries answer, before a manifest names them: readers without Spark have to know."""
        for query in (each for each in queries if each.name not in self._described):
            schema = arrow_schema(self._schemas[query.name])
            about = Description(query.text, query.query.is_stream, schema)
            about.save(self._folder, query.name, manifest.queries[query.name].fingerprint)
            self._described.add(query.name)

    def read(self, name: str, tick: int) -> DataFrame:
        """What a query has answered up to a tick."""
        return self._frame(self._schemas[name], self._files(name, tick))

    def aside(self, kind: str, stream: str, schema: StructType) -> DataFrame:
        """Rows of a stream that were late or unusable."""
        return self._frame(schema, storage.listed(self._folder / kind / stream, "*.parquet"))

    @quiet_errors()
    def deliver(self, query: ContinuousQuery, tick: int) -> None:
        """Give the sink what it has not had yet; a sink that fails stops its query alone."""
        if query.sink is None or isinstance(query.sink, Memory) or query.status == "failed":
            return
        if self._up_to_date.get(query.name) is query.sink:
            return
        files, schema = self._files(query.name, tick, self._delivered(query, tick) + 1), self._schemas[query.name]
        for each in sorted({tick_of(path) for path in files}):
            some = [path for path in files if tick_of(path) == each]
            try:
                query.sink.deliver(Delivery(each, some, partial(self._frame, schema)))
            except Exception as error:
                query._fail(unwrap(error))
                return
            storage.make_folder(self._marker(query).parent)
            storage.write_text(self._marker(query), str(each))
        self._up_to_date[query.name] = query.sink

    def let_go(self, query: ContinuousQuery, position: int, tick: int) -> None:
        """Delete blocks of the answer that are older than the query retains it."""
        if query.retain is None or tick != last_tick(block_of(tick)):
            return
        folder, delivered = self._folder / ANSWERS / query.name, self._delivered(query, tick)
        old = []
        for block in sorted(int(path.name) for path in storage.listed(folder, "[0-9]*")):
            if last_tick(block) > delivered or self._latest(folder / block_name(block)) >= position - query.retain:
                break
            old.append(block)
        try:
            if old and not query.query.is_stream:
                self._fold(query, last_tick(old[-1]))
        except Exception as error:
            log.warning("old answers of query %s cannot be deleted: %s", query.name, unwrap(error))
            return
        for block in old:
            storage.remove(folder / block_name(block))

    def compact(self, query: ContinuousQuery, manifest: Manifest) -> None:
        """Write files that stand for many of a relation, where there are enough.

        A relation that does not change is looked at where a block ends: its last snapshot must not be far back.
        """
        tick = manifest.tick
        due = tick == last_tick(block_of(tick)) or (query.name in self._unseen and takes_turn(query.name, tick))
        if query.query.is_stream or not due:
            return
        self._unseen.discard(query.name)
        state = manifest.queries[query.name]
        files = AnswerFiles(self._folder, query.name, state.registered)
        try:
            found = compaction(files, manifest.tick, state.position, arrow_schema(self._schemas[query.name]))
            if found is not None and found.bytes <= DRIVER_BYTES:
                found.run()
            elif found is not None:
                map_in_arrow(self._spark.range(1), found, WRITTEN_PATH).collect()
        except Exception as error:
            log.warning("reading the answer of query %s takes longer than it should: %s", query.name, unwrap(error))

    def mark(self, manifest: Manifest) -> None:
        """Say how far queries are, where a block ends."""
        try:
            write_mark(self._folder, manifest)
        except OSError as error:
            log.warning("reading answers of an earlier time takes longer than it should: %s", error)

    def _fold(self, query: ContinuousQuery, tick: int) -> None:
        """Write down the rows that are there after a tick; from then on it counts, and nothing before it."""
        earlier = self._folded(query.name)
        if earlier is not None and tick_of(earlier) >= tick:
            return  # the blocks are what an interrupted run has left
        held = fold_changelog(self.read(query.name, tick), query.query.output, F.max(TS).alias(TS))
        rows = held.withColumn(OP, F.lit("+"))
        made = self._folder / ANSWERS / query.name / FOLDED / f"{tick:012d}-all.parquet"
        beside = made.with_suffix(UNCONFIRMED)
        storage.make_folder(made.parent)
        rows.select(*map(quoted, self._schemas[query.name].names)).write.mode("overwrite").parquet(storage.uri(beside))
        storage.settle_tree(beside)
        storage.rename(beside, made)
        storage.sync(made.parent)
        if earlier is not None:
            storage.remove(earlier)

    def _latest(self, block: Path) -> int:
        last = ParquetStatistics.of(storage.listed(block, "*.parquet")).last
        return EVER if last is None else last

    def _folded(self, name: str) -> Path | None:
        """What counts instead of all answers up to its tick."""
        return max(storage.listed(self._folder / ANSWERS / name / FOLDED, "*.parquet"), default=None)

    def _marker(self, query: ContinuousQuery) -> Path:
        return self._folder / "delivered" / query.name

    def _delivered(self, query: ContinuousQuery, tick: int) -> int:
        """The last tick that the sink has had."""
        if query.sink is None or isinstance(query.sink, Memory):
            return tick
        return int(storage.read_text(self._marker(query))) if storage.is_there(self._marker(query)) else 0

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
        for path in storage.listed(self._folder / ANSWERS, "*/*/*-*"):
            if path.suffix == UNCONFIRMED or tick_of(path) > manifest.tick:
                storage.remove(path)
        for pattern in ("*", "delivered/*", "late/*/*", "unusable/*/*"):
            for path in storage.listed(self._folder, pattern + UNCONFIRMED):
                storage.remove(path)

    def _files(self, name: str, last: int, first: int = 0) -> list[Path]:
        folder, folded = self._folder / ANSWERS / name, self._folded(name)
        there = [] if folded is None or tick_of(folded) < first else [folded]
        first = max(first, tick_of(folded) + 1) if folded else first
        for block in range(block_of(first), block_of(last) + 1):
            files = storage.listed(folder, f"{block_name(block)}/*.parquet")
            there += [path for path in files if first <= tick_of(path) <= last]
        return there

    def _frame(self, schema: StructType, files: Sequence[Path]) -> DataFrame:
        if not files:
            return empty_frame(self._spark, schema)
        return self._spark.read.schema(schema).parquet(*map(storage.uri, files))
