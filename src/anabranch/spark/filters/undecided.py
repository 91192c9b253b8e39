"""Rows on which a predicate failed, on their way to the last stage.

An error counts only where no other predicate rejects the row, so that it cannot be raised before the last of them has
been asked. Where stages follow, the row goes on with the error in a hidden column, and later stages judge it like any
other row. What is left behind the last stage is raised, or set aside. See decision record 003.

Two kinds of native predicates are not asked about such a row, and are taken to hold: one that reads a kept column which
could not be computed, and one that may fail itself, as its error could neither be excused nor set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from anabranch.model.predicates import FilterStage, NativePredicate, Predicate
from anabranch.spark.filters.task_spec import ErrorRules

PREDICATE_COLUMN, ERROR_COLUMN = "_predicate", "_error"
ERROR_TYPE = StructType(
    [
        StructField("lacking", ArrayType(StringType())),
        StructField("place", IntegerType()),
        StructField(PREDICATE_COLUMN, StringType()),
        StructField(ERROR_COLUMN, StringType()),
        StructField("text", StringType()),
    ]
)
"""Kept columns that have no value; the failing predicate's place as written, its name, what it said, the text to raise.

Of a row that failed in an earlier stage, a later one may tell of columns alone. A row that was not asked, as the budget
was spent, has no text to raise.
"""


def can_excuse(p: Predicate) -> bool:
    """Whether a predicate is asked about rows on which another one has failed."""
    return not _may_fail_in_spark(p)


def error_rules(
    errors: str | None,
    kept: Sequence[str],
    members: Sequence[Predicate],
    predicates: Sequence[Predicate],
    later: Iterable[FilterStage],
) -> ErrorRules:
    """What becomes of such rows in a stage, given the columns that earlier stages keep, and the later stages."""
    return ErrorRules(
        errors,
        lacking=tuple(dict.fromkeys(name for p in members for name in p.reads if name in kept)),
        unasked=tuple(predicates[i].name for stage in later for i in stage.members if not can_excuse(predicates[i])),
    )


def lacks(errors: str, kept: str) -> Column:
    """Whether a kept column could not be computed."""
    return F.coalesce(F.array_contains(F.col(errors)["lacking"], kept), F.lit(False))


def excusing(p: NativePredicate, errors: str, kept: Iterable[str]) -> Column:
    """What a predicate in Spark says about a row that may have an error."""
    if _may_fail_in_spark(p):
        return F.when(F.col(errors).isNotNull(), True).otherwise(p.column)
    lacking = [lacks(errors, name) for name in kept if name in p.reads]
    return F.when(reduce(or_, lacking), True).otherwise(p.column) if lacking else p.column


def noted(df: DataFrame, errors: str, found: str) -> DataFrame:
    """The errors that a stage found join those of earlier stages; of two on a row, the first as written counts."""
    if errors not in df.columns:
        return df.withColumnRenamed(found, errors)
    old, new = F.col(errors), F.col(found)
    first = F.when(new["place"] < old["place"], new).otherwise(old)
    lacking = F.array_union(old["lacking"], new["lacking"])
    both = F.struct(lacking.alias("lacking"), *(first[f.name].alias(f.name) for f in ERROR_TYPE.fields[1:]))
    return df.withColumn(errors, F.when(new.isNull(), old).when(old.isNull(), new).otherwise(both)).drop(found)


def without_errors(df: DataFrame, errors: str) -> DataFrame:
    """The rows on which nothing failed."""
    return df.where(F.col(errors).isNull()).drop(errors)


def raised(df: DataFrame, errors: str) -> DataFrame:
    """All rows but those that were not asked; one with an error ends the job."""
    error = F.col(errors)
    failing = F.raise_error(error["text"]).cast("boolean")
    return df.where(F.when(_to_tell(errors), failing).otherwise(error.isNull())).drop(errors)


def set_aside(df: DataFrame, errors: str, kept: Sequence[str]) -> DataFrame:
    """The rows on which something failed, with the name of the predicate and what it said."""
    added = {name: F.col(errors)[name] for name in (PREDICATE_COLUMN, ERROR_COLUMN)}
    return df.where(_to_tell(errors)).withColumns(added).drop(errors, *kept)


def not_asked(df: DataFrame, errors: str, kept: Sequence[str]) -> DataFrame:
    """The rows about which a predicate could not be asked, as they came."""
    return df.where(F.col(errors).isNotNull() & F.col(errors)["text"].isNull()).drop(errors, *kept)


def _to_tell(errors: str) -> Column:
    """Whether a row has an error; where there is none, some servers have texts in it all the same."""
    return F.col(errors).isNotNull() & F.col(errors)["text"].isNotNull()


def _may_fail_in_spark(p: Predicate) -> bool:
    return isinstance(p, NativePredicate) and p.kind == "fallible"
