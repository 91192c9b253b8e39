"""Columns of any name on Spark: in queries, streams, sinks, restarts and filters they keep their names."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.model.names import quoted
from cql.answers import answered
from cql.comparing import bound
from cql.local import LocalEngine
from cql.names import LABELS, PLAIN, QUERIES, ROWS, ZEEK, case, random_names, written
from cql.streams import SECOND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
TIME, SEQUENCE = "at.`ts`", "seq.no"


def odd(value: int) -> bool:
    return value % 2 == 1


def bag(df: DataFrame) -> Counter[tuple[Any, ...]]:
    """The rows, without their times: those of texts are cut to milliseconds."""
    return Counter(tuple(row) for row in df.drop("_ts").collect())


@pytest.mark.parametrize(
    ("names", "some"),
    [
        (ZEEK, ("sliding", "latest", "looked_up")),
        pytest.param(
            random_names(datetime.now(UTC).toordinal()),
            tuple(QUERIES),
            marks=pytest.mark.full(reason="nine queries take long, and one process says the same of all"),
        ),
    ],
    ids=repr,
)
def test_the_names_of_columns_change_nothing(names: tuple[str, ...], some: Iterable[str], spark: SparkSession) -> None:
    engine = ab.Engine(spark, cells=1)
    rows = [(datetime.fromtimestamp(micros / SECOND, UTC), *rest) for _, micros, *rest in ROWS]
    stream = spark.createDataFrame(rows, "t timestamp, k long, a long, b long").toDF(TIME, *names)
    engine.stream("s", stream, timestamp=TIME, sequence=names[2])
    engine.relation("r", spark.createDataFrame(list(LABELS), "k long, b string").toDF(names[0], names[2]))
    engine.function("odd", odd)
    for name in some:
        engine.query(written(QUERIES[name], names), name)
    called = engine.query(written("Select {k}, {a} From {s} Where odd({k}) And Not odd({a})", names), "called")
    found = engine.run_batch()
    for name in some:
        plain = case(QUERIES[name], PLAIN)
        assert answered(found[name]) == LocalEngine(plain, bound(plain)).answer(), name
    assert answered(found["called"]) == Counter({(1, 0, 4 * SECOND, 1): 1})
    assert found["called"].columns == [*names[:2], "_ts"]
    assert f"odd({quoted(names[0])})" in [each.predicate for each in called.filters()[0].report().predicates]


class Feed:
    """A stream of a folder in which each file is a batch."""

    def __init__(self, spark: SparkSession, folder: Path, names: tuple[str, ...]) -> None:
        folder.mkdir()
        kinds = (pa.timestamp("us", tz="UTC"), pa.int64(), pa.int64(), pa.int64(), pa.int64())
        self._folder, self._schema, self._numbers = folder, pa.schema(zip(names, kinds, strict=True)), itertools.count()
        empty = spark.createDataFrame([], "t timestamp, s long, k long, a long, b long").toDF(*names)
        self.df = spark.readStream.schema(empty.schema).option("maxFilesPerTrigger", 1).parquet(str(folder))

    def add(self, *seconds: int | None) -> None:
        rows = [(None if n is None else ZERO + timedelta(seconds=n), n, (n or 0) % 3, (n or 0) % 4, n) for n in seconds]
        columns = [pa.array([row[place] for row in rows], each.type) for place, each in enumerate(self._schema)]
        beside = self._folder / "_next"
        pq.write_table(pa.table(columns, schema=self._schema), beside)
        beside.rename(self._folder / f"{next(self._numbers)}.parquet")


def test_streams_sinks_history_and_restarts_know_columns_by_any_name(spark: SparkSession, tmp_path: Path) -> None:
    k, _, b = ZEEK
    feed = Feed(spark, tmp_path / "in", (TIME, SEQUENCE, *ZEEK))
    texts = {name: QUERIES[name] for name in ("projected", "counted", "sliding")}
    sinks = {"projected": "csv", "counted": "json", "sliding": "parquet"}

    def started() -> ab.Engine:
        engine = ab.Engine(spark, tmp_path / "state", cells=1)
        engine.stream("s", feed.df, timestamp=TIME, sequence=SEQUENCE, retain="1 hour")
        for name, text in texts.items():
            query = engine.query(written(text, ZEEK), name)
            query.start(sinks[name], path=tmp_path / name)
        return engine

    def settled(engine: ab.Engine) -> None:
        for query in engine.queries.values():
            query.await_idle()

    engine = started()
    feed.add(0, 1, 2)
    settled(engine)
    feed.add(3, 1, None, 4)
    settled(engine)
    assert engine.late("s").columns == engine.unusable("s").columns == [TIME, SEQUENCE, *ZEEK]
    assert [row[b] for row in engine.late("s").collect()] == [1]
    assert [row[k] for row in engine.unusable("s").collect()] == [0]
    engine.stop()
    engine = started()
    feed.add(5, 6)
    past = engine.query(written("Select Istream({k}, {b}) From {s} [Now]", ZEEK), "past", history=True).start()
    settled(engine)
    assert {row[b] for row in past.to_dataframe().collect()} == {0, 1, 2, 3, 4, 5}
    assert {row[k] for row in engine.queries["counted"].current().collect()} == {1, 2}
    engine.stop()
    for name, form in sinks.items():
        kept = engine.queries[name].to_dataframe()
        read = spark.read.schema(kept.schema).option("header", True).format(form).load(str(tmp_path / name))
        assert bag(read.select(*map(quoted, kept.columns))) == bag(kept) != Counter(), name


def test_files_declare_columns_by_any_name(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(4).selectExpr("timestamp_seconds(id) AS t", "id % 2 AS k", "id AS a")
    rows.toDF(TIME, *ZEEK[:2]).write.parquet(str(tmp_path / "in"))
    engine = ab.Engine(spark)
    time, k, a = map(quoted, (TIME, *ZEEK[:2]))
    engine.execute(
        f"""Create Stream s ({time} Timestamp, {k} Long, {a} Long)
                From 'parquet' With (path = '{tmp_path / "in"}') Timestamp {time} Sequence {a};
            Create View odd_ones As Select {k}, {a} From s Where {k} = 1;
            Create Query q As Select {k}, Count(*) As n From odd_ones [Range 1 Hour] Group By {k};""",
        bounded=True,
    )
    engine.run_batch()
    assert engine.queries["q"].current().collect() == [Row(**{ZEEK[0]: 1, "n": 2})]
    assert ZEEK[1] in engine.describe("streams")


def test_columns_that_only_differ_by_case_are_refused(spark: SparkSession) -> None:
    rows = spark.sql("SELECT current_timestamp() AS ts, 1 AS Host, 2 AS host")
    engine = ab.Engine(spark)
    with pytest.raises(QueryError, match="columns 'Host' and 'host' of stream 's' have the same name"):
        engine.stream("s", rows, timestamp="ts")
    with pytest.raises(QueryError, match="columns 'Host' and 'host' of relation 'r' have the same name"):
        engine.relation("r", rows)


def test_a_field_of_a_struct_is_given_to_functions(spark: SparkSession) -> None:
    rows = spark.range(4).selectExpr("timestamp_seconds(id) AS ts", "struct(id AS n) AS part")
    engine = ab.Engine(spark)
    engine.stream("s", rows, timestamp="ts")
    engine.function("odd", odd)
    engine.query("Select part.n From s Where odd(part.n)", "q")
    assert {row["n"] for row in engine.run_batch()["q"].collect()} == {1, 3}


@pytest.mark.parametrize(
    "made",
    [
        lambda name: ab.predicate(odd, name, name="odd"),
        lambda name: ab.predicate(odd, quoted(name), name="odd"),
        lambda name: ab.lookup(name, [1, 3, 5]),
        lambda name: F.col(quoted(name)) % 2 == 1,
        lambda name: f"{quoted(name)} % 2 = 1",
    ],
    ids=["python", "quoted", "look-up", "column", "text"],
)
@pytest.mark.parametrize("name", ["id.orig_h", "two `words`"])
def test_filters_read_a_column_of_just_that_name(name: str, made: Callable[[str], Any], spark: SparkSession) -> None:
    rows = spark.range(6).selectExpr("struct(id + 1 AS orig_h) AS id", f"id AS {quoted(name)}", "id AS n")
    kept = ab.predicate(lambda n: n * 10, "n", name="tens", keep="out.`x`", returns="long", test=lambda n: n >= 0)
    found = ab.where(rows, made(name), kept)
    assert sorted((row["n"], row["out.`x`"]) for row in found.collect()) == [(1, 10), (3, 30), (5, 50)]
