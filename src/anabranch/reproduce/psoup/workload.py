"""The synthetic streams of tuples and queries of the experiments (section 5.2.1 and Table 1).

Values are uniform in 0..255. A constant is a multiple of 32 with probability 0.2, else uniform in 0..255. An interval
begins at such a constant and ends at 255 at the latest; its size is uniform in 0..255. That is a third of the tuples on
average.

>>> rng = np.random.default_rng(1)
>>> rows(3, rng).shape
(3, 4)
>>> [len(each.factors) for each in interval_queries(3, rng, predicates=(2,))]
[4, 4, 4]

Differs from the paper: how many attributes a tuple has and where an interval lies is not said. Ours have four, as many
as the largest number of interval predicates; a third, a ninth and an 81st of the tuples are what the times of PSoup-P
and PSoup-C in Table 2 are linear in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.model.arrays import Counts
from anabranch.reproduce.psoup.predicates import Factor, Query

ATTRIBUTES = 4
VALUES = 256
INTERESTING = 32
INTERESTING_SHARE = 0.2
ONE_TO_FOUR = (1, 2, 3, 4)


def rows(count: int, rng: np.random.Generator, attributes: int = ATTRIBUTES) -> Counts:
    """Tuples of the stream."""
    return rng.integers(0, VALUES, (count, attributes))


def constants(count: int, rng: np.random.Generator) -> Counts:
    """Constants of boolean factors: some values are more interesting than others.

    >>> drawn = constants(10_000, np.random.default_rng(1))
    >>> round(float((drawn % 32 == 0).mean()), 1)
    0.2
    """
    interesting = rng.random(count) < INTERESTING_SHARE
    multiples = INTERESTING * rng.integers(0, VALUES // INTERESTING, count)
    return np.where(interesting, multiples, rng.integers(0, VALUES, count))


def equality_queries(count: int, rng: np.random.Generator, predicates: Sequence[int] = ONE_TO_FOUR) -> list[Query]:
    """Queries with an equality on each of their attributes, in turn as many as `predicates` says."""
    found = []
    for number in range(count):
        attributes = rng.permutation(ATTRIBUTES)[: predicates[number % len(predicates)]]
        drawn = constants(len(attributes), rng)
        found.append(Query(tuple(Factor(int(a), "=", int(c)) for a, c in zip(attributes, drawn, strict=True))))
    return found


def interval_queries(count: int, rng: np.random.Generator, predicates: Sequence[int] = ONE_TO_FOUR) -> list[Query]:
    """Queries with an interval, which is two factors, on each of their attributes."""
    found = []
    for number in range(count):
        attributes = rng.permutation(ATTRIBUTES)[: predicates[number % len(predicates)]]
        begins, sizes = constants(len(attributes), rng), rng.integers(0, VALUES, len(attributes))
        factors: list[Factor] = []
        for attribute, begin, size in zip(attributes, begins, sizes, strict=True):
            factors += interval(int(attribute), int(begin), min(int(begin + size), VALUES - 1))
        found.append(Query(tuple(factors)))
    return found


def interval(attribute: int, first: int, last: int) -> tuple[Factor, Factor]:
    """Two factors for the values from `first` to `last`."""
    return Factor(attribute, ">=", first), Factor(attribute, "<=", last)
