"""Comparisons between columns of two inputs of a join.

>>> less = Comparison(((0, "low"), (1, "high")), "<")
>>> less.holds(pa.chunked_array([[1, 5, None]]), pa.chunked_array([[2, 5, 7]])).tolist()
[True, False, False]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.operators.elements import Flags

Sign = Literal["<", "<=", ">", ">=", "<>"]
_FUNCTIONS = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<>": pc.not_equal,
}


@dataclass(frozen=True)
class Comparison:
    """A column of one input compared with one of another; NULL compares with nothing."""

    sides: tuple[tuple[int, str], tuple[int, str]]
    sign: Sign

    @property
    def inputs(self) -> tuple[int, int]:
        """The numbers of both inputs."""
        return self.sides[0][0], self.sides[1][0]

    def holds(self, left: pa.ChunkedArray, right: pa.ChunkedArray) -> Flags:
        """Where it is true."""
        found = pc.fill_null(_FUNCTIONS[self.sign](left, right), False)
        return np.asarray(found.to_numpy(), dtype=np.bool_)
