"""The buffer between two operators: pages of rows, a bound, and whether its reader has begun.

>>> buffer = Buffer(limit=2)
>>> buffer.post(np.zeros((PAGE_ROWS + 1, 4), dtype=np.int64))
>>> len(buffer.pages), buffer.taken, buffer.full
(1, 0, False)
>>> late = buffer.copied()
>>> buffer.finish()
>>> [len(page) for page in buffer.pages], len(late.pages)
([40, 1], 1)
"""

from __future__ import annotations

from collections import deque

import numpy as np

from anabranch.model.arrays import Counts
from anabranch.reproduce.qpipe.disk import PAGE_ROWS

FIRST_LIMIT = 8


class Buffer:
    """Pages that an operator has made and the one above it has not read."""

    def __init__(self, limit: int = FIRST_LIMIT) -> None:
        self.pages: deque[Counts] = deque()
        self.limit = limit
        self.taken = 0
        self.finished = False
        self._partial: list[Counts] = []
        self._rows = 0

    @property
    def full(self) -> bool:
        """Whether its reader has to come first."""
        return len(self.pages) >= self.limit

    @property
    def readable(self) -> bool:
        """Whether there is a page, or never will be."""
        return bool(self.pages) or self.finished

    def post(self, rows: Counts) -> None:
        """Rows for the reader: a page goes out when it is full."""
        if not len(rows):
            return
        self._partial.append(rows)
        self._rows += len(rows)
        if self._rows >= PAGE_ROWS:
            together = np.concatenate(self._partial)
            whole = len(together) // PAGE_ROWS * PAGE_ROWS
            self.pages.extend(np.split(together[:whole], whole // PAGE_ROWS))
            self._partial, self._rows = [together[whole:]], len(together) - whole

    def finish(self) -> None:
        """Nothing more comes."""
        if self._rows:
            self.pages.append(np.concatenate(self._partial))
        self.finished = True

    def take(self) -> Counts | None:
        """The next page; none if all have been read."""
        if not self.pages:
            return None
        self.taken += 1
        return self.pages.popleft()

    def copied(self) -> Buffer:
        """A buffer for another reader, with what is in this one."""
        other = Buffer(max(self.limit, FIRST_LIMIT))
        other.pages = deque(self.pages)
        other._partial, other._rows = list(self._partial), self._rows
        return other
