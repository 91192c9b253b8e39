"""The classifier: a small decision tree that sends every tuple to a route, a whole batch at a time.

>>> zones = np.array(["north", "south"] * 30, dtype=object)
>>> tree = DecisionTree.learn({"zone": zones}, (zones == "north").astype(np.int64))
>>> tree.paths()
((1, ("zone in ('north')",)), (0, ("zone not in ('north')",)))
>>> tree.classify({"zone": pa.array(["south", "north", None, "west"])}).tolist()
[0, 1, 0, 0]
>>> DecisionTree.from_dict(tree.to_dict()) == tree
True

Notes
-----
C and DT -> `DecisionTree`; a leaf's route identifier r_q -> the label of a leaf; |p_dt| -> `depth_of`; majority voting
-> the label of a leaf whose rows belong to several routes.

Differs from the paper
----------------------
A test has two answers, a discrete one compares with a set of values, and NULL is answered with no. Depth and leaves are
limited, because each test costs every tuple time.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import UnknownColumn
from anabranch.mesh.attributes import Column, SampleColumns, is_ordered, numeric, whole
from anabranch.mesh.induction import Limits, induce
from anabranch.mesh.nodes import (
    Among,
    AtMost,
    Branch,
    Leaf,
    Node,
    Test,
    node_from_dict,
    node_to_dict,
    path_texts,
    renumbered,
    simplified,
    walk,
)
from anabranch.model.arrays import Counts, Floats, Mask
from anabranch.model.attributes import AttributeArrays

EMPTY = Leaf(0)


@dataclass(frozen=True)
class DecisionTree:
    """Tests and leaves; the empty tree is one leaf and sends everything to route 0."""

    root: Node = EMPTY

    @classmethod
    def learn(
        cls,
        columns: SampleColumns,
        labels: Counts,
        weights: Floats | None = None,
        *,
        max_depth: int = 3,
        max_leaves: int = 8,
        leaf_rows: int = 1,
        seed: int = 0,
    ) -> DecisionTree:
        """Induce a tree that tells the labels of the rows apart, as far as depth, leaves and rows per leaf allow."""
        labels = np.asarray(labels, dtype=np.int64)
        weights = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=np.float64)
        if len(labels) == 0:
            return cls()
        if (labels == labels[0]).all():
            return cls(Leaf(int(labels[0])))
        limits = Limits(max_depth, max_leaves, leaf_rows)
        grown = cls(induce(columns, labels[:, np.newaxis], weights, limits, seed))
        return grown.relabelled(_majorities(grown.assign(columns, len(labels)), labels, weights))

    def relabelled(self, labels: Mapping[int, int]) -> DecisionTree:
        """Other labels for the leaves, and no test left that does not matter."""
        return DecisionTree(simplified(renumbered(self.root, lambda old: labels.get(old, old))))

    def classify(self, columns: AttributeArrays, rows: int | None = None) -> Counts:
        """The route of every row of a batch; an empty tree needs no columns, but then the number of `rows`."""
        if isinstance(self.root, Leaf):
            rows = len(next(iter(columns.values()), ())) if rows is None else rows
            return np.full(rows, self.root.label, dtype=np.int64)
        return _routes(self.root, _Arrow(columns))

    def assign(self, columns: SampleColumns, rows: int) -> Counts:
        """The same for the attributes of a sample; `rows` is their number, which an empty tree cannot tell."""
        if isinstance(self.root, Leaf):
            return np.full(rows, self.root.label, dtype=np.int64)
        return _routes(self.root, _Sampled(columns))

    def leaf_tree(self) -> DecisionTree:
        """The same tree with every leaf a route of its own, from left to right."""
        return DecisionTree(_numbered(self.root, 0)[0])

    def paths(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """For every leaf its route and the tests that lead there, in words."""
        return tuple((leaf.label, path_texts(path)) for leaf, path in walk(self.root))

    def depths(self) -> tuple[tuple[int, int], ...]:
        """For every leaf its route and the number of tests that lead there."""
        return tuple((leaf.label, len(path)) for leaf, path in walk(self.root))

    def attributes(self) -> tuple[str, ...]:
        """The columns that a batch must have, by name."""
        return tuple(sorted(_attributes(self.root)))

    def depth_of(self, route: int) -> int:
        """Tests on the longest path to a route."""
        return max((tests for label, tests in self.depths() if label == route), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return node_to_dict(self.root)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DecisionTree:
        """What `to_dict` wrote."""
        return cls(node_from_dict(data))


class _Arrow:
    """Answers tests for Arrow arrays, and turns each attribute into numbers once."""

    def __init__(self, columns: AttributeArrays) -> None:
        self.columns = columns
        self._numbers: dict[str, Floats] = {}

    def holds(self, test: Test) -> Mask:
        if test.attribute not in self.columns:
            raise UnknownColumn(test.attribute, list(self.columns), where="the classifier of a mesh")
        array = whole(self.columns[test.attribute])
        if isinstance(test, Among) and not test.numeric:
            return _among(test, array)
        if test.attribute not in self._numbers:
            self._numbers[test.attribute] = numeric(array)
        return _holds(test, self._numbers[test.attribute])


class _Sampled:
    """Answers tests for the attributes of a sample."""

    def __init__(self, columns: SampleColumns) -> None:
        self.columns: Mapping[str, Column] = columns

    def holds(self, test: Test) -> Mask:
        values = self.columns[test.attribute]
        if isinstance(test, AtMost) or is_ordered(values):
            return _holds(test, values)
        listed = set(test.values)
        return np.fromiter((v in listed for v in values), dtype=np.bool_, count=len(values))


def _holds(test: Test, values: Column) -> Mask:
    """The answers for numbers."""
    if isinstance(test, AtMost):
        return np.asarray(values <= test.threshold)
    return np.isin(values, np.array(test.values, dtype=np.float64))


def _among(test: Among, array: pa.Array) -> Mask:
    if pa.types.is_dictionary(array.type):
        held = np.append(_among(test, array.dictionary), False)
        codes = pc.fill_null(array.indices.cast(pa.int64()), len(array.dictionary))
        return np.asarray(held[codes.to_numpy(zero_copy_only=False)])
    listed = pa.array(test.values, type=array.type)
    return np.asarray(pc.is_in(array, value_set=listed).to_numpy(zero_copy_only=False))


def _routes(node: Node, columns: _Arrow | _Sampled) -> Counts:
    """Both sides for all rows: a test on a whole array costs less than picking rows out of it."""
    if isinstance(node, Leaf):
        return np.asarray(node.label)
    return np.where(columns.holds(node.test), _routes(node.yes, columns), _routes(node.no, columns))


def _majorities(leaves: Counts, labels: Counts, weights: Floats) -> dict[int, int]:
    votes = np.zeros((int(leaves.max()) + 1, int(labels.max()) + 1))
    np.add.at(votes, (leaves, labels), weights)
    return dict(enumerate(votes.argmax(axis=1).tolist()))


def _numbered(node: Node, first: int) -> tuple[Node, int]:
    if isinstance(node, Leaf):
        return Leaf(first), first + 1
    yes, following = _numbered(node.yes, first)
    no, following = _numbered(node.no, following)
    return Branch(node.test, yes, no), following


def _attributes(node: Node) -> set[str]:
    if isinstance(node, Leaf):
        return set()
    return {node.test.attribute} | _attributes(node.yes) | _attributes(node.no)
