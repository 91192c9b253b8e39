"""Columns that stay what they were: Spark knows a column by a number, not by its name.

`df.id`, `F.col("alias.id")` and `drop(df.id)` mean a column of `df` behind a filter, too. What `mapInArrow` returns has
columns with new numbers and no alias; here they get those of the columns that they were made from. Where the input
itself comes from `mapInArrow`, with the same columns, Spark gives them new numbers all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.column import _to_seq


def with_identities_of(df: DataFrame, mapped: DataFrame, names: Sequence[str]) -> DataFrame:
    """What `mapInArrow` returns, its first columns as the columns of another DataFrame, and all under other names."""
    spark = df.sparkSession
    jvm, node = spark._jvm, _analyzed(mapped)
    assert jvm is not None
    known = _columns(_analyzed(df))
    new = [column.withName(name) for column, name in zip(_columns(node), names, strict=True)]
    output = _to_seq(spark.sparkContext, [*known, *new[len(known) :]])
    plan = jvm.org.apache.spark.sql.catalyst.plans.logical.MapInArrow(
        node.functionExpr(), output, node.child(), node.isBarrier(), node.profile()
    )
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def _analyzed(df: DataFrame) -> Any:
    return df._jdf.queryExecution().analyzed()


def _columns(plan: Any) -> list[Any]:
    output = plan.output()
    return [output.apply(at) for at in range(output.size())]
