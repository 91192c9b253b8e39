"""Native predicates: ordered by a pilot sample where that pays and is allowed, and still plain Spark filters."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.errors import InternalError
from anabranch.events import PilotDecided
from anabranch.model.build import native
from anabranch.ordering import POLICIES, Precedence
from anabranch.routing.policies import NAMES
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.spark.connect import is_connect
from anabranch.spark.native import catalyst
from anabranch.spark.native import order as native_order
from anabranch.spark.native.pilot_order import native_policy, pilot_order
from spark.plan_texts import plan_text
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Bag = Callable[[DataFrame], Counter[str]]


def slow() -> Column:
    """Costly, and true nearly always."""
    return F.regexp_replace(F.repeat("dst", 20), "([0-9]+)[.]([0-9]+)", "$2-$1").rlike("0-[0-9]")


def test_the_slow_one_lets_most_pass(rows: DataFrame) -> None:
    assert rows.where(slow()).count() > 0.9 * rows.count()


def order_of(f: ab.Filter, df: DataFrame) -> list[str]:
    """Names in the order that `explain` gives, over all stages."""
    lines = [line.split("order: ")[1].split("   (")[0] for line in f.explain(df).splitlines() if "order: " in line]
    return [name for line in lines for name in line.split(" -> ")]


def optimized(df: DataFrame) -> str:
    return plan_text(df, "optimized")


def decisions(f: ab.Filter) -> list[PilotDecided]:
    return [e for e in f.events() if isinstance(e, PilotDecided)]


@pytest.mark.parametrize(
    "policy", tiers(["auto", "independent", "exhaustive", "agreedy", "sweep", "localswaps"], fast=1)
)
def test_the_pilot_puts_the_cheap_selective_predicate_first(rows: DataFrame, bag: Bag, policy: str) -> None:
    f = ab.Filter(ab.predicate(slow(), name="slow"), ab.predicate(F.col("a") == 7, name="few"), policy=policy)
    out = f.apply(rows)
    assert order_of(f, rows) == ["few", "slow"]
    assert f.report().order == ("few", "slow")
    condition = optimized(out).split("Filter ")[1]
    assert condition.index("= 7") < condition.index("RLIKE")
    assert bag(out) == bag(rows.where(slow() & (F.col("a") == 7)))
    (decided,) = decisions(f)
    assert decided.before == ("slow", "few")
    assert decided.after == ("few", "slow")
    assert decided.sample_rows > 0


@pytest.mark.parametrize("policy", NAMES)
def test_every_policy_has_an_order_for_native_predicates(policy: str) -> None:
    drops, costs = np.array([[False, True, True], [True, True, False]]), np.array([1e-6, 2e-6, 3e-6])
    name = native_policy(policy)
    assert name in POLICIES
    assert sorted(pilot_order(name, drops, costs, Precedence.none(3))) == [0, 1, 2]


def test_native_predicates_refuse_a_policy_that_they_do_not_know() -> None:
    with pytest.raises(InternalError, match="policy 'greedy' is not known for native predicates; they have: fixed, "):
        native_policy("greedy")


def test_parts_that_are_put_together_without_a_shuffle_have_a_pilot(rows: DataFrame) -> None:
    f = ab.Filter(slow(), F.col("a") == 7)
    f.apply(rows.coalesce(1))
    assert len(decisions(f)) == 1


def test_a_good_written_order_is_kept(rows: DataFrame) -> None:
    f = ab.Filter(ab.predicate(F.col("a") == 7, name="few"), ab.predicate(slow(), name="slow"))
    assert order_of(f, rows) == ["few", "slow"]
    assert "as written; a pilot of" in f.explain(rows)


def test_the_report_says_that_native_counts_are_of_a_sample(rows: DataFrame) -> None:
    f = ab.Filter(ab.predicate(slow(), name="slow"), ab.predicate(F.col("a") == 7, name="few"))
    f.apply(rows).count()
    few = f.report().predicates[1]
    assert (few.basis, few.executor, few.place) == ("sample", "catalyst", 1)
    assert few.seen == decisions(f)[0].sample_rows
    assert few.dropped == few.seen - (few.passed or 0)
    assert few.cost_us is not None


def of_both_kinds(**options: Any) -> ab.Filter:
    python = ab.predicate(lambda b: b < 0.5, "b", name="python")
    return ab.Filter(ab.predicate(slow(), name="slow"), python, ab.predicate(F.col("a") == 7, name="few"), **options)


def test_what_is_known_of_native_predicates_survives_a_restart(rows: DataFrame, tmp_path: Path) -> None:
    first = of_both_kinds(state=tmp_path)
    first.apply(rows).count()
    before = first.report()
    assert before.order == ("few", "slow", "python")
    second = of_both_kinds(state=tmp_path)
    assert second.report().predicates == before.predicates
    assert second.report().order == before.order
    assert second.apply(rows).count() == rows.where("a = 7 and b < 0.5").count()
    assert order_of(second, rows) == ["few", "slow", "python"]
    assert len(decisions(second)) == 1, "the costs are known, so that there is no pilot"
    assert of_both_kinds(state=tmp_path, policy="fixed").explain(rows).count("slow -> few   (fixed as written)") == 1


def test_what_is_known_of_native_predicates_is_saved_and_loaded(rows: DataFrame, tmp_path: Path) -> None:
    f = of_both_kinds()
    f.apply(rows).count()
    f.save(tmp_path / "plan")
    g = of_both_kinds().load(tmp_path / "plan")
    assert g.report().order == ("few", "slow", "python")
    assert g.report().predicates[0] == f.report().predicates[0]
    g.apply(rows)
    assert decisions(g) == []
    other = rows.withColumn("a", F.col("a").cast("long"))
    h = of_both_kinds().load(tmp_path / "plan")
    assert order_of(h, other) == ["few", "slow", "python"]
    assert len(decisions(h)) == 1, "another input has a pilot of its own"


UNTRIED: dict[str, tuple[Callable[[DataFrame], tuple[DataFrame, list[Column]]], str]] = {
    "comparisons": (
        lambda df: (df, [F.col("b") < 0.9, F.col("a") == 7, F.col("text").isNotNull()]),
        "all native predicates are trivial comparisons",
    ),
    "one": (lambda df: (df, [slow()]), "one native predicate has one order"),
    "aggregate": (
        lambda df: (df.groupBy("dst").agg(F.max("a").alias("a")), [slow(), F.col("a") == 97]),
        "a sample would have to compute the input's aggregate first",
    ),
    "join": (
        lambda df: (df.join(df.select("id", F.lit(1).alias("one")), "id"), [slow(), F.col("a") == 7]),
        "a sample would have to compute the input's join first",
    ),
    "udf": (
        lambda df: (df, [slow(), F.udf(lambda a: a == 7, "boolean")("a")]),
        "a column expression holds a Python UDF",
    ),
}


@pytest.mark.parametrize("case", UNTRIED)
@pytest.mark.classic(reason="asks Spark's context for its jobs")
def test_no_pilot_where_it_cannot_pay(rows: DataFrame, bag: Bag, spark: SparkSession, case: str) -> None:
    df, terms = UNTRIED[case][0](rows)
    group = f"no pilot for {case}"
    spark.sparkContext.setJobGroup(group, group)
    f = ab.Filter(*terms)
    out = f.apply(df)
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == [], "a plan is made without a job"
    assert f"as written; {UNTRIED[case][1]}" in f.explain(df)
    plain = df
    for term in terms:
        plain = plain.where(term)
    assert bag(out) == bag(plain)


def test_sources_still_see_the_filters(rows: DataFrame, tmp_path: Path, spark: SparkSession) -> None:
    rows.write.parquet(str(tmp_path / "rows"))
    stored = spark.read.parquet(str(tmp_path / "rows"))
    out = ab.where(stored, slow(), F.col("a") == 7, ab.predicate(lambda b: b < 0.5, "b", name="python"))
    plan = plan_text(out, "physical")
    pushed = next(line for line in plan.splitlines() if "PushedFilters" in line)
    assert "EqualTo(a,7)" in pushed
    assert out.count() == rows.where("a = 7 and b < 0.5").count()


# What must not move


@pytest.fixture(scope="module")
def risky(rows: DataFrame) -> DataFrame:
    """`z` is zero on one row, far behind any sample, and `zero` on many."""
    z = F.when(F.col("id") == 2990, 0).otherwise(F.col("id") % 100 + 1)
    return rows.select("*", z.alias("z"), (F.col("id") % 3).alias("zero"))


def test_what_may_fail_stays_behind_its_guards(risky: DataFrame, bag: Bag) -> None:
    guard, division = F.col("z") != 0, F.lit(100) / F.col("z") > 60
    f = ab.Filter(
        ab.predicate(slow(), name="slow"), ab.predicate(guard, name="guard"), ab.predicate(division, name="division")
    )
    assert "guard always before division" in f.explain(risky)
    order = order_of(f, risky)
    assert order.index("guard") < order.index("division")
    assert order.index("slow") < order.index("division")
    assert bag(f.apply(risky)) == bag(risky.where(slow()).where(guard).where(division))


def test_a_pilot_does_not_fail_where_the_query_would_not(risky: DataFrame, bag: Bag) -> None:
    guard, division = F.col("zero") != 0, F.lit(100) / F.col("zero") > 60
    out = ab.where(risky, guard, division, slow(), F.col("a") == 7)
    assert bag(out) == bag(risky.where("zero = 1 and a = 7"))


@pytest.mark.parametrize("policy", tiers(["auto", "agreedy"], fast=1))
@pytest.mark.classic(reason="a text of a plan does not tell that sums of doubles cannot fail")
def test_what_may_fail_on_another_input_stays_behind_its_guards_there(risky: DataFrame, policy: str) -> None:
    """A sum of doubles cannot fail and may come first; one of integers overflows on the row that its guard rejects."""
    large = F.when(F.col("id") == 2990, 2**31 - 1).otherwise(F.col("a"))
    whole = risky.where("a is not null").withColumn("x", large.cast("int"))
    guard = slow() & (F.col("z") != 0)
    f = ab.Filter(ab.predicate(guard, name="guard"), ab.predicate(F.col("x") + 1 > 90, name="sum"), policy=policy)
    doubles = whole.withColumn("x", F.col("x").cast("double"))
    assert order_of(f, doubles) == ["sum", "guard"]
    wanted = sorted(r.id for r in whole.where("a >= 90 and z != 0").collect())
    assert sorted(r.id for r in f.apply(doubles).collect()) == wanted
    assert sorted(r.id for r in f.apply(whole).collect()) == wanted
    assert order_of(f, whole) == ["guard", "sum"]


def test_a_second_dataframe_of_the_same_kind_keeps_what_was_learned(rows: DataFrame) -> None:
    f = ab.Filter(ab.predicate(slow(), name="slow"), ab.predicate(F.col("a") == 7, name="few"), policy="agreedy")
    f.apply(rows)
    f.apply(rows.where("id > 9"))
    assert len(decisions(f)) == 1
    assert f.report().order == ("few", "slow")


@pytest.mark.classic(reason="native predicates are not timed there")
def test_after_a_rest_the_order_follows_other_data(rows: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_order, "PILOTS_SHARE", 1e9)  # no rest at all
    others = {name: F.expr(f"if(md5(repeat(text, 300)) = '', null, text) <> '{name}'") for name in ("x", "y")}
    f = ab.Filter(*(ab.predicate(column, name=name) for name, column in others.items()), policy="agreedy")
    for text in ("y", "x", "y"):
        assert f.apply(rows.select("id", F.lit(text).alias("text"))).count() == 0
        assert f.report().order[0] == text
    assert len(decisions(f)) == 3


def test_a_python_guard_protects_a_native_predicate(risky: DataFrame, bag: Bag) -> None:
    guard = ab.predicate(lambda zero: zero != 0, "zero", name="guard")
    out = ab.where(risky, guard, F.lit(100) / F.col("zero") > 60, slow() & (F.lit(100) % F.col("zero") == 0))
    assert bag(out) == bag(risky.where("zero = 1"))


def test_outside_ansi_mode_division_cannot_fail(risky: DataFrame, settings_of: Callable[..., object]) -> None:
    division = ab.predicate(F.lit(100) / F.col("zero") > 60, name="division")
    f = ab.Filter(ab.predicate(slow(), name="slow"), division)
    assert "always before" in f.explain(risky)
    with settings_of(spark__sql__ansi__enabled=False):  # type: ignore[attr-defined]
        free = ab.Filter(ab.predicate(slow(), name="slow"), division)
        assert "always before" not in free.explain(risky)


@pytest.mark.parametrize(
    ("condition", "free"),
    [
        ("a / 2 > 3", True),
        ("a % 0 = 1", False),
        ("b + 1 > 3", True),
        ("id + 1 > 3", False),
        ("cast(text as int) > 3", False),
        ("cast(id as string) = '3'", True),
        ("cast(a as long) > 3", True),
        ("md5(text) like 'c%'", True),
        ("cast(id as int) > 3", False),
        ("list[1] > 3", False),
        ("upper(text) like '%9'", True),
        ("to_date(text) > date'2020-01-01'", False),
    ],
)
def test_what_may_fail_is_told_apart(rows: DataFrame, condition: str, free: bool) -> None:
    f = ab.Filter(ab.predicate(F.col("a") > 3, name="guard"), ab.predicate(F.expr(condition), name="it"))
    guarded = "guard always before it" in f.explain(rows)
    assert guarded != free or (guarded and is_connect(rows)), "a text of a plan does not tell all"


def test_a_declared_kind_is_believed(rows: DataFrame) -> None:
    f = ab.Filter(
        ab.predicate(F.col("a") > 3, name="guard"),
        ab.predicate(F.col("id") + 1 > 3, name="sum", kind="pure"),
        ab.predicate(F.col("b") < 0.5, name="volatile", kind="volatile"),
        F.col("dst") == "x",
    )
    explained = f.explain(rows)
    assert "guard always before sum" not in explained
    assert "guard always before volatile" in explained
    assert "sum always before volatile" in explained


def test_random_columns_are_barriers(rows: DataFrame) -> None:
    seen = ab.Filter(
        ab.predicate(slow(), name="slow"),
        ab.predicate(F.rand(3) < 0.5, name="coin"),
        ab.predicate(F.col("a") == 7, name="few"),
    )
    assert order_of(seen, rows) == ["slow", "coin", "few"]
    plain = rows.where(slow()).where(F.rand(3) < 0.5).where("a = 7")
    assert sorted(r.id for r in seen.apply(rows).collect()) == sorted(r.id for r in plain.collect())


@pytest.mark.classic(reason="a text of a plan does not tell enough of these for a pilot")
def test_columns_bound_to_their_dataframe_work(rows: DataFrame, bag: Bag) -> None:
    few = ab.predicate(rows["a"] == 7, name="few")
    f = ab.Filter(ab.predicate(F.length(F.repeat(rows["dst"], 500)).cast("string").rlike("0$"), name="slow"), few)
    out = f.apply(rows)
    assert "pilot of" in f.explain(rows)
    assert bag(out) == bag(rows.where("a = 7"))
    mixed = ab.where(rows, ab.predicate(lambda a: a == 7, "a", name="p"), rows["b"] < 0.5)
    assert bag(mixed) == bag(rows.where("a = 7 and b < 0.5"))


def test_columns_with_odd_names_are_sampled(rows: DataFrame) -> None:
    odd = rows.withColumnRenamed("a", "a.b c").withColumnRenamed("dst", "d`t")
    terms = [F.col("`d``t`").rlike("(1|2|3)[.]0[.]7"), F.col("`a.b c`") == 7]
    f = ab.Filter(*terms)
    assert "pilot of" in f.explain(odd)
    assert f.apply(odd).count() == odd.where(terms[0] & terms[1]).count()


def test_sql_texts_are_native_predicates(rows: DataFrame, bag: Bag) -> None:
    f = ab.Filter("a > 5", ab.predicate("text rlike '[02468]$'", name="even"), "a > 5", "b between 0.1 and 0.6")
    assert bag(f.apply(rows)) == bag(rows.where("a > 5 and text rlike '[02468]$' and b between 0.1 and 0.6"))
    assert {p.predicate for p in f.report().predicates} == {"a > 5", "even", "a > 5 #2", "b between 0.1 and 0.6"}
    assert f.explain(rows).startswith("anabranch filter: policy auto, 4 predicates")


def test_the_same_expression_twice_gets_two_names(rows: DataFrame) -> None:
    f = ab.Filter(F.col("a") > 3, F.col("a") > 3)
    assert len({p.name for p in f.predicates}) == 2
    assert f.apply(rows).count() == rows.where("a > 3").count()


KINDS = {
    "dst rlike '^1'": "pure",
    "dst rlike text": "fallible",
    "dst like text": "fallible",
    "dst ilike '%X%'": "pure",
    "regexp_replace(dst, '([0-9])', '$1-') = 'x'": "pure",
    "regexp_replace(dst, '[0-9]', '$1-') = 'x'": "fallible",
    "regexp_extract(dst, '([0-9]+)', 1) = '7'": "pure",
    "regexp_extract(dst, '[0-9]+', 1) = '7'": "fallible",
    "split(dst, '[.]')[0] = '10'": "pure",
    "split(dst, '[.]')[1] = '10'": "fallible",
    "split(dst, text)[0] = '10'": "fallible",
    "try_element_at(split(dst, '[.]'), 9) is null": "pure",
    "id between 3 and 5": "pure",
    "initcap(dst) = 'X'": "pure",
    "exists(list, x -> 1 / x > 1)": "fallible",
    "a + 1 > 3": "fallible",
    "element_at(list, a) = 1": "fallible",
    "try_element_at(list, a) = 1": "fallible",
    "try_element_at(list, 1) = 1": "pure",
    "id div -1L < 3": "fallible",
    "id div 2L < 3": "pure",
    "cast(a as decimal(10, 2)) / 2 > 1": "fallible",
    "b / 0.5 > 1": "pure",
}


@pytest.mark.parametrize("condition", KINDS)
def test_what_can_fail_is_known(rows: DataFrame, condition: str) -> None:
    found = catalyst.inspect(rows, native(F.expr(condition))).kind
    assert found == KINDS[condition] or (found == "fallible" and is_connect(rows)), "a text of a plan does not tell all"


def test_without_ansi_an_element_0_still_fails(rows: DataFrame, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        kinds = {c: catalyst.inspect(rows, native(F.expr(c))).kind for c in ("element_at(list, a) = 1", "list[a] = 1")}
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert kinds == {"element_at(list, a) = 1": "fallible", "list[a] = 1": "pure"}


def test_columns_that_only_the_input_below_has(rows: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    """Spark finds what a projection has left out, an aggregate of the rows in a group, and what a file is like."""
    narrow, grouped = rows.select("id"), rows.groupBy("a").agg(F.count("id").alias("n"))
    rows.select("id", "text").write.parquet(str(tmp_path / "files"))
    files = spark.read.parquet(str(tmp_path / "files"))
    cases: list[tuple[DataFrame, list[Column]]] = [
        (narrow, [F.col("text").rlike("1"), F.col("id") % 2 == 0]),
        (narrow, [rows["a"] > 3, rows["text"].rlike("[0-5]$")]),
        (grouped, [F.max("id") > 2950, F.col("n") > 3]),
        (files, [F.col("_metadata.file_size") > 0, F.col("text").rlike("1")]),
    ]
    for df, terms in cases:
        wanted = df.where(terms[0] & terms[1]).count()
        assert 0 < wanted < df.count()
        assert ab.where(df, *terms).count() == wanted
        if not is_connect(df):
            assert in_micro_batches(ab.Filter(*terms), [df])[0] == [wanted]
        first = df.columns[0]
        assert ab.where(df, ab.predicate(lambda _: True, first, name="all"), *terms).count() == wanted


def test_a_pattern_from_a_column_stays_behind_its_guard(spark: SparkSession, tmp_path: Path) -> None:
    """The first rows, which the pilot sees, have a pattern that drops all of them."""
    pattern = "if(id < 1000, '^zz', if(id % 2 = 0, '(', '^ab')) as pattern"
    made = spark.range(2000).selectExpr("id", "repeat('ab', 100) as text", pattern).coalesce(1)
    made.write.parquet(str(tmp_path / "patterns"))  # or Spark would compile the patterns that it sees in the query
    df = spark.read.parquet(str(tmp_path / "patterns"))
    guard = F.regexp_replace(F.concat(F.col("pattern"), "text"), "b", "c").rlike("^[^(]")
    f = ab.Filter(guard, F.rlike("text", F.col("pattern")))
    assert f.apply(df).count() == 500


def test_columns_of_one_name_are_told_apart_between_micro_batches(spark: SparkSession) -> None:
    left, right = (
        spark.range(200).selectExpr("id", "'x' || id as t"),
        spark.range(200).selectExpr("id as i", "'y' || id as t"),
    )
    seen: list[int] = []
    f = ab.Filter(left.t.rlike("1$"), right.t.rlike("^y1"))
    f.foreach_batch(lambda df, _: seen.append(df.count()))(left.join(right, left.id == right.i), 0)
    assert seen == [12]


def is_even(n: int) -> bool:
    return n % 2 == 0


@pytest.mark.classic(reason="columns have other names there")
def test_a_udf_column_has_a_name_that_stays(rows: DataFrame, tmp_path: Path) -> None:
    even, vague = F.udf(is_even, "boolean"), F.udf(lambda n: n > 3, "boolean")
    nested = F.udf(lambda n: n, "long")
    built: dict[str, Callable[[], Column]] = {
        "is_even(id)": lambda: even("id"),
        "!(is_even(+(id, 1)))": lambda: ~even(F.col("id") + 1),
        "and(is_even(o.id), >(id, 3))": lambda: even("o.id") & (F.col("id") > 3),
        "is_even(<lambda>(id))": lambda: even(nested("id")),
        "is_even(length(cast(id AS STRING)))": lambda: even(F.length(F.expr("cast(id AS STRING)"))),
        "<lambda>(id)": lambda: vague(rows["id"]),
    }
    for name, build in built.items():
        first, again = (ab.Filter(build()).predicates[0].name for _ in range(2))
        assert first == again == name
    for _ in range(2):
        f = ab.Filter(even("id"), ab.predicate(small, "id"), state=tmp_path / "state")
        assert f.apply(rows).count() == 5
        assert [p.predicate for p in f.report().predicates] == ["is_even(id)", "small"]


def small(n: int) -> bool:
    return n < 10


def in_micro_batches(f: ab.Filter, batches: list[DataFrame]) -> tuple[list[int], list[int]]:
    """How many rows pass, and how many are known to be profiled, micro-batch by micro-batch; Spark may tell later."""
    passed: list[int] = []
    run = f.foreach_batch(lambda df, _: passed.append(df.count()))
    sampled = [0]
    for number, batch in enumerate(batches):
        run(batch, number)
        (state,) = f._ledger.natives().values()
        sampled.append(state.sample_rows)
    return passed, [after - before for before, after in itertools.pairwise(sampled)]


@pytest.mark.parametrize("sizes", [[2000, 1, 60_000, 60_000], [2000, 0, 60_000, 60_000]])
@pytest.mark.classic(reason="micro-batches run in a process of the server's, which learns from them")
def test_a_micro_batch_is_profiled_by_a_bounded_sample(spark: SparkSession, sizes: list[int]) -> None:
    """However small the one before was: what is profiled is collected on the driver."""
    batches = [spark.range(0, size, 1, 2).selectExpr("'n' || id as t") for size in sizes]
    f = ab.Filter(F.col("t").rlike("1+"), F.col("t").rlike("[0-3]{2}"), policy="agreedy")
    passed, profiled = in_micro_batches(f, batches)
    assert passed == [b.where("t rlike '1+' and t rlike '[0-3]{2}'").count() for b in batches]
    assert max(profiled) < 3000
    assert sum(profiled) > 800, "the pilot takes 500"


@pytest.mark.classic(reason="micro-batches run in a process of the server's, which learns from them")
def test_equal_rows_are_profiled_by_chance_too(spark: SparkSession) -> None:
    batch = spark.range(0, 40_000, 1, 2).selectExpr("'n' || id % 3 as t")
    f = ab.Filter(F.col("t").rlike("n[01]"), F.col("t").rlike("[0-9]$"), policy="agreedy")
    _, profiled = in_micro_batches(f, [batch] * 4)
    assert max(profiled) < 2500
    assert sum(profiled) > 800, "the pilot takes 500"


@pytest.mark.classic(reason="micro-batches run in a process of the server's, which learns from them")
def test_micro_batches_of_any_native_predicates(spark: SparkSession) -> None:
    """Maps cannot be hashed, and what is random or a subquery or in Python cannot stand within an aggregate."""
    batch = spark.range(2000).selectExpr("id", "map('k', cast(id as string)) as m", "cast(id as string) as t")
    batch.createOrReplaceTempView("micro_batch")
    text = F.col("t").rlike("[0-3]")
    others: dict[str, Column] = {
        "a map": F.col("m")["k"].rlike("1+"),
        "random": F.rand() < 2,
        "a subquery": F.expr("id < (select max(id) from micro_batch) and t not like 'x'"),
        "Python": F.udf(is_even, "boolean")("id"),
    }
    for what, term in others.items():
        passed, _ = in_micro_batches(ab.Filter(term, text, F.col("t").rlike("1")), [batch] * 2)
        assert passed == [batch.where(term & text & F.col("t").rlike("1")).count()] * 2, what


def test_what_may_fail_is_timed_without_its_guards(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(600).selectExpr("id", "repeat('ab' || id, 60) as text").coalesce(1).write.parquet(str(tmp_path / "t"))
    df = spark.read.parquet(str(tmp_path / "t"))
    heavy = F.regexp_replace("text", "(a)(b)([0-9]+)", "$3$2$1").rlike("[0-9]ba$")
    costs = []
    for terms in ([heavy, F.col("id").cast("int") < 500], [F.col("id").cast("int") < 500, heavy]):
        found = catalyst.pilot(df, [catalyst.inspect(df, native(t)) for t in terms])
        assert isinstance(found, JudgedSample)
        costs.append(found.costs)
    (heavy_cost, guarded), (unguarded, _) = costs
    assert guarded < 0.5 * heavy_cost
    assert guarded < 10 * unguarded


def test_streams_that_share_a_filter_do_not_disturb_each_other(spark: SparkSession) -> None:
    batch = spark.range(0, 3000, 1, 2).selectExpr("id", "cast(id % 7 as string) as s")
    f = ab.Filter(F.col("s").rlike("[0-5]"), F.col("s").contains("4"))
    run = f.foreach_batch(lambda df, _: counted.append(df.count()))
    counted: list[int] = []
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda number: run(batch, number), range(12)))
    assert counted == [batch.where("s = '4'").count()] * 12


@pytest.mark.parametrize("wanted", [lambda df: df.where(F.lit(False)), lambda df: df.limit(0)])
def test_a_sink_that_wants_no_row_ends_no_stream(spark: SparkSession, wanted: Callable[[DataFrame], DataFrame]) -> None:
    batch = spark.range(2000).selectExpr("cast(id % 7 as string) as s")
    f = ab.Filter(F.col("s").rlike("[0-5]"), F.col("s").contains("4"))
    run = f.foreach_batch(lambda df, _: wanted(df).collect())
    for number in range(3):
        run(batch, number)


def test_local_times_that_the_zone_has_twice_are_left_as_they_are(spark: SparkSession, settings_of: Any) -> None:
    with settings_of(spark__sql__session__timeZone="Europe/Berlin"):
        df = spark.range(100).selectExpr("cast(id as string) as text", "timestamp_ntz'2024-10-27 02:30:00' as at")
        f = ab.Filter(F.col("text").rlike("[0-4]"), F.date_format("at", "HH").rlike("2"))
        assert f.apply(df).count() == df.where("text rlike '[0-4]'").count()
        assert "the sample could not be judged (ArrowInvalid)" in f.explain(df)
