"""The rows that a join keeps of one stream: a window store, and beside it what constraints know of each row.

Rows stand in the order of their arrival and are named by their number in the stream, from 1, so that other rows can
point to them while rows come and go.

>>> from anabranch.constraints.windows import Rows
>>> kept = Synopsis(Rows(2), columns=2, joined=(0,), links=1)
>>> batch = Arrivals.of([(0, 0, (7, 1)), (0, 1, (8, 2))], (2,))
>>> kept.append(batch.streams[0], np.array([True, True]))
>>> kept.located(np.array([2, 9])).tolist(), kept.columns[:, 0].tolist()
([1, -1], [7, 8])
>>> kept.drop(np.array([True, False]))
>>> kept.sequence.tolist(), kept.arrived
([2], 2)

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anabranch.constraints.arrivals import Arrivals, StreamArrivals
from anabranch.constraints.windows import FAR, Clock, Window
from anabranch.joins.window_store import Key, WindowStore
from anabranch.model.arrays import Counts, Mask
from anabranch.model.arrays import Rows as RowNumbers

UNKNOWN, YES, NO = 0, 1, 2
NOT_FOUND = 0
"""Where a row points that has not found its partner: numbers of rows start at 1."""

SAMPLED, OVERDUE = 1, 2
BESIDE = (
    *("sequence", "time", "columns", "passes", "status", "reason", "sampled", "closed", "closed_by"),
    *("partner", "waits_since"),
)
"""What is kept of rows beside their windows, in arrays."""

Bytes = NDArray[np.int8]


class Synopsis:
    """The rows of one stream.

    Parameters
    ----------
    window
        When rows leave.
    columns
        How many attributes a row has.
    joined
        Those by which it is joined, which are indexed.
    links
        How many links of the graph point from this stream.

    Attributes
    ----------
    status
        Whether a row is in the component Unknown, Yes or No.
    reason
        What No rests on: 0 is certain, above it is the number of a constraint, below it a key that was observed.
    sampled
        Whether a row is kept to its end to notice that a constraint does not hold any more; `OVERDUE` after the wait.
    closed, closed_by
        Bits of the parents from which no more rows will join a row, and what that rests on, as for `reason`.
    partner, waits_since
        By link: the number of a row's only partner, and the clock of the partner's stream when the row arrived.
    """

    def __init__(self, window: Window, columns: int, joined: tuple[int, ...], links: int) -> None:
        self.window = window
        self.joined = joined
        keys = tuple((column,) for column in joined)
        self.store = WindowStore(keys, keys)
        self.arrived = 0
        self.sequence: Counts = np.empty(0, np.int64)
        self.time: Counts = np.empty(0, np.int64)
        self.columns: Counts = np.empty((0, columns), np.int64)
        self.passes: Mask = np.empty(0, np.bool_)
        self.status: Bytes = np.empty(0, np.int8)
        self.reason: Bytes = np.empty(0, np.int8)
        self.sampled: Bytes = np.empty(0, np.int8)
        self.closed: Counts = np.empty(0, np.int64)
        self.closed_by: Bytes = np.empty(0, np.int8)
        self.partner: Counts = np.empty((0, links), np.int64)
        self.waits_since: Counts = np.empty((0, links), np.int64)

    def __len__(self) -> int:
        return len(self.sequence)

    def append(self, new: StreamArrivals, kept: Mask, sampled: Mask | None = None) -> None:
        """Tuples arrive, of which some are kept."""
        numbers = self.arrived + 1 + np.flatnonzero(kept)
        self.arrived += len(new)
        size, links = len(numbers), self.partner.shape[1]
        self.sequence = np.concatenate((self.sequence, numbers))
        self.time = np.concatenate((self.time, new.time[kept]))
        self.columns = np.concatenate((self.columns, new.columns[kept]))
        self.passes = np.concatenate((self.passes, new.passes[kept]))
        self.status = np.concatenate((self.status, np.where(new.passes[kept], UNKNOWN, NO).astype(np.int8)))
        self.reason = np.concatenate((self.reason, np.zeros(size, np.int8)))
        chosen = np.zeros(size, np.int8) if sampled is None else sampled[kept].astype(np.int8)
        self.sampled = np.concatenate((self.sampled, chosen))
        self.closed = np.concatenate((self.closed, np.zeros(size, np.int64)))
        self.closed_by = np.concatenate((self.closed_by, np.zeros(size, np.int8)))
        self.partner = np.concatenate((self.partner, np.full((size, links), NOT_FOUND)))
        self.waits_since = np.concatenate((self.waits_since, np.zeros((size, links), np.int64)))
        self._store(new.sigma[kept], np.full(size, FAR), new.columns[kept])

    def take(self, other: Synopsis, rows: Mask) -> None:
        """Rows of another synopsis of the same stream, which are newer or older than those that are here."""
        order = np.argsort(np.concatenate((self.sequence, other.sequence[rows])))
        starts = np.concatenate((self.store.start, other.store.start[rows]))[order]
        ends = np.concatenate((self.store.end, other.store.end[rows]))[order]
        for name in BESIDE:
            both_of = np.concatenate((getattr(self, name), getattr(other, name)[rows]))
            setattr(self, name, both_of[order])
        keys = tuple((column,) for column in self.joined)
        self.store = WindowStore(keys, keys)
        self._store(starts, ends, self.columns)

    def expire(self, before: int, own_sigma: Counts, batch: Arrivals) -> None:
        """Note which rows leave during a batch, and when; `before` it so many tuples had arrived."""
        open_ends = np.flatnonzero(self.store.end == FAR)
        clock = Clock(before, own_sigma, batch.sigma, batch.time)
        known = self.sequence[open_ends], self.time[open_ends], self.columns[open_ends]
        self.store.end[open_ends] = self.window.ends(*known, clock)

    def expired(self) -> Mask:
        """Rows that have left."""
        return np.asarray(self.store.end < FAR)

    def drop(self, gone: Mask) -> None:
        """Let rows go."""
        if not gone.any():
            return
        kept = ~gone
        for name in BESIDE:
            setattr(self, name, getattr(self, name)[kept])
        self.store.drop(gone)

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

    def any_with(self, column: int, codes: Counts) -> RowNumbers:
        """For each code the newest row that has it, whenever it is there; -1 if there is none."""
        begin, end = np.full(len(codes), -FAR), np.full(len(codes), FAR)
        return self.store.first_match((column,), codes, begin, end)

    def matches(self, column: int, codes: Counts, begin: Counts, end: Counts) -> tuple[RowNumbers, RowNumbers]:
        """Rows of each code that filters let pass and that are there between begin and end: places of codes, rows."""
        places, rows = self.store.matches((column,), codes, begin, end)
        good = self.passes[rows]
        return places[good], rows[good]

    def _store(self, start: Counts, end: Counts, columns: Counts) -> None:
        codes: dict[Key, Counts] = {(column,): np.ascontiguousarray(columns[:, column]) for column in self.joined}
        self.store.append(start, end, np.ones(len(start), np.int64), codes)
