"""Small versions of the mesh experiments: what the paper claims holds in direction, run after run."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.mesh.config import STARTS, MeshConfig
from anabranch.mesh.mesh import Mesh
from anabranch.mesh.optimize import optimize
from anabranch.reproduce.content.sensors import generated
from anabranch.reproduce.querymesh import lab, overheads, rates, skew, starts, totals, training
from anabranch.reproduce.querymesh.names import BATCHED, EDDY, MESH, SINGLE, SKEWED, SMALL_MESH, UNIFORM
from anabranch.reproduce.querymesh.running import Ran, same_answers, through_eddy, through_fabric
from anabranch.reproduce.querymesh.streams import EARLIER, SAMPLE_TUPLES, selectivities, skewed, uniform
from anabranch.reproduce.querymesh.synthetic import race


def meshes(kind: str, seed: int) -> dict[str, Mesh]:
    draw = skewed if kind == SKEWED else uniform
    mesh = optimize(draw(SAMPLE_TUPLES, seed, run=EARLIER).sample, MeshConfig.table_1(), seed=seed)
    return {MESH: mesh, SMALL_MESH: mesh, SINGLE: Mesh.of_one(mesh.single_order, cost=mesh.single_cost)}


@pytest.fixture(scope="module")
def skewed_run() -> dict[str, Ran]:
    return race(skewed(2000, 1), meshes(SKEWED, 1), 1)


@pytest.fixture(scope="module")
def uniform_run() -> dict[str, Ran]:
    return race(uniform(2000, 1), meshes(UNIFORM, 1), 1)


def test_partitions_differ_in_their_best_order_and_runs_of_a_stream_do_not() -> None:
    asked = selectivities(1)
    assert asked.prod(axis=1) == pytest.approx(0.05)
    assert len({tuple(np.argsort(row)) for row in asked}) == 3
    earlier, later = skewed(20_000, 1, run=EARLIER), skewed(20_000, 1)
    assert not np.array_equal(earlier.outcomes, later.outcomes)
    for stream in (earlier, later):
        found = np.stack([stream.outcomes[stream.partitions == p].mean(axis=0) for p in range(3)])
        assert found == pytest.approx(asked, abs=0.03)


def test_the_fabric_makes_the_calls_of_its_routes() -> None:
    stream = uniform(500, 3)
    ran = through_fabric(Mesh.of_one(tuple(range(10)), cost=0.0), stream.arrays, stream.outcomes)
    first_drop = np.where(stream.outcomes.all(axis=1), 10, stream.outcomes.argmin(axis=1) + 1)
    assert ran.calls.tolist() == first_drop.tolist()
    assert ran.passed.tolist() == stream.outcomes.all(axis=1).tolist()


def test_the_eddy_reports_what_each_tuple_took() -> None:
    stream = skewed(1000, 3)
    ran = through_eddy(stream.columns, stream.kinds, stream.outcomes, batch_rows=100, seed=3)
    assert len(ran.calls) == 1000
    assert ran.calls.min() >= 1
    assert (ran.calls[ran.passed] == 10).all()


def test_systems_that_disagree_are_noticed() -> None:
    calls = np.ones(2, dtype=np.int64)
    with pytest.raises(AssertionError, match="disagree"):
        same_answers({MESH: Ran(calls, calls == 1, 0.0, 0.0), SINGLE: Ran(calls, calls == 0, 0.0, 0.0)})


def test_the_mesh_is_ahead_on_skewed_data_and_a_single_plan_on_uniform_data(
    skewed_run: dict[str, Ran], uniform_run: dict[str, Ran]
) -> None:
    assert all(rates.ahead([skewed_run], other) > 1.1 for other in (SINGLE, EDDY, BATCHED))
    assert uniform_run[MESH].total == uniform_run[SINGLE].total
    assert all(rates.ahead([uniform_run], other) > 1.0 for other in (EDDY, BATCHED))


def test_figures_of_the_races(skewed_run: dict[str, Ran], uniform_run: dict[str, Ran]) -> None:
    found = [
        *rates.exhibits({SKEWED: [skewed_run], UNIFORM: [uniform_run]}, [skewed_run]),
        overheads.exhibit([skewed_run]),
        totals.exhibit([skewed_run]),
    ]
    assert [exhibit.name for exhibit in found] == ["Figure 10a", "Figure 10b", "Figure 10c", "Figure 11a"]
    counted = [bar for exhibit in found for bar in exhibit.bars if bar.bar.startswith(("10a", "11a"))]
    assert all(bar.holds for bar in counted)


def test_all_results_are_there_at_the_end_of_the_hour_and_none_at_its_start() -> None:
    ran = Ran(np.array([2, 1, 3]), np.array([True, False, True]), 0.0, 0.0)
    curve = totals.produced(ran, hour=6.0)
    assert (curve[0], curve[20], curve[-1]) == (0.0, 1.0, 2.0)


def test_partitions_with_one_telling_join_each_gain_most() -> None:
    random, bound = skew.gains(selectivities, 1, 2000)
    assert 1.0 < random < bound
    assert skew.gains(skew.one_join_each, 1, 2000)[0] > random


def test_a_start_with_routes_is_better_than_one_without() -> None:
    calls = starts.tries(1, 1000, {starts.SMALL: MeshConfig.table_1()})
    alone = {name: calls[starts.SMALL, starts.ALONE, name] for name in STARTS}
    assert alone["route"] < alone["extreme-1"]
    assert calls[starts.SMALL, starts.SEARCHED, "extreme-1"] < alone["extreme-1"]


@pytest.mark.parametrize("name", training.SEARCHES)
def test_larger_training_sets_take_more_routes(name: str) -> None:
    small, large = (training.search(name, size, 1, 1000) for size in (8, 20))
    assert small.routes < large.routes


def test_a_mesh_of_the_first_day_runs_on_the_others() -> None:
    readings = generated(3, 30.0, seed=1)
    found = lab.query(readings, 1)
    assert len(found[MESH].calls) == len(readings.hours) * 2 // 3
