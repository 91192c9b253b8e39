"""Contenders that stand: queries are registered once, then batches of rows come, one by one, and each is timed.

Registering many queries takes longer than answering a batch, and so does starting a stream; what is compared is the
time per batch. Contenders take turns with the same files. Idle ones look for new files meanwhile, all alike.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.benches.harness import Answer, Race
from anabranch.engine.query import ContinuousQuery
from anabranch.errors import InternalError


class Contender(Protocol):
    """Somebody who answers batches."""

    def take(self, file: Path) -> float:
        """Answer the rows of a file; the seconds that it took."""

    def digest(self) -> Answer:
        """Rows that were answered so far, and a checksum of them that does not depend on their order."""


class Inbox:
    """A folder that a stream reads, file by file."""

    def __init__(self, folder: Path, schema: str) -> None:
        self._folder = folder
        self._schema = schema
        folder.mkdir(parents=True)

    def source(self, spark: SparkSession) -> DataFrame:
        """The stream."""
        return spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1).parquet(str(self._folder))

    def put(self, file: Path) -> None:
        """Let the stream see a file, all of it at once."""
        hidden = self._folder / f".{file.name}"
        shutil.copy(file, hidden)
        os.replace(hidden, self._folder / file.name)


class Standing:
    """An engine of ours over one stream `s`.

    Parameters
    ----------
    folder
        For its input and its checkpoint; a new one.
    schema
        Of the stream, with `ts` and `seq`.
    """

    def __init__(self, spark: SparkSession, folder: Path, schema: str) -> None:
        self.checkpoint = folder / "state"
        self.engine = ab.Engine(spark, self.checkpoint)
        self.compared: Sequence[str] = ()
        self.columns: Sequence[str] | None = None
        self._inbox = Inbox(folder / "in", schema)
        self.engine.stream("s", self._inbox.source(spark), timestamp="ts", sequence="seq")

    def register(self, texts: Iterable[str], *, compared: int | None = None) -> Self:
        """Let queries `q0`, `q1`, ... run; the answers of the first ones are compared with those of others."""
        queries = [self.engine.query(text, name=f"q{number}") for number, text in enumerate(texts)]
        for query in queries:
            query.start(sink="memory")
        self.compared = [query.name for query in queries[:compared]]
        return self

    def take(self, file: Path) -> float:
        """Answer a batch."""
        began = time.perf_counter()
        self._inbox.put(file)
        self.await_idle()
        return time.perf_counter() - began

    def await_idle(self) -> None:
        """Wait until all rows have been answered: ticks are of all queries, so any of them will do."""
        queries: Mapping[str, ContinuousQuery] = self.engine.queries
        next(iter(queries.values())).await_idle()

    def digest(self) -> Answer:
        """Of the queries that are compared, and of `columns` alone if they are given."""
        reader = ab.open(self.checkpoint)
        tables = (reader.query(name).rows() for name in self.compared)
        return digest(table if self.columns is None else table.select(self.columns) for table in tables)

    def rows(self, query: str) -> pa.Table:
        """What a query has answered so far."""
        return ab.open(self.checkpoint).query(query).rows()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.stop()


def digest(tables: Iterable[pa.Table]) -> Answer:
    """Number of rows of some tables, and a checksum.

    >>> digest([pa.table({"a": [1, 2]})]) == digest([pa.table({"a": [2]}), pa.table({"a": [1]})])
    True
    >>> digest([pa.table({"a": [1, 2]})]) == digest([pa.table({"a": [1, 1]})])
    False
    """
    count, total = 0, 0
    for table in tables:
        columns = [table[name].to_pylist() for name in sorted(table.column_names)]
        count += len(table)
        total += sum(hash(row) for row in zip(*columns, strict=True))
    return count, total


def race(contenders: Mapping[str, Contender], files: Sequence[Path], *, warm_up: int = 1) -> Race:
    """Let all answer the same files in turn; the first ones are to warm up. All have to answer the same."""
    result = Race({name: [] for name in contenders})
    names = list(contenders)
    for number, file in enumerate(files):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            seconds = contenders[name].take(file)
            if number >= warm_up:
                result.seconds[name].append(seconds)
    found = {name: each.digest() for name, each in contenders.items()}
    result.answer = found[names[0]]
    for name, digest in found.items():
        if digest != result.answer:
            raise InternalError(f"{name} answered {digest[0]} rows, or others, instead of {result.answer[0]}")
    return result
