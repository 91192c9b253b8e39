"""A cache of joined rows: by the code of a key, references to the rows that it leads to.

The directory is *direct-mapped*: a code has one slot, and a new one takes it over from an old one. What is known of a
code is all that there is, also if that is nothing; of codes that are not in the directory nothing is known, and what
comes for them is passed over. Values are numbers of rows with the interval of each combination, never copies of rows.
Because intervals have both ends, expiry needs no upkeep.

>>> cache = CacheStore((1, 2), limit=10_000)
>>> def parts(*rows):
...     numbers = np.array(rows, np.int64).reshape(-1, 2)
...     zero = np.zeros(len(numbers), np.int64)
...     return Parts({1: numbers[:, 0], 2: numbers[:, 1]}, zero, zero + 9)
>>> cache.knows(np.array([7])).tolist()                        # a miss: what 7 leads to is put in
[False]
>>> guests = cache.create(np.array([7]), np.array([7]), parts((0, 0)), np.empty(0, np.int64))
>>> cache.insert(np.array([7, 8]), parts((1, 4), (2, 4)))      # 8 is not there
1
>>> cache.knows(np.array([7, 8])).tolist(), len(cache.store)
([True, False], 2)

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 5.4 and 5.6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.joins.growing import Growing
from anabranch.joins.segment_join import Parts
from anabranch.joins.window_store import LONG_OVER, WindowStore
from anabranch.model.arrays import Counts, Mask, Rows

KEY = (0,)
ALWAYS = 2**62
SLOT_BYTES = 9
MOST_SLOT_BITS = 20
USUAL_ENTRIES = 10_000
SLOTS_PER_ENTRY = 2
DIRECTORY_SHARE = 0.25
CROWDED_SHARE = 2
_MIX = np.uint64(0x9E3779B97F4A7C15)


class CacheStore:
    """Combinations of rows of some windows by code.

    Parameters
    ----------
    windows
        Whose rows are combined.
    limit
        Bytes that it may take.
    expected
        Entries that are expected; the directory grows with what comes.

    Attributes
    ----------
    evicted
        Entries that had to make room so far.
    """

    def __init__(self, windows: Sequence[int], limit: int, expected: int = USUAL_ENTRIES) -> None:
        self.windows = tuple(windows)
        self.limit = limit
        self._bits = min(slot_bits(limit), (SLOTS_PER_ENTRY * expected).bit_length())
        self.evicted = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.store = WindowStore((KEY,), (KEY,))
        self._rows = {each: Growing() for each in self.windows}
        self._codes = np.zeros(1 << self._bits, np.int64)
        self._used = np.zeros(1 << self._bits, np.bool_)

    @property
    def entries(self) -> int:
        """Codes in the directory."""
        return int(np.count_nonzero(self._used))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        columns = sum(each.nbytes for each in self._rows.values())
        return self.store.nbytes + columns + self._codes.nbytes + self._used.nbytes

    def rows(self, window: int) -> Rows:
        """The number of the row of a window in each combination."""
        return self._rows[window].values

    def slots(self, codes: Counts) -> Rows:
        """The slot of each code."""
        return slots_of(codes, self._bits)

    def knows(self, codes: Counts) -> Mask:
        """Whether all that each code leads to is here."""
        slots = self.slots(codes)
        known: Mask = self._used[slots] & (self._codes[slots] == codes)
        return known

    def create(self, distinct: Counts, codes: Counts, parts: Parts, asked: Counts) -> tuple[Counts, slice]:
        """Put in what new codes lead to; those that find no room are guests, here until they are let go.

        Parameters
        ----------
        distinct
            The new codes, each once.
        codes, parts
            Combinations, with their codes.
        asked
            Codes that have to stay for now.

        Returns
        -------
        Codes and combinations of guests.
        """
        self._fit(len(distinct))
        slots = self.slots(distinct)
        taken = np.zeros(len(self._used), np.bool_)
        taken[self.slots(asked)] = True
        owner = np.full(len(self._used), -1, np.int64)
        free = np.flatnonzero(~taken[slots]) if self._has_room(len(parts)) else np.empty(0, np.int64)
        owner[slots[free]] = free
        settled = owner[slots] == np.arange(len(distinct))
        self._evict(self._codes[each := slots[settled]][self._used[each]])
        self._codes[slots[settled]], self._used[slots[settled]] = distinct[settled], True
        known = self.knows(codes)
        self._append(codes[known], parts.take(np.flatnonzero(known)))
        first = len(self.store)
        self._append(codes[~known], parts.take(np.flatnonzero(~known)))
        return distinct[~settled], slice(first, len(self.store))

    def let_go(self, guests: slice) -> None:
        """Forget combinations of guests."""
        self.store.end[guests] = LONG_OVER

    def insert(self, codes: Counts, parts: Parts) -> int:
        """Add new combinations of codes that are known; returns how many."""
        known = np.flatnonzero(self.knows(codes))
        if not len(known):
            return 0
        if not self._has_room(len(known)):
            self._evict(np.unique(codes[known]))
            return 0
        self._append(codes[known], parts.take(known))
        return len(known)

    def renumber(self, window: int, gone: int | Mask) -> None:
        """Rows of a window have gone, at the front or the marked ones; the others have new numbers."""
        numbers = self.rows(window)
        if isinstance(gone, int):
            void = numbers < gone
            numbers -= gone
        else:
            void = gone[numbers]
            numbers[:] = (np.cumsum(~gone) - 1)[numbers]
        self.store.end[void] = LONG_OVER
        numbers[void] = 0

    def refresh(self, window: int, ends: Counts) -> None:
        """Rows of a window end earlier than was known."""
        alive = np.flatnonzero(self.store.end != LONG_OVER)
        self.store.end[alive] = np.minimum(self.store.end[alive], ends[self.rows(window)[alive]])

    def tidy(self, now: int) -> None:
        """Drop combinations that are over, if they are many."""
        gone: int | Mask | None = self.store.expired(now)
        if gone is None and CROWDED_SHARE * self.nbytes > self.limit:
            dead: Mask = self.store.end <= now
            gone = dead if dead.any() else None
        if gone is None:
            return
        kept = slice(gone, None) if isinstance(gone, int) else ~gone
        for column in self._rows.values():
            column.assign(column.values[kept])
        self.store.drop(gone)

    def _fit(self, more: int) -> None:
        """With a larger directory, as far as the limit allows, if so many more entries would crowd it.

        An entry keeps its place among the others: none has to make room.
        """
        while self._bits < slot_bits(self.limit) and SLOTS_PER_ENTRY * (self.entries + more) > len(self._used):
            codes = self._codes[self._used]
            self._bits += 1
            self._codes, self._used = np.zeros(1 << self._bits, np.int64), np.zeros(1 << self._bits, np.bool_)
            slots = self.slots(codes)
            self._codes[slots], self._used[slots] = codes, True

    def _has_room(self, more: int) -> bool:
        return self.nbytes + more * 8 * (4 + len(self.windows)) <= self.limit

    def _evict(self, codes: Counts) -> None:
        if not len(codes):
            return
        self.evicted += len(codes)
        slots = self.slots(codes)
        self._used[slots] = False
        begin, end = np.full(len(codes), LONG_OVER), np.full(len(codes), ALWAYS)
        _, rows = self.store.matches(KEY, codes, begin, end)
        self.store.end[rows] = LONG_OVER

    def _append(self, codes: Counts, parts: Parts) -> None:
        if not len(codes):
            return
        for each, column in self._rows.items():
            column.append(parts.rows[each])
        self.store.append(parts.start, parts.end, np.ones(len(codes), np.int64), {KEY: codes})


def slot_bits(limit: int) -> int:
    """The size of a directory that takes its share of a limit, as a power of two.

    >>> slot_bits(0), slot_bits(4096), slot_bits(1 << 30)
    (0, 6, 20)
    """
    slots = max(1, int(limit * DIRECTORY_SHARE) // SLOT_BYTES)
    return min(MOST_SLOT_BITS, slots.bit_length() - 1)


def slots_of(codes: Counts, bits: int) -> Rows:
    """The slot of each code in a directory of 2 to the power of `bits` slots."""
    if bits == 0:
        return np.zeros(len(codes), np.int64)
    return ((codes.view(np.uint64) * _MIX) >> np.uint64(64 - bits)).view(np.int64)
