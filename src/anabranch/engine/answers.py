"""What queries have answered: files in the checkpoint, and from there to sinks."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.engine.manifest import Manifest
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.sinks import Delivery, Memory
from anabranch.engine.store import UNCONFIRMED, tick_of, write_text
from anabranch.spark.schemas import empty_frame


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
        return self._frame(schema, sorted((self._folder / kind / stream).glob("*.parquet")))

    def deliver(self, query: ContinuousQuery, tick: int) -> None:
        """Give the sink what it has not had yet; a sink that fails stops its query alone."""
        if query.sink is None or isinstance(query.sink, Memory) or query.status == "failed":
            return
        marker = self._folder / "delivered" / query.name
        done = int(marker.read_text()) if marker.exists() else 0
        files, schema = self._files(query.name, tick, done + 1), self._schemas[query.name]
        for each in sorted({tick_of(path) for path in files}):
            some = [path for path in files if tick_of(path) == each]
            try:
                query.sink.deliver(Delivery(each, some, partial(self._frame, schema)))
            except Exception as error:
                query.error, query.status = error, "failed"
                return
            write_text(marker, str(each))

    def clear(self, name: str, *kinds: str) -> None:
        """Delete what something has left that is gone."""
        for kind in kinds:
            shutil.rmtree(self._folder / kind / name, ignore_errors=True)

    def sweep(self, manifest: Manifest, waiting: Iterable[str]) -> None:
        """Delete what an interrupted tick has left; files on the shelf may wait for a tick."""
        named = {file.path for stream in manifest.streams.values() for file in stream.files} | set(waiting)
        named |= {f"state/{path}" for path in manifest.segments()}
        for kind in ("kept", "state"):
            for path in (self._folder / kind).rglob("*.*"):
                if path.is_file() and str(path.relative_to(self._folder)) not in named:
                    path.unlink()
        for path in (self._folder / "answers").glob("*/*.*"):
            if path.suffix == UNCONFIRMED or tick_of(path) > manifest.tick:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for kind in ("late", "unusable"):
            for path in (self._folder / kind).glob(f"*/*{UNCONFIRMED}"):
                path.unlink()

    def _files(self, name: str, last: int, first: int = 0) -> list[Path]:
        folder = self._folder / "answers" / name
        return sorted(path for path in folder.glob("*.parquet") if first <= tick_of(path) <= last)

    def _frame(self, schema: StructType, files: Sequence[Path]) -> DataFrame:
        if not files:
            return empty_frame(self._spark, schema)
        return self._spark.read.schema(schema).parquet(*map(str, files))
