"""Random queries through Spark, of bounded inputs and of streams: the engine says what the definition says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from sqlglot import exp

import anabranch as ab
from anabranch.cql.dialect import parse_query
from cql.answers import answered, before, expected
from cql.generate import random_queries
from cql.oracle import Oracle
from cql.streams import Case, Row, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = int(os.environ.get("ANABRANCH_SOAK", "100"))
TOGETHER = 20
TIMEOUT_SECONDS = 1200  # a busy machine is slow
ENGINES = range(-(-QUERIES // TOGETHER))
CELLS = (None, 3, 1)
ZERO = datetime(1970, 1, 1, tzinfo=UTC)
TYPES = {"bigint": ("long", pa.int64()), "string": ("string", pa.string())}


def schema_of(stream: Stream) -> str:
    sequence = ["seq long"] if stream.sequenced else []
    return ", ".join([*(f"{name} {TYPES[its][0]}" for name, its in stream.columns), "ts timestamp", *sequence])


def told(stream: Stream, row: Row) -> tuple[Any, ...]:
    sequence, time, *values = row
    return (*values, ZERO + timedelta(microseconds=time), *([sequence] if stream.sequenced else []))


def bounded(spark: SparkSession, stream: Stream) -> DataFrame:
    rows = [told(stream, row) for row in stream.arrived]
    return spark.createDataFrame(rows, schema_of(stream)).repartition(3)


def streaming(spark: SparkSession, stream: Stream, batches: Sequence[int], folder: Path) -> DataFrame:
    """One file per batch, in the order of arrival; some are empty."""
    left, folder = [told(stream, row) for row in stream.arrived], folder / stream.name
    folder.mkdir()
    kinds = [*(TYPES[its][1] for _, its in stream.columns), pa.timestamp("us", tz="UTC"), pa.int64()]
    names = [each.split()[0] for each in schema_of(stream).split(", ")]
    schema = pa.schema(list(zip(names, kinds, strict=False)))
    for number, size in enumerate(batches):
        rows, left = left[:size], left[size:]
        columns = [pa.array([row[place] for row in rows], each.type) for place, each in enumerate(schema)]
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns, schema=schema), path)
        os.utime(path, (number, number))
    return spark.readStream.schema(schema_of(stream)).option("maxFilesPerTrigger", 1).parquet(str(folder))


def registered(engine: ab.Engine, spark: SparkSession, cases: Sequence[Case], folder: Path | None) -> None:
    case = cases[0]
    for stream in case.streams:
        batches = case.cuts.batches[stream.name]
        df = bounded(spark, stream) if folder is None else streaming(spark, stream, batches, folder)
        sequence, skew = "seq" if stream.sequenced else None, timedelta(microseconds=stream.skew)
        engine.stream(stream.name, df, timestamp="ts", sequence=sequence, skew=skew, horizon=None)
    for relation in case.relations:
        columns = ", ".join(f"{name} {TYPES[its][0]}" for name, its in relation.columns)
        engine.relation(relation.name, spark.createDataFrame(list(relation.rows), columns))
    for number, each in enumerate(cases):
        engine.query(each.query, f"q{number}")


def inputs(case: Case, ast: exp.Expr) -> list[Stream]:
    names = {table.name.lower() for table in ast.find_all(exp.Table)}
    return [stream for stream in case.streams if stream.name in names]


def watermark(streams: Sequence[Stream]) -> int:
    return min(max((row[1] for row in each.rows), default=-1) - each.skew for each in streams)


def end(streams: Sequence[Stream]) -> int:
    return max((row[1] for each in streams for row in each.rows), default=0) + 1


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("number", ENGINES)
def test_the_engine_agrees_with_the_definition(number: int, spark: SparkSession, tmp_path: Path) -> None:
    cases, as_stream = random_queries(number, TOGETHER), number % 5 == 1
    engine = ab.Engine(spark, tmp_path / "state", cells=CELLS[number % len(CELLS)])
    registered(engine, spark, cases, tmp_path if as_stream else None)
    if as_stream:
        for query in engine.queries.values():
            query.start()
        for query in engine.queries.values():
            query.await_idle()
        engine.stop()
    else:
        engine.run_batch()
    oracle = Oracle(cases[0].streams, cases[0].relations)
    for case, query in zip(cases, engine.queries.values(), strict=True):
        ast = parse_query(case.query)
        until = watermark(inputs(case, ast)) if as_stream else end(inputs(case, ast))
        got, want = answered(query.to_dataframe()), before(expected(oracle, ast), until)
        got = got if as_stream else before(got, until)  # a bounded run ends with the last row of all streams
        assert got == want, f"{case.query}\n{case}\nmissing {want - got}\nextra {got - want}"
    assert all(engine.late(stream.name).isEmpty() for stream in cases[0].streams)
