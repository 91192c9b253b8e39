"""An array that grows at its end and is cut off at its front; what was cut off is written over once there is no room.

>>> numbers = Growing()
>>> numbers.append(np.array([1, 2, 3]))
>>> numbers.cut(1)
>>> numbers.append(np.array([4]))
>>> numbers.values.tolist()
[2, 3, 4]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.model.arrays import Counts

GROWTH = 0.375
SPARE = 0.125
"""The share of free places for which values are moved to the front instead."""


class Growing:
    """Values in the order in which they came.

    Parameters
    ----------
    kind
        What they are.
    """

    def __init__(self, kind: np.dtype[np.generic] | type[np.int64 | np.int32] = np.int64) -> None:
        self._array: NDArray[np.int64] = np.empty(0, kind)
        self._first = self._length = 0

    @property
    def values(self) -> Counts:
        """What is in it; it can be changed there until more comes."""
        return self._array[self._first : self._first + self._length]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._array.nbytes

    def append(self, values: Counts) -> None:
        """Add values."""
        self.extend(len(values))[:] = values

    def extend(self, count: int) -> Counts:
        """Room for so many more values, to be written."""
        length = self._length + count
        if self._first + length > len(self._array):
            fits = length * (1 + SPARE) <= len(self._array)
            room = self._array if fits else np.empty(length + int(GROWTH * length), self._array.dtype)
            room[: self._length] = self.values
            self._array, self._first = room, 0
        self._length = length
        return self.values[length - count :]

    def cut(self, gone: int) -> None:
        """Drop so many values at the front."""
        self._first, self._length = self._first + gone, self._length - gone
        if 4 * self._length < len(self._array):
            self.assign(self.values)

    def shorten(self, length: int) -> None:
        """Drop the values at the end, so that so many are left."""
        self._length = length

    def fit(self) -> None:
        """Take no more memory than the values need."""
        self._array, self._first = self.values.copy(), 0

    def assign(self, values: Counts) -> None:
        """Hold other values."""
        if 4 * len(values) < len(self._array):
            self._array = values.copy()
        else:
            self._array[: len(values)] = values
        self._first, self._length = 0, len(values)
