"""Values that functions get and return, against Spark's own UDFs of the same functions."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import ArrayType, StructType

import anabranch as ab
from anabranch.errors import QueryError
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ZONES = ("UTC", "Asia/Tokyo")
as_udf: Any = pandas_udf  # its overloads do not know of type hints that are set later
TIME = "timestamp'2024-01-01 10:00:00'"
GIVEN = {
    "number": "cast(id as int)",
    "time": TIME,
    "map": "map('a', id)",
    "map_of_times": f"map('a', {TIME}, 'b', null)",
    "map_by_time": f"map({TIME}, array({TIME}))",
    "array": "array(id, null)",
    "array_of_times": f"array({TIME}, null)",
    "array_of_local_times": "array(timestamp_ntz'2024-01-01 10:00:00')",
    "array_of_maps": f"array(map('a', {TIME}))",
    "array_of_arrays": f"array(array({TIME}))",
    "array_of_structs": f"array(named_struct('t', {TIME}))",
    "array_of_variants": "array(parse_json('[1]'))",
    "variant": "parse_json('{\"a\": 1}')",
    "struct": f"named_struct('t', {TIME}, 'n', id, 'v', parse_json('1'))",
    "struct_with_text": f"named_struct('s', 'x', 'n', nullif(id, 2), 't', {TIME})",
    "deep_struct": f"named_struct('s', named_struct('t', {TIME}, 'm', map('a', {TIME})), 'm', map(1, 2))",
}


@pytest.fixture
def given(spark: SparkSession) -> DataFrame:
    """Three rows, all in one batch, the second with NULLs."""
    columns = [f"if(id = 1, null, {sql}) as {name}" for name, sql in GIVEN.items()]
    return spark.range(0, 3, 1, 1).selectExpr("id", *columns)


def described(column: Any) -> Any:
    """What a function is given, as one text per row."""
    parts = [column[name] for name in column] if isinstance(column, pd.DataFrame) else [column]
    kinds = [f"{part.name if len(parts) > 1 else ''} {part.dtype}" for part in parts]
    rows = zip(*([f"{type(v).__name__} {v!r}" for v in part] for part in parts), strict=True)
    return pd.Series([f"{type(column).__name__} {kinds} {row}" for row in rows])


def of_columns(function: Callable[[Any], Any], kind: Any = pd.Series) -> Callable[[Any], Any]:
    """A pandas function of one column, with the type hints that Spark asks for."""

    def typed(column: Any) -> Any:
        return function(column)

    typed.__annotations__ = {"column": kind, "return": pd.Series}
    return typed


@pytest.mark.parametrize("zone", ZONES)
def test_pandas_predicates_get_what_pandas_udfs_get(given: DataFrame, settings_of: Any, zone: str) -> None:
    with settings_of(spark__sql__session__timeZone=zone):
        frames = {f.name for f in given.schema if isinstance(f.dataType, StructType)}
        functions = {n: of_columns(described, pd.DataFrame if n in frames else pd.Series) for n in GIVEN}
        theirs = given.select(*(as_udf(f, "string")(n).alias(n) for n, f in functions.items())).collect()
        predicates = [
            ab.predicate(f, n, name=n, returns="string", keep=f"kept_{n}", test=lambda texts: texts.notna())
            for n, f in functions.items()
        ]
        ours = ab.where(given, *predicates, policy="fixed").select(*(f"kept_{n}" for n in GIVEN)).collect()
    for at, name in enumerate(GIVEN):
        assert [row[at] for row in ours] == [row[at] for row in theirs], name


@pytest.mark.parametrize("zone", tiers(ZONES[::-1], fast=1))
def test_kept_columns_are_given_as_those_of_the_input(given: DataFrame, settings_of: Any, zone: str) -> None:
    kinds = {"array_of_times": "array<timestamp>", "struct": given.schema["struct"].dataType, "variant": "variant"}
    with settings_of(spark__sql__session__timeZone=zone):
        for name, kind in kinds.items():
            hint = pd.DataFrame if name == "struct" else pd.Series
            keeper = ab.predicate(
                of_columns(lambda c: c, hint), name, name="keep", returns=kind, keep="k", test=all_true
            )
            reading: dict[str, Any] = {"returns": "string", "test": all_true}
            readers = [
                ab.predicate(of_columns(described, hint), read, name=read, keep=f"of_{read}", **reading)
                for read in (name, "k")
            ]
            for row in ab.where(given.where("id != 1"), keeper, *readers, policy="fixed").collect():
                assert row[f"of_{name}"] == row["of_k"]
                assert repr(row[name]) == repr(row["k"])


def all_true(column: Any) -> Any:
    return pd.Series([True] * len(column))


RETURNED: list[tuple[str, Callable[[Any], Any]]] = [
    ("array<timestamp>", lambda c: pd.Series([[pd.Timestamp("2024-01-01 10:00"), None, pd.NaT]] * len(c))),
    ("map<string, timestamp>", lambda c: pd.Series([{"a": pd.Timestamp("2024-01-01 10:00")}] * len(c))),
    ("timestamp", lambda c: pd.Series([pd.Timestamp("2024-01-01 10:00")] * len(c))),
    (
        "struct<t: timestamp, n: bigint, s: struct<t: timestamp>>",
        lambda c: pd.DataFrame({"n": c, "t": pd.Timestamp("2024-01-01 10:00"), "s": [{"t": pd.Timestamp(0)}] * len(c)}),
    ),
    ("boolean", lambda c: pd.Series([np.nan] * len(c))),
    ("boolean", lambda c: pd.Series([True, np.nan, False])),
]


@pytest.mark.parametrize("zone", tiers(ZONES[::-1], fast=1))
def test_pandas_predicates_may_return_what_pandas_udfs_may(given: DataFrame, settings_of: Any, zone: str) -> None:
    numbers = given.select("id")
    with settings_of(spark__sql__session__timeZone=zone):
        udfs = [as_udf(of_columns(f), kind)("id") for kind, f in RETURNED]
        theirs = numbers.select(*(u.cast("string").alias(f"k{i}") for i, u in enumerate(udfs))).collect()
        for i, (kind, function) in enumerate(RETURNED):
            keeper = ab.predicate(of_columns(function), "id", name="it", returns=kind, keep="k", test=all_true)
            out = ab.where(numbers, keeper).select(F.col("k").cast("string")).collect()
            assert [r.k for r in out] == [row[i] for row in theirs if row[i] is not None], kind


def test_scalar_predicates_may_return_variants_and_decimals_as_udfs_may(given: DataFrame) -> None:
    def score(number: int) -> Decimal:
        return Decimal("1.005") + number

    udf = F.udf(score, "decimal(10, 2)", useArrow=True)
    theirs = given.select(udf("id").alias("score"), F.col("variant").cast("string").alias("text")).collect()
    ours = ab.where(
        given,
        ab.predicate(score, "id", returns="decimal(10, 2)", keep="score", test=lambda v: True),
        ab.predicate(lambda v: v, "variant", name="same", returns="variant", keep="copy", test=lambda v: v is not None),
        ab.predicate(lambda v: v.toPython() == {"a": 1}, "copy", name="reads it"),
    ).select("score", F.col("copy").cast("string").alias("text"))
    assert ours.collect() == [row for row in theirs if row.text is not None]


def test_maps_are_dicts_and_times_local_whatever_the_order(given: DataFrame, settings_of: Any) -> None:
    def has(maps: pd.Series) -> pd.Series:
        return maps.map(lambda found: found is not None and "a" in found)

    def at_ten(times: pd.Series) -> pd.Series:
        return times.map(lambda found: found is not None and found[0].hour == 19)

    def sorts(numbers: list[int]) -> bool:
        numbers.sort(reverse=True)
        return True

    lists = given.select("*", F.expr("array(1, 2)").alias("list"))
    with settings_of(spark__sql__session__timeZone="Asia/Tokyo"):
        out = ab.where(
            lists,
            ab.predicate(has, "map"),
            ab.predicate(at_ten, "array_of_times"),
            ab.predicate(sorts, "list"),
            ab.predicate(lambda numbers: numbers[0] == 1, "list", name="smallest first"),
        )
        assert sorted(r.id for r in out.select("id").collect()) == [0, 2]


def test_udfs_that_are_not_for_rows_and_types_of_users_are_refused(spark: SparkSession) -> None:
    def mean(column: pd.Series) -> float:
        return float(column.mean())

    with pytest.raises(QueryError, match="'mean' is a UDF of groups, tables or windows, not of rows"):
        ab.predicate(as_udf(mean, "double"), "id", test=lambda v: True)
    for kind in (VectorUDT(), ArrayType(VectorUDT()), StructType().add("vector", VectorUDT())):
        with pytest.raises(QueryError, match="a user-defined type"):
            ab.predicate(lambda v: v, "id", name="it", returns=kind, test=lambda v: True)
