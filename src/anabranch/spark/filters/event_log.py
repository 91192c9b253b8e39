"""The events of a filter, as they reached the driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from anabranch import events

RECENT_EVENTS = 10_000


class EventLog:
    """The latest events, oldest first."""

    def __init__(self) -> None:
        self._events: deque[events.Event] = deque(maxlen=RECENT_EVENTS)

    def extend(self, made: Iterable[events.Event]) -> None:
        """Add events; the oldest make room."""
        self._events.extend(made)

    def all(self) -> tuple[events.Event, ...]:
        """Oldest first."""
        return tuple(self._events)

    def to_json(self) -> list[Any]:
        """As names and plain values, for a state folder."""
        return [[type(e).__name__, asdict(e)] for e in self._events]

    def restore(self, data: list[Any]) -> None:
        """Add what `to_json` gave."""
        self._events.extend(getattr(events, kind)(**with_tuples(e)) for kind, e in data)


def with_tuples(data: dict[str, Any]) -> dict[str, Any]:
    """Fields as JSON gives them, with tuples for lists."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
