"""Sampled rows: what routes are looked for in.

>>> north = SampledRows({"zone": pa.array(["north"])}, np.array([[True, False]]))
>>> both = SampledRows.joined([north, SampledRows({"zone": pa.array(["south"])}, np.array([[False, True]]))])
>>> both.take(np.array([1])).attributes["zone"].to_pylist(), len(both)
(['south'], 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import BoolMatrix, Floats, Rows
from anabranch.model.attributes import AttributeArrays, joined


@dataclass(frozen=True)
class SampledRows:
    """Rows on which every filter was tried.

    Parameters
    ----------
    attributes
        Their attributes, by name.
    drops
        One row per sampled row, one column per filter as written: True where the filter drops it.
    """

    attributes: AttributeArrays
    drops: BoolMatrix

    @classmethod
    def empty(cls, filters: int) -> SampledRows:
        """No rows."""
        return SampledRows({}, np.zeros((0, filters), dtype=np.bool_))

    @staticmethod
    def joined(parts: Sequence[SampledRows]) -> SampledRows:
        """The rows of several samples, which have the same attributes, in one."""
        columns = {name: joined([part.attributes[name] for part in parts]) for name in parts[0].attributes}
        return SampledRows(columns, np.concatenate([part.drops for part in parts]))

    def __len__(self) -> int:
        return len(self.drops)

    def take(self, rows: Rows) -> Self:
        """Some of the rows."""
        picked = pa.array(rows)
        return replace(self, attributes={n: a.take(picked) for n, a in self.attributes.items()}, drops=self.drops[rows])

    def last(self, rows: int) -> Self:
        """The last rows, at most so many."""
        first = max(0, len(self) - rows)
        return replace(
            self, attributes={n: a.slice(first) for n, a in self.attributes.items()}, drops=self.drops[first:]
        )

    def with_costs(self, costs: Floats) -> JudgedSample:
        """The rows, with the seconds per row of each filter."""
        return JudgedSample(self.attributes, self.drops, costs)


@dataclass(frozen=True)
class JudgedSample(SampledRows):
    """Sampled rows, and the seconds per row of each filter; NaN where unknown."""

    costs: Floats
