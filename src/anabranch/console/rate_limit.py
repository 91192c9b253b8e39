"""A rate limit: each client has a bucket of tokens that fills up at a steady pace, and a request takes one.

>>> limit = RateLimit(per_second=1, burst=2, clock=iter([0.0, 0.0, 0.0, 1.0]).__next__)
>>> [limit.allows("a") for _ in range(4)]
[True, True, False, True]
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

MOST_CLIENTS = 4096


class RateLimit:
    """Token buckets by client; those that were not heard of for longest are forgotten.

    Parameters
    ----------
    per_second
        Requests of one client that may go on for ever.
    burst
        Requests that may come at once.
    clock
        Seconds.
    """

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str) -> bool:
        """Whether one more request of a client is allowed now."""
        now = self._clock()
        left, at = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        self._buckets[client] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return left >= 1
