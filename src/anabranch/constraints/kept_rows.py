"""What constraints know of the rows that a join keeps of one stream, beside the rows themselves.

Rows stand in the order of their arrival and are named by their number in the stream, from 1, so that other rows can
point to them while rows come and go. Where the rows are, and how they are found by a code, is the business of the join.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from anabranch.constraints.windows import Window
from anabranch.model.arrays import Counts, Mask
from anabranch.model.arrays import Rows as RowNumbers

UNKNOWN, YES, NO = 0, 1, 2
NOT_FOUND = 0
"""Where a row points that has not found its partner: numbers of rows start at 1."""

SAMPLED, OVERDUE = 1, 2
BESIDE = ("sequence", "time", "passes", "status", "reason", "sampled", "closed", "closed_by", "partner", "waits_since")
"""What is known of each row, in arrays."""

Bytes = NDArray[np.int8]
Bits = NDArray[np.int32]


class KeptRows(ABC):
    """The rows of one stream.

    Parameters
    ----------
    window
        When rows leave.
    links
        How many links of the graph point from this stream.

    Attributes
    ----------
    fresh
        Where the rows begin from which nothing was concluded yet.
    counted
        How many tuples had arrived before these.
    status
        Whether a row is in the component Unknown, Yes or No.
    reason
        What No rests on: 0 is certain, above it is the number of a constraint, below it a key that was observed.
    sampled
        Whether a row is kept to its end to notice that a constraint does not hold any more; `OVERDUE` after the wait.
    closed, closed_by
        Bits of the parents from which no more rows will join a row, and what that rests on, as for `reason`.
    partner, waits_since
        By link of the stream: the number of a row's only partner, and the clock of the partner's stream when the row
        arrived.
    """

    def __init__(self, window: Window, links: int) -> None:
        self.window = window
        self.arrived = 0
        self.fresh = self.counted = 0
        self.sequence: Counts = np.empty(0, np.int64)
        self.time: Counts = np.empty(0, np.int64)
        self.passes: Mask = np.empty(0, np.bool_)
        self.status: Bytes = np.empty(0, np.int8)
        self.reason: Bytes = np.empty(0, np.int8)
        self.sampled: Bytes = np.empty(0, np.int8)
        self.closed: Bits = np.empty(0, np.int32)
        self.closed_by: Bytes = np.empty(0, np.int8)
        self.partner: Counts = np.empty((0, links), np.int64)
        self.waits_since: Counts = np.empty((0, links), np.int64)

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def nbytes(self) -> int:
        """Bytes of what is known of rows."""
        return sum(int(getattr(self, name).nbytes) for name in BESIDE)

    @abstractmethod
    def codes(self, column: int) -> Counts:
        """The value of each row in a column by which the stream is joined."""

    @abstractmethod
    def any_with(self, column: int, codes: Counts, asking: KeptRows, rows: RowNumbers) -> RowNumbers:
        """For each code, which is that of a row of another stream, a row here that is its partner; -1 for none."""

    @abstractmethod
    def all_with(self, column: int, codes: Counts, asking: KeptRows, rows: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """All partners here of rows of another stream with these codes: places of codes, ascending, and rows."""

    @abstractmethod
    def expired(self) -> Mask:
        """Rows that have left."""

    def note(self, times: Counts, passes: Mask, kept: Mask, sampled: Mask) -> None:
        """Tuples arrive, of which some are kept."""
        numbers = self.arrived + 1 + np.flatnonzero(kept)
        self.arrived += len(kept)
        size, links = len(numbers), self.partner.shape[1]
        self.sequence = np.concatenate((self.sequence, numbers))
        self.time = np.concatenate((self.time, times[kept]))
        self.passes = np.concatenate((self.passes, passes[kept]))
        self.status = np.concatenate((self.status, np.where(passes[kept], UNKNOWN, NO).astype(np.int8)))
        self.reason = np.concatenate((self.reason, np.zeros(size, np.int8)))
        self.sampled = np.concatenate((self.sampled, sampled[kept].astype(np.int8)))
        self.closed = np.concatenate((self.closed, np.zeros(size, np.int32)))
        self.closed_by = np.concatenate((self.closed_by, np.zeros(size, np.int8)))
        self.partner = np.concatenate((self.partner, np.full((size, links), NOT_FOUND)))
        self.waits_since = np.concatenate((self.waits_since, np.zeros((size, links), np.int64)))

    def forget(self, gone: Mask) -> None:
        """Rows are not there any more."""
        self.fresh = int(np.count_nonzero(~gone[: self.fresh]))
        stays = np.flatnonzero(~gone)
        for name in BESIDE:
            setattr(self, name, getattr(self, name).take(stays, 0))

    def settle(self) -> None:
        """What follows from all rows has been concluded."""
        self.fresh, self.counted = len(self), self.arrived

    def reset(self, links: int, now: int) -> None:
        """Forget what is said of rows: the graph has changed; those that wait do so from `now` on."""
        self.status = np.where(self.passes, UNKNOWN, NO).astype(np.int8)
        self.reason, self.closed_by = np.zeros_like(self.reason), np.zeros_like(self.closed_by)
        self.sampled = np.minimum(self.sampled, SAMPLED)
        self.closed = np.zeros_like(self.closed)
        self.partner = np.full((len(self), links), NOT_FOUND)
        self.waits_since = np.full((len(self), links), now)

    def located(self, numbers: Counts) -> RowNumbers:
        """Where rows are, by their numbers; -1 if they are not here."""
        if not len(self):
            return np.full(len(numbers), -1)
        place = np.minimum(np.searchsorted(self.sequence, numbers), len(self) - 1)
        return np.where(self.sequence[place] == numbers, place, -1)
