"""Answers that are the same for all clients, as they are sent: made once for every look of the hub.

>>> now, version = [0.0], [1]
>>> cache = AnswerCache(lambda: version[0], clock=lambda: now[0])
>>> cache.put("overview", b"{}")
>>> cache.get("overview")
b'{}'
>>> now[0] = 1.0                                                 # what filters count is not in the version
>>> cache.get("overview") is None
True
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

MOST_ANSWERS = 256
MOST_SECONDS = 0.25
"""Less than a look's pause: an answer is at most so much older than without."""


class AnswerCache:
    """Answers by what was asked.

    Parameters
    ----------
    version
        Of what the hub has seen; another one makes all answers old.
    clock
        A monotonic clock in seconds.
    """

    def __init__(self, version: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._version, self._clock = version, clock
        self._lock = threading.Lock()
        self._answers: dict[Hashable, tuple[int, float, bytes]] = {}

    def get(self, asked: Hashable) -> bytes | None:
        """The answer, if it is there and not old."""
        with self._lock:
            found = self._answers.get(asked)
        if found is None or found[0] != self._version() or self._clock() - found[1] > MOST_SECONDS:
            return None
        return found[2]

    def put(self, asked: Hashable, answer: bytes) -> None:
        """Keep an answer; if there are many, all others make room."""
        with self._lock:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[asked] = (self._version(), self._clock(), answer)

    def clear(self) -> None:
        """Something was changed."""
        with self._lock:
            self._answers.clear()
