"""Self-tuning: plans that the driver finds between DataFrames and micro-batches, and what happens on the way there."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.events import RoutesChanged
from anabranch.mesh.self_tuning import Tuned
from anabranch.ordering.base import Seed
from anabranch.ordering.pipeline import Tally
from anabranch.ordering.precedence import Precedence
from anabranch.routing.class_learner import MOST_ROUTES
from anabranch.routing.plan_log import PlanLog
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.routing.value_classes import ValueClasses, ValueSplit
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.filters.task_record import TaskKey, TaskRecord
from anabranch.spark.learned.tuner import Tuner
from anabranch.spark.native import order as native_order
from anabranch.spark.native.route_expression import routed
from spark.plan_texts import plan_text

KINDS = (("zone", "bigint"), ("kind", "bigint"))
NOTHING = np.zeros((0, 2), dtype=np.bool_)
LONGEST_SEARCH = 280


def judged(rows: int, deciding: str, seed: int = 0) -> JudgedSample:
    """Two filters; one of two attributes says which of them drops nearly every row."""
    rng = np.random.default_rng(seed)
    attributes = {name: rng.integers(0, 2, rows) for name in ("zone", "kind")}
    drops = np.column_stack([attributes[deciding] == 0, attributes[deciding] == 1]) ^ (rng.random((rows, 2)) < 0.05)
    return JudgedSample({n: pa.array(a) for n, a in attributes.items()}, drops, np.array([1e-5, 1e-5]))


def taken(tuner: Tuner, plan: RoutePlan | None, sample: JudgedSample) -> Tuned | None:
    tuner.offer(plan, sample)
    return tuner.take(plan, wait=True)


@pytest.mark.parametrize("policy", ["content", "mesh", "auto"])
def test_the_first_routes_are_found_in_what_tasks_sampled(policy: str) -> None:
    tuner = Tuner(policy, Precedence.none(2))
    assert taken(tuner, None, judged(100, "zone")) is None  # too few to be sure
    found = taken(tuner, None, judged(300, "zone", seed=1))
    assert found is not None
    assert found.plan is not None
    assert found.plan.classifier.attributes == ("zone",)
    assert found.plan.origin == ("content" if policy == "auto" else policy)


@pytest.mark.parametrize("policy", ["content", "mesh", "auto"])
def test_filters_that_cost_less_than_telling_rows_apart_get_no_routes(policy: str) -> None:
    sample = judged(400, "zone")
    cheap = JudgedSample(sample.attributes, sample.drops, sample.costs / 10_000)
    assert taken(Tuner(policy, Precedence.none(2)), None, cheap) is None


def test_first_routes_need_no_extra(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    monkeypatch.setattr("anabranch.spark.learned.tuner.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "river.drift", None)
    found = taken(Tuner("auto", Precedence.none(2)), None, judged(400, "zone"))
    assert not list(recwarn)
    assert found is not None
    assert found.plan is not None
    assert found.plan.origin == "content"


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("policy", ["content", "mesh", "auto"])
def test_another_attribute_decides_from_now_on(policy: str, settled: bool) -> None:
    """Also if the routes were never used on rows like those that they were found on."""
    tuner = Tuner(policy, Precedence.none(2))
    first = taken(tuner, None, judged(400, "zone"))
    assert first is not None
    plan = first.plan
    if settled:
        assert taken(tuner, plan, judged(400, "zone", seed=1)) is None
    found = [taken(tuner, plan, judged(400, "kind", seed=seed)) for seed in (2, 3, 4, 5)]
    tuned = [f.plan for f in found if f is not None and f.plan is not None]
    assert tuned[-1].classifier.attributes == ("kind",)


def drifted(tuner: Tuner, plan: RoutePlan | None, deciding: str, seeds: Sequence[int]) -> Tuned:
    """What the tuner makes of a plan once an attribute decides."""
    for seed in seeds:
        found = taken(tuner, plan, judged(400, deciding, seed))
        if found is not None:
            return found
    pytest.fail(f"nothing was found where {deciding} decides")


@pytest.mark.parametrize("policy", ["content", "mesh", "auto"])
def test_a_plan_seen_before_returns_with_its_statistics(policy: str) -> None:
    tuner = Tuner(policy, Precedence.none(2))
    first = drifted(tuner, None, "zone", range(3))
    assert taken(tuner, first.plan, judged(400, "zone", seed=15)) is None
    second = drifted(tuner, first.plan, "kind", range(3, 8))
    assert second.plan is not None
    assert second.plan.classifier.attributes == ("kind",)
    assert taken(tuner, second.plan, judged(400, "kind", seed=8)) is None
    third = drifted(tuner, second.plan, "zone", range(9, 14))
    assert third.reason.startswith("a plan seen before fits again, saves")
    assert third.plan is first.plan
    assert "seen before" not in second.reason


def test_a_plan_that_workers_found_is_logged_when_the_data_drifts() -> None:
    found = drifted(Tuner("content", Precedence.none(2)), None, "zone", range(2))
    log = PlanLog()
    tuner = Tuner("content", Precedence.none(2), log)
    assert taken(tuner, found.plan, judged(400, "zone", seed=3)) is None
    assert not list(log.entries)
    second = drifted(tuner, found.plan, "kind", range(4, 8))
    assert [entry.plan for entry in log.entries] == [found.plan, second.plan]


def test_the_log_of_an_earlier_run_spares_the_search() -> None:
    log = PlanLog()
    found = drifted(Tuner("mesh", Precedence.none(2), log), None, "zone", range(2))
    again = drifted(Tuner("content", Precedence.none(2), log), None, "zone", range(5, 7))
    assert again.plan is found.plan
    assert again.reason.startswith("a plan seen before fits again")
    assert len(log.entries) == 1


def test_the_log_is_part_of_the_state_folder(tmp_path: Path) -> None:
    sample, found = judged(300, "zone"), Tuner("content", Precedence.none(2))
    tuned = taken(found, None, sample)
    assert tuned is not None
    assert tuned.plan is not None
    ledger = Ledger(("one", "other"), tmp_path)
    ledger.log((0, 1), KINDS).note(1.0, sample.attributes, sample.drops, tuned.plan)
    ledger.save()
    known = Ledger(("one", "other"), tmp_path).log((0, 1), KINDS)
    assert known.recall(sample.attributes, sample.drops) is not None
    turned = judged(300, "kind")
    assert known.recall(turned.attributes, turned.drops) is None


def test_routes_that_save_nothing_are_given_up() -> None:
    tuner = Tuner("mesh", Precedence.none(2))
    first = taken(tuner, None, judged(400, "zone"))
    assert first is not None
    taken(tuner, first.plan, judged(400, "zone", seed=1))
    uniform = judged(800, "zone", seed=2)
    drops = np.random.default_rng(9).random((800, 2)) < (0.9, 0.1)
    found = [taken(tuner, first.plan, JudgedSample(uniform.attributes, drops, uniform.costs)) for _ in range(3)]
    assert [f.plan for f in found if f is not None][-1] is None


def test_a_search_that_fails_is_reported_and_harms_nothing() -> None:
    tuner = Tuner("content", Precedence.none(2))
    sample = judged(400, "zone")
    lopsided = JudgedSample(sample.attributes, sample.drops, np.repeat(sample.costs, 2))
    with pytest.warns(UserWarning, match="search for better routes failed"):
        assert taken(tuner, None, lopsided) is None
    assert taken(tuner, None, sample) is not None


def record(plan: RoutePlan | None, version: int, *, given_up: RoutePlan | None = None) -> TaskRecord:
    learned = Seed((0, 1), NOTHING, np.array([1e-5, 1e-5]))
    key = TaskKey("", "run", 0, version)
    return TaskRecord(
        key, (0, 1), Tally.empty(2), learned=learned, kinds=KINDS, plan=plan, plan_version=version, given_up=given_up
    )


def test_tasks_that_run_by_an_older_plan_do_not_bring_it_back() -> None:
    ledger, tuner = Ledger(("p", "q")), Tuner("content", Precedence.none(2))
    found = taken(tuner, None, judged(400, "zone"))
    assert found is not None
    old, new = found.plan, RoutePlan(found.plan.classifier, ((1, 0), (0, 1), (1, 0)), "mesh")  # type: ignore[union-attr]
    ledger.enter([record(old, 0)])
    assert ledger.plan((0, 1), KINDS) is old
    ledger.switch_plan((0, 1), KINDS, new, "tuned")
    ledger.enter([record(old, 0), record(None, 0, given_up=old)])
    assert ledger.plan((0, 1), KINDS) is new
    ledger.enter([record(None, 1, given_up=new)])
    assert ledger.plan((0, 1), KINDS) is None


def test_workers_with_other_routes_do_not_take_turns_in_the_ledger() -> None:
    """Else the tuner, which watches one classifier, would find another one whenever it looks."""
    by = [ValueClasses((ValueSplit("zone", (value,)),), np.array([1, 0])) for value in (0, 1)]
    one, other = (RoutePlan(cells, ((1, 0), (0, 1)), "content") for cells in by)
    ledger = Ledger(("p", "q"))
    ledger.enter([record(one, 0), record(other, 0)])
    assert ledger.plan((0, 1), KINDS) is one
    reordered = replace(one, orders=((0, 1), (1, 0)))
    ledger.enter([record(reordered, 0)])
    assert ledger.plan((0, 1), KINDS) is reordered
    ledger.enter([record(None, 0, given_up=other)])
    assert ledger.plan((0, 1), KINDS) is reordered, "another worker's routes"
    ledger.enter([record(None, 0, given_up=one), record(other, 0)])
    assert ledger.plan((0, 1), KINDS) is other


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Which of p and q drops nearly all rows depends on `zone` in the first part, and on `kind` in the second."""
    strong = "if(part = 0, zone, kind)"
    return (
        spark.range(0, 24_000, 1, 2)
        .selectExpr("id", "id % 2 as part", "hash(id, 5) & 1 as zone", "hash(id, 6) & 1 as kind")
        .selectExpr("*", "rand(7) as a", "rand(8) as b")
        .selectExpr(
            *("id", "part", "zone", "kind"),
            f"pmod(hash(id, 1), 1000000) * 2 + cast(a < if({strong} = 0, 0.05, 0.95) as int) as p",
            f"pmod(hash(id, 2), 1000000) * 2 + cast(b < if({strong} = 0, 0.95, 0.05) as int) as q",
        )
        .persist()
    )


def predicates() -> list[Any]:
    odd = lambda hidden: sum(range(1000)) > 0 and hidden & 1 == 1  # noqa: E731 - costs enough for routes to pay
    return [ab.predicate(odd, "p", name="p"), ab.predicate(odd, "q", name="q")]


@pytest.mark.parametrize("policy", ["auto", "mesh"])
def test_a_filter_that_is_applied_again_and_again_follows_the_data(rows: DataFrame, policy: str) -> None:
    f = ab.Filter(*predicates(), policy=policy, attributes=["zone", "kind"])
    wanted = [rows.where(f"part = {part} and p % 2 = 1 and q % 2 = 1").count() for part in (0, 1)]
    for part, attribute in ((0, "zone"), (1, "kind")):
        until = time.monotonic() + LONGEST_SEARCH
        while time.monotonic() < until:  # the search runs beside the jobs, and first imports what it needs
            assert f.apply(rows.where(F.col("part") == part)).count() == wanted[part]
            plan = f._ledger.plan((0, 1), (("zone", "int"), ("kind", "int")))
            if plan is not None and plan.classifier.attributes == (attribute,):
                break
        else:
            pytest.fail(f"no routes by {attribute}: {[e.reason for e in f.events() if isinstance(e, RoutesChanged)]}")


def test_native_routes_follow_the_data_of_later_inputs(rows: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_order, "PILOTS_SHARE", 1e9)  # no rest between pilots
    odd = [F.repeat(F.col(c).cast("string"), 20).rlike("[13579]$") for c in ("p", "q")]
    f = ab.Filter(*odd, policy="content", attributes=["zone", "kind"])
    for part, attribute in ((0, "zone"), (1, "kind")):
        wanted = rows.where(f"part = {part} and p % 2 = 1 and q % 2 = 1").count()
        until, plan = time.monotonic() + LONGEST_SEARCH, None
        while plan is None or plan.classifier.attributes != (attribute,):
            assert time.monotonic() < until, f"no routes by {attribute}: {f.events()}"
            assert f.apply(rows.where(F.col("part") == part)).count() == wanted
            plan = f._ledger.natives()[0, 1].plan


def test_native_routes_are_found_between_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    """From the second batch on there are two zones; the search takes as long as it takes, while batches come."""
    zone = F.when((F.col("id") < 4000) | (F.hash("id") % 2 == 0), "north").otherwise("south")
    text = F.repeat(F.col("id").cast("string"), 20)
    north = F.col("text").rlike("[0-9]*77.{0,40}77") | (F.col("zone") == "south")
    south = F.col("text").rlike("[0-9]*33.{0,40}33") | (F.col("zone") == "north")
    f = ab.Filter(north, south, policy="content")

    def bring(first: int) -> None:
        rows = spark.range(first, first + 24_000, 1, 6).withColumn("zone", zone).withColumn("text", text)
        rows.write.mode("append").parquet(str(tmp_path / "in"))

    bring(0)
    reader = spark.readStream.schema("id long, zone string, text string").option("maxFilesPerTrigger", 1)
    sink = f.foreach_batch(lambda df, batch: df.write.mode("append").parquet(str(tmp_path / "out")))
    writer = reader.parquet(str(tmp_path / "in")).writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    until, brought = time.monotonic() + LONGEST_SEARCH, 1
    while len(f.report().routes) < 2 and time.monotonic() < until:
        bring(brought * 24_000)
        brought += 1
        query.processAllAvailable()
    query.stop()
    found = sorted(r.id for r in spark.read.parquet(str(tmp_path / "out")).select("id").collect())
    source = spark.read.parquet(str(tmp_path / "in"))
    assert found == sorted(r.id for r in source.where(north & south).select("id").collect())
    assert len(f.report().routes) > 1
    assert any(isinstance(e, RoutesChanged) for e in f.events())


def branches(df: DataFrame, names: Sequence[str]) -> list[list[str]]:
    """What each branch of the CASE in the optimized plan asks for, in its order; the last one is for all other rows."""
    plan = plan_text(df, "optimized")
    assert plan.count("CASE WHEN") == 1
    return [re.findall("|".join(names), part) for part in re.split(r" THEN | ELSE ", plan)[1:]]


def test_native_routes_keep_their_orders_in_the_optimized_plan(spark: SparkSession) -> None:
    names = ("alpha", "beta", "gamma", "delta")
    orders = list(permutations(range(4)))[:MOST_ROUTES]
    zones = tuple(f"zone {i}" for i in range(1, MOST_ROUTES))
    cells = ValueClasses((ValueSplit("zone", zones),), np.array([*range(1, MOST_ROUTES), 0]))
    df = spark.range(40).selectExpr("concat('zone ', id % 9) as zone", "cast(id as string) as text")
    terms = [F.col("text").rlike(f"[0-9]*{name}") for name in names]
    out = df.where(routed(df, cells, orders, terms))
    assert branches(out, names) == [[names[f] for f in order] for order in (*orders[1:], orders[0])]
    assert out.count() == 0
    assert df.where(routed(df, cells, orders, [F.col("text").rlike("[0-9]")] * 4)).count() == 40


def test_routes_that_a_filter_finds_reach_the_optimized_plan(spark: SparkSession) -> None:
    rows = spark.range(0, 24_000, 1, 2).selectExpr("id", "if(hash(id) % 2 = 0, 'north', 'south') as zone")
    rows = rows.selectExpr("id", "zone", "repeat(concat(zone, id), 60) as text").persist()
    north = F.col("text").rlike("north[0-9]*7.{0,40}7") | (F.col("zone") == "south")
    south = F.col("text").rlike("south[0-9]*3.{0,40}3") | (F.col("zone") == "north")
    f = ab.Filter(north, south, policy="content")
    found = branches(f.apply(rows), [r"north\[", r"south\["])
    assert sorted(found[:2]) == [["north[", "south["], ["south[", "north["]]
    assert len(f.report().routes) == 2
    (event,) = [e for e in f.events() if isinstance(e, RoutesChanged)]
    assert (event.policy, len(event.routes)) == ("content", 2)
