"""Routes on Spark: the same rows on both executors, fewer calls, what is reported, saved, loaded and refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.events import RoutesChanged
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.value_classes import ValueClasses, ValueSplit
from spark.plan_texts import plan_text
from tiers import tiers

pytestmark = pytest.mark.spark

ROWS = 24_000
NORTH = ("north", "south")
KINDS = (("zone", "string"),)
BY_ZONE = RoutePlan(ValueClasses((ValueSplit("zone", ("north",)),), np.array([0, 1])), ((0, 1), (1, 0)), "content")


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Two regimes told apart by `zone`, with nothing in the hidden numbers that tells the outcome."""
    wanted = "case when zone = 'north' then array(0.05, 0.95) else array(0.95, 0.05) end"
    return (
        spark.range(0, ROWS, 1, 2)
        .selectExpr("id", "if(hash(id) % 2 = 0, 'north', 'south') as zone", "rand(7) as a", "rand(8) as b")
        .selectExpr("id", "zone", f"{wanted} as wanted", "a", "b")
        .selectExpr(
            "id",
            "zone",
            "pmod(hash(id, 1), 1000000) * 2 + cast(a < wanted[0] as int) as p",
            "pmod(hash(id, 2), 1000000) * 2 + cast(b < wanted[1] as int) as q",
            "struct(id) as nested",
            "cast(null as string) as nothing",
            "cast('NaN' as double) as nan",
        )
        .persist()
    )


def odd(zone: str, hidden: int) -> bool:
    """Costs enough for routes to pay."""
    end = time.perf_counter() + 1e-5
    while time.perf_counter() < end:
        pass
    return hidden & 1 == 1


def predicates() -> list[Any]:
    return [ab.predicate(odd, "zone", "p", name="p"), ab.predicate(odd, "zone", "q", name="q")]


def ids(df: DataFrame) -> list[int]:
    return sorted(r.id for r in df.select("id").collect())


def apply_until_routed(f: ab.Filter, df: DataFrame) -> None:
    """Routes are tried out against the clock: a busy moment may cost them a trial, but not one after the other."""
    for _ in range(5):
        f.apply(df).count()
        if len(f.report().routes) > 1:
            return
    pytest.fail(f"no routes: {f.report()}")


@pytest.fixture(scope="module")
def learned(rows: DataFrame) -> ab.Filter:
    """A filter with routes, which it was given as the driver gives them to it: no clock has a say."""
    f = ab.Filter(*predicates(), policy="mesh")
    f.apply(rows).count()
    f._ledger.switch_plan((0, 1), KINDS, BY_ZONE, "found")
    return f


def starts_with_routes(f: ab.Filter) -> bool:
    """Whether a worker had routes before its first row."""
    return any(isinstance(e, RoutesChanged) and e.at == 0 and len(e.routes) > 1 for e in f.events())


@pytest.fixture(scope="module")
def expected(rows: DataFrame) -> list[int]:
    return ids(rows.where("p % 2 = 1 and q % 2 = 1"))


@pytest.mark.parametrize("policy", ["auto", "content", "mesh", "content-learns", "sbr"])
def test_every_policy_returns_the_same_rows(rows: DataFrame, expected: list[int], policy: str) -> None:
    assert ids(ab.where(rows, *predicates(), policy=policy)) == expected


@pytest.mark.parametrize("policy", ["auto", "content", "mesh", "content-learns", "sbr"])
def test_native_predicates_run_under_every_policy(rows: DataFrame, expected: list[int], policy: str) -> None:
    native = [F.col("p").cast("string").rlike("[13579]$"), F.col("q").cast("string").rlike("[13579]$")]
    assert ids(ab.where(rows, *native, *predicates(), policy=policy)) == expected


@pytest.mark.classic(reason="its sink fills a list of this process, and runs in one of the server's there")
def test_a_mesh_is_found_on_a_stream_and_used_by_its_next_micro_batches(
    spark: SparkSession, rows: DataFrame, expected: list[int], tmp_path: Path
) -> None:
    rows.select("id", "zone", "p", "q").repartition(3).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long, zone string, p long, q long").option("maxFilesPerTrigger", 1)
    f, found = ab.Filter(*predicates(), policy="mesh"), list[int]()
    sink = f.foreach_batch(lambda df, _: found.extend(row.id for row in df.collect()))
    for attempt in range(5):  # a busy moment may cost routes a trial, but not one after the other
        found.clear()
        writer = stream.parquet(str(tmp_path / "in")).writeStream.foreachBatch(sink).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / f"state-{attempt}")).start().awaitTermination()
        assert sorted(found) == expected
        if len(f.report().routes) > 1:
            break
    assert any(isinstance(e, RoutesChanged) and "mesh routes" in e.reason for e in f.events())
    assert {route.order[0] for route in f.report().routes} == {"p", "q"}


@pytest.mark.parametrize("policy", tiers(["content", "mesh"], fast=1))
def test_routes_are_found_reported_and_explained(rows: DataFrame, policy: str) -> None:
    f = ab.Filter(*predicates(), policy=policy)
    apply_until_routed(f, rows)
    report = f.report()
    assert {r.order[0] for r in report.routes} == {"p", "q"}
    assert all("zone" in test for r in report.routes for test in r.tests)
    assert sum(r.share for r in report.routes) == pytest.approx(1.0)
    f.apply(rows).count()
    assert f.report().evaluations - report.evaluations < 1.3 * ROWS
    assert "route 1" in f.explain(rows)
    assert "route 1" in str(report)
    assert any(isinstance(e, RoutesChanged) and len(e.routes) > 1 for e in f.events())


def test_look_ups_take_part_in_routes(rows: DataFrame) -> None:
    known = ab.lookup("ending", {n for n in range(100) if n % 20}, name="known")
    df = rows.selectExpr("*", "p % 100 as ending")
    f = ab.Filter(*predicates(), known, policy="content", attributes=["zone"])
    assert ids(f.apply(df)) == ids(df.where("p % 2 = 1 and q % 2 = 1 and ending % 20 <> 0"))
    apply_until_routed(f, df)
    orders = [route.order for route in f.report().routes]
    assert all(sorted(order) == ["known", "p", "q"] for order in orders)


def test_without_attributes_there_is_one_order(rows: DataFrame, expected: list[int]) -> None:
    f = ab.Filter(*predicates(), attributes=[])
    assert ids(f.apply(rows)) == expected
    assert len(f.report().routes) == 1


def test_an_unknown_attribute_is_named(rows: DataFrame) -> None:
    with pytest.raises(QueryError, match="unknown column 'zon' in attributes"):
        ab.where(rows, *predicates(), attributes=["zon"])


@pytest.mark.parametrize("kind", ["struct<id:bigint>", "map<string,bigint>", "array<bigint>", "binary"])
@pytest.mark.parametrize("terms", [predicates, lambda: [F.col("zone").rlike("n"), F.col("zone").rlike("s")]])
def test_an_attribute_that_tells_no_rows_apart_is_refused(rows: DataFrame, terms: Any, kind: str) -> None:
    made = ["struct(id) as s", "map(zone, id) as m", "array(id) as a", "cast(zone as binary) as b"]
    name = kind[0]
    with pytest.raises(QueryError) as caught:
        ab.where(rows.selectExpr("id", "zone", "p", "q", *made), *terms(), attributes=["zone", name])
    assert str(caught.value) == (
        f"column '{name}' in attributes is of type {kind}, by which routes cannot be chosen\n"
        "  hint: use numbers, texts, booleans, dates or timestamps; a field of a struct is s.field"
    )


def test_a_field_of_a_struct_tells_rows_apart(rows: DataFrame, expected: list[int]) -> None:
    inside = rows.withColumn("inner", F.struct("zone"))
    hidden = [ab.predicate(lambda h: odd("", h), name, name=name) for name in ("p", "q")]
    f = ab.Filter(*hidden, policy="mesh", attributes=["inner.zone"])
    assert ids(f.apply(inside)) == expected
    apply_until_routed(f, inside)
    wide = inside.withColumn("text", F.repeat(F.concat("zone", F.col("id").cast("string")), 20))
    g = ab.Filter(*native(), policy="mesh", attributes=["inner.zone"])
    first, second, third = native()
    assert ids(g.apply(wide)) == ids(wide.where(first & second & third))
    apply_until_routed(g, wide)


def test_what_was_learned_serves_the_next_run(
    rows: DataFrame, expected: list[int], learned: ab.Filter, tmp_path: Path
) -> None:
    learned.save(tmp_path / "plan")
    g = ab.Filter(*predicates(), policy="mesh").load(tmp_path / "plan")
    assert ids(g.apply(rows)) == expected
    assert starts_with_routes(g)


@pytest.mark.parametrize("place", tiers(["plan", "plan.json", "."], fast=1))
def test_what_was_saved_can_be_a_state(
    rows: DataFrame, expected: list[int], learned: ab.Filter, tmp_path: Path, place: str
) -> None:
    learned.save(tmp_path / place)
    files = list(tmp_path.iterdir())
    g = ab.Filter(*predicates(), policy="mesh", state=tmp_path / place)
    assert (g.report().rows, g.events()) == (0, ())
    assert ids(g.apply(rows)) == expected
    assert starts_with_routes(g)
    again = ab.Filter(*predicates(), policy="mesh", state=tmp_path / place)
    assert again.report().rows == ROWS
    assert list(tmp_path.iterdir()) == files


@pytest.mark.parametrize("place", tiers(["state", "state.json"], fast=1))
def test_what_a_state_has_learned_can_be_loaded(
    rows: DataFrame, expected: list[int], learned: ab.Filter, tmp_path: Path, place: str
) -> None:
    learned.save(tmp_path / place)
    f = ab.Filter(*predicates(), policy="mesh", state=tmp_path / place)
    f.apply(rows).count()
    f.save(tmp_path / place)  # its own state keeps its counts
    assert ab.Filter(*predicates(), state=tmp_path / place).report().rows == f.report().rows == ROWS
    f._ledger.switch_plan((0, 1), KINDS, BY_ZONE, "found")
    f.save(tmp_path / place)
    g = ab.Filter(*predicates(), policy="mesh").load(tmp_path / place)
    assert g.report().rows == 0
    assert ids(g.apply(rows)) == expected
    assert starts_with_routes(g)


def test_loading_counts_for_a_filter_that_has_run(rows: DataFrame, tmp_path: Path) -> None:
    """Its workers have learned something else meanwhile."""
    none, few = (ab.predicate(lambda n, d=d: n % 5 < d, "id", name=name) for d, name in ((5, "none"), (1, "few")))
    learned = ab.Filter(none, few, attributes=[])
    learned.apply(rows.coalesce(1)).count()
    learned.save(tmp_path / "learned")
    pinned = ab.Filter(none, few, attributes=[], config=ab.OrderingConfig(profile_probability=0.0))
    pinned.apply(rows.coalesce(1)).count()
    assert pinned.report().order == ("none", "few")
    pinned.load(tmp_path / "learned").apply(rows.coalesce(1)).count()
    assert pinned.report().order == ("few", "none")


def test_routes_found_after_loading_are_not_those_of_the_file(
    rows: DataFrame, expected: list[int], tmp_path: Path
) -> None:
    """Only what was saved is refused on other columns; what is found later serves the columns it was found for."""
    df = rows.select("id", "zone", "p", "q")
    other = ab.Filter(*predicates(), policy="agreedy")
    other.apply(df).count()
    other.save(tmp_path / "orders")
    f = ab.Filter(*predicates(), policy="content", attributes=["zone"]).load(tmp_path / "orders")
    f._ledger.switch_plan((0, 1), KINDS, BY_ZONE, "found")
    assert "route 1" in f.explain(df)
    assert ids(f.apply(df)) == expected
    assert ids(f.apply(df.withColumn("zone", F.col("zone") == "north"))) == expected


@pytest.mark.parametrize("damage", tiers(["order", "costs", "drops", "parts"], fast=2))
def test_a_damaged_file_is_refused(rows: DataFrame, tmp_path: Path, damage: str) -> None:
    """An order without one of the predicates would let all rows pass that it drops."""
    f = ab.Filter(*predicates(), policy="agreedy")
    f.apply(rows).count()
    f.save(tmp_path / "learned")
    saved = json.loads((tmp_path / "learned").read_text())
    if damage == "parts":
        del saved["parts"]
    else:
        saved["learned"][0][1][damage] = saved["learned"][0][1][damage][:1] if damage != "drops" else ["010"]
    (tmp_path / "learned").write_text(json.dumps(saved))
    with pytest.raises(QueryError, match="is damaged"):
        ab.Filter(*predicates(), policy="agreedy").load(tmp_path / "learned")


def test_another_time_zone_is_no_other_data(rows: DataFrame, expected: list[int], spark: SparkSession) -> None:
    zoned = rows.withColumn("at", F.timestamp_seconds(F.col("id")))
    f = ab.Filter(*predicates())
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for name in ("UTC", "Europe/Berlin", "Asia/Tokyo", "UTC"):
            spark.conf.set("spark.sql.session.timeZone", name)
            assert ids(f.apply(zoned)) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


def test_a_pilot_counts_no_rows(rows: DataFrame) -> None:
    f = ab.Filter(
        ab.predicate(lambda n: n % 2 == 0, "id", name="first"),
        ab.predicate(lambda n: True, "id", name="barrier", kind="volatile"),
        F.rand() < 2,
        *predicates(),
        policy="mesh",
    )
    out = f.apply(rows)
    assert f.report().rows == 0
    out.count()
    assert f.report().rows == rows.count()


def test_a_filter_that_never_ran_has_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="learned nothing yet"):
        ab.Filter(*predicates()).save(tmp_path / "plan")


def test_plans_of_others_are_refused(learned: ab.Filter, tmp_path: Path) -> None:
    learned.save(tmp_path / "plan")
    with pytest.raises(QueryError, match="other predicates: p, q"):
        ab.Filter(ab.predicate(odd, "zone", "p", name="x"), *predicates()[1:]).load(tmp_path / "plan")
    old = json.loads((tmp_path / "plan").read_text()) | {"version": 0}
    (tmp_path / "old").write_text(json.dumps(old))
    with pytest.raises(QueryError, match="in format 0; this version reads format 5"):
        ab.Filter(*predicates()).load(tmp_path / "old")
    with pytest.raises(QueryError, match="does not exist"):
        ab.Filter(*predicates()).load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(QueryError, match="is not the state of a filter"):
        ab.Filter(*predicates()).load(tmp_path / "text")


def test_routes_learned_on_another_schema_are_refused(rows: DataFrame, learned: ab.Filter, tmp_path: Path) -> None:
    learned.save(tmp_path / "plan")
    g = ab.Filter(*predicates(), policy="mesh").load(tmp_path / "plan")
    with pytest.raises(QueryError, match="column 'zone' of type string, which is bigint"):
        g.apply(rows.withColumn("zone", F.col("id")))


@pytest.mark.parametrize("policy", tiers(["auto", "mesh"], fast=1))
def test_one_filter_serves_inputs_of_other_columns_and_types(rows: DataFrame, expected: list[int], policy: str) -> None:
    hidden = [ab.predicate(lambda h: odd("", h), name, name=name) for name in ("p", "q")]
    f = ab.Filter(*hidden, policy=policy)
    coded = rows.withColumn("zone", F.when(F.col("zone") == "north", 0).otherwise(1))
    inputs = [coded, rows.drop("zone"), coded, coded.withColumn("zone", F.col("zone").cast("double")), coded]
    for df in inputs:
        assert ids(f.apply(df)) == expected
        assert f.explain(df)


def test_native_routes_of_one_input_are_not_those_of_another(rows: DataFrame) -> None:
    texts = rows.withColumn("text", F.repeat(F.concat("zone", F.col("id").cast("string")), 20))
    coded = texts.withColumn("north", F.col("zone") == "north").drop("zone")
    terms = [F.col("text").rlike(f"^({z}.*{z}[0-9]*7.{{0,40}}7|{other})") for z, other in (NORTH, NORTH[::-1])]
    f = ab.Filter(*terms)
    wanted = ids(texts.where(terms[0] & terms[1]))
    for df in (coded, texts.drop("zone"), coded):
        assert ids(f.apply(df)) == wanted


def test_kept_values_are_added_by_every_route_and_are_no_attribute(rows: DataFrame, expected: list[int]) -> None:
    def rated(zone: str, hidden: int) -> float:
        return 1.0 if odd(zone, hidden) else 0.0

    score = ab.predicate(rated, "zone", "p", returns="double", keep="score", test=lambda s: s > 0.5, name="s")
    others = [ab.predicate(odd, "zone", "q", name="q"), ab.predicate(lambda s: s > 0, "score", name="again")]
    f = ab.Filter(score, *others, policy="mesh")
    out = f.apply(rows)
    assert ids(out) == expected
    assert out.where("score = 1").count() == len(expected), "every route adds its values"
    apply_until_routed(f, rows)
    assert not any("score" in test for r in f.report().routes for test in r.tests)


def test_failing_rows_are_set_aside_on_routes_too(rows: DataFrame) -> None:
    def picky(p: int) -> bool:
        if p % 64 == 1:
            raise ValueError("odd one")
        return p & 1 == 1

    failing = ab.predicate(picky, "p", name="picky", kind="fallible")
    f = ab.Filter(failing, ab.predicate(odd, "zone", "q", name="q"), policy="mesh", on_error="quarantine")
    assert ids(f.apply(rows)) == ids(rows.where("p % 2 = 1 and q % 2 = 1 and p % 64 <> 1"))
    assert ids(f.quarantined()) == ids(rows.where("p % 64 = 1 and q % 2 = 1"))


def test_streams_find_routes_while_they_run(
    spark: SparkSession, rows: DataFrame, expected: list[int], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    stream = (
        spark.readStream.schema("id bigint, zone string, p int, q int")
        .option("maxFilesPerTrigger", 2)
        .parquet(str(tmp_path / "in"))
    )
    f = ab.Filter(*predicates(), policy="content")
    query = (
        f.apply(stream)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(str(tmp_path / "out"))
    )
    times = 0
    while len(f.report().routes) < 2 and times < 5:  # as in `apply_until_routed`
        rows.select("id", "zone", "p", "q").repartition(6).write.mode("append").parquet(str(tmp_path / "in"))
        query.processAllAvailable()
        times += 1
    query.stop()
    assert ids(spark.read.parquet(str(tmp_path / "out"))) == sorted(times * expected)
    assert len(f.report().routes) > 1


def native() -> list[Any]:
    return [
        F.col("text").rlike("north[0-9]*7.{0,40}7") | (F.col("zone") == "south"),
        F.col("text").rlike("south[0-9]*3.{0,40}3") | (F.col("zone") == "north"),
        F.col("id") >= 0,
    ]


@pytest.mark.parametrize("policy", tiers(["mesh", "auto", "content"], fast=1))
def test_native_routes_survive_the_optimizer(rows: DataFrame, policy: str, tmp_path: Path) -> None:
    wide = rows.withColumn("text", F.repeat(F.concat("zone", F.col("id").cast("string")), 20))
    f = ab.Filter(*native(), policy=policy)
    out = f.apply(wide)
    first, second, third = native()
    assert ids(out) == ids(wide.where(first & second & third))
    plan = plan_text(out, "optimized")
    assert "CASE WHEN" in plan
    assert plan.count("north[0-9]") == plan.count("south[0-9]") >= 2
    assert len(f.report().routes) == 2
    assert "route 1" in f.explain(wide)
    f.save(tmp_path / "plan")
    again = ab.Filter(*native(), policy=policy).load(tmp_path / "plan")
    assert again.report().routes == f.report().routes
    assert ids(again.apply(wide)) == ids(out)
    assert again.events() == (), "routes of an earlier run need no pilot"


HOURS = "hour(at) % 2 = 0"


def by_the_hour(spark: SparkSession) -> DataFrame:
    """Two regimes by the hour of the session's clocks, which are changed in between; each hides in a number."""
    instant = "timestamp_micros(1790000000000000 + pmod(hash(id), 90 * 86400) * 1000000L)"
    return (
        spark.range(0, ROWS, 1, 1)
        .selectExpr("id", f"{instant} as at")
        .selectExpr(
            *("id", "at", "'all' as zone"),
            f"pmod(hash(id, 1), 1000000) * 2 + cast(pmod(hash(id, 3), 20) < if({HOURS}, 1, 19) as int) as p",
            f"pmod(hash(id, 2), 1000000) * 2 + cast(pmod(hash(id, 4), 20) < if({HOURS}, 19, 1) as int) as q",
        )
    )


def routed_hours(f: ab.Filter) -> dict[str, set[int]]:
    """The hours of the routes that a predicate is the first of."""
    found: dict[str, set[int]] = {}
    for route in f.report().routes:
        for test in route.tests:
            assert test.startswith("hour(at) in ("), test
            found.setdefault(route.order[0], set()).update(map(int, test[len("hour(at) in (") : -1].split(", ")))
    return found


@pytest.mark.parametrize("executor", ["arrow", "catalyst"])
def test_routes_by_the_hour_of_the_session(spark: SparkSession, settings_of: Any, executor: str) -> None:
    native = [F.col(name).cast("string").rlike("^(.*x|.*y|.*[13579])$") for name in ("p", "q")]
    with settings_of(spark__sql__session__timeZone="America/New_York"):
        df = by_the_hour(spark)
        f = ab.Filter(*(native if executor == "catalyst" else predicates()), policy="content", attributes=["at"])
        assert ids(f.apply(df)) == ids(df.where("p % 2 = 1 and q % 2 = 1"))
        apply_until_routed(f, df)
        hours = sorted(routed_hours(f).values(), key=min)
        assert len(hours) == 2
        right = sum(hour % 2 == number for number, listed in enumerate(hours) for hour in listed)
        assert right >= 22, "a change of the clocks turns the classes around for those who do not know of it"
