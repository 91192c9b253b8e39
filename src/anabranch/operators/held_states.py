"""States that a worker holds between ticks, so many bytes of them: the one that was used longest ago goes first.

A state that has gone is read again from its log when it is needed: slower, and the same.

>>> held = HeldStates()
>>> for name in ("a", "b", "c"):
...     held.put(name, f"state {name}", 40_000 - OVERHEAD_BYTES, most_bytes=100_000)
>>> held.take("a"), held.take("b"), held.bytes
(None, 'state b', 40000)
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from threading import RLock
from typing import Generic, TypeVar

SHARE = 0.25
"""Of a worker's memory, unless it is configured: ticks need memory for their rows, and so does Spark."""
OVERHEAD_BYTES = 16_384
"""Of a state without rows: operators, empty arrays, and the names of its log."""

State = TypeVar("State")


class HeldStates(Generic[State]):
    """States by key, least recently used first."""

    def __init__(self) -> None:
        self.bytes = 0
        self._states: OrderedDict[Hashable, tuple[State, int]] = OrderedDict()
        self._lock = RLock()  # tasks of several workers run in one host

    def take(self, key: Hashable) -> State | None:
        """Take a state out, if it is there."""
        with self._lock:
            if key not in self._states:
                return None
            state, size = self._states.pop(key)
            self.bytes -= size
            return state

    def put(self, key: Hashable, state: State, held_bytes: int, most_bytes: int) -> None:
        """Hold a state with so many bytes of rows; others go to make room, and so does it if it is too large alone."""
        with self._lock:
            self.take(key)
            self._states[key] = state, held_bytes + OVERHEAD_BYTES
            self.bytes += held_bytes + OVERHEAD_BYTES
            while self.bytes > most_bytes:
                _, (_, size) = self._states.popitem(last=False)
                self.bytes -= size


def usual_bytes() -> int:
    """Bytes that a worker may hold unless it is configured."""
    return int(SHARE * worker_bytes())


def worker_bytes(environ: Mapping[str, str] = os.environ) -> int:
    """The memory of a worker: what Spark limits it to, or its part of the machine's.

    >>> worker_bytes({"PYSPARK_EXECUTOR_MEMORY_MB": "512"})
    536870912
    """
    limit = environ.get("PYSPARK_EXECUTOR_MEMORY_MB")
    if limit is not None:
        return int(limit) * 2**20
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (os.cpu_count() or 1)
