"""Routes found while rows run: the same survivors, classes found where there are some, none where there are none."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.benches.recovery import rows_to_recover
from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.nodes import AtMost, Branch, Leaf
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix, Floats, Rows
from anabranch.model.attributes import clock_part
from anabranch.ordering import make, row_costs
from anabranch.ordering.decisions import Decision, NewEffort, NewOrder
from anabranch.ordering.pipeline import Verdict
from anabranch.routing.class_learner import MOST_ROUTES, ClassLearner, Proposal
from anabranch.routing.plan_log import PlanLog
from anabranch.routing.route_plan import NewRoutes, RoutePlan, shown_orders
from anabranch.routing.routed import RoutedPipeline
from anabranch.routing.value_classes import RangeSplit, ValueClasses, ValueSplit, split
from tiers import tiers

ZONES = np.array(["north", "south"], dtype=object)
REGIMES = np.array([(0.05, 0.95, 0.9, 0.9), (0.95, 0.05, 0.9, 0.9)])
THIRDS = np.array([(0.05, 0.9, 0.9), (0.9, 0.05, 0.9), (0.9, 0.9, 0.05)])
Values = Mapping[str, np.ndarray[Any, Any] | pa.Array]


class Worker:
    """Runs rows through a routed pipeline on a clock that only predicates move, per row and per call."""

    def __init__(
        self, passes: BoolMatrix, attributes: Values, cost: float = 2e-5, call: float = 0.0, **options: Any
    ) -> None:
        self.passes = passes
        self.columns = {name: v if isinstance(v, pa.Array) else pa.array(v) for name, v in attributes.items()}
        self.cost, self.call, self.now, self.at = cost, call, 0.0, 0
        self.pipeline = RoutedPipeline(
            lambda seed: make("auto", passes.shape[1], seed=seed), clock=lambda: self.now, **options
        )
        self.survivors: list[int] = []
        self.decisions: list[Decision] = []

    def judge(self, f: int, rows: Rows) -> Verdict:
        self.now += self.call + self.cost * len(rows)
        return Verdict(self.passes[self.at + rows, f])

    def run(self, batch: int = 10_000) -> Worker:
        while self.at < len(self.passes):
            self.step(batch)
        return self

    def step(self, batch: int = 10_000) -> None:
        """One chunk."""
        size = self.pipeline.chunk_rows(min(batch, len(self.passes) - self.at))
        chunk = {name: array.slice(self.at, size) for name, array in self.columns.items()}
        outcome = self.pipeline.process(size, self.judge, chunk)
        self.survivors += (self.at + outcome.survivors).tolist()
        self.decisions += outcome.decisions
        self.at += size

    @property
    def calls_per_row(self) -> float:
        return self.now / self.cost / len(self.passes)


def two_regimes(rows: int, seed: int = 0) -> tuple[BoolMatrix, Values]:
    rng = np.random.default_rng(seed)
    zone = rng.integers(0, 2, rows)
    attributes = {"zone": ZONES[zone], "noise": rng.random(rows), "id": np.arange(rows)}
    return rng.random((rows, 4)) < REGIMES[zone], attributes


def test_two_regimes_get_two_routes_and_fewer_calls() -> None:
    worker = Worker(*two_regimes(60_000)).run()
    taken = {r.tests: r.order[0] for r in worker.pipeline.take_routes() if r.rows > 10_000}
    assert taken == {("zone in ('north')",): 0, ("zone in ('south')",): 1}
    assert worker.calls_per_row < 1.25  # the best single order needs 1.6


@pytest.mark.parametrize(("cost", "looks"), [(1e-7, False), (2e-5, True)])
def test_nobody_looks_for_routes_where_filters_take_less_time(
    cost: float, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, looked = Worker(*two_regimes(60_000), cost=cost), []
    propose = ClassLearner.propose

    def slowly(learner: ClassLearner, costs: Floats) -> Proposal | None:
        worker.now += 0.02
        looked.append(worker.at)
        return propose(learner, costs)

    monkeypatch.setattr(ClassLearner, "propose", slowly)
    worker.run()
    assert bool(looked) == looks
    assert (worker.pipeline.plan is not None) == looks


@pytest.mark.parametrize("seed", tiers(range(4), fast=2))
def test_where_there_is_nothing_to_find_a_small_input_is_looked_at_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, looked = np.random.default_rng(seed), []
    times = (1_767_225_600_000_000 + rng.integers(0, 86_400_000_000, 5000)).astype("datetime64[us]")
    passes = rng.random((5000, 3)) < (0.3, 0.6, 0.8)
    worker = Worker(passes, {"user": rng.integers(0, 10_000, 5000), "at": times})
    propose = ClassLearner.propose

    def noted(learner: ClassLearner, costs: Floats) -> Proposal | None:
        worker.now += 0.002
        looked.append(worker.at)
        return propose(learner, costs)

    monkeypatch.setattr(ClassLearner, "propose", noted)
    worker.run()
    assert len(looked) == 1


@pytest.mark.parametrize(("call", "kept"), [(0.0, True), (1e-3, False)])
def test_routes_are_not_kept_where_calling_filters_more_often_takes_longer(call: float, kept: bool) -> None:
    worker = Worker(*two_regimes(300_000), cost=1e-5, call=call).run(batch=500)
    assert (worker.pipeline.plan is not None) == kept


def test_a_pair_of_attributes_decides_where_neither_does_alone() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2, 60_000), rng.integers(0, 2, 60_000)
    passes = rng.random((60_000, 4)) < REGIMES[a ^ b]
    worker = Worker(passes, {"a": ZONES[a], "b": b, "noise": rng.random(60_000)}).run()
    plan = worker.pipeline.plan
    assert plan is not None
    assert plan.classifier.attributes == ("a", "b")
    assert worker.calls_per_row < 1.25


def calls_after_learning(worker: Worker) -> float:
    """Calls per row of the second half of the rows."""
    while worker.at < len(worker.passes) // 2:
        worker.step()
    rows, spent = worker.at, worker.now
    worker.run()
    return (worker.now - spent) / worker.cost / (len(worker.passes) - rows)


@pytest.mark.parametrize("seed", tiers(range(4), fast=2))
def test_classes_that_no_range_tells_apart_are_found_by_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hour = rng.integers(0, 24, 40_000)
    passes = rng.random((40_000, 3)) < THIRDS[hour % 3]
    worker = Worker(passes, {"hour": hour, "noise": rng.integers(0, 20, 40_000)})
    assert calls_after_learning(worker) < 1.2  # at best 1.095; by ranges 1.6
    assert worker.survivors == np.flatnonzero(passes.all(axis=1)).tolist()


@pytest.mark.parametrize(("part", "days"), [("hour", 30), ("weekday", 300)])
def test_times_get_routes_by_their_clock(part: Any, days: int) -> None:
    """Of rows from all over a time in which clocks are changed."""
    rng = np.random.default_rng(1)
    instants = 1_790_000_000_000_000 + rng.integers(0, days * 86_400_000_000, 40_000)
    at = pa.array(instants, pa.timestamp("us", tz="Europe/Berlin"))
    passes = rng.random((40_000, 3)) < THIRDS[clock_part(at, part).to_numpy() % 3]
    worker = Worker(passes, {"at": at, "noise": rng.random(40_000)})
    assert calls_after_learning(worker) < 1.2
    assert any(f"{part}(at)" in test for route in worker.pipeline.take_routes() for test in route.tests)


@pytest.mark.parametrize("seed", tiers(range(8), fast=3))
def test_uniform_data_keeps_one_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    passes = rng.random((30_000, 4)) < np.array([0.3, 0.6, 0.8, 0.9])
    attributes = {"zone": ZONES[rng.integers(0, 2, 30_000)], "x": rng.random(30_000), "k": rng.integers(0, 20, 30_000)}
    at = pa.array(np.arange(30_000) * 2_000_000_000, pa.timestamp("us", tz="Europe/Berlin"))
    worker = Worker(passes, attributes | {"at": at}).run()
    assert worker.pipeline.plan is None
    assert [r.tests for r in worker.pipeline.take_routes()] == [()]


@pytest.mark.parametrize("passing", [(1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 0.0, 1.0)])
def test_constant_predicates_get_no_routes(passing: tuple[float, ...]) -> None:
    rng = np.random.default_rng(4)
    passes = np.broadcast_to(np.array(passing) == 1.0, (30_000, 3))
    worker = Worker(passes, {"zone": ZONES[rng.integers(0, 2, 30_000)], "x": rng.random(30_000)}).run()
    assert worker.pipeline.plan is None
    assert [r.tests for r in worker.pipeline.take_routes()] == [()]
    assert len(worker.survivors) == (30_000 if all(passing) else 0)


def test_classes_that_swap_their_orders_are_followed() -> None:
    rng = np.random.default_rng(5)
    zone, late = rng.integers(0, 2, 120_000), (np.arange(120_000) >= 60_000).astype(int)
    passes = rng.random((120_000, 4)) < REGIMES[zone ^ late]
    assert rows_to_recover(passes, {"zone": ZONES[zone]}, (2e-5,) * 4, 60_000, zone ^ late) <= 50_000


def test_phases_too_short_to_be_followed_are_not_learned_each() -> None:
    """Every phase of 300 rows has an order of its own, which is known when the phase is over."""
    rng, phase = np.random.default_rng(0), np.arange(60_000) // 300 % 4
    rates = np.array([np.roll((0.05, 0.9, 0.85, 0.8), first) for first in range(4)])
    passes = rng.random((60_000, 4)) < rates[phase]
    worker = Worker(passes, {"id": np.arange(60_000)}).run()
    best = min(row_costs(order, ~passes, np.ones(4)).mean() for order in itertools.permutations(range(4)))
    assert worker.calls_per_row < 1.2 * best


def test_routes_whose_benefit_is_gone_become_one_order_again() -> None:
    rng = np.random.default_rng(6)
    zone = rng.integers(0, 2, 400_000)
    rates = np.where((np.arange(400_000) < 50_000)[:, None], REGIMES[zone], np.array([0.05, 0.5, 0.9, 0.95]))
    worker = Worker(rng.random((400_000, 4)) < rates, {"zone": ZONES[zone]})
    assert worker.run().pipeline.plan is None
    assert worker.pipeline.reoptimizer.order[0] == 0
    assert "save nothing" in worker.pipeline.reason
    assert worker.pipeline.take_given_up() is not None
    assert worker.pipeline.take_given_up() is None, "reported once: others may have found routes since"


def test_the_life_of_routes_is_in_the_decisions() -> None:
    rng = np.random.default_rng(6)
    zone = rng.integers(0, 2, 400_000)
    rates = np.where((np.arange(400_000) < 50_000)[:, None], REGIMES[zone], np.array([0.05, 0.5, 0.9, 0.95]))
    decisions = Worker(rng.random((400_000, 4)) < rates, {"zone": ZONES[zone]}).run().decisions
    lives = [(at, d) for at, d in enumerate(decisions) if isinstance(d, NewRoutes)]
    (tried, found), (kept, won), (ended, lost) = lives
    assert found.why.startswith("content routes promise to save ")
    assert won.why.startswith("one order took ")
    assert lost.why == "routes save nothing any more"
    assert [len(d.ways) > 1 for _, d in lives] == [False, True, False]
    named = [d.route for d in decisions if isinstance(d, (NewOrder, NewEffort))]
    alone, routed, again = named[: kept - 1], named[kept - 1 : ended - 2], named[ended - 2 :]
    assert set(alone) == {""} >= set(again), "routes on trial are not reported"
    assert set(routed) == {"zone in ('north')", "zone in ('south')"}
    orders = [d for d in decisions[:tried] if isinstance(d, NewOrder)]
    assert [d.before for d in orders[1:]] == [d.after for d in orders[:-1]]


def test_a_flood_of_one_class_does_not_end_the_routes() -> None:
    rng = np.random.default_rng(7)
    zone = np.where((np.arange(300_000) % 100_000) < 20_000, rng.integers(0, 2, 300_000), 0)
    worker = Worker(rng.random((300_000, 4)) < REGIMES[zone], {"zone": ZONES[zone]}).run()
    assert worker.pipeline.plan is not None
    assert worker.pipeline.take_given_up() is None
    assert worker.calls_per_row < 1.2


def test_a_switch_between_chunks_loses_no_row_and_no_count() -> None:
    passes, attributes = two_regimes(40_000)
    learned = Worker(*two_regimes(40_000, seed=9)).run().pipeline.plan
    worker = Worker(passes, attributes)
    pipeline = worker.pipeline
    for number, plan in enumerate((learned, None, learned, None), start=1):
        for _ in range(5):
            worker.step()
        pipeline.switch(plan, number, f"switch {number}")
        assert (pipeline.plan is None) == (plan is None)
        assert (pipeline.version, pipeline.reason) == (number, f"switch {number}")
    assert worker.survivors == np.flatnonzero(passes[: worker.at].all(axis=1)).tolist()
    assert pipeline.take_tally().rows == worker.at


def test_counts_of_all_routes_add_up() -> None:
    passes, attributes = two_regimes(40_000)
    worker = Worker(passes, attributes).run()
    tally, routes = worker.pipeline.take_tally(), worker.pipeline.take_routes()
    assert tally.rows == sum(r.rows for r in routes) == 40_000
    assert tally.calls.sum() == round(worker.now / worker.cost)
    assert worker.pipeline.take_tally().rows == 0


def test_rows_of_routes_that_were_given_up_stay_counted() -> None:
    passes, attributes = two_regimes(40_000)
    worker = Worker(passes, attributes).run()
    worker.pipeline.switch(None, 1, "for a test")
    assert sum(r.rows for r in worker.pipeline.take_routes()) == 40_000
    assert worker.pipeline.take_routes() == ()


def test_routes_learned_elsewhere_are_used_at_once() -> None:
    passes, attributes = two_regimes(20_000)
    learned = Worker(*two_regimes(40_000, seed=9)).run().pipeline.plan
    assert learned is not None
    worker = Worker(passes, attributes, plan=learned).run()
    assert {r.tests for r in worker.pipeline.take_routes()} >= {("zone in ('north')",), ("zone in ('south')",)}
    assert worker.calls_per_row < 1.25


@given(
    seed=st.integers(0, 10_000),
    filters=st.integers(1, 5),
    batch=st.sampled_from([1, 7, 300, 10_000]),
    nulls=st.booleans(),
)
def test_routes_never_change_the_answer(seed: int, filters: int, batch: int, nulls: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = 600 if batch == 1 else 3000
    kind = rng.integers(0, 3, rows)
    passes = rng.random((rows, filters)) < rng.random((3, filters))[kind]
    values = np.array(["a", "b", None if nulls else "c"], dtype=object)[kind]
    worker = Worker(passes, {"kind": values, "x": np.where(kind == 1, np.nan, kind)}).run(batch)
    assert worker.survivors == np.flatnonzero(passes.all(axis=1)).tolist()


def test_values_of_every_kind_are_split_or_left_alone() -> None:
    assert split("constant", pa.array([1, 1, 1])) is None
    assert split("sequence", pa.array(range(500))) is None
    assert split("comment", pa.array([f"text {i}" for i in range(500)])) is None
    assert split("all null", pa.array([None] * 5, pa.string())) is None
    assert isinstance(split("null or not", pa.array(["x", None, "x"])), ValueSplit)
    assert isinstance(split("number", pa.array(np.random.default_rng(0).random(500))), RangeSplit)
    assert isinstance(split("day", pa.array([date(2026, 1, 1 + i % 3) for i in range(60)])), ValueSplit)


def test_small_samples_are_cut_into_fewer_ranges() -> None:
    numbers = np.random.default_rng(0).random(900)
    found = [split("x", pa.array(numbers[:rows])) for rows in (20, 60, 100, 160, 900)]
    assert [s.codes - 1 for s in found if s is not None] == [4, 4, 7, 11, 12]


def test_routes_by_a_number_are_found_in_small_samples() -> None:
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.random(60)
        drops = rng.random((60, 3)) < np.where((x < 0.5)[:, None], (0.9, 0.1, 0.3), (0.1, 0.9, 0.3))
        learner = ClassLearner(3)
        learner.add({"x": pa.array(x)}, drops)
        found += learner.propose(np.full(3, 1e-5)) is not None
    assert found >= 12


def test_ranges_keep_null_and_nan_apart() -> None:
    ranges = RangeSplit("x", (1.0, 2.0))
    assert ranges.encode(pa.array([0.5, 1.0, 1.5, 9.0, None, float("nan")])).tolist() == [0, 0, 1, 2, 3, 3]
    assert ranges.describe([0]) == "x <= 1"
    assert ranges.describe([1, 2]) == "1 < x"
    assert ranges.describe([0, 2]) == "x <= 1 or 2 < x"


def test_cells_survive_json() -> None:
    classes = ValueClasses((ValueSplit("a", ("x", "y")), RangeSplit("b", (1.0,))), np.arange(9) % 3)
    again = ValueClasses.from_dict(classes.to_dict())
    columns = {"a": pa.array(["x", "z", None]), "b": pa.array([0.0, 2.0, None])}
    assert again.classify(columns).tolist() == classes.classify(columns).tolist()
    assert again.tests(1) == classes.tests(1)


def test_a_learner_with_too_few_rows_or_unknown_costs_proposes_nothing() -> None:
    learner = ClassLearner(2)
    assert learner.propose(np.ones(2)) is None
    learner.add({"a": pa.array(["x", "y"] * 100)}, np.array([[True, False], [False, True]] * 100))
    assert learner.propose(np.array([1.0, np.nan])) is None
    assert learner.propose(np.ones(2)) is not None
    learner.forget()
    assert len(learner) == 0


def test_there_are_never_more_routes_than_spark_bears() -> None:
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 12, 800)
    drops = rng.random((800, 12)) < np.where(np.arange(12) == kind[:, None], 0.95, 0.05)
    learner = ClassLearner(12)
    learner.add({"kind": pa.array([f"k{k}" for k in kind])}, drops)
    found = learner.propose(np.full(12, 1e-5))
    assert found is not None
    assert len(found.orders) == found.classes.routes == MOST_ROUTES == 8


def test_the_order_of_a_class_knows_which_predicates_drop_the_same_rows() -> None:
    """In the north the first two drop three of five rows, the same ones, and the third nearly all that they leave."""
    rng = np.random.default_rng(8)
    north, fate = rng.random(800) < 0.5, rng.random(800)
    twins = np.where(north, fate < 0.6, fate < 0.1)
    third = np.where(north, (fate > 0.55) & (rng.random(800) < 0.95), rng.random(800) < 0.9)
    drops = np.column_stack([twins, twins ^ (rng.random(800) < 0.02), third])
    learner = ClassLearner(3)
    learner.add({"zone": pa.array(np.where(north, "north", "south"))}, drops)
    found = learner.propose(np.array([1.0, 1.0, 1.3]) * 1e-5)
    assert found is not None
    orders = {found.classes.tests(route)[0]: order for route, order in enumerate(found.orders)}
    assert orders["zone in ('north')"] in ((0, 2, 1), (1, 2, 0))  # by their own selectivities (0, 1, 2)
    rates = drops[north].mean(axis=0) / (1.0, 1.0, 1.3)
    assert rates.argmin() == 2
    assert orders["zone in ('south')"][0] == 2


def test_what_no_row_has_is_not_shown() -> None:
    rng = np.random.default_rng(3)
    x, kind = rng.random(800), rng.integers(0, 3, 800)
    drops = rng.random((800, 2)) < np.where(((x < 0.5) ^ (kind == 0))[:, None], (0.95, 0.05), (0.05, 0.95))
    learner = ClassLearner(2)
    learner.add({"x": pa.array(x), "kind": pa.array(kind)}, drops)
    found = learner.propose(np.full(2, 1e-5))
    assert found is not None
    ways = shown_orders(RoutePlan(found.classes, found.orders, "content"))
    assert sorted(way.order for way in ways) == [(0, 1), (1, 0)]
    assert not [test for way in ways for test in way.tests if "null" in test or "not in" in test or "any" in test]


def test_routes_with_equal_orders_are_shown_as_one() -> None:
    zones = ValueClasses((ValueSplit("zone", ("a", "b", "c")),), np.array([1, 2, 3, 0]))
    plan = RoutePlan(zones, ((0, 1), (1, 0), (1, 0), (0, 1)), "content")
    assert [(way.tests, way.order) for way in shown_orders(plan)] == [
        (("all other rows",), (0, 1)),
        (("zone in ('a', 'b')",), (1, 0)),
    ]
    tree = TreeRoutes(DecisionTree(Branch(AtMost("x", 1.0), Leaf(0), Branch(AtMost("y", 1.0), Leaf(1), Leaf(2)))))
    merged = shown_orders(RoutePlan(tree, ((0, 1), (1, 0), (1, 0)), "mesh"))
    assert [way.tests for way in merged] == [("x <= 1",), ("x > 1",)]
    alone = shown_orders(RoutePlan(tree, ((0, 1), (0, 1), (0, 1)), "mesh"))
    assert [(way.tests, way.order) for way in alone] == [((), (0, 1))]


def test_row_costs_stop_at_the_first_drop() -> None:
    drops = np.array([[False, False], [False, True], [True, False]])
    assert row_costs((0, 1), drops, np.array([1.0, 10.0])).tolist() == [11.0, 11.0, 1.0]


def test_a_plan_is_recalled_only_where_its_classes_look_the_same() -> None:
    zone = pa.array(ZONES[np.arange(400) % 2])
    north = np.arange(400) % 2 == 0
    drops = np.column_stack([north, ~north])
    plan = RoutePlan(ValueClasses((ValueSplit("zone", ("north",)),), np.array([1, 0])), ((0, 1), (1, 0)), "content")
    log = PlanLog()
    log.note(0.0, {"zone": zone}, drops, plan)
    assert log.recall({"zone": zone}, drops) is plan
    assert log.recall({"zone": zone}, ~drops) is None
    assert log.recall({"other": zone}, drops) is None
    assert log.recall({"zone": zone}, drops[:, [0, 1, 1]]) is None
