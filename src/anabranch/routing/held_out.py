"""Judging on rows that were not learned from: each half of a sample judges what the other half taught.

A sample of one size is always cut in the same way, so that what several methods promise can be compared row by row.

>>> [(learn.tolist(), check.tolist()) for learn, check in halves(4)]
[([1, 3], [0, 2]), ([0, 2], [1, 3])]
"""

from __future__ import annotations

import numpy as np

from anabranch.model.arrays import Rows


def halves(rows: int) -> tuple[tuple[Rows, Rows], tuple[Rows, Rows]]:
    """Rows to learn from and rows to check on, and the same the other way round."""
    shuffled = np.random.default_rng(rows).permutation(rows)
    one, other = np.sort(shuffled[::2]), np.sort(shuffled[1::2])
    return (one, other), (other, one)
