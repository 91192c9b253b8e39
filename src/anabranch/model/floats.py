"""Floats as SQL compares them: zeros are equal whatever their signs, and so are all NaN.

Arrow tells values apart by their bits where it hashes them.

>>> canonical(pa.array([-0.0, 1.5, None])).to_pylist()
[0.0, 1.5, None]
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def canonical(array: pa.Array) -> pa.Array:
    """The same values, with the same bits where they are equal; other types stay as they are."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), pc.add(array, pa.scalar(0, array.type)))
