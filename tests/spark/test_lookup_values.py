"""What a look-up finds among values of other types, and what it refuses: as Spark's `isin`, or a clear error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.errors import QueryError, UnknownColumn
from anabranch.spark.filters import lookup as lookups
from anabranch.spark.filters.lookup import SessionRules, member_test
from anabranch.spark.filters.lookup_table import collect_values

NAN, INFINITE = float("nan"), float("inf")
NOON, MIDNIGHT = datetime(2024, 6, 1, 12), datetime(2024, 6, 1)  # noqa: DTZ001 - local times
TOKYO = timezone(timedelta(hours=9))

Matrix = tuple[pa.Table, dict[tuple[str, str], list[bool | None]]]


def found(values: Any, column: pa.Array, *, on: Any = None, rules: SessionRules | None = None) -> list[bool | None]:
    """What a worker answers for a column."""
    p, rules = ab.lookup("c", values, on=on), rules or SessionRules()
    answers: list[bool | None] = member_test(p, collect_values(p, rules), rules)(column).to_pylist()
    return answers


# Against Spark: every value of a pool in every type, in a set with every other one


def matrix(spark: SparkSession, pool: list[str], kinds: list[str]) -> Matrix:
    """Values of all types, and of each pair of types whether Spark finds each value (inner) in each set of one."""
    texts = spark.sql(f"select posexplode(split('{','.join(pool)}', ',')) as (at, v)")
    values = texts.select("at", *(F.expr(f"try_cast(v as {kind})").alias(kind) for kind in kinds)).localCheckpoint()
    sets = values.toDF("set", *(f"set {kind}" for kind in kinds))
    pairs = [(one, other) for one in kinds for other in kinds]
    asked = [F.expr(f"`{one}` in (`set {other}`)").alias(f"{one} {other}") for one, other in pairs]
    answers = (
        sets.crossJoin(values)
        .select("set", "at", *asked)
        .toArrow()
        .sort_by([("set", "ascending"), ("at", "ascending")])
    )
    return values.toArrow().sort_by("at"), {pair: answers.column(" ".join(pair)).to_pylist() for pair in pairs}


def disagreements(compared: Matrix, rules: SessionRules) -> list[str]:
    (table, wanted), wrong = compared, []
    for (one, other), answers in wanted.items():
        column, sets = table.column(one).combine_chunks(), table.column(other).combine_chunks()
        for at in range(len(sets)):
            if sets[at].is_valid:
                ours = found(sets.slice(at, 1), column, rules=rules)
                said = answers[at * len(column) : (at + 1) * len(column)]
                wrong += [
                    f"{column[i]} of {one} in {sets[at]} of {other}: {ours[i]}, in Spark {said[i]}"
                    for i in range(len(column))
                    if ours[i] != said[i]
                ]
    return wrong


NUMBERS = [
    *("0", "-0.0", "1", "0.1", "0.3", "-1.5", "2", "NaN", "Infinity", "1e12", "127", "16777216", "16777217"),
    *("9007199254740992", "9007199254740993", "9223372036854775807", "12345678901234567.1234", "12345678901234567.1"),
    *("4.9999999999999999999", "4.999999999999999999", "5"),
]
NUMBER_KINDS = "tinyint int bigint float double decimal(10,2) decimal(38,18) decimal(38,20)".split()


@pytest.fixture(scope="module")
def numbers(spark: SparkSession) -> Matrix:
    return matrix(spark, NUMBERS, NUMBER_KINDS)


@pytest.mark.parametrize("rehashed", [1000, 0])
def test_numbers_are_compared_as_in_spark(numbers: Matrix, monkeypatch: pytest.MonkeyPatch, rehashed: int) -> None:
    monkeypatch.setattr(lookups, "REHASHED_VALUES", rehashed)
    assert disagreements(numbers, SessionRules()) == []


def test_numbers_are_compared_as_in_spark_without_ansi_mode(spark: SparkSession, settings_of: Any) -> None:
    with settings_of(spark__sql__ansi__enabled="false"):
        assert disagreements(matrix(spark, NUMBERS, NUMBER_KINDS), SessionRules(ansi=False)) == []
        large = spark.sql("select 16777217 n")
        assert ab.where(large, ab.lookup("n", large.selectExpr("float(n)"))).count() == 1
    assert ab.where(large, ab.lookup("n", large.selectExpr("float(n)"))).count() == 0


TIMES = [
    *(
        "2024-06-01",
        "2024-06-01 12:00:00",
        "2024-06-01 00:00:00Z",
        "2024-05-31 15:00:00Z",
        "1969-12-31 23:59:59.999999",
    ),
    # Clocks are put forward, and back, in New York; at midnight in Sao Paulo.
    *("2024-03-10 02:30:00", "2024-03-10 03:30:00", "2024-11-03 01:30:00", "2024-11-03 05:30:00Z"),
    *("2024-11-03 06:30:00Z", "2018-11-04", "2018-11-04 01:00:00"),
]


@pytest.mark.parametrize("zone", ["America/New_York", "America/Sao_Paulo", "GMT+9", "JST", "-5:30"])
def test_times_are_compared_as_in_spark_in_any_zone(spark: SparkSession, settings_of: Any, zone: str) -> None:
    with settings_of(spark__sql__session__timeZone=zone):
        compared = matrix(spark, TIMES, ["date", "timestamp", "timestamp_ntz"])
        assert disagreements(compared, SessionRules(zone, local_times=True)) == []


def test_filters_find_numbers_and_times_of_other_types(spark: SparkSession, settings_of: Any) -> None:
    noon = NOON.replace(tzinfo=TOKYO)
    with settings_of(spark__sql__session__timeZone="GMT+9"):
        df = spark.sql("""
            select id, id / 10 d, float(if(id = 3, 'NaN', string(id))) f, cast(id / 2 as decimal(10, 2)) m,
            timestamp'2024-06-01 12:00:00' + make_dt_interval(id) t, interval '1' second * id s from range(10)
        """)
        decimals = spark.sql("select explode(array(0.2, 0.3, 0.7)) v")
        third = ab.where(
            df,
            ab.lookup("f", [1.0, NAN]),
            ab.lookup("m", [1.5, 2.0, 1e12, NAN, INFINITE]),
            ab.lookup("d", decimals),
            ab.lookup("d", [Decimal("0.1")], negate=True, name="not one"),
            ab.lookup("t", [noon + timedelta(days=3), date(2024, 6, 2)]),
            ab.lookup("s", pd.Series([pd.Timedelta(seconds=3)])),
        )
        assert [row.id for row in third.collect()] == [3]


# Sets and tables


def test_times_between_microseconds_are_none_of_spark_s() -> None:
    instants = pa.array([0, 1], pa.timestamp("us", "UTC"))
    assert found(pa.array([0, 1500], pa.timestamp("ns")), instants) == [True, False]
    assert found(pd.to_datetime(pd.Series([1000, 1001]), utc=True), instants) == [False, True]
    assert found(pa.array([2**62, 0], pa.timestamp("s")), instants) == [True, False]


def test_units_do_not_matter() -> None:
    at_ten = pa.array([10 * 3600 * 10**9, 0], pa.time64("ns"))
    assert found({time(10, 0)}, at_ten) == [True, False]
    assert found(pa.array([10 * 3600], pa.time32("s")), at_ten) == [True, False]
    assert found(pd.Series([pd.Timedelta(hours=1)]), pa.array([timedelta(hours=1), None])) == [True, None]


@pytest.mark.parametrize("local_times", [False, True])
def test_dates_among_times_are_midnights_of_the_session(local_times: bool, clocks_of: Any) -> None:
    column = pa.array([NOON, MIDNIGHT, NOON + timedelta(days=1), MIDNIGHT + timedelta(days=1)])
    rules = SessionRules("Asia/Tokyo", local_times=local_times)
    with clocks_of("Asia/Tokyo"):
        for values in (
            [date(2024, 6, 2), NOON],
            {NOON.replace(tzinfo=TOKYO), date(2024, 6, 2)},
            pd.Series([NOON, None, date(2024, 6, 2)], dtype=object),
        ):
            assert found(values, column, rules=rules) == [True, False, False, True]
            assert found(values, column.cast(pa.timestamp("us", "Asia/Tokyo")), rules=rules) == [False] * 4
            instants = pc.assume_timezone(column, "Asia/Tokyo").cast(pa.timestamp("us", "UTC"))
            assert found(values, instants, rules=rules) == [True, False, False, True]


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (np.array(["2024-06-01"], dtype="datetime64[D]"), pa.array([MIDNIGHT.date(), date(2024, 6, 2)])),
        (np.array(["2024-06-01"], dtype="datetime64[s]"), pa.array([MIDNIGHT, NOON])),
        (np.array([1, 7], dtype="uint64"), pa.array([7, -1], pa.int32())),
        (np.array([0.5], dtype="float16"), pa.array([0.5, 1.0])),
        (np.array(["a", None], dtype=object), pa.array(["a", "b"])),
        (np.array(["a", "b"]), pa.array(["a", "c"])),
        (pd.array([1, None], dtype="Int64"), pa.array([1, 2])),
        (pd.Series(["a", "b"], dtype="category"), pa.array(["a", "c"])),
        (pd.Series([1, None], dtype=object), pa.array([1, 2])),
        (pd.Index([1, 4]), pa.array([1, 2])),
        (pa.array([b"ab"], pa.binary(2)), pa.array([b"ab", b"a"])),
        (pa.array([Decimal("2.00")], pa.decimal256(20, 2)), pa.array([2, 3])),
    ],
)
def test_columns_of_numpy_pandas_and_arrow_are_taken_as_they_are(values: Any, column: pa.Array) -> None:
    assert found(values, column) == [True, False]


@pytest.mark.parametrize(
    ("table", "on"),
    [
        (pd.DataFrame({"a": [1, 2], "other": [1, "x"]}), "a"),
        (pd.DataFrame([[1, "x"], [2, "y"]]), 0),
        (pd.DataFrame([[1, "x"], [2, "y"]]), "0"),
        (pd.DataFrame([[1, "x"]], columns=pd.MultiIndex.from_tuples([("a", 0), ("a", 1)])), ("a", 0)),
        (pd.DataFrame([[1, 5, 6]], columns=["a", "b", "b"]), "a"),
        (pd.Series([1], name=0), 0),
        (pa.table([[1], [5], [6]], names=["a", "b", "b"]), "a"),
    ],
)
def test_other_columns_of_a_table_do_not_matter(table: Any, on: Any) -> None:
    assert found(table, pa.array([1, 5]), on=on) == [True, False]


def test_columns_of_dataframes_may_differ_by_case_only(spark: SparkSession) -> None:
    assert found(spark.range(1).selectExpr("1 a", "5 A", "6 b", "7 b"), pa.array([1, 5]), on="A") == [False, True]


# Errors

TWICE = "the table of 'lookup(c)' has 2 columns named 'a'\n  hint: rename them, or pass the one that is meant"
OTHER_HINT = "\n  hint: pass a set, a list, a pandas or Arrow table, or a small Spark DataFrame"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [Decimal("1e20"), Decimal("1e-20")],
            (
                "the values of 'lookup(c)' are decimals of 41 digits\n"
                "  hint: decimals in Spark have at most 38: round the values, or leave the largest out"
            ),
        ),
        (
            pd.Series(pd.period_range("2024", periods=2)),
            (
                "the values of 'lookup(c)' are of type extension<pandas.period<ArrowPeriodType>>, "
                "which look-ups cannot compare\n  hint: join with the table instead"
            ),
        ),
    ],
)
def test_sets_that_are_refused(values: Any, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        collect_values(ab.lookup("c", values), SessionRules())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1, "x"]),
        pd.DataFrame({"a": [1, "x"]}),
        pd.Series([1, "x"], dtype="category"),
        np.array([1, "x"], dtype=object),
        np.array([[1, 2]]),
        np.array(["2024-01"], dtype="datetime64[M]"),
        [pd.NaT, NOON],
    ],
)
def test_values_of_no_one_type_are_refused(values: Any) -> None:
    with pytest.raises(QueryError, match=r"^the values of 'lookup\(c\)' are not a set of one type: ") as caught:
        collect_values(ab.lookup("c", values), SessionRules())
    assert str(caught.value).endswith(OTHER_HINT)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda spark: pd.DataFrame([[1, 2]], columns=["a", "a"]), TWICE),
        (lambda spark: pa.table([[1], [2]], names=["a", "a"]), TWICE),
        (lambda spark: spark.range(1).selectExpr("1 a", "2 a"), TWICE),
        *(
            (
                lambda spark, sql=sql: spark.sql(f"select {sql} a"),
                (
                    f"the values of 'lookup(c)' are of type {kind}, which look-ups cannot compare\n"
                    "  hint: join with the table instead"
                ),
            )
            for sql, kind in [
                ("interval '1' year", "interval year"),
                ("parse_json('1')", "variant"),
                ("map(1, 2)", "map<int,int>"),
                ("array(1)", "array<int>"),
            ]
        ),
    ],
)
def test_tables_that_are_refused(spark: SparkSession, make: Callable[[SparkSession], Any], message: str) -> None:
    with pytest.raises(QueryError) as caught:
        collect_values(ab.lookup("c", make(spark), on="a"), SessionRules())
    assert str(caught.value) == message


def test_tables_with_a_collation_are_refused(spark: SparkSession) -> None:
    with pytest.raises(QueryError) as caught:
        collect_values(ab.lookup("c", spark.sql("select 'a' collate UTF8_LCASE a")), SessionRules())
    assert str(caught.value) == (
        "the table of 'lookup(c)' has values with the collation UTF8_LCASE\n"
        "  hint: look-ups compare texts byte by byte: cast the table's column to string, or join instead"
    )


def test_unknown_columns_are_named_as_texts() -> None:
    with pytest.raises(UnknownColumn) as caught:
        collect_values(ab.lookup("c", pd.DataFrame([[1, 2]]), on="2"), SessionRules())
    assert str(caught.value) == "unknown column '2' in the table of 'lookup(c)'\n  hint: The columns are: 0, 1"


def test_a_column_is_no_table(spark: SparkSession) -> None:
    with pytest.raises(QueryError) as caught:
        ab.lookup("i", F.col("i"))
    assert str(caught.value) == (
        "lookup needs a set or table of values, not the column i\n"
        "  hint: pass the DataFrame that has it: df.select(...)"
    )


@pytest.mark.parametrize(("zone", "hour"), [("Z", 12), ("UTC", 12), ("UTC+01:00", 11), ("GMT+9", 3), ("+0530", 6.5)])
def test_zones_have_other_names_in_arrow(spark: SparkSession, zone: str, hour: float) -> None:
    column = pa.array([MIDNIGHT + timedelta(hours=hour), NOON + timedelta(hours=1)], pa.timestamp("us", "UTC"))
    assert found(pa.array([NOON]), column, rules=SessionRules(zone)) == [True, False]
    assert found([], column, rules=SessionRules(zone)) == [False, False]


def test_zones_that_arrow_does_not_know_are_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_is_known", lambda zone: False)
    with pytest.raises(QueryError, match="looks up times in the session's time zone 'JST', which Arrow does not know"):
        found(pa.array([NOON]), pa.array([NOON]), rules=SessionRules("JST"))
