"""Equation 2, the best order of a subset, and the presets of tables 1 and 3."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from anabranch.errors import QueryError
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.cost_model import CostModel, best_order, mesh_cost
from anabranch.mesh.training import Sample, TrainingSet
from anabranch.ordering import Precedence, expected_cost, row_costs


def test_equation_2() -> None:
    cost = mesh_cost([0.5, 0.3, 0.2], [1.0, 2.0, 3.0], [1, 2, 2], classification_seconds=0.1, overhead_seconds=0.01)
    assert cost == pytest.approx(0.5 * 1.1 + 0.3 * 2.2 + 0.2 * 3.2 + 3 * 0.01)


def test_a_configuration_costs_what_its_rows_cost() -> None:
    rng = np.random.default_rng(0)
    drops, costs = rng.random((40, 3)) < 0.4, np.array([1.0, 2.0, 0.5])
    groups = rng.integers(4, size=40)
    training = TrainingSet.of_groups(Sample({}, drops, costs), groups)
    model = CostModel(training, MeshConfig(overhead_seconds=0.1, classification_seconds=0.01, route_gain=0.0))
    partition = ((0, 2), (1,), (3,))
    rows = [np.isin(groups, subset) for subset in partition]
    routes = [best_order(drops[r], costs, Precedence.none(3)) for r in rows]
    spent = sum(float(row_costs(order, drops[r], costs).sum()) for order, r in zip(routes, rows, strict=True))
    assert model.cost(partition) == pytest.approx(spent / 40 + 3 * 0.1 + 2 * 0.01)


def test_row_costs_add_up_to_the_expected_cost() -> None:
    rng = np.random.default_rng(1)
    drops, costs = rng.random((50, 4)) < 0.3, rng.random(4)
    for order in permutations(range(4)):
        assert row_costs(order, drops, costs).mean() == pytest.approx(expected_cost(order, drops, costs))


def test_best_orders() -> None:
    # Filters 0 and 1 drop the same rows: the rank takes them as independent, greedy and exact do not.
    drops = np.array([[1, 1, 0]] * 6 + [[0, 0, 1]] * 3, dtype=np.bool_)
    free = Precedence.none(3)
    assert best_order(drops, np.ones(3), free, "rank") == (0, 1, 2)
    assert best_order(drops, np.ones(3), free, "greedy") == (0, 2, 1)
    assert best_order(drops, np.ones(3), free, "exact")[1] == 2


@pytest.mark.parametrize("method", ["rank", "greedy", "exact"])
def test_best_orders_keep_precedence(method: str) -> None:
    drops = np.array([[0, 1, 1]] * 6, dtype=np.bool_)
    bound = Precedence(3, frozenset({(0, 1), (0, 2)}))
    assert best_order(drops, np.ones(3), bound, method)[0] == 0


def test_subsets_are_remembered() -> None:
    drops = np.array([[1, 0], [0, 1]], dtype=np.bool_)
    model = CostModel(TrainingSet.of_groups(Sample({}, drops, np.ones(2)), np.arange(2)), MeshConfig())
    model.cost(((0,), (1,)))
    model.cost(((0,), (1,)))
    assert set(model.memo) == {(0, 1), (0,), (1,)}


def test_presets() -> None:
    one, three = MeshConfig.table_1(), MeshConfig.table_3()
    assert (one.search, one.start, one.training_tuples, one.sample_tuples, one.iterations) == (
        "ii",
        "route",
        10,
        1000,
        3,
    )
    assert (three.search, three.start, three.training_tuples) == ("sa", "content", 100)
    assert {c.window_tuples for c in (one, three)} == {1000}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"search": "annealing"}, "unknown search 'annealing'"),
        ({"start": "contents"}, "did you mean 'content'"),
        ({"route_search": "best"}, "unknown route_search"),
        ({"training_tuples": 0}, "training_tuples must be at least 1"),
        ({"cooling": 1.0}, "cooling must be between 0 and 1"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        MeshConfig(**wrong)  # type: ignore[arg-type]
