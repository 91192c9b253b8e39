"""Codes of keys of several columns.

>>> one, two = np.array([1, 1, 2]), np.array([5, 6, 5])
>>> len(set(mixed([one, two]).tolist())), mixed([one]) is one
(3, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import numpy as np

from anabranch.model.arrays import Counts

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@cache
def compiles() -> bool:
    """Whether loops can be compiled here."""
    return find_spec("numba") is not None


def mixed(codes: Sequence[Counts]) -> Counts:
    """One code of several, equal where all are; different ones may agree in it."""
    if len(codes) == 1:
        return codes[0]
    found = np.zeros(len(codes[0]), np.uint64)
    for each in codes:
        found ^= each.view(np.uint64)
        found *= _MIX
        found ^= found >> _SHIFT
    return found.view(np.int64)
