"""What the engine tells of joins: reports, explained plans, SysStream, and plans that answer alike."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.errors import QueryError

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


def test_an_unknown_plan_is_refused(spark: SparkSession) -> None:
    with pytest.raises(QueryError, match="unknown plan of joins 'fixd'"):
        engine(spark).query(TEXT, name="q", join="fixd")  # type: ignore[arg-type]
