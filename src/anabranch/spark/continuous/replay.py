"""A folder of files as a stream, at the pace at which its rows once came, or faster.

Rows are let through in the order of their times. A stream that is stopped and started again goes on from the time at
which it stood; meanwhile nothing is missed, as time stands still for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from anabranch.errors import QueryError
from anabranch.formats import FILE_FORMATS
from anabranch.spark.schemas import arrow_schema

if TYPE_CHECKING:
    import pyarrow.dataset as ds

NAME = "replay"
STEP_SECONDS = 0.25


def replay(
    spark: SparkSession,
    path: str | Path,
    *,
    timestamp: str,
    speed: float = 1.0,
    format: str = "parquet",
    schema: StructType | str | None = None,
) -> DataFrame:
    """A streaming DataFrame of the rows in a folder, each after as much time as lies between its time and the first.

    Parameters
    ----------
    path
        A folder of files.
    timestamp
        The column of times.
    speed
        How many times as fast: 60 lets an hour pass in a minute.
    format
        `parquet`, `csv` or `json` (one object per line).
    schema
        Columns and types; those of the files if not given.
    """
    spark.dataSource.register(ReplaySource)
    reader = spark.readStream.format(NAME).options(path=str(path), timestamp=timestamp, speed=speed, format=format)
    return (reader.schema(schema) if schema is not None else reader).load()


class ReplaySource(DataSource):
    """The data source `replay`; see `replay` for its options."""

    @classmethod
    def name(cls) -> str:
        """What it is called."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the files."""
        return from_arrow_schema(_files(self.options).schema)

    def streamReader(self, schema: StructType) -> ReplayReader:  # noqa: N802 - Spark's name
        """Reads them as a stream."""
        return ReplayReader(self.options, schema)


@dataclass
class Slice(InputPartition):
    """Rows of some files whose times lie in (after, until]."""

    files: tuple[str, ...]
    after: int
    until: int


class ReplayReader(DataSourceStreamReader):
    """Lets rows through as time passes; an offset is the time, in microseconds, up to which they were.

    Parameters
    ----------
    options
        As the user gave them.
    schema
        The columns that are wanted.
    """

    def __init__(self, options: Mapping[str, Any], schema: StructType) -> None:
        self._options = dict(options)
        self._schema = arrow_schema(schema)
        self._column = self._options["timestamp"]
        if self._column not in self._schema.names:
            raise QueryError(f"there is no column {self._column!r} to replay by", hint=f"one of {self._schema.names}")
        self._speed = float(self._options.get("speed", 1))
        if self._speed <= 0:
            raise QueryError(f"a replay cannot run at speed {self._speed}", hint="60 lets an hour pass in a minute")
        self._spans: dict[str, tuple[int, int] | None] = {}
        self._began: tuple[float, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Just before the first row."""
        return {"until": min((first for first, _ in self._known().values()), default=0) - 1}

    def latestOffset(self, *given: Any) -> dict[str, int]:  # noqa: N802 - Spark's name
        """As far as time has passed, in steps, and not beyond the last row; Spark 4.2 gives where it stands."""
        last = max((last for _, last in self._known().values()), default=-1)
        if self._began is None:
            self._began = (time.monotonic(), (given[0] if given else self.initialOffset())["until"])
        clock, begin = self._began
        steps = int((time.monotonic() - clock) / STEP_SECONDS)
        return {"until": max(begin, min(last, begin + int(steps * STEP_SECONDS * self._speed * 1e6)))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The rows between two times."""
        after, until = start["until"], end["until"]
        if until < after:
            raise QueryError("this replay cannot resume", hint="use Spark 4.2 or newer, or start with a new checkpoint")
        files = [path for path, (first, last) in self._known().items() if first <= until and last > after]
        return [Slice((path,), after, until) for path in files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a slice."""
        assert isinstance(partition, Slice)
        for path in partition.files:
            table = _dataset(path, self._options, self._schema).to_table()
            times = _micros(table[self._column])
            here = pc.and_(pc.greater(times, partition.after), pc.less_equal(times, partition.until))
            yield from table.filter(here).to_batches()

    def _known(self) -> dict[str, tuple[int, int]]:
        """The first and last time of every file that has rows."""
        for path in _files(self._options).files:
            if path not in self._spans:
                times = _dataset(path, self._options, self._schema).to_table(columns=[self._column])[self._column]
                bounds = pc.min_max(_micros(times)).as_py()
                self._spans[path] = None if bounds["min"] is None else (bounds["min"], bounds["max"])
        return {path: span for path, span in self._spans.items() if span is not None}


def _files(options: Mapping[str, Any]) -> ds.FileSystemDataset:
    import pyarrow.dataset as ds  # it imports pandas

    kind = str(options.get("format", "parquet"))
    if kind not in FILE_FORMATS:
        raise QueryError(f"a replay of {kind!r} files is not possible", hint=f"use {', '.join(FILE_FORMATS)}")
    try:
        return ds.dataset(options["path"], format=kind)
    except (OSError, pa.ArrowInvalid) as error:
        raise QueryError(f"{options['path']!r} cannot be replayed: {error}", hint="give a folder of files") from None


def _dataset(path: str, options: Mapping[str, Any], schema: pa.Schema) -> ds.Dataset:
    import pyarrow.dataset as ds

    return ds.dataset(path, format=str(options.get("format", "parquet")), schema=schema)


def _micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
