"""`where` and `Filter` on batch DataFrames: the same rows as plain Spark, what is kept, and what the kinds promise."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType, StructField

import anabranch as ab
from anabranch.errors import DataError, QueryError
from anabranch.events import Reordered, Started
from anabranch.model.predicates import Predicate
from anabranch.ordering import POLICIES
from spark.plan_texts import plan_text
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

Bag = Callable[[DataFrame], Counter[str]]
Recorder = Callable[[str], tuple[Callable[[Any], None], Callable[[], list[Any]]]]
EAGER = ab.OrderingConfig(profile_probability=1.0, window_tuples=100, minimum_profiles=10)


def ends_even(text: str | None) -> bool | None:
    return None if text is None else text[-1] in "02468"


def small(b: pd.Series) -> pd.Series:
    return b < 0.7


def not_zero(a: pa.Array) -> pa.Array:
    return pc.not_equal(a, 0)


def long_text(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for text in batches:
        yield text.str.len() > 8


def above(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    for ids, a in batches:
        yield pc.greater(ids, pc.cast(a, pa.int64()))


def every_kind() -> list[Predicate | Column]:
    return [
        ab.predicate(ends_even, "text", name="even"),
        F.col("a") > 5,
        ab.predicate(small, "b", name="small"),
        ab.predicate(not_zero, "a", name="not_zero"),
        ab.lookup("dst", {"10.1.0.7", "10.2.0.7", "10.3.0.7"}, name="known"),
        ab.predicate(long_text, "text", name="long"),
        F.col("text").rlike("[0-9]{2}"),
        ab.predicate(above, "id", "a", name="above"),
    ]


PLAIN = (
    "a > 5 and a != 0 and b < 0.7 and right(text, 1) in ('0', '2', '4', '6', '8') and length(text) > 8 "
    "and dst in ('10.1.0.7', '10.2.0.7', '10.3.0.7') and text rlike '[0-9]{2}' and id > a"
)


@pytest.fixture(scope="module")
def expected(rows: DataFrame, bag: Bag) -> Counter[str]:
    found = bag(rows.where(PLAIN))
    assert 300 < found.total() < 1000
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_gives_the_rows_of_plain_spark(
    rows: DataFrame, bag: Bag, expected: Counter[str], policy: str
) -> None:
    config = None if policy == "auto" else EAGER
    out = ab.where(rows, *every_kind(), policy=policy, config=config)
    assert out.schema == rows.schema
    assert bag(out) == expected


@pytest.mark.parametrize(("most", "partitions", "below"), [(1, 2, 300), (7, 5, 2000), (1000, 1, 3000)])
def test_batch_cuts_do_not_matter(
    rows: DataFrame, bag: Bag, batch_rows: Callable[[int], None], most: int, partitions: int, below: int
) -> None:
    batch_rows(most)
    some = rows.where(F.col("id") < below)
    assert bag(ab.where(some.repartition(partitions), *every_kind())) == bag(some.where(PLAIN))


def test_an_all_native_filter_stays_in_spark(rows: DataFrame, bag: Bag) -> None:
    out = ab.where(rows, F.col("text").rlike("[02468]$"), F.col("a") > 5, F.col("b") < 0.7)
    assert bag(out) == bag(rows.where("a > 5 and b < 0.7 and text rlike '[02468]$'"))
    assert "Python" not in plan_text(out, "physical")


def test_udfs_of_spark_are_taken_as_predicates(rows: DataFrame, bag: Bag) -> None:
    @F.udf("boolean")
    def scalar(a: int | None) -> bool:
        return a is not None and a > 50

    @pandas_udf("boolean")  # type: ignore[call-overload,untyped-decorator]
    def series(b: pd.Series) -> pd.Series:
        return b < 0.5

    out = ab.where(rows, ab.predicate(scalar, "a"), ab.predicate(series, "b"))
    assert bag(out) == bag(rows.where("a > 50 and b < 0.5"))


def test_a_good_order_is_found_while_the_job_runs(rows: DataFrame, recorder: Recorder) -> None:
    note, noted = recorder("costly")

    def costly(text: str | None) -> bool:
        note(1)
        return sum(map(ord, (text or "") * 41)) % 10 > 0

    def selective(b: pd.Series) -> pd.Series:
        return b < 0.03

    many = rows.unionAll(rows).unionAll(rows).coalesce(1)
    f = ab.Filter(ab.predicate(costly, "text", name="costly"), ab.predicate(selective, "b", name="selective"))
    assert f.apply(many).count() > 0
    assert len(noted()) < many.count() / 3
    assert f.report().order == ("selective", "costly")
    why = [e.reason for e in f.events() if isinstance(e, Reordered) and e.after == ("selective", "costly")]
    assert re.fullmatch(r"at place 1 selective drops \d+ profiled rows at \S+ us each, costly \d+ at \S+ us", why[0])


def test_a_worker_goes_on_with_what_it_learned_in_its_last_task(spark: SparkSession) -> None:
    f = ab.Filter(
        ab.predicate(lambda i: i >= 0, "id", name="all"), ab.predicate(lambda i: i % 50 == 0, "id", name="few")
    )
    assert f.apply(spark.range(0, 40_000, 1, 10)).count() == 800
    started = [e for e in f.events() if isinstance(e, Started)]
    assert 1 <= len(started) <= 5, "two workers, ten tasks; a worker may be replaced"


def test_the_next_dataframe_starts_with_what_was_learned(rows: DataFrame) -> None:
    f = ab.Filter(
        ab.predicate(lambda a: True, "a", name="all"),
        ab.predicate(lambda a: a == 7, "a", name="few"),
        policy="agreedy",
        config=EAGER,
    )
    f.apply(rows.coalesce(1)).count()
    f._identity = "another worker"
    f.apply(rows.coalesce(1)).count()
    starts = [(e.order, e.learned) for e in f.events() if isinstance(e, Started)]
    assert starts == [(("all", "few"), False), (("few", "all"), True)]


# Kept columns


def score(text: str | None) -> float | None:
    return None if text is None else (len(text) * 37 + ord(text[-1])) % 100 / 100


def test_a_kept_value_is_computed_once_and_carried(rows: DataFrame, recorder: Recorder) -> None:
    note, noted = recorder("score")

    def scored(id: int, text: str | None) -> float | None:
        note(id)
        return score(text)

    kept = ab.predicate(scored, "id", "text", returns="double", keep="score", test=lambda s: s > 0.5, name="score")
    out = ab.where(rows, kept, ab.predicate(ends_even, "text"))
    found = out.collect()
    assert out.columns == [*rows.columns, "score"]
    assert found
    assert all(r.score == score(r.text) and r.score > 0.5 for r in found)
    assert max(Counter(noted()).values()) == 1


def test_schema_is_the_input_s_plus_what_is_kept(spark: SparkSession) -> None:
    df = spark.range(10).select(F.col("id").cast("int").alias("n"), F.struct(F.lit(1).alias("x")).alias("s"))
    assert not df.schema["n"].nullable
    kept = ab.predicate(lambda n: n + 1, "n", returns=LongType(), keep="m", test=lambda m: m > 3, name="next")
    out = ab.where(df, kept, F.col("n") >= 0)
    assert out.schema.fields == [*df.schema.fields, StructField("m", LongType())]
    assert sorted(r.m for r in out.collect()) == list(range(4, 11))


@pytest.mark.parametrize("policy", tiers(["auto", "fixed", "exhaustive"], fast=1))
@pytest.mark.parametrize("reader_first", [False, True])
def test_a_kept_column_can_be_read_by_another_predicate(
    rows: DataFrame, bag: Bag, policy: str, reader_first: bool
) -> None:
    keeper = ab.predicate(score, "text", returns="double", keep="score", test=lambda s: s > 0.2, name="keeper")

    def low(score: pd.Series) -> pd.Series:
        return score < 0.9

    reader = ab.predicate(low, "score", name="reader")
    other = ab.predicate(small, "b", name="small")
    written = [reader, other, keeper] if reader_first else [keeper, other, reader]
    f = ab.Filter(*written, policy=policy)
    plain = rows.withColumn("score", F.udf(score, "double")("text")).where("score > 0.2 and score < 0.9 and b < 0.7")
    assert bag(f.apply(rows)) == bag(plain)
    assert "keeper always before reader" in f.explain(rows)
    assert len(f.explain(rows).splitlines()) == 4, "one stage, its order, one constraint"


@pytest.mark.parametrize("reader_first", tiers([True, False], fast=1))
def test_a_kept_column_can_be_read_by_native_predicates(rows: DataFrame, bag: Bag, reader_first: bool) -> None:
    keeper = ab.predicate(score, "text", returns="double", keep="score", test=lambda s: s > 0.2, name="keeper")
    some = F.sqrt("score").cast("string").rlike("7|8")
    readers: list[Predicate | Column] = [ab.predicate(F.col("score") < 0.9, name="low"), some]
    f = ab.Filter(*([*readers, keeper] if reader_first else [keeper, *readers]), F.col("b") < 0.7)
    scored = rows.withColumn("score", F.udf(score, "double")("text")).where("score > 0.2 and score < 0.9 and b < 0.7")
    assert bag(f.apply(rows)) == bag(scored.where(some)) != Counter()
    explained = [line for line in f.explain(rows).splitlines() if line[0].isdigit()]
    assert [line.split(":")[0] for line in explained] == ["1. catalyst", "2. arrow", "3. catalyst"]
    assert "the sample would lack what Python predicates compute" in f.explain(rows)
    with pytest.raises(QueryError, match="unknown column 'scores' in predicate 'x'"):
        ab.where(rows, keeper, ab.predicate(F.col("scores") > 0, name="x"))


@pytest.mark.parametrize("policy", tiers(["auto", "fixed"], fast=1))
@pytest.mark.parametrize("reader_first", [False, True])
def test_a_reader_cannot_excuse_the_failure_of_what_it_reads(
    spark: SparkSession, policy: str, reader_first: bool
) -> None:
    numbers = spark.range(10)
    keeper = ab.predicate(lambda i: 1 / (i - 5), "id", returns="double", keep="inv", test=lambda v: True, name="keeper")
    reader = ab.predicate(lambda v: v is not None, "INV", name="reader")
    written = [reader, keeper] if reader_first else [keeper, reader]
    f = ab.Filter(*written, policy=policy, on_error="quarantine")
    assert sorted(row.id for row in f.apply(numbers).collect()) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert [(row.id, row["_predicate"]) for row in f.quarantined().collect()] == [(5, "keeper")]
    with pytest.raises(PySparkException, match="predicate 'keeper' failed on a row that no other predicate rejects"):
        ab.where(numbers, *written, policy=policy).count()
    odd = ab.predicate(lambda i: i != 5, "id", name="odd")
    assert ab.where(numbers, *written, odd, policy=policy).count() == 9


def test_kept_times_are_those_of_spark_s_functions(spark: SparkSession, settings_of: Callable[..., Any]) -> None:
    def later(ts: datetime) -> datetime:
        return ts + timedelta(hours=1)

    def later_all(ts: pd.Series) -> pd.Series:
        return ts + pd.Timedelta(hours=1)

    def stamps(ts: datetime) -> dict[str, list[datetime]]:
        return {"all": [ts, later(ts)]}

    nested = "struct<all:array<timestamp>>"
    cases: list[tuple[Any, str, Any, Any]] = [
        (later, "timestamp", F.udf, lambda v: True),
        (later_all, "timestamp", pandas_udf, lambda v: v.notna()),
        (stamps, nested, F.udf, lambda v: True),
    ]
    with settings_of(spark__sql__session__timeZone="Asia/Tokyo"):
        times = spark.sql("select timestamp_seconds(1717250000 + id * 5000) as ts from range(4)")
        for function, kind, udf, test in cases:
            kept = ab.predicate(function, "ts", returns=kind, keep="x", test=test)
            plain = times.withColumn("x", udf(function, kind)("ts"))
            got, want = (sorted(df.select(F.to_json(F.struct("*"))).collect()) for df in (ab.where(times, kept), plain))
            assert got == want


def test_kept_values_of_nested_types_come_back_whole(rows: DataFrame) -> None:
    def parts(text: str | None) -> Any:
        return None if text is None else (text[:3], list(text[-2:]))

    def see(parts: Any) -> str:
        return repr(parts)

    kept = ab.predicate(parts, "text", returns="struct<h:string,t:array<string>>", keep="parts", test=bool, name="p")
    seen = ab.predicate(see, "parts", returns="string", keep="seen", test=bool, name="see")
    row = ab.where(rows.where("id = 25"), kept, seen).collect()[0]
    assert row.parts == ("pac", ["2", "5"])
    assert row.seen == "Row(h='pac', t=['2', '5'])" == repr(row.parts)


def test_a_kept_column_where_nothing_gets_so_far(rows: DataFrame) -> None:
    kept = ab.predicate(score, "text", returns="double", keep="score", test=lambda s: s > 0.2, name="score")
    none = ab.predicate(lambda a: False, "a", name="none")
    out = ab.where(rows, none, kept, policy="fixed")
    assert out.columns[-1] == "score"
    assert out.collect() == []


@pytest.mark.parametrize("name", tiers(["t`k", "x.y", "a b", "error", "keep"], fast=2))
@pytest.mark.parametrize("on_error", ["raise", "quarantine"])
def test_any_name_can_be_kept(rows: DataFrame, name: str, on_error: Any) -> None:
    kept = ab.predicate(lambda id: id * 2, "id", returns="long", keep=name, test=lambda v: v < 6, name="p")
    out = ab.where(rows, kept, on_error=on_error)
    assert out.columns == [*rows.columns, name]
    assert sorted(row[-1] for row in out.collect()) == [0, 2, 4]


@pytest.mark.parametrize("keep", ["a", "TEXT"])
def test_a_kept_column_must_be_new(rows: DataFrame, keep: str) -> None:
    kept = ab.predicate(score, "text", returns="double", keep=keep, test=bool) if keep != "TEXT" else None
    kept = kept or ab.predicate(score, "dst", returns="double", keep=keep, test=bool)
    with pytest.raises(QueryError, match=rf"the kept column '{keep}' is in the input already\n  hint: choose another"):
        ab.where(rows, kept)


def test_a_volatile_predicate_may_keep(rows: DataFrame, recorder: Recorder) -> None:
    note, noted = recorder("volatile")

    def ticket(id: int) -> int:
        note(id)
        return id * 10

    kept = ab.predicate(ticket, "id", returns="long", keep="t", test=lambda t: t % 20 == 0, kind="volatile")
    guard = ab.predicate(small, "b")
    found = ab.where(rows, guard, kept, ab.predicate(not_zero, "a"), config=EAGER, policy="agreedy").collect()
    assert {r.id for r in found} == {r.id for r in rows.where("b < 0.7 and id % 2 = 0 and a != 0").collect()}
    assert all(r.t == r.id * 10 for r in found)
    assert sorted(noted()) == sorted(r.id for r in rows.where("b < 0.7").collect())


# Kinds


def inverse_above(a: int | None) -> bool:
    return 100 / a > 2  # type: ignore[operator]


INVERSE = ab.predicate(inverse_above, "a", kind="fallible", name="inverse")


def test_an_error_counts_only_where_nothing_else_rejects(rows: DataFrame, bag: Bag) -> None:
    nonzero = ab.predicate(lambda a: a is not None and a != 0, "a", name="nonzero")
    wanted = bag(rows.where("a != 0 and 100 / a > 2"))
    assert bag(ab.where(rows, F.col("a").isNotNull(), F.col("a") != 0, INVERSE)) == wanted
    assert bag(ab.where(rows, INVERSE, nonzero)) == wanted
    with pytest.raises(Exception, match=r"predicate 'inverse' failed on a row .*ZeroDivisionError"):
        ab.where(rows, F.col("a").isNotNull(), INVERSE).count()


@pytest.mark.parametrize("how", ["predicate", "filter"])
@pytest.mark.parametrize("policy", tiers(["auto", "agreedy", "sweep"], fast=1))
def test_a_strict_predicate_never_meets_what_its_guards_reject(
    rows: DataFrame, recorder: Recorder, how: str, policy: str
) -> None:
    note, noted = recorder("strict")

    def noting(id: int, a: int) -> bool:
        note(id)
        return 100 / a > 2

    guard = ab.predicate(lambda a: a is not None and a != 0, "a", name="guard")
    later = ab.predicate(lambda b: b < 0.01, "b", name="later")
    noisy = ab.predicate(noting, "id", "a", kind="fallible", strict=how == "predicate", name="inverse")
    config = ab.OrderingConfig(profile_probability=1.0, window_tuples=100, minimum_profiles=10)
    f = ab.Filter(guard, noisy, later, strict=how == "filter", policy=policy, config=config)
    f.apply(rows).collect()
    allowed = {r.id for r in rows.where("a != 0").collect()}
    assert set(noted()) <= allowed
    assert len(noted()) == len(set(noted()))


@pytest.mark.parametrize("policy", tiers(["auto", "agreedy", "localswaps"], fast=1))
def test_a_volatile_predicate_sees_exactly_the_rows_of_the_written_order(
    rows: DataFrame, recorder: Recorder, policy: str
) -> None:
    note, noted = recorder("volatile")

    def effect(id: int) -> bool:
        note(id)
        return id % 2 == 0

    f = ab.Filter(
        ab.predicate(small, "b", name="before"),
        ab.predicate(effect, "id", kind="volatile", name="effect"),
        F.col("a") == 7,
        ab.predicate(lambda b: b < 0.01, "b", name="after"),
        policy=policy,
        config=EAGER,
    )
    f.apply(rows).collect()
    assert sorted(noted()) == sorted(r.id for r in rows.where("b < 0.7").collect())


def test_a_volatile_batch_that_fails_is_not_tried_again(rows: DataFrame, recorder: Recorder) -> None:
    note, noted = recorder("effect")

    def effect(id: pd.Series) -> pd.Series:
        note(len(id))
        if (id == 700).any():
            raise ValueError("no")
        return id >= 0

    f = ab.Filter(ab.predicate(effect, "id", kind="volatile"), on_error="quarantine")
    passed = f.apply(rows).count()
    assert sum(noted()) == rows.count()
    assert passed + f.quarantined().count() == rows.count()


def test_a_pinned_predicate_stays_where_it_is_written(rows: DataFrame) -> None:
    f = ab.Filter(
        ab.predicate(lambda a: True, "a", name="useless", pinned=True),
        ab.predicate(lambda a: a is not None and a < 90, "a", name="most"),
        ab.predicate(lambda a: a == 7, "a", name="few"),
        policy="agreedy",
        config=EAGER,
    )
    f.apply(rows).count()
    assert f.report().order == ("useless", "few", "most")


def test_fixed_keeps_the_written_order_and_never_profiles(rows: DataFrame) -> None:
    first, second = ab.predicate(small, "b", name="first"), ab.predicate(lambda a: a == 7, "a", name="second")
    f = ab.Filter(first, second, F.col("text").rlike("9$"), F.col("a") > 3, policy="fixed")
    f.apply(rows).count()
    report = {p.predicate: p for p in f.report().predicates}
    assert not any(isinstance(e, Reordered) for e in f.events())
    assert all(report[name].calls == report[name].seen for name in ("first", "second"))
    assert report["second"].seen == report["first"].passed
    assert "fixed as written" in f.explain(rows)


# Quarantine


def test_quarantine_loses_and_doubles_no_row(rows: DataFrame, bag: Bag) -> None:
    f = ab.Filter(ab.predicate(small, "b", name="small"), INVERSE, on_error="quarantine")
    passed, aside = f.apply(rows), f.quarantined()
    assert bag(passed) == bag(rows.where("b < 0.7 and a != 0 and 100 / a > 2"))
    assert aside.columns == [*rows.columns, "_predicate", "_error"]
    assert bag(aside.drop("_predicate", "_error")) == bag(rows.where("b < 0.7 and (a = 0 or a is null)"))
    kinds = Counter((r["_predicate"], r["_error"].split(":")[0]) for r in aside.collect())
    assert set(kinds) == {("inverse", "ZeroDivisionError"), ("inverse", "TypeError")}
    dropped = rows.where("not (b < 0.7) or (a != 0 and not (100 / a > 2))").count()
    assert passed.count() + aside.count() + dropped == rows.count()


def test_rows_of_every_stage_are_set_aside_once(rows: DataFrame, bag: Bag) -> None:
    def odd(id: int) -> bool:
        if id % 10 == 0:
            raise ValueError(id)
        return id % 2 == 1

    f = ab.Filter(INVERSE, F.rand() > -1, ab.predicate(odd, "id", name="odd"), on_error="quarantine")
    assert bag(f.apply(rows)) == bag(rows.where("a != 0 and 100 / a > 2 and id % 2 = 1"))
    aside = Counter(r["_predicate"] for r in f.quarantined().collect())
    assert aside == {
        "inverse": rows.where("(a = 0 or a is null) and (id % 2 = 1 or id % 10 = 0)").count(),
        "odd": rows.where("a != 0 and 100 / a > 2 and id % 10 = 0").count(),
    }


# Errors and later stages


def boom(id: int) -> bool:
    if id == 3:
        raise ValueError("three")
    return True


def fails_on_three() -> Predicate:
    return ab.predicate(boom, "id", name="boom")


def passes(name: str, **options: Any) -> Predicate:
    return ab.predicate(lambda id: True, "id", name=name, **options)


def keeps_next(**options: Any) -> Predicate:
    return ab.predicate(lambda id: id + 1, "id", returns="long", keep="next", test=lambda v: True, name="k", **options)


LATER: dict[str, Callable[[], list[Any]]] = {
    "native behind a volatile one": lambda: [fails_on_three(), passes("v", kind="volatile"), "id <> 3"],
    "native behind a volatile native one": lambda: [fails_on_three(), F.rand() >= 0, F.col("id") != 3],
    "native that reads a kept column": lambda: [keeps_next(), "next <> 4", fails_on_three()],
    "pinned native": lambda: [fails_on_three(), ab.predicate("id <> 3", pinned=True)],
    "strict native": lambda: [fails_on_three(), ab.predicate("id <> 3", strict=True)],
    "volatile native": lambda: [fails_on_three(), (F.rand() >= 0) & (F.col("id") != 3)],
    "Python behind a native one": lambda: [
        fails_on_three(), F.rand() >= 0, ab.predicate(lambda id: id != 3, "id", name="not three")
    ],
    "look-up behind a native one": lambda: [fails_on_three(), F.rand() >= 0, ab.lookup("id", [3], negate=True)],
    "reader behind a native one": lambda: [
        keeps_next(), fails_on_three(), F.rand() >= 0, ab.predicate(lambda n: n != 4, "next", name="reader")
    ],
    "native two stages on": lambda: [
        fails_on_three(), F.rand() >= 0, passes("v", kind="volatile"), F.rand() < 2, passes("w"), "id <> 3"
    ],
}  # fmt: skip


@pytest.mark.parametrize("arrangement", tiers(LATER, fast=5, reason="random arrangements are in every tier"))
def test_a_later_stage_excuses_an_error(spark: SparkSession, arrangement: str) -> None:
    check_excused(spark, LATER[arrangement]())


@pytest.mark.usefixtures("spark_4_0")
@pytest.mark.classic(reason="filters need Arrow UDFs there")
def test_without_arrow_udfs_a_later_stage_excuses_an_error(spark: SparkSession) -> None:
    for arrangement in ("native behind a volatile one", "reader behind a native one"):
        check_excused(spark, LATER[arrangement]())


def check_excused(spark: SparkSession, predicates: list[Any]) -> None:
    numbers = spark.range(0, 6, 1, 1)
    passed = ab.where(numbers, *predicates)
    assert sorted(row.id for row in passed.select("id").collect()) == [0, 1, 2, 4, 5]
    assert [name for name in passed.columns if name not in ("id", "next")] == []
    aside = ab.Filter(*predicates, on_error="quarantine").quarantined(numbers)
    assert aside.columns == ["id", "_predicate", "_error"]
    assert aside.count() == 0


def test_an_error_that_no_later_stage_excuses_is_raised(spark: SparkSession) -> None:
    for barrier in (passes("v", kind="volatile"), F.rand() >= 0):
        with pytest.raises(PySparkException, match="'boom' failed on a row that no other predicate rejects: ValueErr"):
            ab.where(spark.range(6), fails_on_three(), barrier, "id <> 4", passes("w")).count()


def test_what_reads_a_value_that_is_lacking_excuses_nothing_in_any_stage(spark: SparkSession) -> None:
    def inverse(id: int) -> float:
        return 1 / (id - 3)

    keeper = ab.predicate(inverse, "id", returns="double", keep="inv", test=lambda v: True, name="keeper")
    chained = ab.predicate(lambda v: v, "inv", returns="double", keep="again", test=lambda v: True, name="chained")
    readers: list[Any] = [
        "inv is not null",
        "again is not null",
        ab.predicate(lambda v: v is not None, "inv", name="reader"),
    ]
    for barrier in (passes("v", kind="volatile"), F.rand() >= 0):
        f = ab.Filter(keeper, barrier, chained, *readers, on_error="quarantine")
        assert sorted(row.id for row in f.apply(spark.range(6)).collect()) == [0, 1, 2, 4, 5]
        assert [(row.id, row["_predicate"]) for row in f.quarantined().collect()] == [(3, "keeper")]
        assert f.apply(spark.range(6)).where("id <> 3 and again <> inv").count() == 0
        with pytest.raises(PySparkException, match="predicate 'keeper' failed on a row that no other predicate rej"):
            ab.where(spark.range(6), keeper, barrier, chained, *readers).count()
        assert ab.where(spark.range(6), keeper, barrier, chained, *readers, "id <> 3").count() == 5


def test_the_first_failing_predicate_as_written_is_named_across_stages(spark: SparkSession) -> None:
    def fails(name: str) -> Predicate:
        return ab.predicate(lambda id: [True][id > 3], "id", name=name)

    f = ab.Filter(fails("one"), F.rand() >= 0, fails("two"), on_error="quarantine")
    f.apply(spark.range(6))
    assert sorted((row.id, row["_predicate"]) for row in f.quarantined().collect()) == [(4, "one"), (5, "one")]
    with pytest.raises(PySparkException, match="predicate 'one' failed on a row that no other predicate rejects"):
        ab.where(spark.range(6), fails("one"), F.rand() >= 0, fails("two")).count()


@pytest.mark.parametrize("barrier", tiers([True, False], fast=1))
def test_a_native_predicate_that_may_fail_is_not_asked_about_rows_with_errors(
    spark: SparkSession, barrier: bool
) -> None:
    more = [F.rand() >= 0] if barrier else []
    for native in ("id + 1 <> 4", "1 / (id - 3) > -9"):
        f = ab.Filter(fails_on_three(), *more, native, on_error="quarantine")
        assert f.apply(spark.range(6)).count() == 5
        assert [row.id for row in f.quarantined().collect()] == [3]
        with pytest.raises(PySparkException) as caught:
            ab.where(spark.range(6), fails_on_three(), *more, native).count()
        said = f"no other predicate rejects (not asked, as it may fail itself: '{native}'): ValueError: three"
        assert said in str(caught.value)
    safe = ab.predicate("id + 1 <> 4", kind="pure", strict=True)
    assert ab.where(spark.range(6), fails_on_three(), safe).count() == 5


def test_errors_are_excused_between_micro_batches(spark: SparkSession, bag: Bag) -> None:
    found: list[int] = []
    heavy = [F.col("id").cast("string").rlike("[0-9]"), F.sqrt("next") >= 0]
    f = ab.Filter(keeps_next(), fails_on_three(), "next <> 4", F.rand() >= 0, *heavy, on_error="quarantine")
    run = f.foreach_batch(lambda df, batch: found.extend(row.id for row in df.collect()))
    for batch in range(2):
        run(spark.range(6), batch)
    assert sorted(found) == sorted([0, 1, 2, 4, 5] * 2)
    assert f.quarantined().count() == 0


@pytest.mark.parametrize("policy", tiers(["auto", "fixed", "exhaustive"], fast=1))
@pytest.mark.parametrize("flipped", [False, True])
def test_the_first_failing_predicate_as_written_is_named(rows: DataFrame, policy: str, flipped: bool) -> None:
    def fails_on(divisor: int, name: str) -> Predicate:
        def test(id: int) -> bool:
            if id % divisor == 0:
                raise LookupError(name)
            return True

        return ab.predicate(test, "id", name=name)

    terms = [fails_on(4, "four"), ab.predicate(lambda id: id % 8 != 4, "id", name="rest"), fails_on(8, "eight")]
    f = ab.Filter(*(terms[::-1] if flipped else terms), policy=policy, config=EAGER, on_error="quarantine")
    f.apply(rows)
    named = Counter((r["_predicate"], r["_error"].partition(" (")[0]) for r in f.quarantined().collect())
    name = "eight" if flipped else "four"
    assert named == {(name, f"LookupError: {name}"): rows.where("id % 8 = 0").count()}


def test_quarantined_needs_a_filter_that_sets_rows_aside(rows: DataFrame) -> None:
    with pytest.raises(QueryError, match="this filter sets no rows aside"):
        ab.Filter(INVERSE).quarantined(rows)
    with pytest.raises(QueryError, match="has not been applied yet"):
        ab.Filter(INVERSE, on_error="quarantine").quarantined()
    with pytest.raises(QueryError, match="native predicates only, whose errors end the Spark job"):
        ab.Filter(F.col("a") > 3, on_error="quarantine").quarantined(rows)


# Look-ups


def test_lookups_take_sets_tables_and_dataframes(rows: DataFrame, bag: Bag, spark: SparkSession) -> None:
    wanted = bag(rows.where("dst in ('10.4.0.7', '10.1.0.7')"))
    values = ["10.4.0.7", "10.9.0.7", "10.1.0.7", None]
    tables: list[tuple[Any, str | None]] = [
        ({v for v in values if v}, None),
        (values, None),
        (pa.array(values), None),
        (pd.Series(values, name="addr"), None),
        (pd.DataFrame({"addr": values, "n": range(4)}, index=list("pqrs")), "addr"),
        (pd.DataFrame({"addr": values}, index=list("pqrs")), None),
        (pa.table({"addr": values}), None),
        (spark.createDataFrame([(v, 1) for v in values], ["the.addr", "n"]), "the.addr"),
    ]
    for table, on in tables:
        assert bag(ab.where(rows, ab.lookup("dst", table, on=on))) == wanted, type(table)


def test_lookups_negate_and_nulls(rows: DataFrame, bag: Bag) -> None:
    assert bag(ab.where(rows, ab.lookup("a", [1, 2, None], negate=True))) == bag(rows.where("a not in (1, 2)"))
    assert ab.where(rows, ab.lookup("a", [])).count() == 0
    assert ab.where(rows, ab.lookup("a", [], negate=True)).count() == rows.where("a is not null").count()


@pytest.mark.parametrize("many", [0, 5000])
def test_numbers_of_other_types_match_as_in_spark(rows: DataFrame, spark: SparkSession, many: int) -> None:
    padding = [10**6 + i for i in range(many)]
    found = ab.where(rows, ab.lookup("a", [1.5, 2.0, float(2**40), *map(float, padding)]))
    assert found.count() == rows.where("a in (1.5D, 2.0D)").count() > 0
    assert ab.where(rows, ab.lookup("a", [3, 2**40, *padding])).count() == rows.where("a = 3").count()
    signed = spark.sql("select explode(array(-0.0D, 0.0D, double('nan'), -double('nan'), 1.5D, null)) d")
    wanted = signed.where(F.col("d").isin(0.0, float("nan"))).count()
    assert ab.where(signed, ab.lookup("d", [0.0, float("nan"), *map(float, padding)])).count() == wanted == 4


def test_prefix_lookups(rows: DataFrame, bag: Bag) -> None:
    networks = ["10.1.0.0/16", "10.2.0.7", "10.4."]
    out = ab.where(rows, ab.lookup("dst", networks, match="prefix"))
    assert bag(out) == bag(rows.where("dst like '10.1.%' or dst = '10.2.0.7' or dst like '10.4.%'"))
    table = pd.DataFrame({"prefix": networks})
    under = ab.lookup("dst", table, on="prefix", match="prefix", negate=True)
    assert bag(ab.where(rows, under)) == bag(rows) - bag(out)
    exact = ab.where(rows, ab.lookup("dst", table, on="prefix", match="exact"))
    assert bag(exact) == bag(rows.where("dst = '10.2.0.7'"))


def test_an_unchanged_dataframe_without_predicates(rows: DataFrame, bag: Bag) -> None:
    assert bag(ab.where(rows)) == bag(rows)
    assert ab.Filter().report().predicates == ()


def test_only_columns_that_are_read_enter_the_worker(rows: DataFrame) -> None:
    if not hasattr(F, "arrow_udf"):
        pytest.skip("Spark 4.0 has no Arrow UDFs")
    text = plan_text(
        ab.where(rows, ab.predicate(not_zero, "a"), ab.predicate(small, "b"), policy="agreedy"), "physical"
    )
    call = next(line for line in text.splitlines() if "ArrowEvalPython" in line)
    assert "judge(a#" in call
    assert "text#" not in call.split("judge(")[1].split(")")[0]


def test_texts_that_nobody_reads_are_no_attributes(rows: DataFrame) -> None:
    if not hasattr(F, "arrow_udf"):
        pytest.skip("Spark 4.0 has no Arrow UDFs")
    text = plan_text(ab.where(rows, ab.predicate(not_zero, "a"), ab.predicate(small, "b")), "physical")
    call = next(line for line in text.splitlines() if "ArrowEvalPython" in line)
    assert call.split("judge(")[1].split(")")[0].count("#") == 3, "a, b and id, but neither text nor dst nor list"


def test_wrong_answers_are_errors_of_the_data(rows: DataFrame) -> None:
    assert issubclass(DataError, ab.AnabranchError)
    with pytest.raises(Exception, match=r"predicate 'text' failed on a row .*: it returned str, expected bool"):
        ab.where(rows, ab.predicate(lambda dst: dst, "dst", name="text")).count()


@pytest.fixture
def spark_4_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the way of Spark 4.0, which has no Arrow UDFs."""
    monkeypatch.delattr("pyspark.sql.functions.arrow_udf", raising=False)


@pytest.mark.parametrize(
    "without_arrow_udfs",
    [False, pytest.param(True, marks=pytest.mark.classic(reason="filters need Arrow UDFs there"))],
)
def test_columns_of_the_input_mean_the_same_behind_a_filter(
    spark: SparkSession, request: pytest.FixtureRequest, without_arrow_udfs: bool
) -> None:
    if without_arrow_udfs:
        request.getfixturevalue("spark_4_0")
    df = spark.range(60).select("id", (F.col("id") % 4).alias("a.b"), F.lit("t").alias("t")).alias("named")
    even = ab.predicate(lambda n: n % 2 == 0, "id", name="even")
    out = ab.where(df, even, ab.predicate(lambda n: n * 2, "id", returns="long", keep="twice", test=lambda n: n < 100))
    assert sorted(row.id for row in out.where(df["`a.b`"] == 2).select(df.id).collect()) == list(range(2, 50, 4))
    assert out.select("named.id", "twice").where("twice = 8").collect() == [Row(id=4, twice=8)]
    assert out.drop(df["`a.b`"], df.t).columns == ["id", "twice"]
    again = df.join(out.select("id", "twice"), "id").where("twice > 90").select("id", "t", "twice")
    assert sorted(map(tuple, again.collect())) == [(46, "t", 92), (48, "t", 96)]
    assert out.join(out, "id").count() == out.intersect(out).count() == 25


@pytest.mark.usefixtures("spark_4_0")
@pytest.mark.classic(reason="filters need Arrow UDFs there")
def test_without_arrow_udfs_the_rows_are_the_same(rows: DataFrame, bag: Bag, expected: Counter[str]) -> None:
    out = ab.where(rows, *every_kind())
    assert "mapInArrow" in plan_text(out, "physical").replace("MapInArrow", "mapInArrow")
    assert out.schema == rows.schema
    assert bag(out) == expected


@pytest.mark.usefixtures("spark_4_0")
@pytest.mark.classic(reason="filters need Arrow UDFs there")
def test_without_arrow_udfs_kept_and_undecided_rows_are_the_same(spark: SparkSession) -> None:
    df = spark.range(300).select(F.col("id").alias("n.n"), F.lit(1).alias("t"), F.lit(2).alias("t"))
    kept = ab.predicate(lambda n: n % 7, "n.n", returns="long", keep="rest", test=lambda r: 6 / (r - 1) > 2, name="p")
    f = ab.Filter(kept, ab.predicate(lambda n: n < 100, "n.n", name="low"), on_error="quarantine")
    out = f.apply(df)
    assert out.columns == ["n.n", "t", "t", "rest"]
    assert sorted(tuple(r) for r in out.collect()) == [(n, 1, 2, n % 7) for n in range(100) if n % 7 in (2, 3)]
    aside = f.quarantined()
    assert aside.columns == ["n.n", "t", "t", "_predicate", "_error"]
    assert sorted(tuple(r)[:4] for r in aside.collect()) == [(n, 1, 2, "p") for n in range(100) if n % 7 == 1]
    assert f.report().rows == 300
