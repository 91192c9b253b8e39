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
from pyspark.sql.types import StructType

from anabranch import storage
from anabranch.cells.base import EVER
from anabranch.engine.failures import plain
from anabranch.engine.footers import Answered
from anabranch.engine.manifest import Manifest
from anabranch.engine.query import ContinuousQuery, there
from anabranch.engine.sinks import Delivery, Memory
from anabranch.engine.store import (
    ANSWERS,
    STATE,
    UNCONFIRMED,
    block_name,
    block_of,
    last_tick,
    tick_of,
)
from anabranch.model.continuous import OP, TS
from anabranch.model.names import quoted
from anabranch.spark.attempts import attempt
from anabranch.spark.schemas import empty_frame

FOLDED = "folded"
log = logging.getLogger("anabranch")


class Answers:
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

    def expect(self, name: str, schema: StructType) -> None:
        """The columns of a query's answer."""
        self._schemas[name] = schema

    def read(self, name: str, tick: int) -> DataFrame:
        """What a query has answered up to a tick."""
        return self._frame(self._schemas[name], self._files(name, tick))

    def aside(self, kind: str, stream: str, schema: StructType) -> DataFrame:
        """Rows of a stream that were late or unusable."""
        return self._frame(schema, storage.listed(self._folder / kind / stream, "*.parquet"))

    @attempt()
    def deliver(self, query: ContinuousQuery, tick: int) -> None:
        """Give the sink what it has not had yet; a sink that fails stops its query alone."""
        if query.sink is None or isinstance(query.sink, Memory) or query.status == "failed":
            return
        files, schema = self._files(query.name, tick, self._delivered(query, tick) + 1), self._schemas[query.name]
        for each in sorted({tick_of(path) for path in files}):
            some = [path for path in files if tick_of(path) == each]
            try:
                query.sink.deliver(Delivery(each, some, partial(self._frame, schema)))
            except Exception as error:
                query.error, query.status = plain(error), "failed"
                return
            storage.make_folder(self._marker(query).parent)
            storage.write_text(self._marker(query), str(each))

    def let_go(self, query: ContinuousQuery, position: int, tick: int) -> None:
        """Forget blocks that are older than the query keeps its answer; it has said all about the time before."""
        if query.keep is None or tick != last_tick(block_of(tick)):
            return
        folder, delivered = self._folder / ANSWERS / query.name, self._delivered(query, tick)
        old = []
        for block in sorted(int(path.name) for path in storage.listed(folder, "[0-9]*")):
            if last_tick(block) > delivered or self._latest(folder / block_name(block)) >= position - query.keep:
                break
            old.append(block)
        try:
            if old and not query.query.is_stream:
                self._fold(query, last_tick(old[-1]))
        except Exception as error:
            log.warning("what query %s has answered is kept longer than it should be: %s", query.name, plain(error))
            return
        for block in old:
            storage.remove(folder / block_name(block))

    def _fold(self, query: ContinuousQuery, tick: int) -> None:
        """Write down the rows that are there after a tick; from then on it counts, and nothing before it."""
        earlier = self._folded(query.name)
        if earlier is not None and tick_of(earlier) >= tick:
            return  # the blocks are what an interrupted run has left
        rows = there(self.read(query.name, tick), query.query.output, F.max(TS).alias(TS)).withColumn(OP, F.lit("+"))
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
        last = Answered.of(storage.listed(block, "*.parquet")).last
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
        for kind in kinds:
            storage.remove(self._folder / kind / name)

    def sweep(self, manifest: Manifest, waiting: Iterable[str]) -> None:
        """Delete what an interrupted tick has left; files on the shelf may wait for a tick."""
        named = {file.path for stream in manifest.streams.values() for file in stream.files} | set(waiting)
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
