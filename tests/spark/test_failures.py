"""Queries that fail in a bounded run: alone, by name, in a few words."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from rich.console import Console

import anabranch as ab
from anabranch.cli.run import run
from anabranch.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST_MESSAGE = 1000


def reciprocal(value: int) -> int:
    return 1 // value


def unreadable(value: int) -> int:
    raise OSError("the stream is cut")


def test_a_bounded_run_gives_the_answers_of_all_queries_that_do_not_fail(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = spark.range(6).selectExpr("timestamp_seconds(id) AS ts", "id AS k", "'x' || id AS s")
    engine = ab.Engine(spark, cells=1)
    engine.stream("s", rows, timestamp="ts")
    engine.stream("cut", rows.withColumn("k", F.udf(unreadable, "long")("k")), timestamp="ts")
    engine.function("reciprocal", reciprocal, "long")
    failing = {
        "divided": "Select 10 / k As x From s [Range 2 Seconds]",
        "converted": "Select Cast(s As Int) As x From s",
        "called": "Select reciprocal(k) As x From s [Rows 2]",
        "cut_off": "Select Count(k) As n From cut [Rows 2]",
    }
    for name, text in failing.items():
        engine.query(text, name)
    engine.query("Select Count(*) As n From s [Rows 3]", "good").use_sink("parquet", path=tmp_path / "good")
    engine.query("Select k From s Where k > 2", "passed")
    with caplog.at_level(logging.WARNING), pytest.raises(ab.QueriesFailed) as caught:
        engine.run_batch()

    failed = caught.value
    assert set(failed.failures) == set(failing)
    assert set(failed.answers) == {"good", "passed"}
    assert sorted(row["k"] for row in failed.answers["passed"].collect()) == [3, 4, 5]
    assert [row["n"] for row in engine.queries["good"].current().collect()] == [3]
    assert spark.read.parquet(str(tmp_path / "good")).count() == engine.queries["good"].to_dataframe().count() > 0
    lines = str(failed).splitlines()
    assert lines[0] == "4 of 6 queries failed"
    assert "\n  divided: [DIVIDE_BY_ZERO] Division by zero" in str(failed)
    assert "\n  converted: [CAST_INVALID_INPUT] The value 'x" in str(failed)
    assert "\n  called: a function raised ZeroDivisionError: " in str(failed)
    assert "(test_failures.py, line " in str(failed)
    assert "\n  cut_off: stream 'cut' failed: a function raised OSError: the stream is cut" in str(failed)
    assert len(lines) == 2 + len(failing), "a line each, and a hint"
    assert "quarantine" not in str(failed), "which is for filters"
    for name, error in failed.failures.items():
        assert isinstance(error, DataError)
        assert len(str(error)) < LONGEST_MESSAGE
        assert "quarantine" not in str(error)
        assert error.__cause__ is not None, "all that Spark says is still there"
        assert engine.queries[name].status == "failed"
        assert str(error.what) in engine.describe("queries")
    assert engine.queries["good"].status == "ended"
    assert all(len(record.getMessage()) < LONGEST_MESSAGE for record in caplog.records)
    assert "stacktrace" not in capfd.readouterr().err


def test_sparks_own_log_leaves_failures_to_those_who_wait_for_them(spark: SparkSession) -> None:
    assert spark._jvm is not None
    logs = spark._jvm.org.apache.logging.log4j.LogManager
    for name in ("executor.Executor", "scheduler.TaskSetManager"):
        assert not logs.getLogger(f"org.apache.spark.{name}").isErrorEnabled()
    assert logs.getLogger("org.apache.spark.SparkContext").isErrorEnabled()


def test_a_file_that_is_run_to_its_end_shows_what_did_not_fail(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spark.range(3).selectExpr("timestamp_seconds(id) AS ts", "id AS k").write.parquet(str(tmp_path / "in"))
    file = tmp_path / "queries.cql"
    file.write_text(
        f"""Create Stream s (ts Timestamp, k Long) From 'parquet' With (path = '{tmp_path / "in"}') Timestamp ts;
            Create Query wrong As Select 1 / k As x From s;
            Create Query right_one As Select k + 40 As x From s;"""
    )
    said = io.StringIO()
    assert run(file, tmp_path / "state", Console(file=said, width=200), batch=True) == 3
    assert "wrong failed: [DIVIDE_BY_ZERO]" in said.getvalue()
    assert "|42 " in capfd.readouterr().out
