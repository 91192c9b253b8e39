"""Training tuples: sampled rows, condensed into a few groups that are alike in content and in behaviour.

A tree from the attributes to what all filters do with a row cuts the sample into groups. Each group is one training
tuple with a density, and keeps its rows, so that the cost of an order on any union of groups is counted, not modelled.

>>> zones = np.array(["north"] * 30 + ["south"] * 10, dtype=object)
>>> drops = np.column_stack([zones == "north", zones == "south"])
>>> training = condense(Sample({"zone": zones}, drops, np.ones(2)), size=4, seed=0)
>>> [(dict(t.values), t.density, len(t.rows)) for t in training.tuples]
[({'zone': 'north'}, 0.75, 30), ({'zone': 'south'}, 0.25, 10)]
>>> training.drops((1,)).sum(axis=0).tolist()
[0, 10]

Notes
-----
S, the sample tuple set -> `Sample`; T and t -> `TrainingSet` and `TrainingTuple`; densities -> `density`.

Differs from the paper
----------------------
The paper condenses by content, with algorithms from the literature on data reduction. Here what the filters do with the
rows decides which differences of content matter, so that few training tuples suffice.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, sections 4.2
and 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.errors import InternalError
from anabranch.mesh.attributes import Column, SampleColumns, column, is_ordered, known, usable
from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.induction import Limits, induce
from anabranch.model.arrays import BoolMatrix, Counts, Floats, Rows

ROWS_PER_GROUP = 4
FEWEST_ROWS = 3


@dataclass(frozen=True)
class Sample:
    """Sampled rows on each of which all filters were tried; those that no filter drops belong to it too.

    Parameters
    ----------
    columns
        Attribute values by name: floats with NaN for NULL, or objects (text, true or false, `None`) for discrete ones.
    drops
        One row per sampled row, one column per filter as written: True where the filter drops it.
    costs
        Seconds per call of each filter; NaN where unknown.
    """

    columns: SampleColumns
    drops: BoolMatrix
    costs: Floats

    def __post_init__(self) -> None:
        for name, values in self.columns.items():
            if len(values) != len(self.drops):
                raise InternalError(f"column {name!r} has {len(values)} rows, the sample has {len(self.drops)}")

    def __len__(self) -> int:
        return len(self.drops)

    @classmethod
    def from_arrow(cls, columns: Mapping[str, pa.Array], drops: BoolMatrix, costs: Floats) -> Sample:
        """A sample of Arrow arrays; columns of types that cannot tell routes apart are left out."""
        return cls({name: column(array) for name, array in columns.items() if usable(array.type)}, drops, costs)

    def take(self, rows: Rows) -> Sample:
        """Some of the rows."""
        return Sample({name: values[rows] for name, values in self.columns.items()}, self.drops[rows], self.costs)


@dataclass(frozen=True)
class TrainingTuple:
    """A group of sampled rows: typical attribute values, its share of the sample, and the rows."""

    values: Mapping[str, Any]
    density: float
    rows: Rows


@dataclass(frozen=True)
class TrainingSet:
    """The condensed sample."""

    sample: Sample
    tuples: tuple[TrainingTuple, ...]

    @classmethod
    def of_groups(cls, sample: Sample, groups: Counts) -> TrainingSet:
        """One training tuple per group number that occurs, in the sequence of the numbers."""
        members = [np.flatnonzero(groups == g) for g in np.unique(groups)]
        return cls(sample, tuple(_tuple(sample, rows) for rows in members))

    def __len__(self) -> int:
        return len(self.tuples)

    def drops(self, subset: Sequence[int]) -> BoolMatrix:
        """The rows of several training tuples: what each filter does with them."""
        return np.concatenate([self._blocks[t] for t in subset])

    def density(self, subset: Sequence[int]) -> float:
        """The share of the sample that several training tuples stand for."""
        return sum(self.tuples[t].density for t in subset)

    def labels(self, partition: Sequence[Sequence[int]]) -> Counts:
        """For every sampled row, the number of the subset that its training tuple is in."""
        labels = np.zeros(len(self.sample), dtype=np.int64)
        for number, subset in enumerate(partition):
            for t in subset:
                labels[self.tuples[t].rows] = number
        return labels

    @cached_property
    def _blocks(self) -> list[BoolMatrix]:
        return [self.sample.drops[t.rows] for t in self.tuples]


def condense(sample: Sample, size: int, seed: int) -> TrainingSet:
    """Group the rows into at most `size` training tuples."""
    if len(sample) == 0:
        return TrainingSet(sample, ())
    leaf_rows = max(FEWEST_ROWS, len(sample) // (ROWS_PER_GROUP * size))
    limits = Limits(depth=None, leaves=size, leaf_rows=leaf_rows)
    root = induce(sample.columns, sample.drops.astype(np.int64), np.ones(len(sample)), limits, seed)
    return TrainingSet.of_groups(sample, DecisionTree(root).assign(sample.columns, len(sample)))


def _tuple(sample: Sample, rows: Rows) -> TrainingTuple:
    typical = {name: _typical(values[rows]) for name, values in sample.columns.items()}
    return TrainingTuple(typical, len(rows) / len(sample), rows)


def _typical(values: Column) -> Any:
    """The lower median of numbers, the most frequent of other values; NaN or `None` if all are unknown."""
    there = values[known(values)]
    if is_ordered(values):
        return float(np.quantile(there, 0.5, method="lower")) if len(there) else float("nan")
    return Counter(there.tolist()).most_common(1)[0][0] if len(there) else None
