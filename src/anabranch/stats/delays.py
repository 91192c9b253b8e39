"""How far rows are behind the newest one that their stream has shown, as counts in buckets that grow by a tenth.

A row is late if its delay is larger than the skew of its stream. So the delays tell what another skew would have kept.

>>> delays = Delays()
>>> delays.add(0, 997)
>>> delays.add(2_000_000, 2)
>>> delays.add(60_000_000)
>>> delays.rows, delays.largest
(1000, 60000000)
>>> delays.skew_for(late=0.001)  # all but one row of a thousand, a tenth more at most
2153183
>>> delays.skew_for(late=0.0001)
60000000

Notes
-----
delta_ii, the skew bound within a stream -> `largest`; the thesis takes it as given and leaves the monitoring to its
reference [103].

Differs from the paper
----------------------
A bound holds for all rows: one straggler would hold answers up for good. Here a share of rows may be beyond it, and
what was long ago is forgotten: of `memory_rows` rows half count no more.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 2.2.5 and 6.1.4.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from anabranch.model.arrays import Counts

GROWTH = 1.1
DESCENT = 0.05
"""The way down to a smaller skew that is gone with each batch."""


def bucket_of(delay: int) -> int:
    """The bucket of a delay in microseconds: 0 for rows that are not behind.

    >>> [bucket_of(delay) for delay in (-5, 0, 1, 2, 1_000_000)]
    [0, 0, 1, 9, 146]
    """
    return 0 if delay <= 0 else 1 + math.ceil(math.log(delay, GROWTH))


def buckets_of(delays: Counts) -> Counts:
    """The buckets of delays that are larger than 0.

    >>> buckets_of(np.array([1, 2, 1_000_000])).tolist()
    [1, 9, 146]
    """
    return 1 + np.ceil(np.log(delays) / math.log(GROWTH)).astype(np.int64)


def largest_of(bucket: int) -> int:
    """The largest delay of a bucket."""
    return 0 if bucket == 0 else math.ceil(GROWTH ** (bucket - 1))


class Delays:
    """A sketch of the delays of a stream's rows, in at most 460 buckets.

    Parameters
    ----------
    memory_rows
        When so many rows are counted, all counts are halved.

    Attributes
    ----------
    rows, late
        How many rows are counted, and how many of them came late.
    largest
        The largest delay ever, in microseconds.
    """

    def __init__(self, memory_rows: int = 1_000_000) -> None:
        self.memory_rows = memory_rows
        self.rows = 0
        self.late = 0
        self.largest = 0
        self._counts: Counter[int] = Counter()

    def add(self, delay: int, rows: int = 1, *, late: int = 0) -> None:
        """Count rows of the same delay, in microseconds, some of which may have come late."""
        self._counts[bucket_of(delay)] += rows
        self._more(rows, late, delay)

    def merge(self, other: Delays) -> None:
        """Count what another sketch has counted."""
        self._counts += other._counts
        self._more(other.rows, other.late, other.largest)

    def _more(self, rows: int, late: int, delay: int) -> None:
        self.rows += rows
        self.late += late
        self.largest = max(self.largest, delay)
        while self.rows >= self.memory_rows:
            self._counts = Counter({bucket: count // 2 for bucket, count in self._counts.items() if count > 1})
            self.rows, self.late = self._counts.total(), self.late // 2

    def skew_for(self, late: float, *, after: int = 0) -> int:
        """The skew that keeps all but a share of rows, of which some have come late already and are used up by that."""
        left = max(0, math.floor(late * self.rows) - after)
        for bucket in sorted(self._counts, reverse=True):
            left -= self._counts[bucket]
            if left < 0:
                return min(largest_of(bucket), self.largest)
        return 0


def followed(skew: int, delays: Delays, late: float) -> int:
    """The next skew of a stream that lets a share of rows come late: up at once, down slowly.

    Rows that have come late use the share up. Before there are enough rows to lose one of them, it does not go down.

    >>> delays = Delays()
    >>> delays.add(0, 500)
    >>> followed(10_000_000, delays, late=0.001)
    10000000
    >>> delays.add(0, 500)
    >>> followed(10_000_000, delays, late=0.001)
    9500000
    >>> delays.add(30_000_000, 3, late=3)
    >>> followed(9_500_000, delays, late=0.001)
    30000000
    """
    wanted = delays.skew_for(late, after=delays.late)
    if wanted >= skew:
        return wanted
    return skew - math.ceil((skew - wanted) * DESCENT) if delays.rows * late >= 1 else skew
