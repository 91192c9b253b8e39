"""The profile window: the latest profile tuples, held in a ring buffer.

A profile tuple has one boolean per filter: whether that filter drops the tuple, tried to the end even after the first
drop. A view over the window adds the rows that are inserted and takes away the rows that `insert` returns.

>>> window = ProfileWindow(2, tuples=3)
>>> window.insert(np.array([[True, False], [False, True]])).tolist()
[]
>>> window.insert(np.array([[True, True], [False, True]])).tolist()
[[True, False]]
>>> len(window)
3

Notes
-----
``b_1 ... b_n`` of one profile tuple -> a row of `rows()`; the window of the last k tuples or the last t seconds ->
`tuples` and `seconds`, which may be combined.

Differs from the paper
----------------------
Tuples enter and leave in batches. Processing times are not columns of the window (see `processing_times`).

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.3.1, figure 4.3.
"""

from __future__ import annotations

import numpy as np

from anabranch.model.arrays import BoolMatrix


class ProfileWindow:
    """A sliding window of profile tuples, bounded by their number and, if asked, by their age.

    Parameters
    ----------
    filters
        Columns of a profile tuple.
    tuples
        Capacity: the oldest rows leave when more come.
    seconds
        Age at which a row leaves; `None` for never.
    """

    def __init__(self, filters: int, *, tuples: int = 1000, seconds: float | None = None) -> None:
        self.filters = filters
        self.tuples = tuples
        self.seconds = seconds
        self._drops = np.zeros((tuples, filters), dtype=np.bool_)
        self._arrivals = np.zeros(tuples, dtype=np.float64)
        self._oldest = 0
        self._held = 0
        self._latest = -np.inf

    def __len__(self) -> int:
        return self._held

    def insert(self, drops: BoolMatrix, now: float = 0.0) -> BoolMatrix:
        """Append rows, oldest first, and return the rows that left by it, oldest first.

        What was held, plus `drops`, is always what is held now, plus what is returned: the head of a batch that exceeds
        the capacity is returned at once. A clock that runs backwards is taken to stand still.
        """
        drops = np.asarray(drops, dtype=np.bool_)
        aged = self.expire(now)
        through = max(0, len(drops) - self.tuples)
        displaced = self._pop(max(0, self._held + len(drops) - through - self.tuples))
        self._append(drops[through:])
        return _stacked([aged, displaced, drops[:through].copy()])

    def expire(self, now: float) -> BoolMatrix:
        """Remove the rows that are `seconds` old or older, and return them."""
        self._latest = max(self._latest, now)
        if self.seconds is None or self._held == 0:
            return self._pop(0)
        limit = self._latest - self.seconds
        end = min(self._oldest + self._held, self.tuples)
        aged = int(np.searchsorted(self._arrivals[self._oldest : end], limit, side="right"))
        if aged == end - self._oldest:
            wrapped = self._arrivals[: self._oldest + self._held - end]
            aged += int(np.searchsorted(wrapped, limit, side="right"))
        return self._pop(aged)

    def rows(self) -> BoolMatrix:
        """A copy of the rows held, oldest first."""
        return self._read(self._held)

    def clear(self) -> None:
        """Forget every row."""
        self._pop(self._held)

    def _append(self, drops: BoolMatrix) -> None:
        start = (self._oldest + self._held) % self.tuples
        head = min(len(drops), self.tuples - start)
        tail = len(drops) - head
        self._drops[start : start + head] = drops[:head]
        self._arrivals[start : start + head] = self._latest
        self._drops[:tail] = drops[head:]
        self._arrivals[:tail] = self._latest
        self._held += len(drops)

    def _pop(self, count: int) -> BoolMatrix:
        gone = self._read(count)
        self._oldest = (self._oldest + count) % self.tuples
        self._held -= count
        return gone

    def _read(self, count: int) -> BoolMatrix:
        end = self._oldest + count
        if end <= self.tuples:
            return self._drops[self._oldest : end].copy()
        return np.concatenate((self._drops[self._oldest :], self._drops[: end - self.tuples]))


def _stacked(parts: list[BoolMatrix]) -> BoolMatrix:
    filled = [part for part in parts if len(part)]
    if len(filled) > 1:
        return np.concatenate(filled)
    return filled[0] if filled else parts[0]
