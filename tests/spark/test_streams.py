"""Streams: the same rows as a batch, orders that follow the data, and counts that survive a replay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.events import PilotDecided
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Bag = Callable[[DataFrame], Counter[str]]


def small(b: pd.Series) -> pd.Series:
    return b < 0.7


def even(id: int) -> bool:
    return id % 2 == 0


@pytest.fixture
def files(rows: DataFrame, tmp_path: Path, spark: SparkSession) -> DataFrame:
    """The rows as a stream of four micro-batches."""
    for part in range(4):
        rows.where(F.col("id") % 4 == part).coalesce(1).write.mode("append").parquet(str(tmp_path / "rows"))
    return spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))


def run(query: StreamingQuery) -> None:
    assert query.awaitTermination(120)
    assert query.exception() is None


def through(stream: DataFrame, do: Callable[[DataFrame, int], None], checkpoint: Path) -> StreamingQuery:
    writer = stream.writeStream.foreachBatch(do).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def test_where_on_a_stream_gives_the_rows_of_the_batch(
    files: DataFrame, rows: DataFrame, bag: Bag, spark: SparkSession, tmp_path: Path
) -> None:
    f = ab.Filter(
        ab.predicate(small, "b"),
        F.col("text").rlike("[0-9]{2}"),
        ab.lookup("dst", {"10.1.0.7", "10.2.0.7"}),
        ab.predicate(lambda id: id * 2, "id", returns="long", keep="twice", test=lambda v: v % 4 == 0, name="twice"),
    )
    query = (
        f.apply(files)
        .writeStream.format("memory")
        .queryName("filtered")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    run(query)
    plain = rows.where("b < 0.7 and text rlike '[0-9]{2}' and dst in ('10.1.0.7', '10.2.0.7') and id % 2 = 0")
    assert bag(spark.table("filtered")) == bag(plain.withColumn("twice", F.col("id") * 2))
    assert f.report().rows == rows.where("text rlike '[0-9]{2}'").count()
    assert len(query.recentProgress) >= 4


@pytest.mark.classic(reason="explain says something else there")
def test_explain_says_what_where_does_on_a_stream(files: DataFrame) -> None:
    explained = ab.Filter(F.col("text").rlike("x"), F.col("a") == 7, ab.predicate(small, "b")).explain(files)
    assert "on a stream, where() keeps its first decision (foreach_batch re-decides)" in explained
    assert "a stream cannot be sampled ahead" in explained
    assert "workers adapt it while they run" in explained


@pytest.mark.classic(reason="its sink fills a list of this process, and runs in one of the server's there")
@pytest.mark.parametrize("policy", tiers(["auto", "agreedy"], fast=1))
def test_foreach_batch_decides_anew_when_the_data_turns(spark: SparkSession, tmp_path: Path, policy: str) -> None:
    """First hardly any row has an x, then hardly any has a y; both are looked for with the same effort."""
    number = F.col("id")
    for part in range(7):
        rare, common = ("x", "y") if part < 3 else ("y", "x")
        letters = F.when(number % 50 == 0, F.lit(rare)).otherwise("-")
        text = F.concat(F.lit("a" * 30), letters, F.lit("b" * 30), F.lit(common))
        one = spark.range(part * 1000, (part + 1) * 1000, 1, 1).select("id", text.alias("text"))
        one.write.mode("append").parquet(str(tmp_path / "rows"))
    source = spark.readStream.schema("id long, text string").option("maxFilesPerTrigger", 1)
    stream = source.option("latestFirst", False).parquet(str(tmp_path / "rows"))
    has_x, has_y = (F.regexp_replace("text", "[a-w]", "").contains(letter) for letter in "xy")
    f = ab.Filter(ab.predicate(has_y, name="y"), ab.predicate(has_x, name="x"), policy=policy)
    found: list[int] = []
    run(through(stream, f.foreach_batch(lambda df, _: found.extend(r.id for r in df.collect())), tmp_path / "c"))

    plain = spark.read.parquet(str(tmp_path / "rows")).where(has_x & has_y)
    assert sorted(found) == sorted(r.id for r in plain.collect())
    decided = [e for e in f.events() if isinstance(e, PilotDecided)]
    assert decided[0].after == ("x", "y")
    assert decided[-1].after == ("y", "x")
    assert re.match(r"profile of \d+ rows of the last micro-batch: (at place 1 y drops|.* us per)", decided[-1].reason)
    assert f.report().order == ("y", "x")


@pytest.mark.classic(reason="its sink fills a list of this process, and runs in one of the server's there")
def test_costs_are_measured_on_the_first_micro_batch_that_has_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The costly predicate drops a little more: only who knows the costs puts the cheap one first."""
    for part in range(4):
        one = spark.range(part * 1000, (part + 1) * 1000 if part else 0, 1, 1)
        one.write.mode("append").parquet(str(tmp_path / "rows"))
    source = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    stream = source.parquet(str(tmp_path / "rows"))
    text = F.repeat(F.concat(F.lit("n"), F.col("id").cast("string")), 200)
    costly = F.regexp_replace(text, "(n)([0-9]+)", "$2$1").rlike("[0-5]n$")
    cheap = F.col("id") % 10 < 7
    f = ab.Filter(ab.predicate(costly, name="costly"), ab.predicate(cheap, name="cheap"), policy="agreedy")
    sizes: list[int] = []

    def sink(df: DataFrame, batch: int) -> None:
        df.collect()
        sizes.append(f.report().predicates[0].seen or 0)

    run(through(stream, f.foreach_batch(sink), tmp_path / "c"))
    assert sizes[0] == 0, "the first micro-batch is empty"
    assert f.report().order == ("cheap", "costly")
    assert all(p.cost_us is not None for p in f.report().predicates)


@pytest.mark.classic(reason="its sink fills a list of this process, and runs in one of the server's there")
def test_foreach_batch_takes_what_may_fail(files: DataFrame, rows: DataFrame, tmp_path: Path) -> None:
    """The profile that rides along must not evaluate a division on rows that its guard rejects."""
    f = ab.Filter(F.col("a") != 0, F.lit(100) / F.col("a") > 2, F.col("text").rlike("[0-9]{2}"))
    found: list[int] = []
    run(through(files, f.foreach_batch(lambda df, _: found.extend(r.id for r in df.collect())), tmp_path / "c"))
    assert sorted(found) == sorted(
        r.id for r in rows.where("a != 0 and 100 / a > 2 and text rlike '[0-9]{2}'").collect()
    )


@pytest.mark.classic(reason="its sink fills a list of this process, and runs in one of the server's there")
def test_foreach_batch_with_python_predicates_and_quarantine(files: DataFrame, rows: DataFrame, tmp_path: Path) -> None:
    f = ab.Filter(
        F.col("a").isNotNull(),
        ab.predicate(lambda a: 100 / a > 2, "a", name="inverse"),
        ab.predicate(even, "id", name="even"),
        on_error="quarantine",
    )
    passed: list[int] = []
    aside: list[int] = []

    def sink(df: DataFrame, batch: int) -> None:
        passed.extend(r.id for r in df.collect())
        aside.extend(r.id for r in f.quarantined().collect())

    run(through(files, f.foreach_batch(sink), tmp_path / "c"))
    assert sorted(passed) == sorted(r.id for r in rows.where("a != 0 and 100 / a > 2 and id % 2 = 0").collect())
    assert sorted(aside) == sorted(r.id for r in rows.where("a = 0 and id % 2 = 0").collect())
    assert f.report().rows == rows.where("a is not null").count()


@pytest.mark.classic(reason="its sink fills a list of this process, and runs in one of the server's there")
@pytest.mark.parametrize("dies", ["before the batch is done", "after the batch was saved"])
def test_a_replayed_micro_batch_is_not_counted_twice(
    files: DataFrame, rows: DataFrame, tmp_path: Path, dies: str
) -> None:
    def new_filter() -> ab.Filter:
        return ab.Filter(
            ab.predicate(even, "id", name="even"), ab.predicate(small, "b", name="small"), state=tmp_path / "state"
        )

    failing, found = new_filter(), list[int]()

    def sink(df: DataFrame, batch: int) -> None:
        ids = [r.id for r in df.collect()]
        if batch != 2:
            found.extend(ids)
        elif dies.startswith("before"):
            failing.report()
            raise OSError("the disk is full")

    def do(df: DataFrame, batch: int) -> None:
        failing.foreach_batch(sink)(df, batch)
        if batch == 2:
            raise OSError("the disk is full")

    query = through(files, do, tmp_path / "c")
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        query.awaitTermination(120)
    seen = failing.report().rows
    assert seen == rows.where("id % 4 < 3").count()

    again = new_filter()
    assert again.report().rows == seen
    run(through(files, again.foreach_batch(lambda df, _: found.extend(r.id for r in df.collect())), tmp_path / "c"))
    wanted = rows.where("id % 2 = 0 and b < 0.7")
    assert sorted(found) == sorted(r.id for r in wanted.collect())
    report = again.report()
    assert report.rows == rows.count()
    assert sum(p.dropped or 0 for p in report.predicates) == rows.count() - wanted.count()


@pytest.mark.classic(reason="sets job groups on Spark's context")
def test_a_sink_may_run_under_job_groups_of_its_own(spark: SparkSession, rows: DataFrame) -> None:
    f = ab.Filter(ab.predicate(even, "id"))

    def sink(df: DataFrame, batch: int) -> None:
        for group in ("one", "two"):
            spark.sparkContext.setJobGroup(group, "of the user")
            df.count()

    source = rows.select("id")
    source.sparkSession.sparkContext.setLocalProperty("sql.streaming.queryId", "q")
    source.sparkSession.sparkContext.setLocalProperty("streaming.sql.batchId", "7")
    try:
        f.foreach_batch(sink)(source, 7)
        assert f.report().rows == 2 * rows.count()
        f.foreach_batch(sink)(source, 7)
        assert f.report().rows == 2 * rows.count(), "the batch once more, after a restart"
    finally:
        for name in ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id", "spark.job.description"):
            spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]
