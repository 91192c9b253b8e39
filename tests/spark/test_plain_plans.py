"""Where there is nothing to order, a filter is what Spark would have made of it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.clientserver import JavaClient
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.functions import pandas_udf

import anabranch as ab

pytestmark = pytest.mark.spark


def above(values: pd.Series) -> pd.Series:
    return values > 500


def above_in_arrow(values: pa.Array) -> pa.Array:
    return pc.greater(values, 500)


def above_each(value: int) -> bool:
    return value > 500


def in_spark() -> Callable[[str], Column]:
    make: Any = pandas_udf
    made: Callable[[str], Column] = make(above, "boolean")
    return made


def nodes(df: DataFrame) -> list[str]:
    """Names of the physical operators, from the top."""
    plan = df._jdf.queryExecution().sparkPlan().toString()
    return [found[1] for line in plan.splitlines() if (found := re.match(r"[\s:+-]*([A-Za-z]+)", line))]


@pytest.mark.parametrize("function", [above, above_in_arrow, above_each])
def test_a_single_predicate_has_the_plan_of_plain_spark(spark: SparkSession, function: Callable[..., Any]) -> None:
    rows = spark.range(0, 1000, 1, 2)
    f = ab.Filter(ab.predicate(function, "id", name="above"))
    plain = rows.where(in_spark()("id"))
    assert nodes(f.apply(rows)) == nodes(plain) == ["Project", "Filter", "ArrowEvalPython", "Range"]
    assert f.apply(rows).count() == 499
    (counted,) = f.report().predicates
    assert (counted.seen, counted.passed, counted.calls, counted.errors) == (1000, 499, 1000, 0)


def test_several_predicates_are_one_condition_too(spark: SparkSession) -> None:
    rows = spark.range(0, 1000, 1, 2)
    f = ab.Filter(ab.predicate(above, "id", name="above"), ab.predicate(above_each, "id", name="each"))
    assert nodes(f.apply(rows)) == ["Project", "Filter", "ArrowEvalPython", "Range"]
    assert f.apply(rows).count() == 499


def test_a_filter_asks_java_little_more_than_a_function_of_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question takes a fraction of a millisecond, on small inputs the most of what a filter costs."""
    asked, own = [0], threading.get_ident()
    send = JavaClient.send_command

    def counted(client: JavaClient, *arguments: Any, **options: Any) -> Any:
        asked[0] += threading.get_ident() == own  # another thread says which objects of earlier tests are gone
        return send(client, *arguments, **options)

    def questions(make: Callable[[], DataFrame]) -> int:
        make()
        asked[0] = 0
        make()
        return asked[0]

    monkeypatch.setattr(JavaClient, "send_command", counted)
    rows = spark.range(0, 1000, 1, 2).selectExpr("id", *(f"id + {i} as c{i}" for i in range(8)))
    rows.schema  # noqa: B018 - asked for once
    plain = questions(lambda: rows.where(in_spark()("id")))
    ours = questions(lambda: ab.where(rows, ab.predicate(above, "id", name="above")))
    assert ours <= plain + 15, (ours, plain)
