"""The report: counts that add up, count every row once in spite of retries and restarts, and read well."""

from __future__ import annotations

import gc
import itertools
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.events import EffortChanged, PilotDecided, Reordered, Started
from anabranch.filter_report import RouteReport
from anabranch.ordering import POLICIES
from anabranch.ordering.base import Seed
from anabranch.ordering.pipeline import Tally
from anabranch.routing.route_plan import RoutePlan, RouteState
from anabranch.routing.value_classes import ValueClasses, ValueSplit
from anabranch.spark.filters import task_counts
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.filters.reporting import build_report
from anabranch.spark.filters.task_record import TaskKey, TaskRecord
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EAGER = ab.OrderingConfig(profile_probability=1.0, window_tuples=100, minimum_profiles=10)


def even(id: int) -> bool:
    return id % 2 == 0


def few(a: pd.Series) -> pd.Series:
    return a < 10


def inverse(a: int) -> bool:
    return 100 / a > 2


def filter_of_three(**options: Any) -> ab.Filter:
    return ab.Filter(
        ab.predicate(even, "id", name="even"),
        ab.predicate(few, "a", name="few"),
        ab.predicate(inverse, "a", name="inverse"),
        on_error="quarantine",
        **options,
    )


@pytest.mark.parametrize("policy", tiers(POLICIES, fast=4))
def test_counts_add_up(rows: DataFrame, policy: str) -> None:
    f = filter_of_three(policy=policy, config=EAGER)
    passed = f.apply(rows).count()
    report, total = f.report(), rows.count()
    lines = {p.predicate: p for p in report.predicates}
    assert report.rows == total
    assert sorted(report.order) == sorted(lines)
    assert sorted(p.place for p in report.predicates) == [1, 2, 3]
    for line in report.predicates:
        assert line.seen is not None
        assert line.calls is not None
        assert (line.passed or 0) + (line.dropped or 0) + (line.errors or 0) == line.seen <= line.calls <= total
        assert line.cost_us is not None
    aside = rows.where("id % 2 = 0 and a = 0").count()
    assert sum(line.dropped or 0 for line in report.predicates) == total - passed - aside
    assert (lines["inverse"].errors or 0) >= aside > 0
    assert report.evaluations == sum(p.calls or 0 for p in report.predicates)
    if policy == "fixed":
        assert [p.seen for p in report.predicates] == [
            total,
            rows.where("id % 2 = 0").count(),
            rows.where("id % 2 = 0 and a < 10").count(),
        ]
        assert report.evaluations == report.evaluations_written
        assert report.profiling_share == 0


def test_what_the_written_order_would_have_cost(rows: DataFrame) -> None:
    f = ab.Filter(
        ab.predicate(lambda id: id >= 0, "id", name="all"),
        ab.predicate(even, "id", name="even"),
        ab.predicate(lambda id: id % 50 == 3, "id", name="none"),
        policy="agreedy",
        config=EAGER,
    )
    f.apply(rows.coalesce(1)).count()
    report = f.report()
    written = sum([rows.count(), rows.count(), rows.where("id % 2 = 0").count()])
    assert report.evaluations_written == pytest.approx(written)
    assert report.evaluations_saved == pytest.approx(written - report.evaluations)
    assert report.order[0] == "none"


def test_a_second_pass_counts_again_and_quarantined_does_not(rows: DataFrame) -> None:
    f = filter_of_three()
    out = f.apply(rows)
    out.count()
    f.quarantined().count()
    assert f.report().rows == rows.count()
    out.count()
    f.apply(rows).count()
    assert f.report().rows == 3 * rows.count()


def test_stages_are_counted_apart(rows: DataFrame) -> None:
    f = ab.Filter(
        ab.predicate(even, "id", name="even"), F.rand(1) > -1, ab.predicate(few, "a", name="few"), F.col("b") < 0.5
    )
    f.apply(rows).count()
    lines = {p.predicate: p for p in f.report().predicates}
    reached = rows.where("id % 2 = 0").count()
    assert lines["even"].seen == f.report().rows
    assert lines["even"].passed == reached
    assert lines["few"].seen == rows.where("id % 2 = 0 and b < 0.5").count()


def test_a_report_before_anything_ran() -> None:
    report = filter_of_three().report()
    assert [p.basis for p in report.predicates] == ["not run yet"] * 3
    assert report.order == ("even", "few", "inverse")
    assert report.evaluations_saved is None
    assert "not run yet" in str(report)


# Reports of DataFrames


def test_where_does_not_lose_its_report(rows: DataFrame) -> None:
    out = ab.where(rows, ab.predicate(even, "id", name="even"), F.col("a") > 3)
    assert [p.basis for p in ab.report(out).predicates] == ["not run yet", "not measured"]
    out.select("id").count()
    assert ab.report(out).rows == rows.where("a > 3").count()
    out.persist().count()
    assert ab.report(out.persist()).rows == 2 * rows.where("a > 3").count()
    out.unpersist()


def test_each_dataframe_has_the_report_of_the_filter_that_returned_it(rows: DataFrame) -> None:
    f = ab.Filter(ab.predicate(even, "id", name="even"))
    inner, batches = f.apply(rows), list[int]()
    outer = ab.where(inner, ab.predicate(few, "a", name="few"))
    outer.count()
    assert ab.report(inner) == f.report()
    assert [p.seen for p in ab.report(outer).predicates] == [rows.where("id % 2 = 0").count()]
    assert ab.report(ab.where(inner)) == f.report()  # without predicates it is the same DataFrame
    f.foreach_batch(lambda batch, _: batches.append(batch.count() and ab.report(batch).rows))(rows, 0)
    assert batches == [2 * rows.count()]


def test_other_dataframes_have_no_report_and_the_error_says_what_to_pass(rows: DataFrame) -> None:
    out = ab.where(rows, ab.predicate(even, "id", name="even"))
    hint = "  hint: pass the DataFrame that ab.where or Filter.apply returned, not one that was made from it"
    others: list[Any] = [rows.select("*"), out.select("id"), rows.limit(1).toPandas(), 3]
    for other in others:
        with pytest.raises(QueryError) as caught:
            ab.report(other)
        assert str(caught.value) == f"no filter has returned this {type(other).__name__}\n{hint}"


def test_a_report_is_kept_no_longer_than_its_dataframe(rows: DataFrame) -> None:
    f = ab.Filter(ab.predicate(even, "id", name="even"))
    once = f.apply(rows)
    twice = f.apply(once)  # the filter holds the DataFrame that it was last applied to
    forgotten: list[weakref.ref[Any]] = [weakref.ref(once), weakref.ref(twice), weakref.ref(f)]
    del f, once, twice
    gc.collect()
    assert [ref() for ref in forgotten] == [None, None, None]


def test_reports_read_well(rows: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    f = filter_of_three(policy="fixed")
    f.apply(rows).count()
    f.report().show()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == "predicate place seen passed dropped errors calls cost us basis".split()
    assert printed[2].split()[:7] == ["even", "1", "3,000", "1,500", "1,500", "0", "3,000"]
    assert printed[-1].startswith("policy fixed, 3,000 rows, ")
    table = f.report().to_pandas()
    assert {"predicate", "seen", "passed", "dropped", "errors", "calls", "cost_us"} <= set(table.columns)
    assert table.predicate.tolist() == ["even", "few", "inverse"]


# Restarts


def test_a_second_filter_on_the_same_state_goes_on(rows: DataFrame, tmp_path: Path) -> None:
    first = filter_of_three(state=tmp_path / "state", policy="agreedy", config=EAGER)
    first.apply(rows).count()
    before = first.report()
    second = filter_of_three(state=tmp_path / "state", policy="agreedy", config=EAGER)
    known = second.report()
    assert known.predicates == before.predicates
    assert known.order == before.order
    assert second.events() == first.events()
    second.apply(rows).count()
    after = second.report()
    assert after.rows == 2 * rows.count()
    assert sum(p.dropped or 0 for p in after.predicates) == 2 * sum(p.dropped or 0 for p in before.predicates)
    assert [e.learned for e in second.events() if isinstance(e, Started)][-1]


def test_a_fixed_filter_keeps_the_written_order_whatever_its_state_says(rows: DataFrame, tmp_path: Path) -> None:
    def filter_of_two(policy: str) -> ab.Filter:
        costly = ab.predicate(lambda id: sum(range(2000)) > id - 1e9, "id", name="costly")
        rare = ab.predicate(lambda id: id % 50 == 0, "id", name="rare")
        return ab.Filter(costly, rare, state=tmp_path / "state", policy=policy, config=EAGER)

    learning = filter_of_two("agreedy")
    learning.apply(rows).count()
    assert learning.report().order == ("rare", "costly")
    fixed = filter_of_two("fixed")
    fixed.apply(rows).count()
    assert [e.order for e in fixed.events() if isinstance(e, Started)][-1] == ("costly", "rare")


def test_the_state_of_another_filter_is_refused(tmp_path: Path) -> None:
    filter_of_three(state=tmp_path).report()
    with pytest.raises(QueryError) as caught:
        ab.Filter(ab.predicate(even, "id", name="other"), state=tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/filter.json is the state of a filter with other predicates: even, few, inverse\n"
        "  hint: choose another path, or delete this file to start anew"
    )
    (tmp_path / "file").touch()
    with pytest.raises(QueryError, match="file is not the state of a filter"):
        filter_of_three(state=tmp_path / "file")
    with pytest.raises(QueryError, match="file/inside cannot be a folder: Not a directory"):
        filter_of_three(state=tmp_path / "file" / "inside")
    (tmp_path / "filter.json").write_text("{broken")
    with pytest.raises(QueryError, match="is not the state of a filter"):
        filter_of_three(state=tmp_path)


def test_places_follow_the_stages(rows: DataFrame) -> None:
    f = ab.Filter(ab.predicate(even, "id", name="even", kind="volatile"), ab.predicate(F.col("a") > 3, name="native"))
    f.apply(rows).count()
    assert f.report().order == ("even", "native")


def test_partitions_merged_into_one_task_add_up(rows: DataFrame) -> None:
    f = filter_of_three()
    f.apply(rows).coalesce(1).count()
    assert f.report().rows == rows.count()


def test_a_filter_that_stands_twice_in_a_plan_counts_both(rows: DataFrame) -> None:
    f = filter_of_three()
    f.apply(rows).unionAll(f.apply(rows)).coalesce(1).count()
    assert f.report().rows == 2 * rows.count()


# The ledger by itself

attempts = itertools.count()


def record(rows: int, *, stage: int = 0, partition: int = 0, job: str = "", run: str = "r") -> TaskRecord:
    tally = Tally.empty(2)
    tally.rows = rows
    tally.seen += rows
    return TaskRecord(TaskKey(job, run, stage, partition), (0, 1), tally, attempt=next(attempts))


def total(ledger: Ledger) -> int:
    return ledger.totals()[0, 1].tally.rows


def test_a_task_s_later_record_replaces_its_earlier_one() -> None:
    ledger = Ledger(("p", "q"))
    ledger.enter([record(10), record(10), record(5, partition=1), record(7, stage=1)])
    assert total(ledger) == 22


def test_a_replayed_micro_batch_replaces_the_run_before() -> None:
    ledger = Ledger(("p", "q"))
    ledger.enter([record(10, job="query/7", run="one", partition=i) for i in range(3)])
    ledger.enter([record(15, job="query/7", run="two", stage=9, partition=i) for i in range(2)])
    ledger.enter([record(1, job="query/8", run="two")])
    assert total(ledger) == 31


def test_totals_that_are_at_hand_are_those_of_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_counts, "RECENT_RECORDS", 8)
    rng, counts = np.random.default_rng(7), task_counts.TaskCounts()
    for _ in range(300):
        job = f"q/{rng.integers(4)}" if rng.random() < 0.3 else ""
        made = record(int(rng.integers(1, 9)), partition=int(rng.integers(6)), job=job, run=f"{rng.integers(3)}")
        counts.enter(made)
        if rng.random() < 0.2:
            counts.enter(made)
        counts.fold()
        if rng.random() < 0.3:
            found, summed = counts.totals(), counts._summed()
            assert found[0, 1].tally.rows == summed[0, 1].tally.rows
            assert found[0, 1].tally.seen.tolist() == summed[0, 1].tally.seen.tolist()


def test_a_report_takes_no_longer_the_more_tasks_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, summed = task_counts.TaskCounts(), list[object]()
    for partition in range(500):
        counts.enter(record(1, partition=partition))
    whole = task_counts.TaskCounts._summed

    def counted(self: task_counts.TaskCounts) -> object:
        summed.append(self)
        return whole(self)

    monkeypatch.setattr(task_counts.TaskCounts, "_summed", counted)
    assert counts.totals()[0, 1].tally.rows == 500
    counts.totals()[0, 1].tally.rows = 0
    assert counts.totals()[0, 1].tally.rows == 500
    assert not summed


def split_by(zone: str) -> RoutePlan:
    """Rows of a zone are tried on the second predicate first."""
    return RoutePlan(ValueClasses((ValueSplit("zone", (zone,)),), np.array([1, 0])), ((0, 1), (1, 0)), "content")


def routed(rows: int, by: RoutePlan, **fields: Any) -> TaskRecord:
    """A task that sent as many rows by one order, twice as many by each route, and tells what became of the routes."""
    ways = [RouteState(by.classifier.tests(i), order, 2 * rows, 1e-3) for i, order in enumerate(by.orders)]
    alone = RouteState((), (0, 1), rows, rows * 3e-6)
    return replace(record(5 * rows, stage=next(attempts)), routes=(alone, *ways), kinds=(("zone", "string"),), **fields)


def routes_of(ledger: Ledger) -> list[RouteReport]:
    predicates = [ab.predicate(even, "id", name=name) for name in ("p", "q")]
    return build_report("auto", predicates, ledger, strict=False).routes


def test_only_the_routes_in_use_are_reported() -> None:
    ledger, north, south = Ledger(("p", "q")), split_by("north"), split_by("south")
    ledger.enter([routed(100, north)])
    (single,) = routes_of(ledger)
    assert (single.share, single.order, single.tests) == (1.0, ("p", "q"), ()), "a trial that was not won"
    assert single.cost_us == pytest.approx(3)

    ledger.enter([routed(100, south, trial=south)])
    assert len(routes_of(ledger)) == 2, "a trial that goes on"
    ledger.enter([routed(100, south, plan=south)])
    assert [(r.share, r.order, r.tests) for r in routes_of(ledger)] == [
        (0.5, ("p", "q"), ("all other rows",)),
        (0.5, ("q", "p"), ("zone in ('south')",)),
    ]
    ledger.enter([routed(100, south, given_up=south), routed(100, north, plan=north)])
    assert {test for r in routes_of(ledger) for test in r.tests} == {"all other rows", "zone in ('north')"}

    ledger.enter([routed(100, north, given_up=north)])
    (single,) = routes_of(ledger)
    assert (single.share, single.tests) == (1.0, ())


def test_routes_with_equal_orders_are_reported_as_one() -> None:
    zones = ValueClasses((ValueSplit("zone", ("east", "north", "south")),), np.array([1, 2, 3, 0]))
    orders = ((0, 1), (1, 0), (1, 0), (0, 1))
    ledger, plan = Ledger(("p", "q")), RoutePlan(zones, orders, "content")
    ways = [RouteState(zones.tests(i), order, 100 * i, 1e-3 * i) for i, order in enumerate(orders) if i]
    ledger.enter([replace(record(600), routes=tuple(ways), kinds=(("zone", "string"),), plan=plan)])
    assert sorted((r.share, r.order, r.tests) for r in routes_of(ledger)) == [
        (0.5, ("p", "q"), ("zone in ('south')",)),
        (0.5, ("q", "p"), ("zone in ('east', 'north')",)),
    ]
    assert [r.cost_us for r in routes_of(ledger)] == pytest.approx([10, 10])


def test_routes_that_all_have_one_order_are_none() -> None:
    zones = ValueClasses((ValueSplit("zone", ("north", "south")),), np.array([1, 2, 0]))
    ledger, plan = Ledger(("p", "q")), RoutePlan(zones, ((0, 1), (1, 0), (1, 0)), "content")
    ways = tuple(RouteState(zones.tests(i), (1, 0), 100, 1e-3) for i in (1, 2))
    ledger.enter([replace(record(200), routes=ways, kinds=(("zone", "string"),), plan=plan)])
    (single,) = routes_of(ledger)
    assert (single.share, single.order, single.tests) == (1.0, ("q", "p"), ())
    assert str(single) == "100% of rows, 10.0 us per row: all rows: q -> p"


def test_the_cost_of_one_order_for_all_is_reported(rows: DataFrame) -> None:
    f = filter_of_three(attributes=[])
    f.apply(rows).count()
    (route,) = f.report().routes
    assert route.share == 1.0
    assert route.cost_us is not None
    assert route.cost_us > 0


def test_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_counts, "RECENT_RECORDS", 10)
    ledger = Ledger(("p", "q"))
    for stage in range(100):
        ledger.enter([record(3, stage=stage)])
    assert total(ledger) == 300
    assert len(ledger._counts._recent) == 10


def test_a_worker_that_saw_next_to_nothing_has_learned_no_order() -> None:
    """An empty partition on a new worker is reported with the written order."""
    ledger, drops, costs = Ledger(("p", "q")), np.array([[False, True]] * 3), np.array([1e-6, 2e-6])
    ledger.enter([replace(record(5000), learned=Seed((1, 0), drops, costs), learned_rows=5000)])
    ledger.enter([replace(record(0, partition=1), learned=Seed((0, 1), drops[:0], costs * np.nan), learned_rows=0)])
    seed = ledger.learned((0, 1))
    assert seed is not None
    assert (seed.order, len(seed.drops), seed.costs.tolist()) == ((1, 0), 3, costs.tolist())
    ledger.enter([replace(record(9, partition=1), learned=Seed((0, 1), drops[:1], costs), learned_rows=900)])
    seed = ledger.learned((0, 1))
    assert seed is not None
    assert (seed.order, len(seed.drops)) == ((0, 1), 4)


def test_forgotten_filters_leave_nothing_behind(rows: DataFrame) -> None:
    """Spark never forgets an accumulator, nor what it holds."""
    ab.where(rows, ab.predicate(even, "id"), ab.predicate(few, "a")).count()
    accumulators, ledgers_of = len(_accumulatorRegistry), []
    for _ in range(3):
        f = ab.Filter(ab.predicate(even, "id"), ab.predicate(few, "a"))
        f.apply(rows).count()
        ledgers_of.append(weakref.ref(f._ledger))
        del f
    deadline = time.monotonic() + 20  # the thread that takes messages may still be at the last one
    while any(ledger() is not None for ledger in ledgers_of):
        assert time.monotonic() < deadline, "a ledger is held for good"
        gc.collect()
    assert len(_accumulatorRegistry) == accumulators


def test_counts_of_a_forgotten_filter_reach_its_state_folder(rows: DataFrame, tmp_path: Path) -> None:
    out = ab.where(rows, ab.predicate(even, "id"), state=tmp_path)
    gc.collect()
    out.count()
    assert ab.Filter(ab.predicate(even, "id"), state=tmp_path).report().rows == rows.count()


def test_inputs_that_are_cut_into_other_stages_add_up(rows: DataFrame) -> None:
    """A sum of integers may overflow, and stays behind the predicates written before it; one of doubles cannot."""
    f = ab.Filter(
        ab.predicate(even, "id", name="even"),
        F.col("a") + 1 > 2,
        ab.predicate(lambda n: n % 3 == 0, "id", name="third", strict=True),
    )
    for kind in ("double", "int"):
        f.apply(rows.withColumn("a", F.col("a").cast(kind))).count()
    report = f.report()
    assert sorted(report.order) == sorted(p.predicate for p in report.predicates)
    assert report.evaluations == sum(p.calls or 0 for p in report.predicates)
    assert len({p.place for p in report.predicates}) == 3
    assert report.rows == report.predicates[0].seen
    assert report.rows > rows.count(), "both inputs"


def test_the_written_order_is_one_that_can_be(rows: DataFrame) -> None:
    """A predicate may be written before the one that computes what it reads."""
    reader = ab.predicate(lambda half: half % 2 == 0, "half", name="reader")
    keeper = ab.predicate(lambda n: n // 2, "id", returns="long", keep="half", test=lambda h: h >= 0, name="keeper")
    f = ab.Filter(reader, keeper)
    assert "keeper -> reader" in f.explain(rows)
    f.apply(rows).count()
    report = f.report()
    assert report.evaluations_written == pytest.approx(report.evaluations, rel=0.1)


def test_everything_comes_back_from_the_folder(tmp_path: Path) -> None:
    ledger = Ledger(("p", "q"), tmp_path)
    learned = Seed((1, 0), np.array([[True, False], [True, True]]), np.array([1e-6, np.nan]))
    made = (
        Started(0, "auto", ("p", "q"), False, 3),
        Reordered(64, "auto", ("p", "q"), ("q", "p"), "rank", 3),
        EffortChanged(64, "auto", "watching", 0.05, "calm", 3),
        PilotDecided(0, "auto", ("p", "q"), ("q", "p"), 500, "pilot"),
    )
    task = record(10, job="query/7")
    ledger.enter([TaskRecord(task.key, task.part, task.tally, events=made, learned=learned)])
    ledger.save()
    again = Ledger(("p", "q"), tmp_path)
    assert again.events() == made
    assert total(again) == 10
    seed = again.learned((0, 1))
    assert seed is not None
    assert seed.order == (1, 0)
    assert seed.drops.tolist() == learned.drops.tolist()
    assert np.array_equal(seed.costs, learned.costs, equal_nan=True)
    again.enter([record(4, job="query/7", run="another")])
    assert total(again) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["filter.json"]


def test_events_reach_the_driver(rows: DataFrame, spark: SparkSession) -> None:
    def costly(id: int) -> bool:
        return sum(range(500)) > 0  # its own time pays for decisions, however busy the machine is

    f = ab.Filter(
        ab.predicate(costly, "id", name="costly"), ab.predicate(lambda a: a == 7, "a", name="one"), F.col("b") < 0.9
    )
    f.apply(rows.coalesce(1)).count()
    kinds: list[Callable[..., Any]] = [type(e) for e in f.events()]
    assert kinds[0] is PilotDecided
    assert kinds[1] is Started
    assert Reordered in kinds
    assert EffortChanged in kinds
    assert f.report().events == f.events()
