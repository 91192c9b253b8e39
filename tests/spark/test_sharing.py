"""Queries that share: the same answers as alone, one operator where they are equal, one job for all."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import anabranch as ab
from anabranch import storage
from anabranch.engine.compaction import LOOK_TICKS
from anabranch.engine.network import sharing
from anabranch.engine.shared_nodes import shared_nodes
from seeds import daily_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "seq long, ts timestamp, sensor string, value double"
ROWS = [(i, ZERO + timedelta(seconds=i), f"s{i % 7}", float(i * 37 % 100)) for i in range(200)]
SOME = "readings [Range 30 Seconds]"
COUNT = "Select sensor, Count(*) As n From readings [Range 30 Seconds] Group By sensor"
TEXTS = {
    "count": COUNT,
    "again": "Select sensor, Count(*) As many From readings [Range 30 Seconds] Group By sensor",
    "high": "Select sensor, Max(value) As top From readings [Range 30 Seconds] Where value > 20 Group By sensor",
    "low": f"Select sensor, Max(value) As top From {SOME} Where value < 80 And value > 1 Group By sensor",
    "low too": f"Select sensor, Max(value) As t From {SOME} Where value > 1 And value < 80 Group By sensor",
    "all": "Select Count(*) As n, Avg(value) As mean From readings [Range 1 Minute Slide 10 Seconds]",
    "often": "Select sensor, Count(*) As n From readings [Range 30 Seconds] Group By sensor Having Count(*) > 4",
    "more often": "Select sensor, Count(*) As n From readings [Range 30 Seconds] Group By sensor Having Count(*) > 3",
    "pairs": f"Select Istream(a.sensor, b.value) From {SOME} a, readings [Now] b Where a.value = b.value",
    "latest": "Select Rstream(sensor, value) From readings [Partition By sensor Rows 2] Where value > 50",
    "guarded": "Select sensor, Sum(100 / value) As s From readings [Range 20 Seconds] Where value <> 0 Group By sensor",
    "plain": "Select sensor, value From readings Where value > 50",
    "guarded plain": "Select sensor, 100 / value As share From readings Where value <> 0",
    "distinct": "Select Distinct sensor From readings [Range 3 Seconds]",
    "not in": f"Select sensor From readings [Now] Where sensor Not In (Select sensor From {SOME} Where value > 98)",
}


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    made = spark.createDataFrame(ROWS, SCHEMA).repartition(3).persist()
    made.count()
    return made


def engine(spark: SparkSession, frame: DataFrame) -> ab.Engine:
    made = ab.Engine(spark)
    made.stream("readings", frame, timestamp="ts", sequence="seq")
    return made


def bags(answers: dict[str, DataFrame]) -> dict[str, Counter[tuple[object, ...]]]:
    return {name: Counter(map(tuple, df.collect())) for name, df in answers.items()}


@pytest.fixture(scope="module")
def together(spark: SparkSession, frame: DataFrame) -> dict[str, Counter[tuple[object, ...]]]:
    made = engine(spark, frame)
    for name, text in TEXTS.items():
        made.query(text, name=name.replace(" ", "_"))
    return bags(made.run_batch())


def test_queries_answer_together_what_they_answer_alone(
    spark: SparkSession, frame: DataFrame, together: dict[str, Counter[tuple[object, ...]]]
) -> None:
    for name in random.Random(daily_seed()).sample(sorted(TEXTS), 2):
        alone = engine(spark, frame)
        alone.query(TEXTS[name], name="q", share=False)
        assert bags(alone.run_batch())["q"] == together[name.replace(" ", "_")], name


def test_equal_operators_are_one(spark: SparkSession, frame: DataFrame) -> None:
    made = engine(spark, frame)
    for name in ("count", "again", "low", "low too", "often", "more often"):
        made.query(TEXTS[name], name=name.replace(" ", "_"))
    made.query(COUNT, name="alone", share=False)
    answers = bags(made.run_batch())
    shared = {frozenset(names) for names in sharing(made._manifest).values()}
    # What they count they count once; Having is the last step, and each query's own.
    assert shared == {frozenset({"count", "again", "often", "more_often"}), frozenset({"low", "low_too"})}
    assert answers["count"] == answers["again"] == answers["alone"]
    [shown] = made.execute("Show Sharing")
    assert "count, again, often, more_often" in shown
    assert "alone" not in shown
    [nodes] = [each for each in shared_nodes(made._manifest, {}, made._runner.reports) if "count" in each.queries]
    assert nodes.rows > 0
    assert (nodes.saved_rows, nodes.saved_bytes) == (3 * nodes.rows, 3 * nodes.bytes)
    [explained] = made.execute("Explain often")
    assert f"is shared with count, again, more_often: {nodes.saved_rows:,} rows" in explained
    assert "runs groups 1 (layer 1) over stream readings, what leaves readings after 30 seconds" in explained


def test_the_last_step_is_each_query_s_own(spark: SparkSession, frame: DataFrame) -> None:
    join = "From readings [Range 9 Seconds] a, readings [Range 5 Seconds] b Where a.sensor = b.sensor"
    texts = {
        "pairs": f"Select a.sensor, a.value, b.seq {join}",
        "turned": f"Select b.seq As s, a.value, a.sensor {join}",
        "new": f"Select Istream(a.sensor, a.value, b.seq) {join}",
        "some": f"Select a.sensor, a.value + b.seq As x {join} And a.value + b.seq < 150",
        "many": "Select sensor, value From readings [Rows 50]",
        "few": "Select value, sensor From readings [Rows 20]",
        "sums": "Select sensor, Sum(value) As total From readings [Rows 7] Group By sensor",
    }
    made = engine(spark, frame)
    for name, text in texts.items():
        made.query(text, name=name)
    together = bags(made.run_batch())
    shared = {frozenset(names) for names in sharing(made._manifest).values()}
    assert shared == {frozenset({"pairs", "turned", "new", "some"}), frozenset({"many", "few", "sums"})}
    alone = engine(spark, frame)
    for name, text in texts.items():
        alone.query(text, name=name, share=False)
    assert bags(alone.run_batch()) == together
    assert not sharing(alone._manifest)


@pytest.mark.full(
    reason="three engines; without Spark: tests/core/test_operators_join.py and tests/cql/test_signatures.py"
)
def test_joins_over_shorter_windows_read_what_those_over_the_longest_hold(
    spark: SparkSession, frame: DataFrame
) -> None:
    """Rows are held once: the operator has as many bytes as it has for the query over the longest windows alone."""
    join = "From readings [Range {} Seconds] a, readings [Range 25 Seconds] b Where a.sensor = b.sensor"
    other = "(Select sensor From readings [Now] Where value > 90)"
    texts = {
        "long": f"Select a.sensor, a.value, b.seq {join.format(30)}",
        "half": f"Select Istream(a.value, a.sensor, b.seq) {join.format(15)}",
        "short": f"Select b.seq, a.sensor, a.value {join.format(2)} And a.value + b.seq < 200",
        "in_long": f"Select sensor, value From readings [Range 30 Seconds] Where sensor In {other}",
        "in_short": f"Select sensor, value From readings [Range 2 Seconds] Where sensor In {other}",
        "not_long": f"Select sensor, value From readings [Range 30 Seconds] Where sensor Not In {other}",
        "not_short": f"Select value, sensor From readings [Range 2 Seconds] Where sensor Not In {other}",
    }
    made, apart, longest = (engine(spark, frame) for _ in range(3))
    for name, text in texts.items():
        made.query(text, name=name)
        apart.query(text, name=name, share=False)
    longest.query(texts["long"], name="long")
    assert bags(made.run_batch()) == bags(apart.run_batch())
    shared = {node.queries: node for node in shared_nodes(made._manifest, {}, made._runner.reports)}
    assert {("long", "half", "short"), ("in_long", "in_short"), ("not_long", "not_short")} <= set(shared)
    longest.run_batch()
    [node] = longest._manifest.nodes
    alone = [each.base_bytes for (name, _), each in longest._runner.reports.items() if name == node]
    assert shared["long", "half", "short"].bytes == sum(alone) > 0


def test_joins_that_hand_on_different_columns_are_not_one(spark: SparkSession, frame: DataFrame) -> None:
    columns = frame.selectExpr("*", "seq % 2 As two", "seq % 5 As five")
    join = "readings [Range 9 Seconds] a, readings [Now] b Where a.value = b.value"
    texts = {
        f"{part}_{number}": f"Select a.{part}, Count(*) As n From {join} Group By a.{part}"
        for part in ("two", "five")
        for number in (1, 2)
    }
    made = engine(spark, columns)
    for name, text in texts.items():
        made.query(text, name=name)
    together = bags(made.run_batch())
    for name in ("two_1", "five_1"):
        alone = engine(spark, columns)
        alone.query(texts[name], name="q", share=False)
        assert together[name] == together[name.replace("1", "2")] == bags(alone.run_batch())["q"]
    used = {frozenset(names) for names in sharing(made._manifest).values()}
    assert used == {frozenset({"two_1", "two_2"}), frozenset({"five_1", "five_2"})}


def test_a_query_that_fails_fails_alone_among_those_that_it_shares_with(spark: SparkSession, frame: DataFrame) -> None:
    made = engine(spark, frame)
    made.query(COUNT, name="a")
    made.query(COUNT, name="b")
    made.query("Select sensor, Sum(1 / (value - 37)) As s From readings [Now] Group By sensor", name="broken")
    made.query("Select sensor, 1 / (value - 37) As s From readings", name="broken_too")
    made.query("Select sensor From readings Where value > 50", name="c")
    # What guards a condition stands before it. In the other order Spark may fail, but nobody fails with it.
    text = "Select sensor, Count(*) As n From readings [Now] Where {} And {} Group By sensor"
    conditions = ("value <> 37", "1 / (value - 37) < 3")
    made.query(text.format(*conditions), name="guarded")
    made.query(text.format(*reversed(conditions)), name="unguarded")
    with pytest.raises(ab.QueriesFailed) as failed:
        made.run_batch()
    assert set(failed.value.failures) - {"unguarded"} == {"broken", "broken_too"}
    assert set(failed.value.answers) - {"unguarded"} == {"a", "b", "c", "guarded"}
    assert bags(failed.value.answers)["a"] == bags(failed.value.answers)["b"]


def test_the_number_of_tasks_does_not_grow_with_that_of_queries(spark: SparkSession, frame: DataFrame) -> None:
    def tasks(count: int) -> int:
        made = engine(spark, frame)
        for number in range(count):
            where = f"Where value > {number} Group By sensor"
            made.query(f"Select sensor, Count(*) As n From readings [Range 30 Seconds] {where}", name=f"q{number}")
            made.query(f"Select sensor From readings Where value < {number}", name=f"p{number}")
        group = f"tasks of {count}"
        spark.sparkContext.setJobGroup(group, group)
        made.run_batch()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # which brings the tracker what has happened
        tracker = spark.sparkContext.statusTracker()
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        stages = filter(None, (tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds))
        # Of stages that were skipped nothing is done; in a long session the tracker soon forgets them.
        return sum(stage.numCompletedTasks for stage in stages)

    assert tasks(6) == tasks(3)
    assert tasks(24) == tasks(12), "from eight on, filters that differ in constants are answered as one"


def test_the_file_work_of_a_tick_does_not_grow_with_its_queries(spark: SparkSession, frame: DataFrame) -> None:
    def operations(count: int) -> tuple[Counter[str], int]:
        made = engine(spark, frame)
        for number in range(count):
            where = f"Where value > {number} Group By sensor"
            made.query(f"Select sensor, Count(*) As n From readings [Range 30 Seconds] {where}", name=f"q{number}")
            made.query(f"{COUNT} Having Count(*) < {10 + number}", name=f"h{number}")
            made.query(f"Select sensor From readings Where value > {number}", name=f"p{number}")
        seen, described = Counter[str](), made._folder / "queries"
        with storage.watching(
            lambda operation, path: seen.update([] if described in (path, *path.parents) else [operation])
        ):
            made._scheduler.run_to_the_end()
        assert all(query.to_dataframe().count() > 0 for query in made.queries.values())
        kinds = {path.parts[0] for path in (each.relative_to(made._folder) for each in storage.files(made._folder))}
        assert {"answers", "state"} <= kinds
        cells, files = made._manifest.cells, storage.files(made._folder / "answers")
        assert len(files) <= 3 * cells, "one for each task: of operators, of what follows them, and of filters"
        return seen, len(storage.files(made._folder / "state"))

    assert operations(5) == operations(2)


def test_a_query_that_stands_still_leaves_the_others_and_joins_them_again_and_may_be_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(first: int, last: int) -> None:
        spark.createDataFrame(ROWS[first:last], SCHEMA).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))

    def nodes() -> tuple[set[str], set[str]]:
        states = made._manifest.queries
        return set(states["a"].nodes.values()), set(states["b"].nodes.values())

    write(0, 50)
    made = ab.Engine(spark, checkpoint=tmp_path / "state")
    source = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    made.stream("readings", source, timestamp="ts", sequence="seq")
    a, b = (made.query(COUNT, name=name) for name in "ab")
    alone = made.query(COUNT, name="alone", share=False)
    told = "Select Istream(entity, property, value) From SysStream [Now] Where property Like 'saved %'"
    seen = made.query(told, name="seen")
    for query in (a, b, alone, seen):
        query.start()
    a.await_idle(300)
    b.await_idle(300)
    assert nodes()[0] == nodes()[1]
    [together] = nodes()[0]
    b.pause()
    write(50, 100)
    a.await_idle(300)
    assert nodes()[0] != nodes()[1]
    b.resume()
    write(100, 150)
    a.await_idle(300)
    b.await_idle(300)
    write(150, 180)
    a.await_idle(300)
    b.await_idle(300)
    assert nodes()[0] == nodes()[1]
    answers = bags({"a": a.to_dataframe(), "b": b.to_dataframe()})
    assert answers["a"] == answers["b"]
    made.drop("b")
    write(180, 200)
    a.await_idle(300)
    alone.await_idle(300)
    answers |= bags({"a, later": a.to_dataframe(), "alone": alone.to_dataframe()})
    made.stop()
    saved = {(row["entity"], row["property"]) for row in seen.to_dataframe().where("value > 0").collect()}
    assert {(f"groups {together}", "saved rows"), (f"groups {together}", "saved bytes")} <= saved
    assert answers["a"] < answers["a, later"] == answers["alone"]


def test_a_query_that_comes_back_with_another_share_keeps_its_state(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    text = "Select Count(*) As n, Max(value) As top From readings [Range 1 Minute]"  # all rows meet in one cell
    found: Counter[tuple[object, ...]] = Counter()
    for (first, last), share in {(0, 100): True, (100, 150): False, (150, 200): True}.items():
        part = spark.createDataFrame(ROWS[first:last], SCHEMA).coalesce(1)
        part.write.mode("append").parquet(str(tmp_path / "in"))
        made = ab.Engine(spark, checkpoint=tmp_path / "state", cells=4)
        source = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
        made.stream("readings", source, timestamp="ts", sequence="seq")
        query = made.query(text, name="q", share=share).start()
        query.await_idle(300)
        assert all(("-q" in node) != share for node in made._manifest.queries["q"].nodes.values())
        found = bags({"q": query.to_dataframe()})["q"]
        made.stop()
    alone = engine(spark, frame)
    alone.query(text, name="q")
    assert found <= bags(alone.run_batch())["q"]
    assert sum(found.values()) > 350


def test_a_tick_without_rows_does_the_same_file_work_for_any_number_of_queries(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(spark.createDataFrame(ROWS[:20], SCHEMA).toArrow(), tmp_path / "in" / "0.parquet")

    def operations(count: int) -> Counter[str]:
        made = ab.Engine(spark, checkpoint=tmp_path / f"state-{count}")
        source = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
        made.stream("readings", source, timestamp="ts", sequence="seq")
        queries = [made.query(f"{COUNT} Having Count(*) > {number}", name=f"q{number}") for number in range(count)]
        for query in queries:
            query.start(sink="parquet", path=str(tmp_path / f"out-{count}" / query.name))
        for query in queries:
            query.await_idle(300)
        for _ in range(LOOK_TICKS):  # all files have been looked at
            made._loop.want(lambda: None)
            made._loop.await_idle([], 300)
        seen, before = Counter[str](), made._manifest.tick
        with storage.watching(lambda operation, path: seen.update([operation])):
            for _ in range(LOOK_TICKS):
                made._loop.want(lambda: None)
                made._loop.await_idle([], 300)
        assert made._manifest.tick == before + LOOK_TICKS
        made.stop()
        assert all((tmp_path / f"out-{count}" / query.name).exists() for query in queries[:2])
        return seen

    few = operations(2)
    assert few["rename"] == LOOK_TICKS, "a record for each tick"
    assert operations(7) == few
