"""The tree: what it learns, and that Arrow batches are classified as the sample was."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import MissingExtra, QueryError, UnknownColumn
from anabranch.mesh.attributes import column, numeric
from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.nodes import Among, AtMost, Branch, Leaf, Path, Test, joined
from tiers import tiers

SECOND = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
TREE = DecisionTree(Branch(AtMost("u", 0.5), Branch(Among("zone", ("north", "south")), Leaf(2), Leaf(0)), Leaf(1)))


def text(values: list[Any]) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=object)


def test_paths_and_depths() -> None:
    assert TREE.paths() == (
        (2, ("u <= 0.5", "zone in ('north', 'south')")),
        (0, ("u <= 0.5", "zone not in ('north', 'south')")),
        (1, ("u > 0.5",)),
    )
    assert [TREE.depth_of(route) for route in range(4)] == [2, 1, 2, 0]
    assert TREE.attributes() == ("u", "zone")


TESTS = st.one_of(
    st.builds(Among, st.just("zone"), st.sets(st.sampled_from("abcd"), min_size=1).map(lambda v: tuple(sorted(v)))),
    st.builds(AtMost, st.just("u"), st.sampled_from([0.0, 1.0, 2.0, float("inf")])),
)


@given(st.lists(st.tuples(TESTS, st.booleans()), max_size=5).map(tuple))
def test_joined_tests_say_what_all_of_a_path_say(path: Path) -> None:
    def holds(test: Test, zone: str | None, u: float | None) -> bool:
        if isinstance(test, Among):
            return zone in test.values
        return u is not None and u <= test.threshold

    short = joined(path)
    assert len({(type(test), answer) for test, answer in short}) == len(short)
    for zone in (None, *"abcde"):
        for u in (None, -1.0, 0.5, 1.5, 3.0):
            first, second = (all(holds(test, zone, u) == answer for test, answer in each) for each in (path, short))
            assert first == second


def test_travels_as_json_and_pickle() -> None:
    infinite = DecisionTree(Branch(AtMost("u", float("inf")), Leaf(0), Branch(AtMost("v", -1.5), Leaf(1), Leaf(0))))
    for tree in (TREE, infinite, DecisionTree(), DecisionTree(Branch(Among("b", (True,)), Leaf(0), Leaf(1)))):
        assert DecisionTree.from_dict(json.loads(json.dumps(tree.to_dict(), allow_nan=False))) == tree
        assert pickle.loads(pickle.dumps(tree)) == tree


def test_null_and_nan_are_answered_no() -> None:
    arrays = {
        "u": pa.array([0.1, None, float("nan"), 0.1, 0.1]),
        "zone": pa.array(["north", "north", "north", None, "x"]),
    }
    assert TREE.classify(arrays).tolist() == [2, 1, 1, 0, 0]
    known = DecisionTree(Branch(AtMost("u", float("inf")), Leaf(0), Leaf(1)))
    assert known.classify(arrays).tolist() == [0, 1, 1, 0, 0]
    assert known.paths() == ((0, ("u is known",)), (1, ("u is NULL",)))


def test_an_empty_tree_classifies() -> None:
    assert DecisionTree().classify({"u": pa.array([1, 2])}).tolist() == [0, 0]
    assert DecisionTree().classify({}, rows=3).tolist() == [0, 0, 0]


def test_no_rows() -> None:
    empty = {"u": pa.array([], type=pa.float64()), "zone": pa.array([], type=pa.string())}
    assert TREE.classify(empty).tolist() == []


def test_a_missing_column_is_named() -> None:
    with pytest.raises(UnknownColumn, match="unknown column 'zone' in the classifier of a mesh"):
        TREE.classify({"u": pa.array([1.0]), "zones": pa.array(["north"])})


@pytest.mark.parametrize(
    ("array", "numbers"),
    [
        (pa.array([1, None, 3], type=pa.int8()), [1.0, None, 3.0]),
        (pa.array([1, 2**40], type=pa.uint64()), [1.0, 2.0**40]),
        (pa.array([0.5, None], type=pa.float32()), [0.5, None]),
        (pa.array([Decimal("1.25"), None], type=pa.decimal128(9, 2)), [1.25, None]),
        (pa.array([dt.date(1970, 1, 11), None]), [10.0, None]),
        (pa.array([SECOND, None], type=pa.timestamp("ms")), [1e6, None]),
        (pa.array([SECOND], type=pa.timestamp("ns", tz="UTC")), [1e6]),
        (pa.array([3, None, 3]).dictionary_encode(), [3.0, None, 3.0]),
    ],
)
def test_numbers_of_every_type(array: pa.Array, numbers: list[float | None]) -> None:
    assert [None if np.isnan(v) else v for v in numeric(array)] == numbers
    at_two = DecisionTree(Branch(AtMost("x", 2.0), Leaf(0), Leaf(1)))
    expected = [0 if v is not None and v <= 2.0 else 1 for v in numbers]
    assert at_two.classify({"x": array}).tolist() == expected
    assert at_two.assign({"x": column(array)}, len(array)).tolist() == expected


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_members_of_every_type(kind: pa.DataType) -> None:
    array = pa.array(["north", None, "south", "east"], type=pa.string()).cast(kind)
    tree = DecisionTree(Branch(Among("zone", ("north", "south")), Leaf(1), Leaf(0)))
    for zones in (array, pa.chunked_array([array]), array[1:]):
        expected = [int(v in ("north", "south")) for v in zones.to_pylist()]
        assert tree.classify({"zone": zones}).tolist() == expected
        assert tree.assign({"zone": column(zones)}, len(zones)).tolist() == expected


def test_true_and_false() -> None:
    flags = pa.array([True, None, False])
    tree = DecisionTree(Branch(Among("flag", (True,)), Leaf(1), Leaf(0)))
    assert tree.classify({"flag": flags}).tolist() == [1, 0, 0]
    learned = DecisionTree.learn({"flag": column(pa.array([True, False] * 9))}, np.array([1, 0] * 9))
    assert learned.classify({"flag": flags}).tolist()[::2] == [1, 0]


def test_a_type_without_order_or_equality_is_refused() -> None:
    with pytest.raises(QueryError, match="type list<item: int64> cannot tell routes apart"):
        column(pa.array([[1], [2]]))


def test_learns_a_threshold_in_a_timestamp_to_the_microsecond() -> None:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    times = pa.array([start + dt.timedelta(microseconds=i) for i in range(20)], type=pa.timestamp("us"))
    labels = np.array([0] * 13 + [1] * 7)
    tree = DecisionTree.learn({"at": column(times)}, labels)
    assert tree.classify({"at": times}).tolist() == labels.tolist()


def test_learns_beyond_the_range_of_short_floats() -> None:
    values = np.array([-np.inf, -1e300, -1.0, 1.0, 1e300, np.inf, np.nan])
    for first in range(1, 7):
        labels = (np.arange(7) >= first).astype(np.int64)
        tree = DecisionTree.learn({"u": values}, labels)
        assert tree.classify({"u": pa.array(values, from_pandas=False)}).tolist() == labels.tolist()


def test_a_set_of_values_takes_one_test() -> None:
    zones = text([f"z{i}" for i in range(12)] * 5)
    labels = np.array([i % 2 for i in range(12)] * 5)
    tree = DecisionTree.learn({"zone": zones}, labels, max_depth=1)
    assert tree.assign({"zone": zones}, 60).tolist() == labels.tolist()


def test_whole_numbers_of_few_values_are_told_apart_by_value_and_others_by_range() -> None:
    hours = np.arange(24.0).repeat(5)
    labels = (hours % 3 == 0).astype(np.int64)
    tree = DecisionTree.learn({"hour": hours}, labels, max_depth=1)
    assert tree.assign({"hour": hours}, 120).tolist() == labels.tolist()
    broken = DecisionTree.learn({"hour": hours + 0.5}, labels, max_depth=1)
    assert broken.assign({"hour": hours + 0.5}, 120).tolist() != labels.tolist()


def test_six_values_with_a_label_each_fit_into_depth_three() -> None:
    zones = text(list("abcdef") * 10)
    labels = np.array([3, 0, 5, 1, 4, 2] * 10)
    tree = DecisionTree.learn({"zone": zones}, labels)
    assert tree.assign({"zone": zones}, 60).tolist() == labels.tolist()
    assert max(tree.depth_of(route) for route in range(6)) == 3


@pytest.mark.parametrize("seed", tiers(range(10), fast=4))
def test_exclusive_or_takes_two_tests_among_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.random(300) < 0.5, rng.random(300)
    columns = {
        "noise": rng.random(300),
        "left": np.where(left, "yes", "no").astype(object),
        "right": right,
        "more": rng.choice(list("abcdefgh"), size=300).astype(object),
    }
    labels = (left ^ (right < 0.4)).astype(np.int64)
    tree = DecisionTree.learn(columns, labels, max_depth=2)
    assert (tree.assign(columns, 300) == labels).mean() > 0.99
    assert tree.attributes() == ("left", "right")


def test_weights_decide_a_majority() -> None:
    columns = {"u": np.array([1.0, 1.0, 1.0, 2.0])}
    labels = np.array([0, 0, 1, 1])
    assert DecisionTree.learn(columns, labels).classify({"u": pa.array([1, 2])}).tolist() == [0, 1]
    heavy = DecisionTree.learn(columns, labels, np.array([1.0, 1.0, 5.0, 1.0]))
    assert heavy == DecisionTree(Leaf(1))


def test_degenerate_attributes_give_one_leaf() -> None:
    labels = np.arange(30) % 2
    columns = {
        "constant": np.ones(30),
        "distinct": text([f"v{i}" for i in range(30)]),
        "null": text([None] * 30),
        "nan": np.full(30, np.nan),
        "flag": np.zeros(30, dtype=np.bool_),
    }
    assert len(DecisionTree.learn(columns, labels).paths()) == 1
    assert DecisionTree.learn({}, labels).paths() == ((0, ()),)
    assert DecisionTree.learn(columns, np.array([], dtype=np.int64)) == DecisionTree()
    assert DecisionTree.learn({"u": np.ones(1)}, np.array([4])) == DecisionTree(Leaf(4))


def test_more_classes_than_leaves() -> None:
    values = np.arange(40.0)
    tree = DecisionTree.learn({"u": values}, np.arange(40))
    assert len(tree.paths()) <= 8


def test_the_same_seed_learns_the_same() -> None:
    rng = np.random.default_rng(0)
    columns, labels = {"u": rng.random(100), "v": rng.random(100)}, rng.integers(3, size=100)
    assert DecisionTree.learn(columns, labels, seed=5) == DecisionTree.learn(columns, labels, seed=5)


values = st.one_of(st.none(), st.sampled_from("abcd"))
numbers = st.one_of(st.none(), st.sampled_from([-2.5, 0.0, 1e-9, 3.0, 7.0, float("inf")]))


@given(st.lists(st.tuples(values, numbers, st.booleans(), st.integers(0, 3)), min_size=1, max_size=40))
def test_arrow_and_sample_agree(rows: list[tuple[str | None, float | None, bool, int]]) -> None:
    zone, u, flag, labels = (list(part) for part in zip(*rows, strict=True))
    arrays = {
        "zone": pa.array(zone, type=pa.string()),
        "u": pa.array(u, type=pa.float64()),
        "flag": pa.array(flag, type=pa.bool_()),
    }
    columns = {name: column(array) for name, array in arrays.items()}
    tree = DecisionTree.learn(columns, np.array(labels))
    assert tree.classify(arrays).tolist() == tree.assign(columns, len(rows)).tolist()
    assert DecisionTree.from_dict(tree.to_dict()) == tree
    paths = tree.paths()
    assert len(paths) <= 8
    assert max(len(path) for _, path in paths) <= 3


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(MissingExtra, match=r"anabranch\[mesh\]"):
        DecisionTree.learn({"u": np.arange(4.0)}, np.array([0, 0, 1, 1]))
