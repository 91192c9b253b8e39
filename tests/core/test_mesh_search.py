"""Opt-QM against enumeration; II-QM and SA-QM against Opt-QM; start solutions and stop conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from anabranch.errors import QueryError
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.cost_model import CostModel
from anabranch.mesh.ii_qm import ii_qm
from anabranch.mesh.opt_qm import opt_qm
from anabranch.mesh.partitions import all_partitions, bell, from_labels, text
from anabranch.mesh.sa_qm import sa_qm
from anabranch.mesh.solution import Solution
from anabranch.mesh.starts import STARTS, start_solutions
from anabranch.mesh.training import Sample, TrainingSet
from tiers import tiers

CONFIG = MeshConfig(overhead_seconds=0.03, classification_seconds=0.01, route_gain=0.0)


def random_model(seed: int, tuples: int, config: MeshConfig = CONFIG, filters: int = 4, rows: int = 6) -> CostModel:
    """Training tuples with drop rates and densities of their own; costs between 0.3 and 1."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(tuples), rng.integers(1, 2 * rows, size=tuples))
    drops = rng.random((len(groups), filters)) < rng.beta(0.5, 0.5, size=(tuples, filters))[groups]
    sample = Sample({"u": rng.random(len(groups))}, drops, rng.uniform(0.3, 1.0, size=filters))
    return CostModel(TrainingSet.of_groups(sample, groups), config)


@pytest.mark.parametrize("seed", tiers(range(12), fast=4))
@pytest.mark.parametrize("route_search", ["greedy", "rank", "exact"])
def test_opt_qm_is_the_cheapest_of_all_configurations(seed: int, route_search: str) -> None:
    model = random_model(seed, 3 + seed % 4, replace(CONFIG, route_search=route_search))
    found = opt_qm(model)
    every = {p: model.cost(p) for p in all_partitions(len(model))}
    assert found.cost == pytest.approx(min(every.values()))
    assert every[found.partition] == pytest.approx(found.cost)
    assert found.priced == bell(len(model))


def test_opt_qm_refuses_many_tuples() -> None:
    with pytest.raises(QueryError, match="at most 12 training tuples, not 13"):
        opt_qm(random_model(0, 13, rows=2))


def test_opt_qm_solves_twelve_tuples() -> None:
    model = random_model(5, 12, rows=2)
    assert opt_qm(model).cost <= ii_qm(model, seed=0).cost * (1 + 1e-12)


@pytest.mark.parametrize("seeds", tiers([range(30), range(200)], fast=1))
def test_heuristics_are_within_five_percent_of_the_optimum(seeds: range) -> None:
    searches: dict[str, tuple[Callable[..., Solution], int]] = {"ii": (ii_qm, 3), "sa": (sa_qm, 1)}
    close = dict.fromkeys(searches, 0)
    routes = set()
    for seed in seeds:
        model = random_model(seed, 8 + seed % 3)
        best = opt_qm(model)
        routes.add(len(best.partition))
        for name, (search, iterations) in searches.items():
            model.config = replace(CONFIG, iterations=iterations)
            found = search(model, seed=seed)
            assert found.cost >= best.cost * (1 - 1e-12)
            assert found.cost == pytest.approx(model.cost(found.partition))
            close[name] += found.cost <= 1.05 * best.cost
    assert len(routes) > 3
    assert min(close.values()) >= 0.95 * len(seeds), close


@pytest.mark.parametrize("search", [ii_qm, sa_qm])
def test_the_same_seed_finds_the_same(search: Callable[..., Solution]) -> None:
    one, other = (search(random_model(7, 9), seed=3) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("search", [ii_qm, sa_qm])
def test_a_hundred_tuples_improve_on_both_extremes(search: Callable[..., Solution]) -> None:
    model = random_model(1, 100, replace(CONFIG, overhead_seconds=0.002, iterations=2), rows=4)
    rng = np.random.default_rng(0)
    extremes = [model.cost(STARTS[name](model, rng)) for name in ("extreme-1", "extreme-n")]
    assert search(model, seed=0).cost < min(extremes)


@pytest.mark.parametrize("search", [ii_qm, sa_qm])
@pytest.mark.parametrize("tuples", [1, 2])
def test_tiny_training_sets(search: Callable[..., Solution], tuples: int) -> None:
    model = random_model(0, tuples)
    assert search(model, seed=0).cost == pytest.approx(opt_qm(model).cost)


@pytest.mark.parametrize("start", sorted(STARTS))
def test_every_start_is_a_configuration(start: str) -> None:
    model = random_model(2, 8, replace(CONFIG, start=start))
    found = STARTS[start](model, np.random.default_rng(0))
    assert sorted(t for s in found for t in s) == list(range(8))
    assert next(start_solutions(model, np.random.default_rng(0))) == found


def test_extremes() -> None:
    model, rng = random_model(2, 4), np.random.default_rng(0)
    assert text(STARTS["extreme-1"](model, rng)) == "1234"
    assert text(STARTS["extreme-n"](model, rng)) == "1/2/3/4"


def test_random_pick_is_the_cheapest_of_its_picks() -> None:
    model = random_model(3, 6, replace(CONFIG, random_picks=500))
    few = random_model(3, 6, replace(CONFIG, random_picks=1))
    rng = np.random.default_rng(0)
    assert model.cost(STARTS["random"](model, rng)) <= few.cost(STARTS["random"](few, np.random.default_rng(0)))


def test_route_driven_groups_by_the_best_order() -> None:
    model = random_model(4, 8)
    orders = [model.route((t,)).order for t in range(8)]
    assert STARTS["route"](model, np.random.default_rng(0)) == from_labels(orders)


def test_content_driven_tells_unlike_values_apart() -> None:
    zones = np.array(["a", "a", "b", None, None], dtype=object)
    numbers = np.array([1.0, 1.1, 1.0, np.nan, np.nan])
    sample = Sample({"zone": zones, "u": numbers}, np.zeros((5, 2), dtype=np.bool_), np.ones(2))
    model = CostModel(TrainingSet.of_groups(sample, np.arange(5)), replace(CONFIG, content_distance=0.5))
    assert text(STARTS["content"](model, np.random.default_rng(0))) == "123/45"
    sharp = CostModel(TrainingSet.of_groups(sample, np.arange(5)), replace(CONFIG, content_distance=0.1))
    assert text(STARTS["content"](sharp, np.random.default_rng(0))) == "1/2/3/45"


@pytest.mark.parametrize("search", [ii_qm, sa_qm])
def test_seconds_are_counted_by_the_given_clock(search: Callable[..., Solution]) -> None:
    now = iter(range(10_000))
    model = random_model(1, 10, replace(CONFIG, seconds=5.0, iterations=1000))
    search(model, seed=0, clock=lambda: float(next(now)))
    assert next(now) < 50


def test_seconds_need_a_clock() -> None:
    with pytest.raises(QueryError, match="needs a clock"):
        ii_qm(random_model(1, 4, replace(CONFIG, seconds=1.0)), seed=0)


@pytest.mark.parametrize("search", [ii_qm, sa_qm])
def test_memory_bounds_the_memoised_subsets(search: Callable[..., Solution]) -> None:
    model = random_model(1, 10, replace(CONFIG, memory_subsets=60, iterations=50))
    search(model, seed=0)
    assert len(model.memo) < 800
    free = random_model(1, 10, replace(CONFIG, iterations=50))
    assert search(free, seed=0).priced > search(model, seed=0).priced


def test_a_plateau_ends_the_search() -> None:
    patient = ii_qm(random_model(1, 8, replace(CONFIG, iterations=30)), seed=0)
    plateau = ii_qm(random_model(1, 8, replace(CONFIG, iterations=30, plateau=2)), seed=0)
    assert plateau.priced < patient.priced
