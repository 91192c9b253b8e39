"""Binary search that starts in the right bucket, for many keys at once.

A linear map of keys to buckets, between the 1 % and 99 % quantiles, says where the search of a key begins; few steps
remain. So the time per key hardly grows with the number of sorted keys, where `np.searchsorted` misses the caches.

>>> sorted_keys = np.array([3, 5, 5, 9])
>>> BucketSearch.of(sorted_keys).right(np.array([2, 3, 5, 8, 100])).tolist()
[0, 1, 3, 3, 4]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.model.arrays import Floats

Keys = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]

TAIL = 0.01
"""Share of the keys at either end that may lie outside of the buckets' range."""
_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class BucketSearch:
    """Sorted keys and the buckets over them.

    Parameters
    ----------
    keys
        Ascending, with 2 ** `steps` more at the end that are as large as can be.
    count
        Number of keys without those.
    first
        Per bucket the number of keys in the buckets before it.
    low, scale
        A key's bucket is `(hint - low) * scale`, cut off at both ends.
    steps
        Halvings that find a key in the largest bucket.
    """

    keys: Keys
    count: int
    first: Small
    low: float
    scale: float
    steps: int

    @classmethod
    def of(cls, keys: Keys, hints: Floats | None = None) -> BucketSearch:
        """Buckets for sorted keys.

        Parameters
        ----------
        keys
            Ascending.
        hints
            Numbers that ascend with the keys and place them in buckets; the keys themselves by default.
        """
        hints = keys.astype(np.float64) if hints is None else hints
        low, scale, buckets = _linear(hints)
        bucket = _buckets(hints, low, scale, buckets)
        counts = np.bincount(bucket, minlength=buckets)
        first = (np.cumsum(counts) - counts).astype(np.int32)
        steps = int(counts.max(initial=0)).bit_length()
        return cls(np.concatenate((keys, np.full(1 << steps, _LAST))), len(keys), first, low, scale, steps)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.keys.nbytes + self.first.nbytes

    def right(self, wanted: Keys, hints: Floats | None = None) -> Keys:
        """Per wanted key the number of keys that are at most as large."""
        hints = wanted.astype(np.float64) if hints is None else hints
        at = self.first[_buckets(hints, self.low, self.scale, len(self.first))].astype(np.int64)
        for step in reversed(range(self.steps)):
            half = 1 << step
            at += half * (self.keys[at + (half - 1)] <= wanted)
        return np.minimum(at, self.count, out=at)


def _linear(hints: Floats) -> tuple[float, float, int]:
    """Where the buckets begin, how many there are per unit, and how many in all."""
    buckets = 1 << max(len(hints) - 1, 0).bit_length()
    if len(hints):
        tail = int(len(hints) * TAIL)
        low, high = float(hints[tail]), float(hints[-1 - tail])
        with np.errstate(over="ignore", invalid="ignore"):
            scale = float(np.float64(buckets) / (np.float64(high) - np.float64(low))) if high > low else 0.0
        if np.isfinite(low) and np.isfinite(scale) and scale > 0:
            return low, scale, buckets
    return 0.0, 0.0, 1


def _buckets(hints: Floats, low: float, scale: float, buckets: int) -> Small:
    with np.errstate(over="ignore", invalid="ignore"):
        place = (hints - low) * scale
    np.fmin(place, buckets - 1, out=place)  # also NaN, which is larger than all
    np.maximum(place, 0, out=place)
    return place.astype(np.int32)
