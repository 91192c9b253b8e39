"""What recent ticks have published: rows for SysStream, and events of streams and queries."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from anabranch.engine.sysstream import Row
from anabranch.events import Event

MOST_PUBLISHED = 10_000
"""Rows of SysStream that wait for a tick to take them."""
MOST_RECENT = 50_000
"""Rows of SysStream that `recent_ticks` holds."""
RECENT_EVENTS = 1_000


class TickHistory:
    """Holds the rows and events of recent ticks, up to a bound; any thread may read it.

    >>> from datetime import datetime
    >>> history = TickHistory()
    >>> history.publish(7, [(datetime(2026, 1, 1), 0, None, "calls", "rows", 12.0)])
    >>> [tick for tick, _ in history.since(6)], history.since(7)
    ([7], [])
    >>> len(history.take_unread()), len(history.take_unread())
    (1, 0)
    """

    def __init__(self) -> None:
        self._unread: list[Row] = []
        self._ticks: deque[tuple[int, list[Row]]] = deque()
        self.events: deque[Event] = deque(maxlen=RECENT_EVENTS)

    def publish(self, tick: int, rows: Sequence[Row]) -> None:
        """Add the rows of a tick; the oldest give way."""
        self._unread += rows
        del self._unread[:-MOST_PUBLISHED]
        self._ticks.append((tick, list(rows)))
        while len(self._ticks) > 1 and sum(len(each) for _, each in self._ticks) > MOST_RECENT:
            self._ticks.popleft()

    def take_unread(self) -> list[Row]:
        """The rows that no query has read yet."""
        rows, self._unread = self._unread, []
        return rows

    def since(self, tick: int) -> list[tuple[int, list[Row]]]:
        """The rows of ticks that are later than one."""
        return [(each, rows) for each, rows in list(self._ticks) if each > tick]
