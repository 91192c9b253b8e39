"""A worker's own seconds: they pass while it works or waits for somebody, not while it waits for a core.

On a busy machine a thread is taken off its core every few milliseconds, for longer than it was on it. With those pauses
in them, times of calls say little about what predicates cost, and the trial of routes, say, ends by chance. Linux
counts them for every thread.

>>> now = seconds()
>>> seconds() >= now
True
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable

LOOK_SECONDS = 0.0005
"""Between two looks at the pauses: one costs a microsecond, so shorter pauses are found a little late."""
PAUSES = "/proc/thread-self/schedstat"
"""Nanoseconds on a core and nanoseconds of waiting for one, of the thread that opens it."""


class Pauses:
    """Seconds for which a thread has waited for a core; 0 where nobody counts them."""

    def __init__(self) -> None:
        self._process, self._file = 0, -1

    def __call__(self) -> float:
        """So far, of the thread that calls first; in a process that was forked since, anew."""
        if self._process != os.getpid():
            self._process, self._file = os.getpid(), _opened(PAUSES)
        return int(os.pread(self._file, 64, 0).split()[1]) * 1e-9 if self._file >= 0 else 0.0

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self._file >= 0:
            close(self._file)


class WorkerClock(threading.local):
    """A clock that never goes back, and stands still while its thread waits for a core.

    Parameters
    ----------
    clock
        A monotonic clock in seconds.
    pauses
        Seconds on it that do not count, so far.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, pauses: Callable[[], float] | None = None
    ) -> None:
        self._clock, self._pauses = clock, pauses or Pauses()
        self._looked, self._paused, self._last = -math.inf, 0.0, -math.inf

    def __call__(self) -> float:
        """Seconds by now; only differences matter."""
        now = self._clock()
        if now - self._looked > LOOK_SECONDS:
            self._paused = self._pauses()
            self._looked = now = self._clock()
        self._last = max(self._last, now - self._paused)
        return self._last


seconds = WorkerClock()


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return -1
