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


def ranges(first: Rows, counts: Rows) -> tuple[Rows, Rows]:
    """For runs of consecutive numbers: to which run each number belongs, and the number.

    >>> owner, numbers = ranges(np.array([5, 8]), np.array([2, 1]))
    >>> owner.tolist(), numbers.tolist()
    ([0, 0, 1], [5, 6, 8])
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) + (first - (np.cumsum(counts) - counts))[owner]
