"""Tuples with six attributes that probe ten joins: skewed ones fall into three partitions, uniform ones are all alike.

The values of a skewed stream are Poisson numbers (mean 1); its partitions are the values 0, 1, and 2 or more of the
first attribute, and each has selectivities of its own. The values of a uniform stream are whole numbers from 0 to 100
that tell nothing: all tuples have the same selectivities. Selectivities are drawn uniformly from 0 to 1, then raised to
the power with which 5 % of the tuples find partners in all joins.

>>> stream = skewed(1000, seed=1)
>>> len(stream.columns), stream.outcomes.shape, sorted(set(stream.partitions.tolist()))
(6, (1000, 10), [0, 1, 2])
>>> sorted(set(uniform(1000, seed=1).partitions.tolist()))
[0]

Notes
-----
|A| = 6 and |S| = 1000 of Table 1 -> `ATTRIBUTES`, `SAMPLE_TUPLES`; p = 3 of Table 3 -> `PARTITIONS`; lambda = 1,
alpha = 0 and beta = 100 of Table 2 -> `MEAN`, `LARGEST`. The join of S_0 with S_1 ... S_10: a tuple of a stream probes
ten others.

Differs from the paper
----------------------
A join passes or drops a tuple, with a probability that its partition has, as if partners were unique. The paper says
neither what the selectivities of the partitions are nor which attribute tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.mesh.training import Sample
from anabranch.model.arrays import BoolMatrix, Counts, Floats
from anabranch.reproduce.content.running import CALL_SECONDS
from anabranch.reproduce.content.streams import AGGREGATE, random
from anabranch.routing.content_learns import Kind
from anabranch.routing.partitioning import Column

JOINS, ATTRIBUTES, PARTITIONS = 10, 6, 3
SAMPLE_TUPLES, BATCH_ROWS = 1000, 100
EARLIER, MEASURED = 0, 1
MEAN, LARGEST = 1.0, 100


@dataclass(frozen=True)
class Stream:
    """Attributes of the tuples, what each join makes of them, and the partition they belong to."""

    columns: list[Column]
    kind: Kind
    outcomes: BoolMatrix
    partitions: Counts
    selectivities: Floats

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """How Content-Learns is to partition the attributes."""
        return (self.kind,) * len(self.columns)

    @property
    def arrays(self) -> dict[str, Any]:
        """The attributes as the classifier of a mesh reads them."""
        return {f"a{number}": pa.array(column) for number, column in enumerate(self.columns)}

    @property
    def sample(self) -> Sample:
        """All tuples, as the optimizer reads them."""
        costs = np.full(self.outcomes.shape[1], CALL_SECONDS)
        return Sample.from_arrow(self.arrays, ~self.outcomes, costs)


def selectivities(seed: int, aggregate: float = AGGREGATE) -> Floats:
    """Random selectivities, one row per partition, one column per join."""
    return random(JOINS, seed, aggregate)[:PARTITIONS]


def skewed(tuples: int, seed: int, *, run: int = MEASURED, of: Floats | None = None) -> Stream:
    """A run of the stream with this seed, whose partitions have the selectivities given, or random ones."""
    rng = np.random.default_rng([6, seed, run])
    values = rng.poisson(MEAN, (tuples, ATTRIBUTES))
    partitions = np.minimum(values[:, 0], PARTITIONS - 1)
    return _drawn(rng, values, "discrete", partitions, selectivities(seed) if of is None else of)


def uniform(tuples: int, seed: int, *, run: int = MEASURED) -> Stream:
    """A run of the stream with this seed: one order suits all tuples."""
    rng = np.random.default_rng([6, seed, run, LARGEST])
    values = rng.integers(0, LARGEST + 1, (tuples, ATTRIBUTES))
    everyone = np.zeros(tuples, dtype=np.int64)
    return _drawn(rng, values, "continuous", everyone, selectivities(seed)[:1])


def _drawn(rng: np.random.Generator, values: Counts, kind: Kind, partitions: Counts, passing: Floats) -> Stream:
    outcomes = rng.random((len(values), JOINS)) < passing[partitions]
    return Stream(list(np.ascontiguousarray(values.T)), kind, outcomes, partitions, passing)
