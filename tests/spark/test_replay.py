"""Folders as streams, at the pace at which their rows once came."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

import anabranch as ab
from anabranch.spark.continuous.replay import ReplayReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECONDS, SPEED = 120, 80
PATIENCE_SECONDS = 280


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    rows = spark.range(SECONDS + 1).selectExpr("timestamp_seconds(1767225600 + id) AS ts", "id AS n")
    rows.repartition(3).write.parquet(str(tmp_path / "in"))
    return tmp_path / "in"


def arrived(engine: ab.Engine, rows: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while engine.rows_taken("s") < rows:
        assert time.monotonic() < deadline, "the rows do not come"
        time.sleep(0.05)


def test_rows_come_in_order_at_the_pace_that_is_asked_for(spark: SparkSession, folder: Path) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", ab.replay(spark, folder, timestamp="ts", speed=SPEED), timestamp="ts")
    query = engine.query("Select n From s", "all").start()
    began = time.monotonic()
    arrived(engine, SECONDS + 1)
    query.await_idle()
    seconds = time.monotonic() - began
    engine.stop()
    assert sorted(row["n"] for row in query.to_dataframe().collect()) == list(range(SECONDS + 1))
    assert engine.late("s").count() == 0
    assert seconds > SECONDS / SPEED - 1


def test_rows_are_let_through_as_time_passes(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ReplayReader(
        {"path": str(folder), "timestamp": "ts", "speed": SPEED}, spark.read.parquet(str(folder)).schema
    )
    begin = reader.initialOffset()
    clock = iter((1000.0, 1000.0, 1000.3, 1001.1, 1060.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    seen: list[int] = []
    for rows in (0, 20, 80, SECONDS + 1):
        end = reader.latestOffset(begin)
        slices = reader.partitions(begin, end)
        seen += sorted(n for each in slices for batch in reader.read(each) for n in batch["n"].to_pylist())
        begin = end
        assert seen == list(range(rows))


def test_an_empty_file_does_not_put_the_beginning_into_1970(spark: SparkSession, folder: Path) -> None:
    spark.range(0).selectExpr("timestamp_seconds(id) AS ts", "id AS n").write.mode("append").parquet(str(folder))
    spark.sql("SELECT timestamp(null) AS ts, 0L AS n").write.mode("append").parquet(str(folder))
    engine = ab.Engine(spark)
    engine.stream("s", ab.replay(spark, folder, timestamp="ts", speed=1000), timestamp="ts")
    engine.query("Select n From s", "all").start()
    arrived(engine, SECONDS + 1)
    engine.stop()


@pytest.mark.full(reason="restarts of engines are in every tier, at a quicker pace")
@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="older versions do not tell a source where it stood")
def test_a_replay_goes_on_where_it_stood(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    for speed, rows in ((20, 1), (1000, SECONDS + 1)):
        engine = ab.Engine(spark, tmp_path / "state")
        engine.execute(f"""
            Create Stream s (ts Timestamp, n Long) From 'replay' With (path = '{folder}', speed = {speed}) Timestamp ts;
            Create Query total As Select Count(*) As rows, Sum(n) As total From s [Rows Unbounded];
        """)
        query = engine.queries["total"].start()
        arrived(engine, rows)
        query.await_idle()
        engine.stop()
    # The last instant is complete only when a later row shows.
    assert [tuple(row) for row in query.current().collect()] == [(SECONDS, sum(range(SECONDS)))]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"speed": 0}, "at speed"), ({"timestamp": "when"}, "no column 'when'"), ({"format": "xml"}, "not possible")],
)
def test_what_cannot_be_replayed_says_why(
    spark: SparkSession, folder: Path, options: dict[str, Any], message: str
) -> None:
    def run() -> None:
        rows = ab.replay(spark, folder, **({"timestamp": "ts"} | options))
        rows.writeStream.format("noop").start().awaitTermination()

    with pytest.raises(Exception, match=message):
        run()


def test_a_folder_that_is_not_there_says_so(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="cannot be replayed"):
        ab.replay(spark, tmp_path / "nothing", timestamp="ts")
