"""From a sample to a mesh: regimes are found, chance is not, and odd data do no harm."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import DataError
from anabranch.mesh import Mesh, MeshConfig, Sample, optimize
from anabranch.mesh.classifier import DecisionTree
from anabranch.model.arrays import Counts, Floats
from anabranch.ordering import Precedence, expected_cost, row_costs
from tiers import tiers

MICROSECOND = 1e-6
NORTH, SOUTH = (0.05, 0.95, 0.9, 0.9), (0.95, 0.05, 0.9, 0.9)


def drawn(rng: np.random.Generator, passing: Floats, columns: dict[str, Any], costs: Floats | None = None) -> Sample:
    drops = rng.random(passing.shape) >= passing
    return Sample(columns, drops, np.full(passing.shape[1], 10 * MICROSECOND) if costs is None else costs)


def noise(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    return {"noise": rng.random(rows), "letter": rng.choice(list("abcdefghij"), size=rows).astype(object)}


def two_regimes(seed: int, rows: int = 300) -> Sample:
    rng = np.random.default_rng(seed)
    zones = rng.choice(["north", "south"], size=rows).astype(object)
    passing = np.where((zones == "north")[:, np.newaxis], NORTH, SOUTH)
    return drawn(rng, passing, {**noise(rng, rows), "zone": zones})


def exclusive_or(seed: int, rows: int = 400) -> Sample:
    rng = np.random.default_rng(seed)
    left, right = rng.random(rows) < 0.5, rng.random(rows)
    passing = np.where((left ^ (right < 0.5))[:, np.newaxis], NORTH, SOUTH)
    return drawn(rng, passing, {**noise(rng, rows), "left": np.where(left, "y", "n").astype(object), "right": right})


def six_classes(seed: int, rows: int = 1000) -> tuple[Sample, Counts]:
    rng = np.random.default_rng(seed)
    classes = rng.integers(6, size=rows)
    passing = np.full((rows, 6), 0.9)
    passing[np.arange(rows), classes] = 0.05
    return drawn(rng, passing, {**noise(rng, rows), "kind": np.array(list("pqrstu"), dtype=object)[classes]}), classes


@pytest.mark.parametrize("seed", tiers(range(20), fast=3))
def test_two_regimes_are_told_apart_by_their_attribute(seed: int) -> None:
    mesh = optimize(two_regimes(seed), seed=seed)
    assert len(mesh.routes) == 2
    assert mesh.tree.attributes() == ("zone",)
    first = {path[0]: mesh.routes[route][0] for route, path in mesh.tree.paths()}
    assert first in (
        {"zone in ('north')": 0, "zone not in ('north')": 1},
        {"zone in ('south')": 1, "zone not in ('south')": 0},
    )
    assert 0.15 < mesh.gain < 0.5


@pytest.mark.parametrize("config", [MeshConfig.table_1(), MeshConfig.table_3(), MeshConfig(search="opt")])
def test_every_search_finds_the_two_regimes(config: MeshConfig) -> None:
    mesh = optimize(two_regimes(3), config)
    assert {order[0] for order in mesh.routes} == {0, 1}
    assert mesh.tree.attributes() == ("zone",)


@pytest.mark.parametrize("seed", tiers(range(10), fast=2))
def test_exclusive_or_is_found_with_depth_two(seed: int) -> None:
    mesh = optimize(exclusive_or(seed), MeshConfig(max_depth=2), seed=seed)
    assert {order[0] for order in mesh.routes} == {0, 1}
    assert mesh.tree.attributes() == ("left", "right")
    assert mesh.gain > 0.15


@pytest.mark.parametrize("seed", tiers(range(3), fast=1))
def test_exclusive_or_of_two_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.random(600), rng.random(600)
    passing = np.where(((x < 0.3) ^ (y < 0.6))[:, np.newaxis], NORTH, SOUTH)
    mesh = optimize(drawn(rng, passing, {**noise(rng, 600), "x": x, "y": y}), seed=seed)
    assert {order[0] for order in mesh.routes} == {0, 1}
    assert {"x", "y"} <= set(mesh.tree.attributes())
    assert mesh.gain > 0.15


@pytest.mark.parametrize("seed", tiers(range(5), fast=1))
def test_six_classes_have_six_routes(seed: int) -> None:
    sample, classes = six_classes(seed)
    mesh = optimize(sample, seed=seed)
    routes = mesh.tree.assign(sample.columns, len(sample))
    first = np.array([order[0] for order in mesh.routes])[routes]
    assert mesh.tree.attributes() == ("kind",)
    assert (first == classes).mean() > 0.95
    assert mesh.gain > 0.5


@pytest.mark.parametrize("seed", tiers(range(5), fast=1))
def test_whole_numbers_of_few_values_are_told_apart_by_value(seed: int) -> None:
    """Which filter drops a row depends on its hour modulo 3: ranges of hours say little."""
    rng = np.random.default_rng(seed)
    hours, rows = rng.integers(24, size=1500), np.arange(1500)
    passing = np.full((1500, 3), 0.9)
    passing[rows, hours % 3] = 0.05
    sample = drawn(rng, passing, {"hour": hours.astype(np.float64), "noise": rng.random(1500)})
    mesh = optimize(sample, seed=seed)
    routes = mesh.tree.assign(sample.columns, len(sample))
    first = np.array([order[0] for order in mesh.routes])[routes]
    assert mesh.tree.attributes() == ("hour",)
    assert (first == hours % 3).mean() > 0.95
    assert (mesh.tree.classify({"hour": pa.array(hours)}) == routes).all()


@pytest.mark.parametrize("seeds", tiers([range(4), range(50)], fast=1))
def test_uniform_data_have_one_route(seeds: range) -> None:
    single = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        passing = np.broadcast_to((0.4, 0.5, 0.6, 0.5), (300, 4))
        mesh = optimize(drawn(rng, passing, noise(rng, 300)), seed=seed)
        single += len(mesh.routes) == 1
        if len(mesh.routes) == 1:
            assert mesh.tree == DecisionTree()
            assert mesh.routes == (mesh.single_order,)
            assert mesh.cost == pytest.approx(mesh.single_cost)
    assert single >= 0.96 * len(seeds)


def test_the_gain_holds_on_fresh_rows() -> None:
    mesh, fresh = optimize(two_regimes(1)), two_regimes(99, rows=4000)
    routes = mesh.tree.assign(fresh.columns, len(fresh))
    paid = sum(
        float(row_costs(order, fresh.drops[routes == number], fresh.costs).sum())
        for number, order in enumerate(mesh.routes)
    )
    assert paid / len(fresh) < 0.8 * expected_cost(mesh.single_order, fresh.drops, fresh.costs)


def test_shares_and_cost_are_those_of_the_tree() -> None:
    sample, config = two_regimes(5), MeshConfig()
    mesh = optimize(sample, config)
    routes = mesh.tree.assign(sample.columns, len(sample))
    assert mesh.shares == tuple(float((routes == r).mean()) for r in range(2))
    spent = sum(row_costs(order, sample.drops[routes == r], sample.costs).sum() for r, order in enumerate(mesh.routes))
    assert mesh.cost == pytest.approx(spent / 300 + config.classification_seconds + 2 * config.overhead_seconds)
    assert list(mesh.shares) == sorted(mesh.shares, reverse=True)


def test_routes_keep_precedence() -> None:
    bound = Precedence(4, frozenset({(2, 0), (2, 1)}))
    mesh = optimize(two_regimes(0), precedence=bound)
    assert len(mesh.routes) == 2
    assert all(bound.allows(order) for order in (*mesh.routes, mesh.single_order))


def test_a_mesh_that_costs_more_than_it_saves_is_dropped() -> None:
    config = MeshConfig(classification_seconds=20 * MICROSECOND)
    assert len(optimize(two_regimes(0), config).routes) == 1


def test_the_same_seed_gives_the_same_mesh() -> None:
    assert optimize(two_regimes(0), seed=4) == optimize(two_regimes(0), seed=4)


def test_a_mesh_travels_as_json() -> None:
    mesh = optimize(two_regimes(0))
    stored = json.loads(json.dumps(mesh.to_dict()))
    assert stored["version"] == 1
    assert Mesh.from_dict(stored) == mesh
    with pytest.raises(DataError, match="version 7, this release reads 1"):
        Mesh.from_dict({**stored, "version": 7})


def odd(kind: str, rng: np.random.Generator, rows: int) -> Any:
    return {
        "nulls": np.full(rows, None, dtype=object),
        "some nulls": np.array([None, "x", "x"] * rows, dtype=object)[:rows],
        "nan": np.full(rows, np.nan),
        "some nan": np.where(rng.random(rows) < 0.3, np.nan, rng.random(rows)),
        "infinite": np.where(rng.random(rows) < 0.5, np.inf, -np.inf),
        "constant": np.ones(rows),
        "whole": rng.integers(5, size=rows),
        "distinct": np.array([f"value {i}" for i in range(rows)], dtype=object),
        "flags": rng.random(rows) < 0.5,
        "mixed": np.array([True, "x", None, "y"] * rows, dtype=object)[:rows],
    }[kind]


KINDS = ["nulls", "some nulls", "nan", "some nan", "infinite", "constant", "whole", "distinct", "flags", "mixed"]


@pytest.mark.parametrize("kind", KINDS)
def test_odd_attributes_do_no_harm(kind: str) -> None:
    rng = np.random.default_rng(0)
    base = two_regimes(2)
    alone = optimize(replace(base, columns={"odd": odd(kind, rng, 300)}))
    assert len(alone.routes) == 1
    beside = optimize(replace(base, columns={**base.columns, "odd": odd(kind, rng, 300)}))
    assert beside.tree.attributes() == ("zone",)


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 29, 30, 31])
def test_few_rows(rows: int) -> None:
    mesh = optimize(two_regimes(0).take(np.arange(rows)))
    assert sum(mesh.shares) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", tiers(range(5), fast=2))
def test_more_classes_than_rows_have_one_route(seed: int) -> None:
    """What every row does is known, and tells nothing about the next one."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(90)[:60]
    columns = {"kind": np.array([f"k{c}" for c in classes], dtype=object), "u": classes.astype(np.float64)}
    passing = rng.random((90, 5))[classes]
    config = MeshConfig(training_tuples=100, max_leaves=64, max_depth=6)
    mesh = optimize(drawn(rng, passing, columns), config, seed=seed)
    assert (mesh.tree, mesh.routes, mesh.shares) == (DecisionTree(), (mesh.single_order,), (1.0,))
    assert (mesh.saving, mesh.gain) == (0.0, 0.0)


def test_unknown_costs_and_a_single_filter() -> None:
    base = two_regimes(0)
    assert len(optimize(replace(base, costs=np.full(4, np.nan))).routes) == 2
    one = Sample(base.columns, base.drops[:, :1], base.costs[:1])
    assert optimize(one).routes == ((0,),)


def test_no_attributes() -> None:
    assert len(optimize(replace(two_regimes(0), columns={})).routes) == 1
