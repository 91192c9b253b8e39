"""The rows that a join of sliding windows keeps of one stream: a window store, and what constraints know of each row.

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

from anabranch.constraints.arrivals import Arrivals, StreamArrivals
from anabranch.constraints.kept_rows import BESIDE, KeptRows
from anabranch.constraints.windows import FAR, Clock, Window
from anabranch.joins.window_store import Key, WindowStore
from anabranch.model.arrays import Counts, Mask
from anabranch.model.arrays import Rows as RowNumbers


class Synopsis(KeptRows):
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
    """

    def __init__(self, window: Window, columns: int, joined: tuple[int, ...], links: int) -> None:
        super().__init__(window, links)
        self.joined = joined
        keys = tuple((column,) for column in joined)
        self.store = WindowStore(keys, keys)
        self.columns: Counts = np.empty((0, columns), np.int64)

    def append(self, new: StreamArrivals, kept: Mask, sampled: Mask | None = None) -> None:
        """Tuples arrive, of which some are kept."""
        chosen = np.zeros(len(new), np.bool_) if sampled is None else sampled
        self.note(new.time, new.passes, kept, chosen)
        self.columns = np.concatenate((self.columns, new.columns[kept]))
        self._store(new.sigma[kept], np.full(int(np.count_nonzero(kept)), FAR), new.columns[kept])

    def take(self, other: Synopsis, rows: Mask) -> None:
        """Rows of another synopsis of the same stream, which are newer or older than those that are here."""
        order = np.argsort(np.concatenate((self.sequence, other.sequence[rows])))
        starts = np.concatenate((self.store.start, other.store.start[rows]))[order]
        ends = np.concatenate((self.store.end, other.store.end[rows]))[order]
        for name in (*BESIDE, "columns"):
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
        self.forget(gone)
        self.columns = self.columns[~gone]
        self.store.drop(gone)

    def codes(self, column: int) -> Counts:
        """The value of each row in a column."""
        return np.ascontiguousarray(self.columns[:, column])

    def any_with(self, column: int, codes: Counts, asking: KeptRows, rows: RowNumbers) -> RowNumbers:
        """For each code the newest row that has it, whenever it is there; -1 if there is none."""
        begin, end = np.full(len(codes), -FAR), np.full(len(codes), FAR)
        return self.store.first_match((column,), codes, begin, end)

    def all_with(self, column: int, codes: Counts, asking: KeptRows, rows: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """All rows with these codes, whenever they are there."""
        return self.store.matches((column,), codes, np.full(len(codes), -FAR), np.full(len(codes), FAR))

    def matches(self, column: int, codes: Counts, begin: Counts, end: Counts) -> tuple[RowNumbers, RowNumbers]:
        """Rows of each code that filters let pass and that are there between begin and end: places of codes, rows."""
        places, rows = self.store.matches((column,), codes, begin, end)
        good = self.passes[rows]
        return places[good], rows[good]

    def _store(self, start: Counts, end: Counts, columns: Counts) -> None:
        codes: dict[Key, Counts] = {(column,): np.ascontiguousarray(columns[:, column]) for column in self.joined}
        self.store.append(start, end, np.ones(len(start), np.int64), codes)
