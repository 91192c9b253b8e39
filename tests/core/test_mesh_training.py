"""Condensing: groups of rows that are alike in content and in what the filters do with them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import InternalError
from anabranch.mesh.training import Sample, TrainingSet, condense


def sample(seed: int, rows: int = 300) -> Sample:
    rng = np.random.default_rng(seed)
    north = rng.random(rows) < 0.5
    passing = np.where(north[:, np.newaxis], (0.05, 0.95, 0.9), (0.95, 0.05, 0.9))
    columns = {"zone": np.where(north, "north", "south").astype(object), "noise": rng.random(rows)}
    return Sample(columns, rng.random((rows, 3)) >= passing, np.ones(3))


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_groups_share_out_all_rows(size: int) -> None:
    training = condense(sample(0), size, seed=0)
    assert 1 <= len(training) <= size
    assert sorted(r for t in training.tuples for r in t.rows.tolist()) == list(range(300))
    assert sum(t.density for t in training.tuples) == pytest.approx(1.0)
    everything = tuple(range(len(training)))
    assert training.drops(everything).sum(axis=0).tolist() == sample(0).drops.sum(axis=0).tolist()
    assert training.density(everything) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(5))
def test_no_group_mixes_two_behaviours(seed: int) -> None:
    drawn = sample(seed)
    for t in condense(drawn, 8, seed=0).tuples:
        assert len(set(drawn.columns["zone"][t.rows])) == 1
        assert t.values["zone"] == drawn.columns["zone"][t.rows[0]]


def test_labels_follow_the_partition() -> None:
    training = TrainingSet.of_groups(sample(0, 6), np.array([0, 1, 2, 0, 1, 2]))
    assert training.labels([(0, 2), (1,)]).tolist() == [0, 1, 0, 0, 1, 0]


def test_the_same_seed_condenses_the_same() -> None:
    one, other = (condense(sample(1), 10, seed=4) for _ in range(2))
    assert [t.rows.tolist() for t in one.tuples] == [t.rows.tolist() for t in other.tuples]


def test_arrow_columns_that_cannot_serve_are_left_out() -> None:
    arrays = {"u": pa.array([1, None]), "zone": pa.array(["a", None]), "list": pa.array([[1], []])}
    made = Sample.from_arrow(arrays, np.zeros((2, 1), dtype=np.bool_), np.ones(1))
    assert sorted(made.columns) == ["u", "zone"]
    assert made.columns["zone"].tolist() == ["a", None]
    assert made.take(np.array([1])).columns["zone"].tolist() == [None]


def test_lengths_must_agree() -> None:
    with pytest.raises(InternalError, match="column 'u' has 3 rows, the sample has 2"):
        Sample({"u": np.ones(3)}, np.zeros((2, 1), dtype=np.bool_), np.ones(1))


def test_no_rows_no_tuples() -> None:
    empty = Sample({"u": np.ones(0)}, np.zeros((0, 2), dtype=np.bool_), np.ones(2))
    assert len(condense(empty, 4, seed=0)) == 0
