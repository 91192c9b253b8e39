"""Routes found in a sample, tuned after drift: what is promised holds, and the way that promises more is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.nodes import AtMost, Branch, Leaf
from anabranch.mesh.overheads import seconds_around
from anabranch.mesh.plan_search import best_order, find, paid
from anabranch.mesh.self_tuning import SelfTuning, tune
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix, Counts, Mask
from anabranch.ordering import Precedence, row_costs
from anabranch.routing.held_out import halves
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import JudgedSample
from tiers import tiers

FREE = Precedence.none(4)
BY_ZONE = TreeRoutes(DecisionTree(Branch(AtMost("zone", 0.5), Leaf(0), Leaf(1))))


def drawn(rng: np.random.Generator, rates: tuple[float, ...], rows: int) -> BoolMatrix:
    return rng.random((rows, len(rates))) < rates


def regimes(rng: np.random.Generator, north: Mask, **attributes: Any) -> JudgedSample:
    """Four filters of 100 us; the first drops nearly all rows of one regime, the second of the other."""
    drops = np.where(
        north[:, None], drawn(rng, (0.1, 0.9, 0.5, 0.5), len(north)), drawn(rng, (0.9, 0.1, 0.5, 0.5), len(north))
    )
    return JudgedSample({name: pa.array(values) for name, values in attributes.items()}, drops, np.full(4, 1e-4))


def by_one(seed: int, rows: int) -> JudgedSample:
    """One attribute decides, four others are there for chance."""
    rng = np.random.default_rng(seed)
    zone = rng.integers(0, 2, rows)
    return regimes(rng, zone == 1, zone=zone, **{f"n{i}": rng.random(rows) for i in range(4)})


def by_three(seed: int, rows: int) -> JudgedSample:
    """The first attribute says which of two others decides."""
    rng = np.random.default_rng(seed)
    a, b, c = (rng.integers(0, 2, rows) for _ in range(3))
    return regimes(rng, np.where(a == 1, b, c) == 1, a=a, b=b, c=c, noise=rng.random(rows))


@pytest.mark.parametrize("seed", tiers(range(4), fast=2))
def test_a_mesh_is_taken_where_three_attributes_decide(seed: int) -> None:
    found = find(("content", "mesh"), by_three(seed, 400))
    assert found is not None
    assert (found.origin, found.classifier.attributes) == ("mesh", ("a", "b", "c"))


@pytest.mark.parametrize("seed", tiers(range(7, 15), fast=3))
def test_content_routes_are_taken_where_one_attribute_decides(seed: int) -> None:
    found = find(("content", "mesh"), by_one(seed, 240))
    assert found is not None
    assert (found.origin, found.classifier.attributes) == ("content", ("zone",))


@pytest.mark.parametrize("way", ["content", "mesh"])
@pytest.mark.parametrize("make", [by_one, by_three])
def test_what_is_promised_holds_on_fresh_rows(way: str, make: Callable[[int, int], JudgedSample]) -> None:
    """On average: each promise has the noise of its sample."""
    promised, kept = [], []
    for seed in range(8):
        sample, fresh = make(seed, 240), make(100 + seed, 2000)
        found = find((way,), sample)
        if found is not None:
            alone = row_costs(best_order(sample, FREE), fresh.drops, fresh.costs).mean()
            promised.append(found.promised_saving)
            kept.append(1 - float(paid(found, fresh).mean() / alone))
    assert len(promised) > 4
    assert np.mean(promised) == pytest.approx(np.mean(kept), abs=0.03)


def test_promises_are_net_of_the_classifier_and_the_routes() -> None:
    sample = by_three(1, 400)
    dear = find(("mesh",), sample)
    assert dear is not None
    around = seconds_around(dear, sample.attributes, row_seconds=1e-6)
    cheap = find(("mesh",), JudgedSample(sample.attributes, sample.drops, np.full(4, 2.5 * around)))
    assert cheap is None or cheap.promised_saving < dear.promised_saving - 0.03
    assert find(("content", "mesh"), JudgedSample(sample.attributes, sample.drops, sample.costs / 1e5)) is None


@pytest.mark.parametrize(("cost", "found"), [(1e-7, False), (2e-5, True)])
def test_comparisons_of_whole_columns_get_no_routes(cost: float, found: bool) -> None:
    """The columns tell all about the filters, but another group of rows means calling all of them once more."""
    numbers = np.random.default_rng(0).integers(0, 1000, (400, 5))
    attributes = {f"c{i}": pa.array(numbers[:, i]) for i in range(5)}
    sample = JudgedSample(attributes, numbers <= 500, np.full(5, cost))
    assert (find(("content", "mesh"), sample) is not None) == found


def test_routes_that_cost_more_than_they_save_are_given_up() -> None:
    sample = by_one(0, 600)
    plan = RoutePlan(BY_ZONE, ((0, 2, 3, 1), (1, 2, 3, 0)), "mesh")
    assert tune("routes", plan, sample) is None
    cheap = JudgedSample(sample.attributes, sample.drops, sample.costs / 1e5)
    found = tune("routes", plan, cheap)
    assert found is not None
    assert found.plan is None
    unknown = JudgedSample(sample.attributes, sample.drops, np.full(4, np.nan))
    assert tune("routes", plan, unknown) is None


@pytest.mark.parametrize("dropped", [(False, False), (True, True), (False, True)])
def test_constant_filters_get_no_routes(dropped: tuple[bool, ...]) -> None:
    sample = by_one(0, 400)
    drops = np.broadcast_to(np.array(dropped), (400, 2))
    assert find(("content", "mesh"), JudgedSample(sample.attributes, drops, np.full(2, 1e-4))) is None


@pytest.mark.parametrize("way", ["content", "mesh"])
def test_the_order_of_a_route_knows_which_filters_drop_the_same_rows(way: str) -> None:
    """In one zone the first two filters drop the same rows, and the third those that they leave."""
    rng = np.random.default_rng(5)
    zone, fate = rng.integers(0, 2, 800), rng.random(800)
    twins = np.where(zone == 1, fate < 0.6, fate < 0.1)
    third = np.where(zone == 1, fate > 0.55, rng.random(800) < 0.9)
    sample = JudgedSample(
        {"zone": pa.array(zone)}, np.column_stack([twins, twins, third]), np.array([1.0, 1.0, 1.3]) * 1e-4
    )
    found = find((way,), sample)
    assert found is not None
    route = found.classifier.classify({"zone": pa.array([1, 0])}).tolist()
    assert [found.orders[r] for r in route] == [(0, 2, 1), (2, 0, 1)]


def test_halves_are_disjoint_and_the_same_for_everybody() -> None:
    (learn, check), (later, earlier) = halves(11)
    assert sorted([*learn, *check]) == list(range(11))
    assert learn.tolist() == earlier.tolist()
    assert check.tolist() == later.tolist() == halves(11)[0][1].tolist()


# What is to be tuned: the classifier alone, or the orders alone

TWO_ROUTES = RoutePlan(BY_ZONE, ((0, 1, 2), (1, 0, 2)), "mesh")


def judged(zone: Counts, kind: Counts, drops: BoolMatrix) -> JudgedSample:
    return JudgedSample({"zone": pa.array(zone), "kind": pa.array(kind)}, drops, np.array([1e-4, 1e-4, 1e-6]))


def well_routed(seed: int, rows: int = 800) -> JudgedSample:
    """Two in five rows are dropped by the filter of their zone, three in ten by both, the others by none."""
    rng = np.random.default_rng(seed)
    zone, kind, fate = rng.integers(0, 2, rows), rng.integers(0, 2, rows), rng.random(rows)
    own, both = fate < 0.4, (fate >= 0.4) & (fate < 0.7)
    drops = np.column_stack([own & (zone == 0) | both, own & (zone == 1) | both, np.zeros(rows, dtype=np.bool_)])
    return judged(zone, kind, drops)


def badly_classified(seed: int, rows: int = 800) -> JudgedSample:
    """Each row is dropped by the filter of its kind, which is its zone but in three of ten rows.

    So filters drop as many rows as before, and rows cost as much as before.
    """
    rng = np.random.default_rng(seed)
    zone = rng.integers(0, 2, rows)
    kind = np.where(rng.random(rows) < 0.3, 1 - zone, zone)
    return judged(zone, kind, np.column_stack([kind == 0, kind == 1, np.zeros(rows, dtype=np.bool_)]))


def badly_ordered(seed: int, rows: int = 800) -> JudgedSample:
    """The third filter, cheap and last on both routes, drops half of all rows."""
    sample = well_routed(seed, rows)
    late = np.random.default_rng(seed).random(rows) < 0.5
    return JudgedSample(sample.attributes, np.column_stack([sample.drops[:, :2], late]), sample.costs)


def test_rows_on_wrong_routes_ask_for_another_classifier_alone() -> None:
    tuning = SelfTuning(TWO_ROUTES, 3)
    assert tuning.watch(well_routed(0)) is None
    assert tuning.watch(badly_classified(1)) == "classifier"


def test_another_classifier_keeps_the_orders() -> None:
    found = tune("classifier", TWO_ROUTES, badly_classified(2))
    assert found is not None
    assert found.plan is not None
    assert found.plan.orders == TWO_ROUTES.orders
    assert found.plan.classifier.attributes == ("kind",)
    assert found.reason.startswith("drift: classifier tuned, saves")


def test_filters_that_drop_more_ask_for_other_orders_alone() -> None:
    tuning = SelfTuning(TWO_ROUTES, 3)
    assert tuning.watch(well_routed(0)) is None
    assert tuning.watch(badly_ordered(1)) == "routes"


def test_other_orders_keep_the_classifier() -> None:
    found = tune("routes", TWO_ROUTES, badly_ordered(2))
    assert found is not None
    assert found.plan is not None
    assert found.plan.classifier == TWO_ROUTES.classifier
    assert [order[0] for order in found.plan.orders] == [2, 2]
    assert found.reason.startswith("drift: orders of the routes tuned, saves")


def test_a_classifier_that_tells_nothing_apart_is_no_classifier() -> None:
    rng = np.random.default_rng(3)
    drops = np.column_stack([rng.random(400) < 0.9, rng.random(400) < 0.05, np.zeros(400, dtype=np.bool_)])
    sample = judged(rng.integers(0, 2, 400), rng.integers(0, 2, 400), drops)
    crossed = RoutePlan(BY_ZONE, ((1, 0, 2), (0, 1, 2)), "mesh")
    found = tune("classifier", crossed, sample)
    assert found is not None
    assert found.plan is None
