"""A limit of memory in an engine: answers, restarts, what is told, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.events import MemoryExceeded

pytestmark = pytest.mark.spark

TEXT = (
    "Select Istream(calls.v As v, hosts.v As w) From calls [Range 1 Hour], hosts [Range 1 Hour] "
    "Where calls.id = hosts.id"
)
ROWS = 30_000
LIMIT = 2**20


def rows(spark: SparkSession, first: int, until: int) -> DataFrame:
    return spark.range(first, until).selectExpr(
        "id AS seq", "timestamp_millis(id * 10) AS ts", "id % 10000 AS id", "id AS v"
    )


@pytest.mark.full(reason="more state than the smallest limit")
def test_joins_keep_to_the_limit_and_answer_the_same(spark: SparkSession) -> None:
    made = ab.Engine(spark, cells=2, memory=LIMIT)
    for name in ("calls", "hosts"):
        made.stream(name, rows(spark, 0, ROWS), timestamp="ts", sequence="seq")
    made.query(TEXT, name="both")
    answers = made.run_batch()
    want = Counter((v, w) for v in range(ROWS) for w in range(v % 10_000, ROWS, 10_000))
    seen = Counter((row["v"], row["w"]) for row in answers["both"].collect())
    assert seen == want
    joins = [each for each in made._runner.reports.values() if each.goes_to_disk]
    assert sum(each.file_bytes for each in joins) > LIMIT
    assert sum(each.held_bytes for each in joins) <= LIMIT
    assert sum(each.peak_bytes for each in joins) <= 1.1 * LIMIT
    assert "the rows of calls (range 1 hour), hosts (range 1 hour)" in made.describe("memory")


@pytest.mark.full(reason="more state than the smallest limit")
def test_a_query_has_a_limit_of_its_own(spark: SparkSession) -> None:
    made = ab.Engine(spark, cells=2)
    for name in ("calls", "hosts"):
        made.stream(name, rows(spark, 0, ROWS), timestamp="ts", sequence="seq")
    made.execute(f"Create Query small With (memory = '1 MiB') As {TEXT}", bounded=True)
    made.query(TEXT.replace("As w", "As w, hosts.id"), name="large", share=False)
    answers = made.run_batch()
    assert answers["small"].count() == answers["large"].count() > ROWS
    nodes = {name: set(state.nodes.values()) for name, state in made._checkpoint.manifest.queries.items()}
    reports = made._runner.reports
    bytes_of = {
        name: [(e.held_bytes, e.file_bytes) for (node, _), e in reports.items() if node in own and e.goes_to_disk]
        for name, own in nodes.items()
    }
    held, on_disk = (sum(each) for each in zip(*bytes_of["small"], strict=True))
    assert held <= LIMIT < on_disk
    assert not any(each for _, each in bytes_of["large"])


def test_what_cannot_go_to_disk_is_told(spark: SparkSession) -> None:
    made = ab.Engine(spark, cells=2, memory=LIMIT)
    made.stream("calls", rows(spark, 0, ROWS), timestamp="ts", sequence="seq")
    made.query("Select id, Max(v) As v From calls [Rows Unbounded] Group By id", name="groups")
    answers = made.run_batch()
    assert answers["groups"].where("_op = '+'").count() >= 10_000
    (event,) = [each for each in made.events() if isinstance(each, MemoryExceeded)]
    assert (event.query, event.limit) == ("groups", LIMIT)
    assert event.bytes > LIMIT
    (line,) = [each for each in made.describe("memory").splitlines() if "groups, " in each]
    assert "a row per id" in line
    assert "with the keys" in line
    assert "give calls a window, as in [Range 1 Hour]" in line


@pytest.mark.full(reason="two engines, one after the other")
def test_after_a_restart_the_limit_holds_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    source, seen = tmp_path / "source", Counter[tuple[int, int]]()
    for run in range(2):
        rows(spark, run * ROWS // 2, (run + 1) * ROWS // 2).coalesce(1).write.mode("append").parquet(str(source))
        made = ab.Engine(spark, tmp_path / "checkpoint", cells=2, memory=LIMIT)
        schema = spark.read.parquet(str(source)).schema
        for name in ("calls", "hosts"):
            df = spark.readStream.schema(schema).parquet(str(source))
            made.stream(name, df, timestamp="ts", sequence="seq")
        query = made.query(TEXT, name="both")
        query.start()
        query.await_idle(timeout=120)
        joins = [each for each in made._runner.reports.values() if each.goes_to_disk]
        assert sum(each.held_bytes for each in joins) <= LIMIT
        assert run == 0 or sum(each.file_bytes for each in joins) > LIMIT
        made.stop()
    seen.update((row["v"], row["w"]) for row in query.to_dataframe().collect())
    last = ROWS - 1  # it is not answered before a later row comes
    want = Counter((v, w) for v in range(last) for w in range(v % 10_000, last, 10_000))
    assert seen == want


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("much", "memory is 'much'"),
        (0, "memory is 0\n  hint: give a limit of 1 MiB or more"),
        ("20 kB", "memory is '20 kB'"),
        (-1, "memory is -1"),
    ],
)
def test_bad_limits_are_refused(spark: SparkSession, memory: int | str, said: str) -> None:
    with pytest.raises(QueryError) as refused:
        ab.Engine(spark, memory=memory)
    assert str(refused.value).startswith(said)
    engine = ab.Engine(spark)
    engine.stream("calls", rows(spark, 0, 9), timestamp="ts")
    with pytest.raises(QueryError) as refused:
        engine.query("Select v From calls", "q", memory=memory)
    assert str(refused.value).startswith(said)
