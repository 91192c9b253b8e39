"""A segment of a probe pipeline that is looked up in a cache: to the pipeline it is one window among the others.

What a code leads to is joined once, when it is asked for first, and found in the cache from then on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.joins.cache_store import ALWAYS, KEY, CacheStore
from anabranch.joins.codes import mixed
from anabranch.joins.segment_join import SegmentJoin
from anabranch.joins.window_store import LONG_OVER, Key, WindowStore
from anabranch.model.arrays import Counts, Rows


class CachedSegment:
    """Can be probed like a `WindowStore`; its rows are combinations.

    Parameters
    ----------
    cache
        Where combinations are kept; others may use it, too.
    join
        Finds those that are not.
    key
        By which it is probed.
    entry
        The window that is probed first.
    stores
        All windows of the join.

    Attributes
    ----------
    now
        What was over by then does not matter any more.
    probes, misses
        Codes that were asked for, and those of them, each once, that were not there.
    """

    def __init__(
        self, cache: CacheStore, join: SegmentJoin, key: Key, entry: int, stores: Sequence[WindowStore]
    ) -> None:
        self.cache, self._join, self._key, self._entry, self._stores = cache, join, key, entry, stores
        self._guests: Counts = np.empty(0, np.int64)
        self._guest_rows: list[slice] = []
        self.now = LONG_OVER
        self.probes = self.misses = self.steps = 0

    @property
    def start(self) -> Counts:
        """Since when each combination is there."""
        return self.cache.store.start

    @property
    def end(self) -> Counts:
        """From when on it is not there any more."""
        return self.cache.store.end

    @property
    def weight(self) -> Counts:
        """Weights are those of the rows: see `all_once`."""
        return self.cache.store.weight

    @property
    def all_once(self) -> bool:
        """The weights of a combination are taken from its rows."""
        return True

    def codes_of(self, key: Key, rows: Rows) -> Counts:
        """The codes of combinations by a key."""
        columns = []
        for number in key:
            window = self._join.holder(number)
            columns.append(self._stores[window].codes((number,))[self.cache.rows(window)[rows]])
        return mixed(columns) if columns else np.zeros(len(rows), np.int64)

    def holder(self, number: int) -> int:
        """The window of the segment with a column of a class."""
        return self._join.holder(number)

    def first_match(self, key: Key, codes: Counts, begin: Counts, end: Counts) -> Rows:
        """For each code a combination that has it and meets the interval, -1 if there is none."""
        self._fill(codes)
        return self.cache.store.first_match(KEY, codes, begin, end)

    def matches(
        self, key: Key, codes: Counts, begin: Counts, end: Counts, first: Rows | None = None
    ) -> tuple[Rows, Rows]:
        """All such combinations: places of codes, ascending, and combinations."""
        if first is None:
            self._fill(codes)
        return self.cache.store.matches(KEY, codes, begin, end, first)

    def end_chunk(self) -> None:
        """Forget what found no room."""
        for each in self._guest_rows:
            self.cache.let_go(each)
        self._guests, self._guest_rows = self._guests[:0], []

    def _fill(self, codes: Counts) -> None:
        known = self.cache.knows(codes)
        if len(self._guests):
            known |= np.isin(codes, self._guests)
        self.probes += len(codes)
        if known.all():
            return
        missing = np.unique(codes[~known])
        self.misses += len(missing)
        begin, end = np.full(len(missing), self.now), np.full(len(missing), ALWAYS)
        _, rows = self._stores[self._entry].matches(self._key, missing, begin, end)
        before = self._join.steps
        parts = self._join.from_rows(self._entry, rows)
        self.steps += self._join.steps - before + 2 * len(missing) + len(rows) + len(parts)
        guests, places = self.cache.create(missing, self._join.keyed(self._key, parts), parts, codes[known])
        self._guests = np.concatenate((self._guests, guests))
        self._guest_rows.append(places)
