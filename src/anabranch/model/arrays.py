"""Names for the arrays and orders that flow between the parts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

BoolMatrix = NDArray[np.bool_]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Rows = NDArray[np.int64]
Order = tuple[int, ...]


@lru_cache(maxsize=4)
def all_rows(count: int) -> Rows:
    """The places of all rows of a chunk: a read-only array, the same object each time, so that `is` recognises it.

    >>> all_rows(3).tolist(), all_rows(3) is all_rows(3)
    ([0, 1, 2], True)
    """
    rows = np.arange(count, dtype=np.int64)
    rows.setflags(write=False)
    return rows
