"""Queries over all that docs/cql.md claims through Spark, whose functions are Spark's own: DuckDB says the same."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame

import anabranch as ab
from anabranch.errors import AnabranchError
from cql.documented import Choices, Documented, documented, world
from cql.judging import Definition, comparable, refused
from cql.streams import Columns, Row, Stream
from seeds import daily_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW, MANY = 5, 15
"""Queries of one engine."""
ENGINES = 4
ROWS = 12
ZERO = datetime(1970, 1, 1, tzinfo=UTC)


def schema(columns: Columns) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def bounded(spark: SparkSession, stream: Stream) -> DataFrame:
    rows = [(*values, sequence, ZERO + timedelta(microseconds=time)) for sequence, time, *values in stream.rows]
    return spark.createDataFrame(rows, f"{schema(stream.columns)}, seq long, ts timestamp")


def emitted(df: DataFrame) -> Counter[Row]:
    """Rows `(values..., microseconds, +1 or -1)`, by place: names may be anything."""
    changes = "_op" in df.columns
    shown = df.toDF(*(f"c{place}" for place in range(len(df.columns)))).collect()
    places = [place for place, name in enumerate(df.columns) if name not in ("_ts", "_op")]
    out: Counter[Row] = Counter()
    for row in shown:
        time = (row[df.columns.index("_ts")].astimezone(UTC) - ZERO) // timedelta(microseconds=1)
        weight = -1 if changes and row[df.columns.index("_op")] == "-" else 1
        out[(*comparable(row[place] for place in places), time, weight)] += 1
    return out


def registered(engine: ab.Engine, query: Documented, name: str) -> str | None:
    """What is wrong with how the query is refused; its answer has its name if it is not."""
    try:
        for each in query.definitions:
            if each.is_view:
                engine.view(each.name, each.cql)
            else:
                engine.query(each.cql, each.name)
        engine.query(query.cql, name)
    except AnabranchError as error:
        return None if refused(query, error) else f"{query}\nrefused: {error}"
    return None


def check(spark: SparkSession, folder: Path, seed: int, count: int, depth: int) -> None:
    choices = Choices(rng=random.Random(f"{seed} spark"))
    inputs = world(choices, ROWS)
    queries = {f"q{n}": documented(choices, f"v{n}_", on_spark=True, depth=depth) for n in range(count)}
    engine = ab.Engine(spark, folder / "state")
    for stream in inputs.streams:
        sequence = "seq" if stream.sequenced else None
        engine.stream(stream.name, bounded(spark, stream), timestamp="ts", sequence=sequence, horizon=None)
    for relation in inputs.relations:
        engine.relation(relation.name, spark.createDataFrame(list(relation.rows), schema(relation.columns)))
    wrong = [found for name, query in queries.items() if (found := registered(engine, query, name)) is not None]
    answers = engine.run_batch()
    definition = Definition(inputs)
    for name, query in queries.items():
        if name in answers:
            found = definition.difference(query, emitted(answers[name]), random.Random(seed))
            wrong += [] if found is None else [f"{query}\n{found}"]
    assert not wrong, f"seed {seed}, {inputs}\n" + "\n\n".join(wrong)


@pytest.mark.timeout(600)
def test_documented_queries_on_spark_say_what_duckdb_says(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, daily_seed() * ENGINES, FEW, depth=1)


@pytest.mark.full(reason="three more engines of fifteen queries each")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(1, ENGINES))
def test_more_documented_queries_on_spark_say_what_duckdb_says(
    number: int, spark: SparkSession, tmp_path: Path
) -> None:
    check(spark, tmp_path, daily_seed() * ENGINES + number, MANY, depth=2)
