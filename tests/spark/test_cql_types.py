"""Types that do not fit are found when a query is registered, and shown in its text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import anabranch as ab
from anabranch.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> ab.Engine:
    columns = "id k, string(id) s, id > 1 b, array(id) l, map('x', id) m, 1.5D d, date '2026-01-01' day"
    rows = spark.sql(f"SELECT timestamp_seconds(id) ts, {columns} FROM range(3)")
    made = ab.Engine(spark)
    made.stream("a", rows, timestamp="ts")
    made.relation("r", rows)
    return made


def refusal(engine: ab.Engine, text: str) -> str:
    with pytest.raises(QueryError) as caught:
        engine.query(text, name="q")
    return str(caught.value)


@pytest.mark.parametrize(
    "condition",
    [
        "«s = k»",
        "«s <> k»",
        "«s < k»",
        "«s <=> k»",
        "Not (d > 1 And «s >= k»)",
        "«s In (1, k»)",
        "«s Between k And k»",
        "Case When «b Then s Else k» End = 'x'",
        "Case «s When k» Then 1 End = 1",
        "«coalesce(s, k») = 'x'",
        "«nvl2(b, s, k») = 'x'",
        "If(«b, s, k») = 'x'",
        "«s + k» > 3",
    ],
)
def test_a_text_and_a_number_do_not_meet(engine: ab.Engine, condition: str) -> None:
    marked = f"Select k From a Where {condition}"
    text = re.sub("[«»]", "", marked)
    shown = refusal(engine, text)
    assert re.match(r"(string and bigint|bigint and string|string and int) have no common type at line 1", shown)
    assert marked.index("«") + 1 == int(re.search(r"column (\d+)", shown).group(1)), shown  # type: ignore[union-attr]
    assert "hint: cast one of them, as in Cast(k As String)" in shown


@pytest.mark.parametrize(
    "text",
    [
        "Select x.k From a x, r y Where x.s = y.k",
        "Select x.k From a x Join r y On x.s > y.k",
        "Select k From a Where s In (Select k From r)",
        "Select s, Count(*) From a Group By s Having s = Count(*)",
        "Select Sum(k) Filter (Where s = k) From a",
        "Select s = k From a",
        "Select k From a Where s = (Select Max(k) From a)",
        "Select s From a Union All Select k From a",
        "Select s From a [Rows 2] Except Select k From a [Rows 2]",
    ],
)
def test_they_do_not_meet_anywhere(engine: ab.Engine, text: str) -> None:
    assert "have no common type at line 1" in refusal(engine, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Select k From a Where k = 'abc'", "'abc' cannot be read as bigint at line 1, column 23"),
        ("Select k From a Where ts > 'soon'", "'soon' cannot be read as timestamp at line 1, column 23"),
        ("Select k From a Where b = 'maybe'", "'maybe' cannot be read as boolean at line 1, column 23"),
        ("Select k From a Where k", "a condition is needed, and this is a bigint at line 1, column 23"),
        ("Select upper(l) From a", "at line 1, column 8"),
        ("Select size(k) From a", "at line 1, column 8"),
        ("Select k From a Where k ILike l", "at line 1, column 23"),
        ("Select greatest(s, k) From a", "should all be the same type"),
        ("Select m, Count(*) From a Group By m", "column 'm' is a map, and maps do not compare"),
    ],
)
def test_what_spark_refuses_is_shown_in_the_users_names(engine: ab.Engine, text: str, message: str) -> None:
    shown = refusal(engine, text)
    assert message in shown
    assert not re.search(r"[a-z]_\d|pos \d|SQLSTATE|xxhash|\[[A-Z_]{4,}", shown)


@pytest.mark.parametrize(
    "condition",
    [
        "k = 3 And k = 3.5 And d > k And k In (1, 2.5) And k = '3' And s = '3' And coalesce(k, 0) > 1",
        "ts > '2026-01-01' And day < ts And day + 1 > day And ts - Interval 1 Day < ts",
        "s || k = '11' And Cast(k As String) = s And k = Cast(s As Long) And s Is Null And b = (k > 1)",
        "exists(l, x -> x = k) And l = array(1, 2) And Null = k And Case When b Then 1 Else 2.5 End > 1",
    ],
)
def test_what_fits_is_accepted(engine: ab.Engine, condition: str) -> None:
    engine.query(f"Select k From a Where {condition}", name="fits")
    engine.drop("fits")


@pytest.mark.parametrize("more", ["", " And x.k < y.k"])
def test_values_of_any_type_are_null_where_there_is_no_partner(spark: SparkSession, more: str) -> None:
    columns = "id k, array(id) l, named_struct('p', array(id), 'q', string(id)) st, cast('a' as binary) bytes"
    made = ab.Engine(spark)
    made.stream("a", spark.sql(f"SELECT timestamp_seconds(id) ts, {columns} FROM range(3)"), timestamp="ts")
    listed = "x.k, x.l, x.st, y.l As l2, y.st As st2, y.bytes"
    text = f"Select {listed} From a [Now] As x Left Join a [Now] As y On x.k = y.k{more}"
    made.query(f"Istream({text})", name="q")
    found = {row.k: row for row in made.run_batch()["q"].collect()}
    assert [(row.l, row.st.q) for _, row in sorted(found.items())] == [([0], "0"), ([1], "1"), ([2], "2")]
    assert [(row.l2, row.st2 and row.st2.q) for _, row in sorted(found.items())] == (
        [(None, None)] * 3 if more else [([0], "0"), ([1], "1"), ([2], "2")]
    )
