"""Random filters over random rows, against plain Spark and the definition.

Plain Spark judges every row by every predicate of a pool, as a column expression, an `isin` or a UDF of the same
function, in one job. From its answers the definition says what a filter of some of these predicates returns, raises or
sets aside. The seed changes with the day; `ANABRANCH_SEED` repeats one, and a failure tells the case.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.model.predicates import NativePredicate, stages
from anabranch.routing import policies
from seeds import daily_seed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOWS = ab.MeshConfig(executor="fabric", window_tuples=7, route_tolerance=0.3, sample_tuples=40)
EAGER = ab.OrderingConfig(profile_probability=0.6, window_tuples=50, minimum_profiles=5)
FEW, MORE, MOST = 60, 300, 2000
CASES_PER_TABLE, CASES_PER_JOB = 20, 5
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
COUNTED = "failed on a row that no other predicate rejects"
YES, NO, FAIL = "yes", "no", "fail"

as_pandas_udf: Any = pandas_udf


# Rows

AUTUMN = datetime(2024, 10, 26, 20, tzinfo=UTC)
VALUES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "int": (pa.int32(), lambda r: r.choice([0, 1, -1, 7, 100, 2**31 - 1, -(2**31), r.randrange(50)])),
    "bigint": (pa.int64(), lambda r: r.choice([0, 2**62, -5, r.randrange(100), 2**53])),
    "tinyint": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "double": (pa.float64(), lambda r: r.choice([0.0, -0.0, math.nan, math.inf, 0.1, r.randrange(20) / 4])),
    "float": (pa.float32(), lambda r: r.choice([0.0, -0.0, math.nan, 0.5, 16777216.0, r.randrange(9) / 2])),
    "decimal": (pa.decimal128(12, 3), lambda r: Decimal(r.randrange(-5000, 5000)).scaleb(-r.choice([0, 1, 3]))),
    "string": (pa.string(), lambda r: r.choice(["", "a", "ä€𝄞", "10.1.0.7", "NULL", "x" * r.randrange(9), "7"])),
    "date": (pa.date32(), lambda r: date(2024, 3, 30) + timedelta(days=r.randrange(-3, 400))),
    "timestamp": (pa.timestamp("us", "UTC"), lambda r: AUTUMN + timedelta(minutes=15 * r.randrange(60))),
    "timestamp_ntz": (pa.string(), lambda r: f"2024-10-27 0{r.randrange(5)}:{r.choice(['00', '30'])}:00"),
    "boolean": (pa.bool_(), lambda r: r.random() < 0.6),
    "array<int>": (pa.list_(pa.int32()), lambda r: [r.choice([None, 1, 2, 3]) for _ in range(r.randrange(4))]),
    "struct<x:int,y:string>": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        lambda r: {"x": r.choice([None, 1, 5]), "y": r.choice([None, "p", "q"])},
    ),
    "map<string,int>": (
        pa.map_(pa.string(), pa.int32()),
        lambda r: [(k, r.choice([None, 1, 2])) for k in "abc"[: r.randrange(4)]],
    ),
    "array<timestamp>": (pa.list_(pa.timestamp("us", "UTC")), lambda r: [AUTUMN] * r.randrange(3)),
    "binary": (pa.binary(), lambda r: r.choice([b"", b"ab", b"\xff\x00", bytes([r.randrange(256)])])),
}
CONDITIONS: dict[str, list[str]] = {
    "int": ["{c} % 7 < 3", "{c} > 5", "{c} in (1, 7, null)", "{c} is not null"],
    "bigint": ["{c} % 5 <> 2", "{c} between 0 and 90"],
    "tinyint": ["{c} > 0", "{c} % 3 = 1"],
    "double": ["{c} > 0.05D", "isnan({c})", "{c} = 0.0D", "not isnan({c})"],
    "float": ["{c} <= 2.0", "{c} <> 0.5"],
    "decimal": ["{c} > 1.5", "{c} <= 2"],
    "string": ["{c} rlike '[0-9a]'", "{c} like '%x%'", "length({c}) > 1", "{c} <> ''"],
    "date": ["{c} > date'2024-06-01'", "month({c}) < 9"],
    "timestamp": ["hour({c}) < 3", "{c} > timestamp'2024-10-27 02:30:00'"],
    "timestamp_ntz": ["hour({c}) > 1", "{c} = timestamp_ntz'2024-10-27 02:30:00'", "{c} is not null"],
    "boolean": ["{c}", "not {c}"],
    "array<int>": ["size({c}) > 1", "array_contains({c}, 3)"],
    "struct<x:int,y:string>": ["{c}.x > 3", "{c} is not null"],
    "map<string,int>": ["{c}['a'] = 1", "{c} is null"],
    "array<timestamp>": ["size({c}) > 0"],
    "binary": ["length({c}) > 0", "{c} <> x'6162'"],
}
LOOKED_UP = "int bigint tinyint double float decimal string date timestamp boolean binary".split()


def make_table(spark: SparkSession, rng: random.Random) -> tuple[DataFrame, dict[str, str]]:
    """Some rows with a number and columns of random types, and the type of each column."""
    rows = rng.choice([0, 1, 30, 60, 90, 90])
    kinds = {f"c{i}": kind for i, kind in enumerate(rng.sample(list(VALUES), 6))}
    columns: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int64())}
    for name, kind in kinds.items():
        arrow_type, draw = VALUES[kind]
        nulls = rng.choice([0.0, 0.15, 0.5])
        drawn = [None if rng.random() < nulls else draw(rng) for _ in range(rows)]
        columns[name] = pa.array(drawn, arrow_type)
    made = spark.createDataFrame(pa.table(columns))
    local = {name: F.col(name).cast(kind) for name, kind in kinds.items() if kind == "timestamp_ntz"}
    return made.withColumns(local).repartition(rng.choice([1, 2, 5]), "id").cache(), kinds


# Predicates


@dataclass(frozen=True)
class Entry:
    """A predicate in all its forms: how a filter gets it, how plain Spark judges by it, and what it does."""

    what: str
    make: Callable[[str, dict[str, Any]], Any]
    plain: Column | None
    keeps: str | None = None
    reads: str | None = None
    judge: Callable[[Any], str] | None = None
    options: tuple[str, ...] = ("kind", "strict", "pinned")
    kinds: tuple[str, ...] = ("pure", "pure", "fallible", "volatile")


def canon(value: Any) -> str:
    """A value as a text that does not depend on how pandas holds NULLs and integers beside them."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return "null"
    if isinstance(value, float) and value.is_integer() and (value or math.copysign(1, value) > 0):
        return str(int(value))
    return repr(value)


@dataclass(frozen=True)
class Fate:
    """What a function does with a value, by its checksum: some fail, some are NULL, some are false."""

    salt: int
    failing: int
    passing: int

    def __call__(self, value: Any) -> bool | None:
        drawn = self.number(value)
        return None if drawn is None else drawn % 100 < self.passing

    def number(self, value: Any) -> int | None:
        """The value that a predicate keeps."""
        drawn = crc32(f"{self.salt} {canon(value)}".encode(errors="backslashreplace")) % 1000
        if drawn < self.failing:
            raise ValueError("drawn")
        return None if drawn > 950 else drawn

    def verdict(self, value: Any) -> str:
        """The fate and the kept value, for the definition."""
        try:
            number = self.number(value)
        except ValueError:
            return FAIL
        return NO if number is None else f"{YES if number % 100 < self.passing else NO} {number}"


def flavours(fate: Fate, kept: bool) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """The same function for single values, Series, arrays, and iterators of these; and what decides on a kept value."""
    one: Callable[[Any], Any] = fate.number if kept else fate
    arrow_type, dtype = (pa.int64(), "Int64") if kept else (pa.bool_(), object)

    def scalar(value: Any) -> Any:
        return one(value)

    def pandas(values: pd.Series) -> pd.Series:
        return pd.Series([one(v) for v in values], dtype=dtype)

    def arrow(values: pa.Array) -> pa.Array:
        return pa.array([one(v) for v in values.to_pylist()], arrow_type)

    def pandas_iterator(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for values in batches:
            yield pandas(values)

    def arrow_iterator(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for values in batches:
            yield arrow(values)

    passing = fate.passing
    tests: dict[str, Callable[[Any], Any]] = {
        "scalar": lambda v: v % 100 < passing,
        "pandas": lambda v: v % 100 < passing,
        "arrow": lambda v: pa.array([None if n is None else n % 100 < passing for n in v.to_pylist()], pa.bool_()),
    }
    made = (scalar, pandas, arrow, pandas_iterator, arrow_iterator)
    return {f.__name__: (f, tests[f.__name__.split("_")[0]]) for f in made}


def verdict_udf(fate: Fate, flavour: str) -> Any:
    """A UDF of Spark that says what the function of a flavour does."""

    def verdict(value: Any) -> str:
        return fate.verdict(value)

    def verdict_series(values: pd.Series) -> pd.Series:
        return pd.Series([fate.verdict(v) for v in values], dtype=object)

    def verdict_array(values: pa.Array) -> pa.Array:
        return pa.array([fate.verdict(v) for v in values.to_pylist()], pa.string())

    if flavour.startswith("pandas"):
        return as_pandas_udf(verdict_series, "string")
    if flavour.startswith("arrow") and hasattr(F, "arrow_udf"):
        return F.arrow_udf(verdict_array, "string")
    return F.udf(verdict, "string")


def python_entry(rng: random.Random, i: int, kinds: dict[str, str]) -> Entry:
    column = rng.choice(list(kinds))
    known = ["scalar", "pandas", "arrow", "pandas_iterator", "arrow_iterator"]
    nested = kinds[column].startswith("struct")  # a Series of structs is a DataFrame
    flavour = rng.choice([f for f in known if not (nested and f.startswith("pandas"))])
    keeps = f"k{i}" if rng.random() < 0.3 else None
    fate = Fate(rng.randrange(10**6), rng.choice([0, 0, 0, 30, 200]), rng.choice([30, 70, 95, 100]))
    function, test = flavours(fate, keeps is not None)[flavour]

    def make(name: str, options: dict[str, Any]) -> Any:
        kept: dict[str, Any] = {"returns": "long", "keep": keeps, "test": test} if keeps else {}
        return ab.predicate(function, column, name=name, **kept, **options)

    what = f"{flavour} of {kinds[column]} {fate}{' keeps' if keeps else ''}"
    return Entry(what, make, verdict_udf(fate, flavour)(column), keeps=keeps, kinds=kinds_of(flavour, fate))


def kinds_of(flavour: str, fate: Fate) -> tuple[str, ...]:
    """A volatile function of whole columns fails for all rows of a call, whichever these are."""
    return ("pure", "fallible") if fate.failing and flavour != "scalar" else ("pure", "pure", "fallible", "volatile")


def reader_entry(rng: random.Random, keeper: str) -> Entry:
    """A predicate that reads what another one keeps, in Python or natively."""
    limit = rng.choice([300, 700, 950])
    if rng.random() < 0.5:
        sql = f"{keeper} < {limit}"
        return Entry(
            f"native reader {sql!r}",
            lambda name, options: ab.predicate(sql, name=name, **options),
            None,
            reads=keeper,
            judge=lambda v: YES if v is not None and v < limit else NO,
            options=("strict", "pinned"),
        )
    fate = Fate(rng.randrange(10**6), rng.choice([0, 100]), 80)
    flavour = rng.choice(["scalar", "arrow", "pandas_iterator"])
    function, _ = flavours(fate, kept=False)[flavour]

    def make(name: str, options: dict[str, Any]) -> Any:
        return ab.predicate(function, keeper, name=name, **options)

    kinds = kinds_of(flavour, fate)
    return Entry(f"{flavour} reader of {keeper} {fate}", make, None, reads=keeper, judge=fate.verdict, kinds=kinds)


def native_entry(rng: random.Random, kinds: dict[str, str]) -> Entry:
    column = rng.choice(list(kinds))
    sql = rng.choice(CONDITIONS[kinds[column]]).format(c=column)
    sql = rng.choice([sql, sql, f"id + 1 > {rng.randrange(9)}", f"rand() >= 0 and {sql}"])
    plain = F.when(F.expr(sql), YES).otherwise(NO)
    as_column = rng.random() < 0.5
    return Entry(
        f"native {sql!r} ({kinds[column]})",
        lambda name, options: ab.predicate(F.expr(sql) if as_column else sql, name=name, **options),
        plain,
        options=("strict", "pinned"),
    )


def lookup_entry(rng: random.Random, spark: SparkSession, kinds: dict[str, str]) -> Entry | None:
    fitting = [name for name, kind in kinds.items() if kind in LOOKED_UP]
    if not fitting:
        return None
    column = rng.choice(fitting)
    kind, draw = VALUES[kinds[column]]
    values = [draw(rng) for _ in range(rng.choice([1, 5, 30]))]
    if kinds[column] == "timestamp" and rng.random() < 0.5:
        values = [v.replace(tzinfo=None) for v in values if 4 <= v.hour < 21] or values
    negate = rng.random() < 0.4
    naive = kinds[column] == "timestamp" and values[0].tzinfo is None
    containers: list[Callable[[], Any]] = [lambda: list(values), lambda: set(values)]
    if not naive:
        array = pa.array(values, kind)
        containers += [lambda: array, lambda: pa.table({"v": array}), lambda: pl.from_arrow(array)]
        containers += [lambda: spark.createDataFrame(pa.table({"v": array}))]
        if not any(v != v for v in values):  # in pandas NaN says that a value is missing
            containers.append(array.to_pandas)
    container = rng.choice(containers)()
    typed = values if isinstance(container, list | set) else [F.lit(v).cast(kinds[column]) for v in values]
    found = F.col(column).isin(typed)
    plain = F.when(~found if negate else found, YES).otherwise(NO)
    return Entry(
        f"lookup {kinds[column]} in {type(container).__name__} {values[:5]} negate={negate}",
        lambda name, options: ab.lookup(column, container, negate=negate, name=name, **options),
        plain,
        options=("pinned",),
    )


def make_pool(rng: random.Random, spark: SparkSession, kinds: dict[str, str]) -> list[Entry]:
    pool = [python_entry(rng, i, kinds) for i in range(12)]
    pool += [native_entry(rng, kinds) for _ in range(8)]
    pool += [e for _ in range(5) if (e := lookup_entry(rng, spark, kinds))]
    keepers = [e.keeps for e in pool if e.keeps]
    return pool + [reader_entry(rng, rng.choice(keepers)) for _ in range(6 if keepers else 0)]


def judged_by_spark(df: DataFrame, pool: Sequence[Entry]) -> dict[int, dict[int, str]]:
    """What every predicate of a pool says about every row, by its number, in plain Spark."""
    asked = {i: e.plain for i, e in enumerate(pool) if e.plain is not None}
    judged = df.select("id", *(plain.alias(f"t{i}") for i, plain in asked.items())).collect()
    return {row.id: {i: row[f"t{i}"] for i in asked} for row in judged}


# Cases


@dataclass(frozen=True)
class Case:
    """A filter, and what it returns and sets aside by the definition: kept values, and who failed, by row number."""

    number: int
    what: str
    filter: ab.Filter
    kept: tuple[str, ...]
    passed: dict[int, tuple[Any, ...]]
    failed: dict[int, str]


def make_case(
    rng: random.Random, number: int, df: DataFrame, pool: Sequence[Entry], verdicts: dict[int, dict[int, str]]
) -> Case | None:
    chosen = rng.sample(range(len(pool)), rng.randrange(1, 6))
    keepers = {e.keeps: i for i, e in enumerate(pool) if e.keeps}
    missing = [keepers[r] for i in chosen if (r := pool[i].reads)]
    chosen = list(dict.fromkeys([*chosen, *missing]))
    rng.shuffle(chosen)
    entries, options = [pool[i] for i in chosen], [draw_options(rng, pool[i]) for i in chosen]
    policy = rng.choice(sorted(policies.NAMES))
    setting: dict[str, Any] = {
        "policy": policy,
        "strict": rng.random() < 0.2,
        "on_error": rng.choice(["raise", "quarantine"]),
        "config": rng.choice([None, EAGER, *([WINDOWS] if policy == "mesh" else [])]),
    }
    lines = [f"  p{i} {e.what} {o}" for i, (e, o) in enumerate(zip(entries, options, strict=True))]
    what = "\n".join([f"case {number}: {setting}", *lines])
    f = ab.Filter(*(e.make(f"p{i}", o) for i, (e, o) in enumerate(zip(entries, options, strict=True))), **setting)
    try:
        places = {i: at for at, stage in enumerate(stages(f._judged(df), strict=f.strict)) for i in stage.members}
    except QueryError as error:
        if "depend on each other" not in str(error):
            raise
        return None
    careful = {i for i, p in enumerate(f._judged(df)) if isinstance(p, NativePredicate) and p.kind == "fallible"}
    passed, failed = {}, {}
    for row in verdicts:
        fates = fates_of(entries, [verdicts[row].get(i, "") for i in chosen])
        erring = [i for i, fate in enumerate(fates) if fate == FAIL]
        unasked = {i for i in careful if any(places[e] < places[i] for e in erring)}
        if any(fate.startswith(NO) for i, fate in enumerate(fates) if i not in unasked):
            continue
        if erring:
            failed[row] = f"p{erring[0]}"
        else:
            passed[row] = tuple(int(fate.split()[1]) for e, fate in zip(entries, fates, strict=True) if e.keeps)
    return Case(number, what, f, tuple(e.keeps for e in entries if e.keeps), passed, failed)


def draw_options(rng: random.Random, entry: Entry) -> dict[str, Any]:
    drawn = {
        "kind": rng.choice(entry.kinds),
        "strict": rng.random() < 0.15,
        "pinned": rng.random() < 0.1,
    }
    return {name: drawn[name] for name in entry.options}


def fates_of(entries: Sequence[Entry], verdicts: list[str]) -> list[str]:
    """What every predicate says about a row; one that reads a value which could not be computed says nothing."""
    values = {e.keeps: fate for e, fate in zip(entries, verdicts, strict=True) if e.keeps}
    fates = []
    for entry, fate in zip(entries, verdicts, strict=True):
        read = values.get(entry.reads, "") if entry.reads else ""
        if entry.judge is None:
            fates.append(fate)
        elif read == FAIL:
            fates.append(YES)
        else:
            fates.append(entry.judge(int(read.split()[1]) if " " in read else None))
    return fates


def answers(case: Case, df: DataFrame) -> DataFrame:
    """What a filter returns, and sets aside, as rows of one form for all cases."""
    shown = F.concat_ws(" ", *(F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in case.kept))
    number = F.lit(case.number).alias("case")
    found = case.filter.apply(df).select(number, "id", shown.alias("said"), F.lit("passed").alias("what"))
    if case.filter.on_error == "quarantine" and any(not isinstance(p, NativePredicate) for p in case.filter.predicates):
        aside = case.filter.quarantined(df)
        assert aside.columns == [*df.columns, "_predicate", "_error"], case.what
        found = found.unionAll(aside.select(number, "id", "_predicate", F.lit("aside")))
    return found


def expected(case: Case) -> Counter[tuple[int, str, str]]:
    found = [(row, " ".join(map(str, kept)), "passed") for row, kept in case.passed.items()]
    aside = case.failed.items() if case.filter.on_error == "quarantine" else []
    return Counter([*found, *((row, name, "aside") for row, name in aside)])


def check(cases: Sequence[Case], df: DataFrame, seed: int) -> None:
    """Run cases that are not to raise in one job, and the others one by one."""
    raising = [c for c in cases if c.failed and c.filter.on_error == "raise"]
    quiet = [c for c in cases if c not in raising]
    if quiet:
        try:
            rows = reduce(DataFrame.unionAll, [answers(c, df) for c in quiet]).collect()
        except PySparkException as error:
            raise AssertionError(f"ANABRANCH_SEED={seed}, one of:\n" + "\n".join(c.what for c in quiet)) from error
        for c in quiet:
            found = Counter((row.id, row.said, row.what) for row in rows if row.case == c.number)
            wanted = expected(c)
            assert found == wanted, (
                f"ANABRANCH_SEED={seed}, {c.what}\n  too many {found - wanted}\n  missing {wanted - found}"
            )
    for c in raising:
        said = raised_by(c, df)
        named = any(f"predicate {name!r} {COUNTED}" in said for name in c.failed.values())
        assert named, f"ANABRANCH_SEED={seed}, {c.what}\n  raised {said or 'nothing'}, though these fail: {c.failed}"


def raised_by(case: Case, df: DataFrame) -> str:
    try:
        answers(case, df).collect()
    except PySparkException as error:
        return str(error)
    return ""


def run_cases(spark: SparkSession, settings_of: Any, clocks_of: Any, first: int, count: int) -> None:
    seed = daily_seed()
    print(f"differential test of filters: ANABRANCH_SEED={seed}, cases {first} to {first + count - 1}")
    for start in range(first, first + count, CASES_PER_TABLE):
        rng = random.Random(f"{seed} {start}")
        zone, process = rng.choice(ZONES), rng.choice(ZONES)
        batch = rng.choice([1, 7, 1000])
        with (
            clocks_of(process),
            settings_of(spark__sql__session__timeZone=zone, spark__sql__execution__arrow__maxRecordsPerBatch=batch),
        ):
            df, kinds = make_table(spark, rng)
            pool = make_pool(rng, spark, kinds)
            verdicts = judged_by_spark(df, pool)
            numbers = range(start, min(start + CASES_PER_TABLE, first + count))
            cases = [c for n in numbers if (c := make_case(rng, n, df, pool, verdicts))]
            for at in range(0, len(cases), CASES_PER_JOB):
                check(cases[at : at + CASES_PER_JOB], df, seed)
            check(cases[:2], df, seed)  # with what they have learned
            df.unpersist()


def test_random_filters_give_the_rows_of_plain_spark(spark: SparkSession, settings_of: Any, clocks_of: Any) -> None:
    run_cases(spark, settings_of, clocks_of, 0, MOST if os.environ.get("ANABRANCH_SOAK") else FEW)


@pytest.mark.full(reason="300 random filters take minutes")
def test_more_random_filters_give_the_rows_of_plain_spark(
    spark: SparkSession, settings_of: Any, clocks_of: Any
) -> None:
    run_cases(spark, settings_of, clocks_of, FEW, MORE)


def test_random_filters_of_streams(spark: SparkSession, tmp_path: Path) -> None:
    seed = daily_seed()
    rng = random.Random(f"{seed} stream")
    df, kinds = make_table(spark, rng)
    df.write.parquet(str(tmp_path / "rows"))
    pool = make_pool(rng, spark, kinds)
    verdicts = judged_by_spark(df, pool)
    drawn = (make_case(rng, n, df, pool, verdicts) for n in range(100))
    quiet = [c for c in drawn if c and (c.filter.on_error == "quarantine" or not c.failed)]
    for case in quiet[:2]:
        stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "rows"))
        name = f"stream_{case.number}"
        sink = answers(case, stream).writeStream.format("memory").queryName(name)
        sink.trigger(availableNow=True).start().awaitTermination()
        found = Counter((row.id, row.said, row.what) for row in spark.table(name).collect())
        assert found == expected(case), f"ANABRANCH_SEED={seed}, stream, {case.what}"
    df.unpersist()
