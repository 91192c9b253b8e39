"""Inducing a tree: information gain chooses the tests, and a look one test ahead finds what no single test shows.

Whether a row belongs to a class may depend on two attributes of which neither tells anything alone. The greedy learner
is blind there. So for every pair of coarse tests the entropy that both leave together is counted, with one matrix
product; a first test that is much better than the greedy one when a second follows it becomes the root, and the learner
goes on below.

>>> from anabranch.mesh.nodes import path_texts, walk
>>> grid = np.array([(a, b, u) for a in (0, 1) for b in (0, 1) for u in range(8)], dtype=np.float64)
>>> either = (grid[:, 0] != grid[:, 1]).astype(np.int64)
>>> columns = {"a": grid[:, 0], "b": grid[:, 1], "noise": (grid[:, 2] * 5 + grid[:, 0] * 3 + grid[:, 1]) % 7}
>>> tree = induce(columns, either[:, np.newaxis], np.ones(32), Limits(depth=2, leaves=4, leaf_rows=1), seed=0)
>>> sorted({test for _, path in walk(tree) for test in path_texts(path)})
['a <= 0.5', 'a > 0.5', 'b <= 0.5', 'b > 0.5']

Notes
-----
DT -> the tree; the entropy-based measure of section 4.4 -> ``criterion="entropy"`` and `_Judge`.

Differs from the paper
----------------------
The paper's learner looks at one attribute at a time.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from anabranch.errors import MissingExtra
from anabranch.mesh.attributes import SampleColumns
from anabranch.mesh.encoding import Feature, encode
from anabranch.mesh.nodes import Branch, Leaf, Node
from anabranch.model.arrays import Counts, Floats, Mask, Rows

CUTS = 8
FINE_CUTS = 64
MOST_TESTS = 160
CLEAR_SHARE = 0.05
SMALLEST_COUNT = 1e-300


@dataclass(frozen=True)
class Limits:
    """How far a tree may grow: tests on a path, leaves, and the fewest rows of a leaf."""

    depth: int | None
    leaves: int
    leaf_rows: int

    @property
    def halved(self) -> Limits:
        """What is left for each side of a root."""
        return replace(self, depth=None if self.depth is None else self.depth - 1, leaves=max(1, self.leaves // 2))

    @property
    def two_levels(self) -> bool:
        """Whether a root and one test below it on both sides fit."""
        return self.leaves >= 4 and (self.depth is None or self.depth >= 2)


def induce(columns: SampleColumns, targets: Counts, weights: Floats, limits: Limits, seed: int) -> Node:
    """A tree for one or more class columns (whole numbers from 0); its leaves are numbered from left to right."""
    indicators = _indicators(targets)
    sorted_by = (indicators, targets) if targets.shape[1] == 1 else (targets,)
    features = encode(columns, np.hstack(sorted_by).astype(np.float64))
    rows = np.arange(len(targets))
    if not features:
        return Leaf(0)
    table = _Table(features, np.column_stack([f.codes for f in features]), targets, indicators, weights, seed)
    return table.grow(rows, limits, count())


@dataclass(frozen=True)
class _Table:
    features: Sequence[Feature]
    codes: Rows
    targets: Counts
    indicators: Floats
    weights: Floats
    seed: int

    def grow(self, rows: Rows, limits: Limits, numbers: Iterator[int]) -> Node:
        """The tree for some of the rows."""
        root = self._root_in_sight(rows, limits) if limits.two_levels else None
        if root is None:
            return self._greedy(rows, limits, numbers)
        feature, place = root
        yes = self.codes[rows, feature] <= place
        return Branch(
            self.features[feature].test(place),
            self.grow(rows[yes], limits.halved, numbers),
            self.grow(rows[~yes], limits.halved, numbers),
        )

    def _greedy(self, rows: Rows, limits: Limits, numbers: Iterator[int]) -> Node:
        if limits.leaves < 2 or limits.depth == 0 or len(rows) < 2 * limits.leaf_rows:
            return Leaf(next(numbers))
        learner = _learner()(
            criterion="entropy",
            max_depth=limits.depth,
            max_leaf_nodes=limits.leaves,
            min_samples_leaf=limits.leaf_rows,
            random_state=self.seed,
        )
        targets = self.targets[rows]
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # almost as many classes as rows
            learner.fit(self.codes[rows], targets[:, 0] if targets.shape[1] == 1 else targets, self.weights[rows])
        return self._translated(learner.tree_, 0, numbers)

    def _translated(self, tree: Any, at: int, numbers: Iterator[int]) -> Node:
        if tree.children_left[at] < 0:
            return Leaf(next(numbers))
        test = self.features[int(tree.feature[at])].test(int(np.floor(tree.threshold[at])))
        yes = self._translated(tree, int(tree.children_left[at]), numbers)
        return Branch(test, yes, self._translated(tree, int(tree.children_right[at]), numbers))

    def _root_in_sight(self, rows: Rows, limits: Limits) -> tuple[int, int] | None:
        """The root of two levels of tests, if it is clearly better than what the best single test leads to."""
        tests, holds = self._coarse_tests(rows, limits.leaf_rows)
        if len(tests) < 2:
            return None
        judge = _Judge(self.indicators[rows], self.weights[rows], self.targets.shape[1], limits.leaf_rows)
        after_one, after_two = judge.entropies(holds, holds)
        best, greedy = int(after_two.argmin()), int(after_one.argmin())
        missed = max(after_two[greedy] - after_two[best], 2 * after_one[greedy] - judge.before - after_two[best])
        if missed <= CLEAR_SHARE * judge.before:
            return None
        feature = tests[best][0]
        codes = self.codes[rows, feature]
        places = np.unique(np.append(np.quantile(codes, np.linspace(0, 1, FINE_CUTS), method="lower"), tests[best][1]))
        _, refined = judge.entropies(codes <= places[:, np.newaxis], holds)
        return feature, int(places[int(refined.argmin())])

    def _coarse_tests(self, rows: Rows, leaf_rows: int) -> tuple[list[tuple[int, int]], Mask]:
        tests, holds = list[tuple[int, int]](), dict[bytes, Mask]()
        for number, codes in enumerate(self.codes[rows].T):
            places = np.unique(np.quantile(codes, np.linspace(0, 1, CUTS + 2), method="lower")[:-1])
            for place in places.tolist():
                mask = codes <= place
                if leaf_rows <= np.count_nonzero(mask) <= len(rows) - leaf_rows and mask.tobytes() not in holds:
                    holds[mask.tobytes()] = mask
                    tests.append((number, int(place)))
        kept = np.unique(np.linspace(0, len(tests) - 1, min(len(tests), MOST_TESTS)).astype(np.int64))
        masks = list(holds.values())
        return [tests[i] for i in kept], np.array([masks[i] for i in kept], dtype=np.bool_)


def _indicators(targets: Counts) -> Floats:
    """One column per class of every target, 1 where a row has it."""
    parts = [column[:, np.newaxis] == np.arange(column.max(initial=0) + 1) for column in targets.T]
    return np.hstack(parts).astype(np.float64)


@dataclass(frozen=True)
class _Judge:
    """Counts what tests leave open about some rows; entropies are in bits times weight, summed over the outputs."""

    indicators: Floats
    weights: Floats
    outputs: int
    leaf_rows: int

    @property
    def before(self) -> float:
        return float(self._entropy(self.weights @ self.indicators, self.weights.sum()))

    def entropies(self, roots: Mask, seconds: Mask) -> tuple[Floats, Floats]:
        """What each root leaves alone, and with the best second test on each side."""
        weights = self.weights[:, np.newaxis]
        # Per row: the weight in each class, the weight, and a one to count rows by.
        facts = np.hstack([self.indicators * weights, weights, np.ones_like(weights)])
        both = _products(roots, seconds, facts)
        of_roots, of_seconds, total = roots @ facts, seconds @ facts, facts.sum(axis=0)
        of_yes = self._side(of_roots, both)
        of_no = self._side(total - of_roots, of_seconds - both)
        return of_yes[0] + of_no[0], of_yes[1] + of_no[1]

    def _side(self, here: Floats, held: Floats) -> tuple[Floats, Floats]:
        """One side of each root, undivided and divided; infinite if it has too few rows."""
        left = here[:, np.newaxis] - held
        alone = np.where(here[:, -1] < self.leaf_rows, np.inf, self._entropy(here[:, :-2], here[:, -2]))
        divided = self._entropy(held[..., :-2], held[..., -2]) + self._entropy(left[..., :-2], left[..., -2])
        fits = (held[..., -1] >= self.leaf_rows) & (left[..., -1] >= self.leaf_rows)
        return alone, np.minimum(alone, np.where(fits, divided, np.inf).min(axis=1))

    def _entropy(self, counts: Floats, weight: Floats | float) -> Floats:
        """The counts of each output add up to the weight."""
        return np.asarray(self.outputs * _information(np.asarray(weight)) - _information(counts).sum(axis=-1))


def _products(roots: Mask, seconds: Mask, facts: Floats) -> Floats:
    """The facts summed over the rows for which both tests hold; short floats are exact enough for that, and faster."""
    left, right = roots.astype(np.float32), seconds.astype(np.float32).T
    return np.stack([(left * fact) @ right for fact in facts.T.astype(np.float32)], axis=-1).astype(np.float64)


def _information(counts: Floats) -> Floats:
    return np.where(counts > 0, counts * np.log2(np.maximum(counts, SMALLEST_COUNT)), 0.0)


def _learner() -> Any:
    try:
        return import_module("sklearn.tree").DecisionTreeClassifier
    except ImportError:
        raise MissingExtra("scikit-learn", "mesh", needed_for="the classifier of a query mesh") from None
