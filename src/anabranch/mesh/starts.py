"""Start solutions: where in the lattice a search begins.

>>> from anabranch.mesh.config import MeshConfig
>>> from anabranch.mesh.partitions import text
>>> from anabranch.mesh.training import Sample, TrainingSet
>>> drops = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool)
>>> sample = Sample({"u": np.array([0.1, 0.2, 0.8, 0.9])}, drops, np.ones(2))
>>> model = CostModel(TrainingSet.of_groups(sample, np.arange(4)), MeshConfig())
>>> rng = np.random.default_rng(0)
>>> text(route_driven(model, rng)), text(content_driven(model, rng))
('13/24', '12/34')

Notes
-----
CDA -> `content_driven`, its threshold -> `MeshConfig.content_distance`; RDA -> `route_driven`; RP -> `random_pick`, x
-> `MeshConfig.random_picks`; E1R -> `extreme_1`; the other end of the lattice, which the experiments use too ->
`extreme_n`.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from anabranch.mesh.attributes import is_ordered
from anabranch.mesh.cost_model import CostModel
from anabranch.mesh.partitions import Partition, from_labels, random_partition
from anabranch.model.arrays import Floats

Start = Callable[[CostModel, np.random.Generator], Partition]


def route_driven(model: CostModel, rng: np.random.Generator) -> Partition:
    """Training tuples with the same best order together."""
    return from_labels(model.route((t,)).order for t in range(len(model)))


def content_driven(model: CostModel, rng: np.random.Generator) -> Partition:
    """Training tuples with similar values together, also through others in between."""
    labels, distances = list(range(len(model))), _distances(model)
    for one, other in combinations(range(len(model)), 2):
        if distances[one, other] <= model.config.content_distance:
            labels = [labels[one] if label == labels[other] else label for label in labels]
    return from_labels(labels)


def random_pick(model: CostModel, rng: np.random.Generator) -> Partition:
    """The cheapest of some random configurations."""
    picks = [random_partition(len(model), rng) for _ in range(max(1, model.config.random_picks))]
    return min(picks, key=model.cost)


def extreme_1(model: CostModel, rng: np.random.Generator) -> Partition:
    """One route for all."""
    return from_labels([0] * len(model))


def extreme_n(model: CostModel, rng: np.random.Generator) -> Partition:
    """A route for each training tuple."""
    return from_labels(range(len(model)))


STARTS: dict[str, Start] = {
    "route": route_driven,
    "content": content_driven,
    "random": random_pick,
    "extreme-1": extreme_1,
    "extreme-n": extreme_n,
}


def start_solutions(model: CostModel, rng: np.random.Generator) -> Iterator[Partition]:
    """The configured start, then the other ones, then random picks without end."""
    first = model.config.start
    for name in (first, *(other for other in ("route", "extreme-n", "content") if other != first)):
        yield STARTS[name](model, rng)
    while True:
        yield random_pick(model, rng)


def _distances(model: CostModel) -> Floats:
    """Mean distance over the attributes: numbers by their share of the range, others 0 or 1."""
    tuples, columns = model.training.tuples, model.training.sample.columns
    total = np.zeros((len(tuples), len(tuples)))
    for name, values in columns.items():
        typical = [t.values[name] for t in tuples]
        total += _ordered(typical) if is_ordered(values) else _discrete(typical)
    return total / max(1, len(columns))


def _ordered(typical: Sequence[float]) -> Floats:
    values = np.array(typical, dtype=np.float64)
    finite = values[np.isfinite(values)]
    width = float(np.ptp(finite)) if len(finite) else 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(values[:, np.newaxis] - values) / (width or 1.0)
    unknown = np.isnan(values)
    return np.where(unknown[:, np.newaxis] & unknown, 0.0, np.clip(np.nan_to_num(apart, nan=1.0), 0.0, 1.0))


def _discrete(typical: Sequence[Any]) -> Floats:
    return np.array([[float(a != b) for b in typical] for a in typical])
