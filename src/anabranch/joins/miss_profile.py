"""How often a cache would miss: a directory like that of the cache, without what the codes lead to.

>>> profile = MissProfile(bits=10)
>>> codes = np.tile(np.arange(100), 10)
>>> profile.observe(codes)
>>> profile.miss
0.1
>>> profile.observe(codes)                                     # 100 codes of 2,000 were new
>>> profile.miss, profile.entries
(0.05, 100)

Differs from the paper
----------------------
The paper counts bits of a Bloom filter that is cleared after some rows; this knows what a cache that lives longer
still has, and what it would have replaced.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 5.5.3.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from anabranch.joins.cache_store import slots_of
from anabranch.model.arrays import Counts

LATEST = 3
MOST_BITS = 15


class MissProfile:
    """Watches the codes with which a cache would be looked up.

    Parameters
    ----------
    bits
        Slots of the directory of the cache, as a power of two.
    """

    def __init__(self, bits: int) -> None:
        self._bits = min(bits, MOST_BITS)
        self._codes = np.zeros(1 << self._bits, np.int64)
        self._used = np.zeros(1 << self._bits, np.bool_)
        self._last = np.empty(1 << self._bits, np.int32)
        self._seen: deque[tuple[int, int]] = deque(maxlen=LATEST)

    def observe(self, codes: Counts) -> None:
        """Some rows look it up."""
        slots = slots_of(codes, self._bits)
        new = np.flatnonzero(~(self._used[slots] & (self._codes[slots] == codes)))
        missed, places = codes[new], slots[new]
        self._codes[places], self._used[places] = missed, True
        numbers = np.arange(len(places))
        self._last[places] = numbers
        owner = self._last[places]  # of several in one slot the last
        fresh = np.count_nonzero((owner == numbers) | (missed[owner] != missed))
        self._seen.append((len(codes), int(fresh)))

    @property
    def miss(self) -> float:
        """The share of look-ups that would miss, lately."""
        asked = sum(each[0] for each in self._seen)
        return sum(each[1] for each in self._seen) / asked if asked else 1.0

    @property
    def entries(self) -> int:
        """Codes that the cache would hold."""
        return int(np.count_nonzero(self._used))
