"""Bad input gets a clear error that names the predicate, and odd input gets the right rows."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

import anabranch as ab
from anabranch.errors import QueryError, ResourceError, UnknownColumn
from anabranch.spark.filters import lookup_table
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Bag = Callable[[DataFrame], Counter[str]]
Filtered = Callable[[DataFrame], DataFrame]


def always(*values: Any) -> bool:
    return True


# What the driver refuses, before any job

REFUSED: dict[str, tuple[Filtered, str]] = {
    "more parameters than columns": (
        lambda df: ab.where(df, ab.predicate(lambda a, b: a == b, "a", name="p")),
        (
            "predicate 'p' cannot be called with 1 column: missing a required argument: 'b'\n"
            "  hint: name one column for each parameter: ab.predicate(function, 'first', 'second')"
        ),
    ),
    "a test that is no function": (
        lambda df: ab.where(df, ab.predicate(always, "a", returns="double", test=0.7, name="p")),  # type: ignore[arg-type]
        "predicate 'p' has test=0.7, which is not a function\n  hint: e.g. test=lambda value: value > 0.5",
    ),
    "a kept column without a name": (
        lambda df: ab.where(df, ab.predicate(always, "a", keep=3, name="p")),  # type: ignore[arg-type]
        "predicate 'p' has keep=3\n  hint: keep is the name of the column that gets the value",
    ),
    "a limit that is no number": (
        lambda df: ab.where(df, ab.predicate(always, "a", time_limit="2", name="p")),  # type: ignore[arg-type]
        "predicate 'p' has time_limit='2'\n  hint: use a number of seconds, at least 0.01",
    ),
    "a type that functions do not return": (
        lambda df: ab.where(df, ab.predicate(always, "a", returns="varchar(3)", test=bool, name="p")),
        (
            "predicate 'p' returns 'varchar(3)', which Python functions cannot return\n"
            '  hint: use a type such as "string", "double" or "array<string>"'
        ),
    ),
    "an expression with options of functions": (
        lambda df: ab.where(df, ab.predicate(F.col("a") > 3, keep="k")),
        (
            "a column expression takes no keep: Spark evaluates it by itself\n"
            "  hint: it takes name, kind, strict and pinned; compute values with withColumn, or in a Python function"
        ),
    ),
    "two kept columns of one name": (
        lambda df: ab.where(df, *(ab.predicate(always, "a", keep=keep, name=keep) for keep in ("k", "K"))),
        "two predicates have the kept column 'k'\n  hint: give each its own keep=...",
    ),
    "no policy": (
        lambda df: ab.where(df, F.col("a") > 3, policy=None),  # type: ignore[arg-type]
        "unknown policy None\n  hint: ",
    ),
    "a config of another kind": (
        lambda df: ab.where(df, F.col("a") > 3, config={"window_tuples": 3}),
        "config is a dict\n  hint: use ab.OrderingConfig.for_policy(policy, ...)",
    ),
    "a config of a mesh for another policy": (
        lambda df: ab.where(df, F.col("a") > 3, policy="agreedy", config=ab.MeshConfig(executor="fabric")),
        (
            "config is a MeshConfig, and the policy is 'agreedy'\n"
            '  hint: use policy="mesh", or config=ab.OrderingConfig.for_policy("agreedy", ...)'
        ),
    ),
    "an unknown executor of a mesh": (
        lambda df: ab.where(df, F.col("a") > 3, policy="mesh", config=ab.MeshConfig(executor="fabrik")),  # type: ignore[arg-type]
        "unknown executor 'fabrik'\n  hint: did you mean 'fabric'? The choices are: routes, fabric",
    ),
    "no DataFrame": (
        lambda df: ab.where(df.limit(1).toPandas(), F.col("a") > 3),  # type: ignore[arg-type]
        "a filter needs a Spark DataFrame, not pandas.DataFrame\n  hint: make one with spark.createDataFrame",
    ),
    "numbers that no column holds": (
        lambda df: ab.where(df, ab.lookup("a", [2**70])),
        "the values of 'lookup(a)' are not a set of one type: ",
    ),
    "values that cannot be looked up": (
        lambda df: ab.where(df, ab.lookup("list", [[1]])),
        (
            "the values of 'lookup(list)' are of type list<item: int64>, which look-ups cannot compare\n"
            "  hint: join with the table instead"
        ),
    ),
    "a collation": (
        lambda df: ab.where(df.selectExpr("text collate UTF8_LCASE as t"), ab.lookup("t", ["a"])),
        (
            "'lookup(t)' looks up values with the collation UTF8_LCASE\n"
            "  hint: look-ups compare texts byte by byte: cast the column to string, or join instead"
        ),
    ),
    "unknown column of a function": (
        lambda df: ab.where(df, ab.predicate(always, "txt", name="even")),
        (
            "unknown column 'txt' in predicate 'even'\n"
            "  hint: did you mean 'text'? The columns are: id, a, b, text, dst, list"
        ),
    ),
    "unknown column of a look-up": (
        lambda df: ab.where(df, ab.lookup("dts", {"x"})),
        (
            "unknown column 'dts' in predicate 'lookup(dts)'\n"
            "  hint: did you mean 'dst'? The columns are: id, a, b, text, dst, list"
        ),
    ),
    "unknown column of an expression": (
        lambda df: ab.where(df, ab.predicate(F.col("txt").rlike("x"), name="even")),
        (
            "unknown column 'txt' in predicate 'even'\n"
            "  hint: did you mean 'text'? The columns are: id, a, b, text, dst, list"
        ),
    ),
    "unknown field": (
        lambda df: ab.where(df, ab.predicate(always, "text.length", name="even")),
        (
            "unknown column 'text.length' in predicate 'even'\n"
            "  hint: did you mean 'text'? The columns are: id, a, b, text, dst, list"
        ),
    ),
    "unknown column of a table": (
        lambda df: ab.where(df, ab.lookup("dst", pd.DataFrame({"addr": ["x"], "port": [1]}), on="adr")),
        "unknown column 'adr' in the table of 'lookup(dst)'\n  hint: did you mean 'addr'? The columns are: addr, port",
    ),
    "table of several columns": (
        lambda df: ab.where(df, ab.lookup("dst", pd.DataFrame({"addr": ["x"], "port": [1]}))),
        "the table of 'lookup(dst)' has 2 columns\n  hint: name one with on=... The columns are: addr, port",
    ),
    "expression that is no condition": (
        lambda df: ab.where(df, ab.predicate(F.length("text"), name="p")),
        "predicate 'p' is not a condition on this DataFrame: ",
    ),
    "aggregate": (
        lambda df: ab.where(df, ab.predicate(F.sum("a") > 3, name="p")),
        "predicate 'p' is not a condition on this DataFrame: ",
    ),
    "function without columns named": (
        lambda df: ab.where(df, always),  # type: ignore[arg-type]
        'a function is not a predicate by itself\n  hint: name its columns: ab.predicate(function, "column")',
    ),
    "text that is no SQL": (
        lambda df: ab.where(df, "a >> > 3"),
        "predicate 'a >> > 3' is not a condition on this DataFrame: [PARSE_SYNTAX_ERROR] Syntax error at or ",
    ),
    "unknown column of a text": (
        lambda df: ab.where(df, "txt is null"),
        (
            "unknown column 'txt' in predicate 'txt is null'\n"
            "  hint: did you mean 'text'? The columns are: id, a, b, text, dst, list"
        ),
    ),
    "a list": (
        lambda df: ab.where(df, [F.col("a") > 3, "a < 9"]),  # type: ignore[arg-type]
        "a list is not a predicate\n  hint: unpack it: ab.where(df, *predicates)",
    ),
    "a truth": (
        lambda df: ab.where(df, True),  # type: ignore[arg-type]
        ("bool is not a predicate: True\n  hint: use a Spark column expression, SQL text, ab.predicate or ab.lookup"),
    ),
    "unknown policy": (
        lambda df: ab.where(df, F.col("a") > 3, policy="agredy"),
        (
            "unknown policy 'agredy'\n  hint: did you mean 'agreedy'? The policies are: "
            "auto, fixed, agreedy, sweep, independent, localswaps, exhaustive, content, mesh, content-learns, sbr"
        ),
    ),
    "unknown choice on errors": (
        lambda df: ab.where(df, F.col("a") > 3, on_error="ignore"),
        'on_error is \'ignore\'\n  hint: use on_error="raise" or on_error="quarantine"',
    ),
    "a filter that is pinned": (
        lambda df: ab.where(df, F.col("a") > 3, pinned=True),
        (
            "a filter has no option 'pinned'\n"
            '  hint: policy="fixed" keeps the written order; pinned=True is an option of a single predicate'
        ),
    ),
    "unknown option": (
        lambda df: ab.where(df, F.col("a") > 3, on_eror="raise"),
        (
            "a filter has no option 'on_eror'\n  hint: did you mean 'on_error'? The options are: "
            "policy, strict, on_error, state, config, attributes, minimize, budget, limit"
        ),
    ),
    "names that are taken": (
        lambda df: ab.where(df, ab.predicate(always, "a"), ab.predicate(always, "b")),
        "two predicates have the name 'always'\n  hint: give each its own name=...",
    ),
    "kept columns in a circle": (
        lambda df: ab.where(
            df,
            ab.predicate(always, "two", keep="one", name="first"),
            ab.predicate(always, "one", keep="two", name="second"),
        ),
        (
            "the predicates 'first', 'second' depend on each other in a circle\n"
            "  hint: a kept column is computed before it is read, "
            "and nothing moves across a pinned or volatile predicate"
        ),
    ),
    "no room for errors": (
        lambda df: ab.where(df.withColumn("_Error", F.lit(1)), ab.predicate(always, "a"), on_error="quarantine"),
        (
            "the input has a column '_Error', which on_error=\"quarantine\" adds to rows that are set aside\n"
            "  hint: rename or drop it before the filter"
        ),
    ),
    "type that does not exist": (
        lambda df: ab.where(df, ab.predicate(always, "a", returns="doubel", test=always, name="score")),
        (
            "predicate 'score' returns 'doubel', which is not a Spark type\n"
            '  hint: use a name such as "double" or "array<string>"'
        ),
    ),
    "values of several types": (
        lambda df: ab.where(df, ab.lookup("a", {1, "x"})),
        "the values of 'lookup(a)' are not a set of one type: ",
    ),
    "values that are none": (
        lambda df: ab.where(df, ab.lookup("a", 3)),
        "the values of 'lookup(a)' are not a set of one type: ",
    ),
    "a name that is no text": (
        lambda df: ab.where(df, ab.predicate(always, "a", name=5)),  # type: ignore[arg-type]
        "a predicate has name=5\n  hint: a name is a string",
    ),
    "a limit that no call can keep": (
        lambda df: ab.where(df, ab.predicate(always, "a", time_limit=1e-9, name="p")),
        "predicate 'p' has time_limit=1e-09\n  hint: use a number of seconds, at least 0.01",
    ),
    "no DataFrame, but a column": (
        lambda df: ab.where(F.col("a") > 3),  # type: ignore[arg-type]
        (
            "a filter needs a Spark DataFrame, not Column\n"
            "  hint: the DataFrame comes first: ab.where(df, predicate, ...)"
        ),
    ),
    "no DataFrame, but a predicate": (
        lambda df: ab.where(ab.lookup("a", {1})),  # type: ignore[arg-type]
        (
            "a filter needs a Spark DataFrame, not LookupPredicate\n"
            "  hint: the DataFrame comes first: ab.where(df, predicate, ...)"
        ),
    ),
    "months": (
        lambda df: ab.where(
            df.selectExpr("array(interval '1-2' year to month) as m"), ab.predicate(always, "m", name="p")
        ),
        (
            "predicate 'p' reads column 'm' of type array<interval year to month>, which Python cannot represent\n"
            "  hint: compute numbers from it before the filter, such as extract(year from ...)"
        ),
    ),
    "prefixes in a table of several columns": (
        lambda df: ab.where(df, ab.lookup("dst", pd.DataFrame({"addr": ["x"], "port": [1]}), match="prefix")),
        "the table of 'lookup(dst)' has 2 columns\n  hint: name one with on=... The columns are: addr, port",
    ),
    "column of a set": (
        lambda df: ab.where(df, ab.lookup("a", {1}, on="prefixes")),
        (
            "'lookup(a)' has on='prefixes', but its values are not a table\n"
            "  hint: leave on=... out, or pass a table that has this column"
        ),
    ),
    "prefixes that are none": (
        lambda df: ab.where(df, ab.lookup("dst", ["10.2.0.0/99"], match="prefix")),
        "'10.2.0.0/99' is not a network\n  hint: write networks as 10.2.0.0/16 or fe80::/10",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_at_once_in_words(rows: DataFrame, case: str) -> None:
    build, message = REFUSED[case]
    with pytest.raises(QueryError) as caught:
        build(rows)
    text = str(caught.value)
    assert text == message if not message.endswith(" ") else text.startswith(message), text
    assert "java" not in text.lower()
    assert isinstance(caught.value, UnknownColumn) == text.startswith("unknown column")


@pytest.mark.classic(reason="one of the things is Spark's context")
def test_what_cannot_be_sent_to_the_workers_is_refused(spark: SparkSession, rows: DataFrame) -> None:
    lock = threading.Lock()
    context = spark.sparkContext
    for name, function in {
        "lock": lambda a: lock.locked(),
        "context": lambda a: context.version > "4",
        "frame": lambda a: rows.count() > a,
    }.items():
        with pytest.raises(QueryError) as caught:
            ab.where(rows, ab.predicate(function, "a", name=name))
        assert str(caught.value).startswith(f"predicate '{name}' cannot be sent to the workers: ")
        assert "create that inside the function" in str(caught.value)


def test_tables_that_are_too_big_are_refused(
    spark: SparkSession, rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_table, "LARGEST_TABLE_ROWS", 100)
    for table in (range(101), pd.Series(range(101)), spark.range(101)):
        with pytest.raises(ResourceError, match=r"the table of 'lookup\(a\)' is too big to send to the workers"):
            ab.where(rows, ab.lookup("a", table))
    assert ab.where(rows, ab.lookup("a", spark.range(100))).count() == rows.where("a is not null").count()
    monkeypatch.setattr(lookup_table, "LARGEST_TABLE_BYTES", 100)
    with pytest.raises(ResourceError, match=r"hint: the limits are 100 values and 0 MiB; join larger tables"):
        ab.where(rows, ab.lookup("a", range(50)))


def test_long_texts_do_not_reach_the_driver_before_they_are_refused(
    spark: SparkSession, rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = spark.range(50).select(F.repeat(F.col("id").cast("string"), 500).alias("the.text"))
    assert ab.where(rows, ab.lookup("text", texts, negate=True)).count() == rows.where("text is not null").count()
    monkeypatch.setattr(lookup_table, "LARGEST_TABLE_BYTES", 40_000)
    monkeypatch.setattr(type(texts), "toArrow", lambda df: pytest.fail("values were collected"))
    for table in (texts, texts.select(F.col("`the.text`").cast("binary"))):
        with pytest.raises(ResourceError, match=r"too big to send to the workers: 50 values, 0 MB"):
            ab.where(rows, ab.lookup("text", table))


# What fails in a job


def shorter(a: pd.Series) -> pd.Series:
    return a[1:] > 0


def integers(a: pa.Array) -> pa.Array:
    return a


def raising(id: int) -> bool:
    raise RuntimeError(f"no answer for {id}")


FAILING: dict[str, tuple[Filtered, str]] = {
    "text": (
        lambda df: ab.where(df, ab.predicate(lambda a: "yes", "a", name="p")),
        "predicate 'p' failed on a row that no other predicate rejects: it returned str, expected bool",
    ),
    "short column": (
        lambda df: ab.where(df.coalesce(1), ab.predicate(shorter, "a", name="p")),
        "predicate 'p' returned 63 values for 64 rows",
    ),
    "always raising": (
        lambda df: ab.where(df.coalesce(1), ab.predicate(raising, "id", name="p")),
        (
            "predicate 'p' failed on a row that no other predicate rejects: "
            "RuntimeError: no answer for 0 (test_bad_input.py, line "
        ),
    ),
    "look-up of another type": (
        lambda df: ab.where(df, ab.lookup("a", {"x"}, name="p")),
        "'p' looks up values of type int32 among values of type string",
    ),
    "hanging": (
        lambda df: ab.where(df, ab.predicate(lambda a: time.sleep(60), "a", time_limit=0.2, name="p")),
        "predicate 'p' took longer than its limit of 0.2 s on one chunk of rows",
    ),
    "number": (
        lambda df: ab.where(df, ab.predicate(lambda a: 1, "a", name="p")),
        "predicate 'p' failed on a row that no other predicate rejects: it returned int, expected bool",
    ),
    "column of another type": (
        lambda df: ab.where(df, ab.predicate(integers, "a", name="p")),
        "predicate 'p' returned int32, expected bool",
    ),
    "sometimes raising": (
        lambda df: ab.where(df.coalesce(1), ab.predicate(lambda id: 1 / (id - 900) != 0, "id", name="p")),
        (
            "predicate 'p' failed on a row that no other predicate rejects: "
            "ZeroDivisionError: division by zero (test_bad_input.py, line "
        ),
    ),
    "prefixes of numbers": (
        lambda df: ab.where(df, ab.lookup("a", {"1"}, match="prefix", name="p")),
        "'p' looks for prefixes in values of type int32",
    ),
    "kept value of another type": (
        lambda df: ab.where(df, ab.predicate(str, "id", returns="long", keep="n", test=always, name="p")),
        "predicate 'p' failed on a row that no other predicate rejects: it returned str, expected int64",
    ),
}


MESSAGES_AT_ONCE = 5
"""The others are pure tests of evaluators, too."""


@pytest.mark.parametrize("case", tiers(FAILING, MESSAGES_AT_ONCE, "every case ends workers; see `test_evaluators.py`"))
def test_a_job_that_fails_names_the_predicate(rows: DataFrame, case: str) -> None:
    build, message = FAILING[case]
    with pytest.raises(PySparkException) as caught:
        build(rows).collect()
    assert message in str(caught.value)
    assert "hint: " in str(caught.value)


def test_a_dead_worker_names_nothing_false(rows: DataFrame) -> None:
    with pytest.raises(Exception, match="Python worker exited unexpectedly") as caught:
        ab.where(rows, ab.predicate(lambda a: os._exit(3), "a", name="deadly"), ab.predicate(always, "b")).count()
    assert "rejects" not in str(caught.value)
    assert ab.where(rows, ab.predicate(always, "a")).count() == rows.count(), "the session goes on"


# Odd, and right


def test_frames_without_rows_or_partitions(spark: SparkSession, rows: DataFrame) -> None:
    nothing = spark.createDataFrame([], rows.schema)
    for df in (rows.limit(0), rows.where("id < 0"), nothing):
        kept = ab.predicate(lambda a: a, "a", returns="int", keep="k", test=always, name="kept")
        f = ab.Filter(kept, ab.lookup("dst", {"x"}), F.col("text").rlike("x"), F.col("a") > 3)
        out = f.apply(df)
        assert out.columns == [*df.columns, "k"]
        assert out.collect() == []
        assert f.report().rows == 0
        assert "order: " in f.explain(df)


def test_columns_of_nulls(spark: SparkSession) -> None:
    df = spark.sql("select id, cast(null as string) t, cast(null as int) i, null v from range(200)")
    arrow = ab.predicate(lambda t, i, v: t is None and i is None and v is None, "t", "i", "v", name="none")
    assert ab.where(df, arrow).count() == 200
    for column in ("t", "i"):
        for negate in (False, True):
            assert ab.where(df, ab.lookup(column, ["x"] if column == "t" else [1], negate=negate)).count() == 0
    for negate in (False, True):
        assert ab.where(df, ab.lookup("v", [1, 2], negate=negate), ab.lookup("v", range(2000), name="w")).count() == 0
        assert ab.where(df, ab.lookup("v", ["10."], match="prefix", negate=negate)).count() == 0
    assert ab.where(df, ab.lookup("t", ["10."], match="prefix")).count() == 0
    assert ab.where(df, ab.predicate(lambda id: None, "id", name="null")).count() == 0


def test_text_with_a_slash_can_be_a_prefix(rows: DataFrame) -> None:
    df = rows.select(F.concat(F.lit("https://h"), F.col("id") % 3, F.lit("/x")).alias("url"))
    assert ab.where(df, ab.lookup("url", ["https://h1/", "2024/1"], match="prefix")).count() == 1000


def test_one_attribute_can_be_named_without_a_list(rows: DataFrame) -> None:
    f = ab.Filter(ab.predicate(lambda n: n < 9, "id", name="p"), ab.lookup("dst", {"10.1.0.7"}), attributes="dst")
    assert f.attributes == ("dst",)
    assert f.apply(rows).count() == 2


def test_tables_of_polars_can_be_looked_up(rows: DataFrame) -> None:
    pl = pytest.importorskip("polars")
    assert ab.where(rows, ab.lookup("id", pl.Series([1, 2]))).count() == 2
    table = pl.DataFrame({"addr": ["10.1.0.7", "x"], "port": [1, 2]})
    assert ab.where(rows, ab.lookup("dst", table, on="addr")).count() == 600
    assert ab.where(rows, ab.lookup("dst", table["addr"].cast(pl.Categorical))).count() == 600


def test_columns_of_large_types_can_be_looked_up(rows: DataFrame, settings_of: Any) -> None:
    df = rows.selectExpr("id", "dst", "binary(dst) as bytes")
    with settings_of(spark__sql__execution__arrow__useLargeVarTypes=True):
        for values in ([b"10.1.0.7"], df.select("bytes").where("dst = '10.1.0.7'")):
            assert ab.where(df, ab.lookup("bytes", values), ab.lookup("dst", ["10.1."], match="prefix")).count() == 600


NESTED = """
    select named_struct('a', id, 'b', array('x', null)) as struct,
           map('k', timestamp'2020-01-01 00:00:00', 'n', null) as map,
           map(named_struct('k', 1), array(1, null)) as struct_map,
           array(1.5D, null, double('nan')) as array,
           array(named_struct('z', decimal('2.0'), 'w', map(1, 'x'))) as structs,
           cast('12.50' as decimal(10, 2)) as decimal,
           date'2020-02-29' as date,
           timestamp'2024-06-01 12:34:56.789' as timestamp,
           timestamp_ntz'2024-06-01 12:34:56.789' as local_time,
           binary('ab') as binary,
           array(binary('q'), null) as binaries,
           interval '1 02:03:04' day to second as duration,
           cast(id as byte) as byte, cast(id as short) as short, cast(id as int) as int, id as long,
           float(1.1) as float, double(1.1) as double, id % 2 = 0 as boolean, 'text' as string,
           parse_json('{"a": [1, null]}') as variant,
           cast(null as struct<a: int>) as no_struct, cast(null as map<int, int>) as no_map,
           cast(null as array<int>) as no_array, cast(null as binary) as no_binary, null as void
    from range(3)
"""


def test_values_are_those_that_a_udf_of_spark_gets(spark: SparkSession) -> None:
    df = spark.sql(NESTED).coalesce(1)
    if spark.version < "4.2":  # before Arrow carried them, values of a plain UDF had maps in another order
        df = df.drop("map", "variant")
    if spark.version < "4.1":  # and bytearrays
        df = df.drop("binary", "binaries")

    def shown(*values: Any) -> str:
        return repr([(type(v).__name__, v) for v in values])

    plain = df.select(F.udf(shown)(*df.columns)).collect()
    ours = ab.where(df, ab.predicate(shown, *df.columns, returns="string", keep="shown", test=always, name="p"))
    assert ours.columns == [*df.columns, "shown"]
    assert [r.shown for r in ours.collect()] == [r[0] for r in plain]


def test_series_are_those_that_a_pandas_udf_gets(spark: SparkSession) -> None:
    df = (
        spark.sql(NESTED)
        .coalesce(1)
        .select("struct", "decimal", "date", "timestamp", "binary", "int", "string", "array")
    )

    def shown(*series: pd.Series) -> pd.Series:
        text = " | ".join(f"{getattr(s, 'dtype', 'frame')} {s.to_dict()}" for s in series)
        return pd.Series([text] * len(series[0]))

    plain = df.select(pandas_udf(shown, "string")(*df.columns)).collect()  # type: ignore[call-overload]
    ours = ab.where(df, ab.predicate(shown, *df.columns, returns="string", keep="shown", test=_valid, name="p"))
    assert [r.shown for r in ours.collect()] == [r[0] for r in plain]


def _valid(values: pd.Series) -> pd.Series:
    return values.notna()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_timestamps_follow_the_session_s_zone(spark: SparkSession, settings_of: Any, zone: str) -> None:
    with settings_of(spark__sql__session__timeZone=zone):
        df = spark.sql("select timestamp'2024-06-01 23:30:00' as t from range(2)").coalesce(1)

        def hour(t: pd.Series) -> pd.Series:
            return pd.Series(t.dt.hour)

        ours = ab.predicate(hour, "t", returns="int", keep="hour", test=_valid, name="p")
        assert [r.hour for r in ab.where(df, ours).collect()] == [23, 23]


@pytest.mark.parametrize("name", tiers(["a.b", "a`b", "ünïcode", "__anabranch", "a b", "select"], fast=4))
def test_columns_of_any_name_can_be_read_and_carried(spark: SparkSession, name: str) -> None:
    df = spark.range(100).select(F.col("id").alias(name), F.lit(1).alias("one"))
    read = ab.where(df, ab.predicate(lambda v: v < 10, name, name="p"), ab.lookup(name, range(5, 100)))
    assert read.columns == [name, "one"]
    assert sorted(r[0] for r in read.collect()) == [5, 6, 7, 8, 9]
    carried = ab.Filter(ab.predicate(lambda v: 1 / (v - 1) > 0, "one", name="p"), on_error="quarantine")
    assert carried.apply(df).columns == df.columns
    assert carried.quarantined(df).columns == [*df.columns, "_predicate", "_error"]
    assert carried.quarantined(df).count() == 100


def test_columns_that_share_a_name_are_carried_and_not_read(spark: SparkSession) -> None:
    df = spark.range(20).select("id", F.lit(1).alias("t"), F.lit(2).alias("t"))
    out = ab.where(df, ab.predicate(lambda id: id < 5, "id", name="p"), F.col("id") > 1)
    assert out.columns == df.columns
    assert sorted(tuple(r) for r in out.collect()) == [(2, 1, 2), (3, 1, 2), (4, 1, 2)]
    with pytest.raises(QueryError, match="column 't' in predicate 'p' is ambiguous: the input has it 2 times"):
        ab.where(df, ab.predicate(always, "t", name="p"))
    aside = ab.Filter(ab.predicate(lambda id: 1 / id > 2, "id", name="p"), on_error="quarantine").quarantined(df)
    assert [tuple(r)[:3] for r in aside.collect()] == [(0, 1, 2)]


def test_fields_of_structs_can_be_read(spark: SparkSession) -> None:
    df = spark.range(20).select(
        F.struct(F.col("id").alias("n"), F.struct(F.lit("x").alias("deep")).alias("s")).alias("o")
    )
    out = ab.where(df, ab.predicate(lambda n, d: n < 3 and d == "x", "o.n", "o.s.deep", name="p"))
    assert sorted(r.o.n for r in out.collect()) == [0, 1, 2]


def test_names_of_columns_fold_as_spark_folds_them(rows: DataFrame, settings_of: Any) -> None:
    upper = ab.predicate(lambda dst: dst == "10.1.0.7", "DST", name="p")
    assert ab.where(rows, upper).count() == rows.where("dst = '10.1.0.7'").count()
    with settings_of(spark__sql__caseSensitive=True), pytest.raises(UnknownColumn, match="did you mean 'dst'"):
        ab.where(rows, upper)


def test_in_a_case_sensitive_session_a_kept_column_is_no_other(spark: SparkSession, settings_of: Any) -> None:
    keeper = ab.predicate(lambda n: -n, "id", returns="long", keep="ID", test=lambda n: n > -8, name="keeper")
    reader = ab.predicate(lambda n: n < 5, "id", name="reader")
    of_kept = ab.predicate(lambda n: n < -1, "ID", name="of kept")
    with settings_of(spark__sql__caseSensitive=True):
        out = ab.where(spark.range(10), of_kept, reader, "ID > -4", keeper)
        assert sorted(map(tuple, out.collect())) == [(2, -2), (3, -3)]
        assert out.columns == ["id", "ID"]
    with pytest.raises(QueryError, match="the kept column 'ID' is in the input already"):
        ab.where(spark.range(10), keeper)


def test_predicates_of_no_column(rows: DataFrame) -> None:
    assert ab.where(rows, ab.predicate(lambda: True, name="yes")).count() == rows.count()
    assert ab.where(rows, ab.predicate(lambda: False, name="no"), ab.predicate(always, "a")).count() == 0


def test_results_of_joins_and_aggregates(rows: DataFrame, bag: Bag) -> None:
    groups = rows.groupBy("dst").agg(F.count("*").alias("n"), F.max("a").alias("top"))
    joined = rows.alias("l").join(groups, "dst").where("id % 3 = 0")
    ours = ab.where(joined, ab.predicate(lambda n, a: a is not None and n > a, "n", "a", name="p"), F.col("top") > 90)
    assert bag(ours) == bag(joined.where("n > a and top > 90"))
    again = ab.where(ours, ab.lookup("dst", {"10.1.0.7"})).groupBy("dst").count().collect()
    assert [r.dst for r in again] == ["10.1.0.7"]


def test_more_predicates_than_the_search_handles_are_refused_at_once(rows: DataFrame) -> None:
    many = [ab.predicate(always, "a", name=f"p{i}") for i in range(17)]
    with pytest.raises(QueryError, match="at most 16 filters, not 17"):
        ab.where(rows, *many, policy="exhaustive")


# Values that Spark has and Python has not

ODD = """
    select id, cast(id as string) as text,
           if(id % 2 = 0, date'10000-01-01', date'2024-01-01') as until,
           if(id % 3 = 0, timestamp'10000-01-01 00:00:00', timestamp'2024-01-01 00:00:00') as at,
           if(id % 5 = 0, timestamp_ntz'12000-01-01 00:00:00', timestamp_ntz'11000-01-01 00:00:00') as local_time,
           if(id % 100 = 0, cast(unhex('ff41') as string), cast(id % 7 as string)) as broken
    from range(0, 2000, 1, 2)
"""


@pytest.mark.parametrize("policy", tiers(["auto", "content-learns", "content", "mesh"], fast=2))
def test_columns_that_python_cannot_read_are_not_used_for_routes(spark: SparkSession, policy: str) -> None:
    df = spark.sql(ODD)
    native = [F.col("text").rlike("1.*2"), F.col("broken").rlike("[0-3]")]
    python = [ab.predicate(lambda n: n % 2 == 0, "id", name="p"), ab.predicate(lambda n: n % 3 == 0, "id", name="q")]
    options: dict[str, Any] = {"policy": policy, "attributes": ["until", "at", "local_time", "broken"]}
    plain = df.where(native[0] & native[1])
    assert ab.where(df, *native, **options).count() == plain.count()
    assert ab.where(df, *python, **options).count() == df.where("id % 6 = 0").count()


@pytest.mark.classic(reason="its sink fills a list of this process, and runs in one of the server's there")
def test_batches_with_columns_that_python_cannot_read(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql(ODD).drop("broken")
    df.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    f = ab.Filter(F.col("text").rlike("1.*2"), F.col("text").rlike("9"))
    counts: list[int] = []
    write = f.foreach_batch(lambda batch, number: counts.append(batch.count()))
    stream.writeStream.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
    assert sum(counts) == df.where("text rlike '1.*2' and text rlike '9'").count()


def _first(until: date) -> bool:
    return until.year == 2024


def _digit(text: str) -> bool:
    return text.isdigit()


def _odd_answer(n: int) -> Any:
    return "no" if n % 100 == 0 else n % 2 == 0


CANNOT_READ = "the value of column '{}' cannot be read in Python: {}"
FAILING_ON_SOME: dict[str, tuple[Callable[..., Any], str, str, str]] = {
    "dates": (_first, "until", "id % 2 = 0", CANNOT_READ.format("until", "OverflowError")),
    "texts": (_digit, "broken", "id % 100 = 0", CANNOT_READ.format("broken", "UnicodeDecodeError: 'utf-8' codec")),
    "answers": (_odd_answer, "id", "id % 100 = 0", "it returned str, expected bool; return True, False or None"),
}


@pytest.mark.parametrize("case", FAILING_ON_SOME)
def test_rows_that_cannot_be_read_or_judged_fail_like_any_other(spark: SparkSession, case: str) -> None:
    df = spark.sql(ODD)
    function, column, condition, said = FAILING_ON_SOME[case]
    it = ab.predicate(function, column, name="it", kind="fallible")
    others = ab.predicate(lambda n: n % 2 == 1 and n % 100 != 0, "id", name="others")
    for policy in ("auto", "fixed"):
        assert ab.where(df, it, others, policy=policy).count() == (0 if case == "answers" else 1000)
    with pytest.raises(PySparkException) as caught:
        ab.where(df, it).count()
    assert f"predicate 'it' failed on a row that no other predicate rejects: {said}" in str(caught.value)
    f = ab.Filter(it, on_error="quarantine")
    assert f.apply(df).count() == {"dates": 1000, "texts": 1980, "answers": 980}[case]
    aside = f.quarantined().select("id", "_predicate", "_error").collect()
    assert sorted(r.id for r in aside) == [r.id for r in df.where(condition).select("id").orderBy("id").collect()]
    assert all(r["_predicate"] == "it" and r["_error"].startswith(said) for r in aside)


@pytest.mark.parametrize("many", [False, True])
def test_values_that_python_does_not_have_can_be_looked_up(spark: SparkSession, many: bool) -> None:
    df = spark.sql(ODD)
    texts = [*"0123", *(f"t{i}" for i in range(2000 * many))]
    assert ab.where(df, ab.lookup("broken", texts)).count() == df.where(F.col("broken").isin(*"0123")).count()
    days = spark.range(2000 * many).selectExpr("date_add('2030-01-01', int(id))")
    table = df.where("id % 2 = 0").select("until").union(days)
    assert ab.where(df, ab.lookup("until", table)).count() == 1000
    assert ab.where(df, ab.lookup("broken", texts, match="prefix")).count() == df.where("broken rlike '^[0-3]'").count()
    assert ab.where(df, ab.lookup("broken", df.select("broken"), match="prefix")).count() == 2000
