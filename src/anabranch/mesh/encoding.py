"""Attributes as columns of small whole numbers, such that "at most k" is always a test that a tree may hold.

Numbers become their ranks, so no precision is lost to the learner's short floats; NULL ranks last. The frequent values
of a discrete attribute are put into several sequences: each alone, and sorted by how often each target is met among
their rows. The first values of a sequence then form the set of a membership test; rare values and NULL come last. Whole
numbers of few values, such as hours, are taken both ways.

>>> zones = np.array(["north", "south", "north", "south", None], dtype=object)
>>> target = np.array([[1.0], [0.0], [1.0], [0.0], [0.0]])
>>> features = encode({"zone": zones, "u": np.array([1.5, 2.0, 4.0, np.nan, 2.0])}, target)
>>> [(f.attribute, f.steps, f.codes.tolist()) for f in features[-1:]]
[('u', (1.5, 2.0, 4.0), [0, 1, 2, 3, 1])]
>>> features[-1].test(1), features[0].test(0)
(AtMost(attribute='u', threshold=3.0), Among(attribute='zone', values=('north',)))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from anabranch.mesh.attributes import Column, SampleColumns, is_ordered, known
from anabranch.mesh.nodes import Among, AtMost, Test, in_sequence
from anabranch.model.arrays import Floats, Rows

FREQUENT_VALUES = 24
FEWEST_ROWS = 2
LARGEST_LISTED = 2**31
"""Larger whole numbers are times, mostly."""


@dataclass(frozen=True)
class Feature:
    """One attribute in one sequence: `codes` are places in `steps`, and the number of steps stands for all others."""

    attribute: str
    steps: tuple[Any, ...]
    codes: Rows
    ordered: bool

    def test(self, place: int) -> Test:
        """The test that holds for the codes up to `place`."""
        if not self.ordered:
            return Among(self.attribute, in_sequence(set(self.steps[: place + 1])))
        if place + 1 >= len(self.steps):
            return AtMost(self.attribute, inf)
        return AtMost(self.attribute, _between(self.steps[place], self.steps[place + 1]))


def encode(columns: SampleColumns, targets: Floats) -> list[Feature]:
    """All features that tell rows apart; `targets` has one column per quantity that values are sorted by."""
    found: list[Feature] = []
    for attribute, values in columns.items():
        if is_ordered(values):
            found.append(_ranked(attribute, values))
            if _few_whole(found[-1].steps):
                found.extend(_sequences(attribute, _listed(values), targets))
        else:
            found.extend(_sequences(attribute, values, targets))
    return [f for f in found if len(f.codes) and f.codes.min() < f.codes.max()]


def _ranked(attribute: str, values: Column) -> Feature:
    there = known(values)
    steps, ranks = np.unique(values[there].astype(np.float64), return_inverse=True)
    codes = np.full(len(values), len(steps), dtype=np.int64)
    codes[there] = ranks
    return Feature(attribute, tuple(steps.tolist()), codes, ordered=True)


def _few_whole(steps: tuple[float, ...]) -> bool:
    """Whether numbers are whole, small and few; of two, a range says as much."""
    return 2 < len(steps) <= FREQUENT_VALUES and all(abs(v) <= LARGEST_LISTED and v == int(v) for v in steps)


def _listed(values: Column) -> Column:
    return np.array([int(v) if there else None for v, there in zip(values, known(values), strict=True)], dtype=object)


def _sequences(attribute: str, values: Column, targets: Floats) -> Iterator[Feature]:
    counts = Counter(values[known(values)].tolist())
    frequent = [v for v, rows in counts.most_common(FREQUENT_VALUES) if rows >= FEWEST_ROWS]
    place = {v: i for i, v in enumerate(in_sequence(set(frequent)))}
    codes = np.fromiter((place.get(v, len(place)) for v in values), dtype=np.int64, count=len(values))
    for sequence in _sorted_values(codes, len(place), targets):
        rank = np.full(len(place) + 1, len(sequence), dtype=np.int64)
        rank[list(sequence)] = np.arange(len(sequence))
        steps = tuple(v for i in sequence for v, at in place.items() if at == i)
        yield Feature(attribute, steps, rank[codes], ordered=False)


def _sorted_values(codes: Rows, values: int, targets: Floats) -> Iterator[tuple[int, ...]]:
    """Each value alone, then all sorted by their mean of each target; backwards too if others must be kept apart."""
    others = bool((codes == values).any())
    yield from ((i,) for i in range(1 if values == 2 and not others else values))
    if values < 3:
        return
    rows = np.maximum(np.bincount(codes, minlength=values)[:values], 1)
    seen = set[tuple[int, ...]]()
    for target in targets.T:
        means = np.bincount(codes, weights=target, minlength=values)[:values] / rows
        ascending = tuple(np.argsort(means, kind="stable").tolist())
        for sequence in (ascending, ascending[::-1]) if others else (ascending,):
            if sequence not in seen:
                seen.add(sequence)
                yield sequence


def _between(low: float, high: float) -> float:
    middle = low + (high - low) / 2 if isfinite(low) and isfinite(high) else low
    return middle if low <= middle < high else low
