"""Streams and relations of random cases for an engine on Spark: bounded frames, or files that arrive one by one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import anabranch as ab
from cql.streams import Case, Row, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZERO = datetime(1970, 1, 1, tzinfo=UTC)
TYPES = {
    "bigint": ("long", pa.int64()),
    "string": ("string", pa.string()),
    "double": ("double", pa.float64()),
    "decimal(9, 2)": ("decimal(9,2)", pa.decimal128(9, 2)),
    "boolean": ("boolean", pa.bool_()),
    "date": ("date", pa.date32()),
}


def schema_of(stream: Stream) -> str:
    sequence = ["seq long"] if stream.sequenced else []
    return ", ".join([*(f"{name} {TYPES[its][0]}" for name, its in stream.columns), "ts timestamp", *sequence])


def as_spark_row(stream: Stream, row: Row) -> tuple[Any, ...]:
    sequence, time, *values = row
    return (*values, ZERO + timedelta(microseconds=time), *([sequence] if stream.sequenced else []))


def bounded(spark: SparkSession, stream: Stream) -> DataFrame:
    rows = [as_spark_row(stream, row) for row in stream.arrived]
    return spark.createDataFrame(rows, schema_of(stream)).repartition(3)


def arrive(stream: Stream, batches: Sequence[int], numbers: range, folder: Path) -> None:
    """One file for each batch with these numbers, in the order of arrival; some are empty."""
    arrived = [as_spark_row(stream, row) for row in stream.arrived]
    kinds = [*(TYPES[its][1] for _, its in stream.columns), pa.timestamp("us", tz="UTC"), pa.int64()]
    names = [each.split()[0] for each in schema_of(stream).split(", ")]
    schema = pa.schema(list(zip(names, kinds, strict=False)))
    (folder / stream.name).mkdir(exist_ok=True)
    for number in numbers:
        first = sum(batches[:number])
        rows = arrived[first : first + batches[number]]
        columns = [pa.array([row[place] for row in rows], each.type) for place, each in enumerate(schema)]
        path = folder / stream.name / f"{number}.parquet"
        pq.write_table(pa.table(columns, schema=schema), path)
        os.utime(path, (number, number))


def streaming(spark: SparkSession, stream: Stream, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(schema_of(stream)).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / stream.name))


def register_inputs(engine: ab.Engine, spark: SparkSession, case: Case, folder: Path | None) -> None:
    """The streams and relations of a case: bounded ones, or files in a folder."""
    for stream in case.streams:
        df = bounded(spark, stream) if folder is None else streaming(spark, stream, folder)
        sequence, skew = "seq" if stream.sequenced else None, timedelta(microseconds=stream.skew)
        engine.stream(stream.name, df, timestamp="ts", sequence=sequence, skew=skew, horizon=None)
    for relation in case.relations:
        columns = ", ".join(f"{name} {TYPES[its][0]}" for name, its in relation.columns)
        frame = spark.createDataFrame(list(relation.rows), columns)
        engine.relation(relation.name, frame, changing=bool(relation.changes))
        if relation.name not in engine._manifest.relations:  # else the checkpoint has kept the changes
            for time, weight, row in relation.changes:
                change = engine.insert if weight > 0 else engine.delete
                assert change(relation.name, [row], at=ZERO + timedelta(microseconds=time)) == 1
