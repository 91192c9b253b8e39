"""Stream-Star: a stream joined with N dimension tables, whose classes of tuples find partners to different extents.

The class stands in the first attribute, attrC. Eight more attributes tell nothing: constants, sequences, foreign keys.

>>> skewed(2, 0.05).round(2).tolist()
[[0.05, 1.0], [1.0, 0.05]]
>>> stream = draw(skewed(2, 0.05), 1000, seed=1)
>>> len(stream.columns), stream.outcomes[stream.columns[0] == 0].mean(axis=0).round(1).tolist()
(9, [0.1, 1.0])

Notes
-----
A, B of Table 3 -> `skewed(joins, a)`, with B such that the share of tuples that find all partners is 5 %. A dimension's
key is unique, so that a join passes or drops a tuple.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.routing.content_learns import Kind
from anabranch.routing.partitioning import Column

AGGREGATE = 0.05
DIMENSION_ROWS = 10_000
KINDS: tuple[Kind, ...] = ("discrete",) * 4 + ("continuous",) + ("discrete",) * 4


@dataclass(frozen=True)
class Stream:
    """What each operator makes of each tuple, and the tuples' attributes."""

    outcomes: BoolMatrix
    columns: list[Column]
    selectivities: Floats


def skewed(joins: int, a: float, aggregate: float = AGGREGATE) -> Floats:
    """Table 3: selectivity A on the diagonal, B elsewhere; one row per class."""
    b = (aggregate / a) ** (1.0 / (joins - 1))
    return np.where(np.eye(joins, dtype=np.bool_), a, b)


def random(joins: int, seed: int, aggregate: float | None = None) -> Floats:
    """Uniform selectivities for as many classes as joins, raised to a power that gives the aggregate, if any."""
    found = np.random.default_rng([joins, seed]).uniform(0.0, 1.0, (joins, joins))
    if aggregate is None:
        return found
    logarithms = np.log(np.maximum(found, 1e-3))
    powers: Floats = np.exp(logarithms * (np.log(aggregate) / logarithms.sum(axis=1, keepdims=True)))
    return powers


def draw(selectivities: Floats, tuples: int, seed: int) -> Stream:
    """A stream whose classes are equally likely."""
    rng = np.random.default_rng([64, seed])
    classes = rng.integers(0, len(selectivities), tuples)
    outcomes = rng.random((tuples, selectivities.shape[1])) < selectivities[classes]
    names = np.empty(tuples, dtype=object)
    names[:] = "star"
    columns = [
        classes,
        np.full(tuples, 7),
        names,
        np.arange(tuples),
        np.cumsum(rng.exponential(size=tuples)),
        *(rng.integers(0, DIMENSION_ROWS, tuples) for _ in range(3)),
        rng.integers(0, 10, tuples),
    ]
    return Stream(outcomes, columns, selectivities)
