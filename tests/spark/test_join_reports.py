"""What the engine tells of joins: reports, explained plans, SysStream, and plans that answer alike."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.events import CacheAdded

TEXT = """Select a.v As x, b.v As y, c.v As z From a [Range 20 Seconds], b [Range 20 Seconds], c [Range 20 Seconds]
          Where a.k = b.k And b.k = c.k And a.v < c.v"""

pytestmark = pytest.mark.spark


def stream(spark: SparkSession, keys: int) -> DataFrame:
    return spark.range(300).selectExpr("id AS seq", "timestamp_seconds(id) AS ts", f"id % {keys} AS k", "id AS v")


def engine(spark: SparkSession) -> ab.Engine:
    made = ab.Engine(spark, cells=2)
    for name, keys in (("a", 7), ("b", 5), ("c", 11)):
        made.stream(name, stream(spark, keys), timestamp="ts", sequence="seq")
    return made


def test_plans_answer_alike_and_tell_what_they_did(spark: SparkSession) -> None:
    made = engine(spark)
    queries = [made.query(TEXT, name=f"by_{plan}", join=plan) for plan in ("auto", "fixed", "xjoin")]
    answers = made.run_batch()
    bags = [Counter(tuple(row) for row in answers[query.name].collect()) for query in queries]
    assert bags[0] == bags[1] == bags[2]
    assert bags[0]
    auto, fixed, tree = (query.report() for query in queries)
    assert [each.input for each in auto.pipelines] == ["a", "b", "c"]
    assert all(each.seen == 300 and len(each.order) == 2 for each in auto.pipelines)
    assert [each.order for each in fixed.pipelines] == [("b", "c"), ("a", "c"), ("a", "b")]
    assert {each.reason for each in fixed.pipelines} == {"the order as written"}
    assert not tree.pipelines
    assert "rows of a probe" in queries[0].explain()


def test_products_are_warned_of(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    made, text = engine(spark), "Select a.v As x, b.v As y From a [Now], b [Now]"
    with caplog.at_level("WARNING", logger="anabranch"):
        made.query(f"{text} Where a.k < b.k", name="compared")
        assert not caplog.records
        made.query(text, name="all")
    assert "query all joins a and b: every row" in caplog.text


def test_an_unknown_plan_is_refused(spark: SparkSession) -> None:
    with pytest.raises(QueryError, match="unknown plan of joins 'fixd'"):
        engine(spark).query(TEXT, name="q", join="fixd")  # type: ignore[arg-type]


SKEWED = """Select Istream(r.v As x, s.v As y, t.v As z) From t [Range 100 Seconds], s [Range 100 Seconds], r [Now]
            Where r.a = s.a And s.b = t.b"""


def skewed(spark: SparkSession, cache_memory: int | str) -> tuple[ab.Engine, ab.ContinuousQuery]:
    """Rows of r have many partners in s, few of which have one in t; r is served last, and its keys come again."""
    made = ab.Engine(spark, cells=1, cache_memory=cache_memory)
    size = {"t": (100, "id * 40 AS b"), "s": (2_000, "id % 20 AS a, id AS b"), "r": (60_000, "id % 20 AS a")}
    for name, (rows, columns) in size.items():
        when = f"timestamp_micros(id * {100_000_000 // rows}) AS ts"
        frame = spark.range(rows).selectExpr("id AS seq", when, *columns.split(", "), "id AS v")
        made.stream(name, frame, timestamp="ts", sequence="seq")
    return made, made.query(SKEWED, name="q")


def test_caches_are_told_of_and_change_no_answer(spark: SparkSession) -> None:
    answers = []
    for cache_memory in (0, "4 kB", "64 MB"):
        made, query = skewed(spark, cache_memory)
        answers.append(Counter(tuple(row) for row in made.run_batch()["q"].collect()))
        report = query.report()
    assert answers[0]
    assert answers[0] == answers[1] == answers[2]
    (cache,) = report.caches
    assert (cache.input, set(cache.windows)) == ("r", {"s", "t"})
    assert 0 < cache.hits < cache.probes
    assert cache.nbytes > 0
    assert "kept for rows of r: s with t" in query.explain()
    (added,) = (event for event in made.events() if isinstance(event, CacheAdded))
    assert (added.query, added.input, added.cell) == ("q", "r", 0)


def test_a_cache_memory_that_is_no_size_is_refused(spark: SparkSession) -> None:
    with pytest.raises(QueryError, match="cache_memory is 'lots'"):
        ab.Engine(spark, cache_memory="lots")
