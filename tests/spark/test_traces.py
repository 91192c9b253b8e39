"""Traced rows and compared plans through Spark: nothing unless asked for, and the same rows and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import anabranch as ab
from anabranch.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = 20_000


def third(number: int) -> bool:
    return number % 3 == 0


def sums(number: int) -> bool:
    return sum(range(50)) + number > 5_000


def made(policy: str = "fixed") -> ab.Filter:
    return ab.Filter(ab.predicate(third, "id", name="third"), ab.predicate(sums, "id", name="sums"), policy=policy)


def counts(of: ab.Filter) -> list[Any]:
    return [(p.predicate, p.seen, p.passed, p.dropped, p.errors, p.calls) for p in of.report().predicates]


def test_rows_and_counts_are_the_same_with_and_without_traces(spark: SparkSession) -> None:
    numbers, plain, traced = spark.range(0, ROWS, 1, 2), made(), made()
    traced.trace(0.01)
    rows = [sorted(row.id for row in f.apply(numbers).collect()) for f in (plain, traced)]
    assert rows[0] == rows[1] == [n for n in range(ROWS) if n % 3 == 0 and n > 3_775]
    assert counts(plain) == counts(traced)
    assert plain.traces() == ()
    assert 10 <= len(traced.traces()) <= 40
    for row in traced.traces():
        number = int(dict(row.values)["id"])
        assert [call.predicate for call in row.calls] == (["third", "sums"] if number % 3 == 0 else ["third"])
        assert row.passed == (number % 3 == 0 and number > 3_775)
        assert {call.profiling for call in row.calls} == {False}
    traced.trace(0)
    before = traced.traces()
    traced.apply(numbers).count()
    assert traced.traces() == before


@pytest.mark.parametrize("policy", ["fixed", "auto"])
def test_a_rival_judges_a_third_of_the_rows_and_every_row_once(spark: SparkSession, policy: str) -> None:
    f, numbers = made(policy), spark.range(0, 4 * ROWS, 1, 2)
    f.compare(order=["sums", "third"])
    found = sorted(row.id for row in f.apply(numbers).collect())
    assert found == [n for n in range(4 * ROWS) if n % 3 == 0 and n > 3_775]
    comparison = f.comparison()
    assert comparison is not None
    assert comparison.blocks > 0
    assert 0 < comparison.rows < 2 * ROWS
    assert f.report().rows == 4 * ROWS
    assert sum(each.seen or 0 for each in f.report().predicates) > 4 * ROWS
    f.compare(None)
    assert f.comparison() is None


def test_an_order_is_pinned(spark: SparkSession) -> None:
    f = made()
    f.use("fixed", order=["sums"])
    assert f.order == ("sums",)
    f.apply(spark.range(1_000)).count()
    assert f.report().order == ("sums", "third")
    assert {p.predicate: p.seen for p in f.report().predicates} == {"sums": 1_000, "third": 0}
    f.use("auto")
    assert f.order is None


def test_what_cannot_be_is_refused() -> None:
    f = made()
    with pytest.raises(QueryError, match="there is no predicate 'thrid'"):
        f.use("fixed", order=["thrid"])
    with pytest.raises(QueryError, match="pinned as a list"):
        f.use("auto", order=["third"])
    with pytest.raises(QueryError, match="every predicate once"):
        f.compare(order=["third", "third"])
    with pytest.raises(QueryError, match="share is 2"):
        f.trace(2)


def test_values_are_those_that_predicates_read_also_where_they_compute_others(spark: SparkSession) -> None:
    half = ab.predicate(lambda n: n / 2, "id", name="half", returns="double", keep="half", test=lambda h: h % 3 == 0)
    f = ab.Filter(ab.predicate(third, "id", name="third"), half, policy="fixed")
    f.trace(0.01)
    assert f.apply(spark.range(0, ROWS, 1, 2)).count() == len(range(0, ROWS, 6))
    assert f.traces()
    assert all([name for name, _ in row.values] == ["id"] for row in f.traces())
