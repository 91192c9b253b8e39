"""OA(k), ordered arrival: a value is at least as large as every value that came more than k before it.

What counts is the largest value so far, as it was k ago: no row with a smaller value will arrive. On the parent's
column (OAP) rows of the child below that bound are asked for no more; on the child's column (OAC) rows of the parent
below it wait in vain.

Example 6.8.1, OAC(2) on 7, 5, 10:

>>> oac = OrderedArrival(Adherence(given=2), "tuples")
>>> oac.arrive(np.array([7, 5, 10]), np.arange(1, 4))
False
>>> oac.bound(3)
7
>>> oac.scrambling(np.array([6, 11]), np.array([4, 5])).tolist()      # 7 was there three tuples before
[3, 0]

Notes
-----
max_1 .. max_{k_u+1} -> `bound`, from the steps at which the largest value changed; d_s -> `scrambling`.

Differs from the paper
----------------------
- OAC: the thesis takes the value of k arrivals ago, here it is the largest one up to then, which is as valid and
  tighter.
- C2 is not asked of a histogram of Unknown's values: rows know to which partners they point.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.8.
"""

from __future__ import annotations

import numpy as np

from anabranch.constraints.adherence import Adherence
from anabranch.constraints.config import Unit
from anabranch.model.arrays import Counts

NO_BOUND = -(2**63)
MOST_STEPS = 1 << 17


class OrderedArrival:
    """OA(k) of one column."""

    def __init__(self, adherence: Adherence, unit: Unit) -> None:
        self.adherence = adherence
        self._unit = unit
        self._tops: Counts = np.empty(0, np.int64)
        self._since: Counts = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._tops)

    def arrive(self, values: Counts, clock: Counts) -> bool:
        """Rows arrive with these values, the clock having moved to `clock`; returns whether k has grown."""
        if not len(values):
            return False
        tops = np.maximum.accumulate(values)
        known = int(self._tops[-1]) if len(self._tops) else NO_BOUND
        highest = np.maximum(tops, known)
        steps = np.flatnonzero(highest > np.concatenate(([known], highest[:-1])))
        self._tops = np.concatenate((self._tops, tops[steps]))
        self._since = np.concatenate((self._since, clock[steps]))
        grown = self.adherence.observe(float(self.scrambling(values, clock).max()), len(values))
        self._forget(int(clock[-1]))
        return grown

    def rest(self) -> None:
        """Arrivals are not looked at for now."""
        if len(self._tops):
            self._tops, self._since = self._tops[:0], self._since[:0]
            self.adherence.rest()

    def scrambling(self, values: Counts, clock: Counts) -> Counts:
        """How far rows are from the first one before them that has a larger value."""
        if not len(self._tops):
            return np.zeros(len(values), np.int64)
        place = np.searchsorted(self._tops, values, side="right")
        there = np.minimum(place, len(self._tops) - 1)
        return np.where(place < len(self._tops), np.maximum(clock - self._since[there], 0), 0)

    def bound(self, now: int) -> int:
        """No row with a smaller value will arrive."""
        if not self.adherence.usable or not len(self._tops):
            return NO_BOUND
        return self._top_before(now)

    def _top_before(self, now: int) -> int:
        """The largest value as of k before now."""
        side = "right" if self._unit == "tuples" else "left"
        place = int(np.searchsorted(self._since, now - self.adherence.used, side=side))  # type: ignore[call-overload]
        return int(self._tops[place - 1]) if place else NO_BOUND

    def _forget(self, now: int) -> None:
        """Steps that are too old to matter; as many as there are while k is not known, up to a limit."""
        first = max(0, len(self._tops) - MOST_STEPS)
        if self.adherence.usable:
            oldest = np.searchsorted(self._since, now - 2 * self.adherence.noticed) - 1
            first = max(first, int(oldest))
        if first > 0:
            self._tops, self._since = self._tops[first:], self._since[first:]
