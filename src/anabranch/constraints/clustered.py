"""CA(k), clustered arrival: between two rows with the same value come at most k with other values.

For every value that may still come the table holds when it came first, counted so that the difference to the clock is
the number of other values since. When that exceeds k, the value is *over*: no row with it will arrive.

Example 6.7.1, CA(1) on 5, 8, 5, 10: two other values have come since the first 5, and since the 8.

>>> ca = ClusteredArrival(Adherence(given=1), "tuples")
>>> ca.arrive(np.array([5, 8, 5, 10]), np.arange(1, 5))
False
>>> ca.over(4).tolist()
[5, 8]
>>> ca.forget(np.array([5]), 4)
>>> len(ca)
2

Notes
-----
CA-Aux -> the table; v -> `values`, C_v -> `firsts`; C_S' -> the clock. In time, C_v is the time of the first arrival
and k the longest time from the first to the last row of a value.

Differs from the paper
----------------------
The doubly-linked list in the order of C_v is left out: a batch looks at the whole table, which is two arrays.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.7.
"""

from __future__ import annotations

import numpy as np

from anabranch.constraints.adherence import Adherence
from anabranch.constraints.config import Unit
from anabranch.model.arrays import Counts, Mask


class ClusteredArrival:
    """CA(k) of one column.

    Parameters
    ----------
    adherence
        Its k.
    unit
        Of k.
    sample_share
        The share of values that stay in the table although they are over, to notice that k has grown.
    seed
        Of the sample.
    """

    def __init__(self, adherence: Adherence, unit: Unit, sample_share: float = 0.0, seed: int = 0) -> None:
        self.adherence = adherence
        self._unit = unit
        self._sample_share = sample_share
        self._rng = np.random.default_rng(seed)
        self.values: Counts = np.empty(0, np.int64)
        self.firsts: Counts = np.empty(0, np.int64)
        self._sampled: Mask = np.empty(0, np.bool_)

    def __len__(self) -> int:
        return len(self.values)

    def arrive(self, values: Counts, clock: Counts) -> bool:
        """Rows arrive with these values, the clock having moved to `clock`; returns whether k has grown."""
        if not len(values):
            return False
        known, first_place, group = np.unique(values, return_index=True, return_inverse=True)
        self._add(known, clock[first_place])
        place = np.searchsorted(self.values, known)
        timed = self._unit == "time"
        distances = clock - self.firsts[place][group] if timed else self._counted(place, group, clock)
        return self.adherence.observe(float(distances.max()), len(values))

    def rest(self) -> None:
        """Arrivals are not looked at for now."""
        if len(self.values):
            self.values, self.firsts, self._sampled = self.values[:0], self.firsts[:0], self._sampled[:0]
            self.adherence.rest()

    def over(self, now: int) -> Counts:
        """Values that will not come any more."""
        if not self.adherence.usable:
            return self.values[:0]
        return self.values[now - self.firsts > self.adherence.used]

    def forget(self, values: Counts, now: int) -> None:
        """Values are over and nothing waits for them; those of the sample, and within the slack, stay to be noticed."""
        late = np.asarray(now - self.firsts > self.adherence.noticed)
        self._drop(np.isin(self.values, values) & late & ~self._sampled)

    def keep(self, values: Counts) -> None:
        """Forget all values but these: no row that is kept has another one."""
        self._drop(~np.isin(self.values, values))

    def _counted(self, place: Counts, group: Counts, clock: Counts) -> Counts:
        """Other values since the first; every further row of a value moves its first one up by one."""
        new = self.firsts[place] >= clock[0]
        order = np.argsort(group, kind="stable")
        sizes = np.bincount(group)
        rank = np.empty(len(group), np.int64)
        rank[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rank += np.where(new, 0, 1)[group]
        distances = np.asarray(clock - self.firsts[place][group] - rank)
        self.firsts[place] += sizes - new
        return distances

    def _add(self, values: Counts, firsts: Counts) -> None:
        missing = ~np.isin(values, self.values)
        if not missing.any():
            return
        added = values[missing]
        place = np.searchsorted(self.values, added)
        self.values = np.insert(self.values, place, added)
        self.firsts = np.insert(self.firsts, place, firsts[missing])
        self._sampled = np.insert(self._sampled, place, self._rng.random(len(added)) < self._sample_share)

    def _drop(self, gone: Mask) -> None:
        if gone.any():
            self.values, self.firsts, self._sampled = self.values[~gone], self.firsts[~gone], self._sampled[~gone]
