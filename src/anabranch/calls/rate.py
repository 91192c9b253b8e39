"""How many requests and tokens a service allows in a window of time, over all workers.

A call takes a place before it is made, and its place is free again one window after its answer. Whenever the service
counts a request is between the two; so no window of its own, wherever it starts, has more requests than there are
places, however long a request is under way.

>>> window = RateWindow(Rate(requests="2/s"), most_seconds=5.0)
>>> table = window.new_table()
>>> first, second = window.take(table, now=0.0), window.take(table, now=0.0)
>>> window.take(table, now=0.5) is None
True
>>> window.give_back(table, first, now=0.2)
>>> window.take(table, now=1.1) is None, window.take(table, now=1.2) == first
(True, True)

Notes
-----
A place of a caller that has died is free one window after the time when its call must have ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anabranch.calls.durations import per_window
from anabranch.calls.shared_table import Floats
from anabranch.errors import QueryError

MOST_PLACES = 65_536
UNLIMITED = (math.inf, 1.0)
REQUEST, TOKENS, AMOUNT = range(3)
"""Columns of the table: until when a place counts as a request, until when its tokens count, and how many they are."""


@dataclass(frozen=True)
class Rate:
    """What a service allows.

    Parameters
    ----------
    requests, tokens
        Such as `"600/min"`; None for no limit.
    call_tokens
        The most tokens that one call takes; the largest seen so far otherwise, and calls go one at a time until the
        first has answered.
    """

    requests: str | None = None
    tokens: str | None = None
    call_tokens: float | None = None

    def __post_init__(self) -> None:
        most, _ = self.token_window
        _ = self.request_window
        if self.requests is None and self.tokens is None:
            raise QueryError("a rate without a limit", hint='say requests="600/min", tokens="90000/min", or both')
        if self.call_tokens is not None and not 0 < self.call_tokens <= most:
            raise QueryError(
                f"call_tokens is {self.call_tokens!r}, and tokens is {self.tokens!r}",
                hint="call_tokens is the most that one call takes, and no more than a window has",
            )

    @property
    def request_window(self) -> tuple[float, float]:
        """Requests, and the seconds of their window."""
        return UNLIMITED if self.requests is None else per_window(self.requests, "the rate of requests")

    @property
    def token_window(self) -> tuple[float, float]:
        """Tokens, and the seconds of their window."""
        return UNLIMITED if self.tokens is None else per_window(self.tokens, "the rate of tokens")


class RateWindow:
    """Places for calls under a rate; the table of them is kept by somebody else.

    Parameters
    ----------
    rate
        What is allowed.
    most_seconds
        After which a call has ended, one way or the other.
    """

    def __init__(self, rate: Rate, most_seconds: float) -> None:
        (self._requests, self._request_window), (self._tokens, self._token_window) = (
            rate.request_window,
            rate.token_window,
        )
        self._most_seconds, self._known_tokens, self._largest = most_seconds, rate.call_tokens, 0.0
        longest = max(self._request_window, self._token_window if rate.tokens else 0.0)
        wished = self._requests * math.ceil(longest / self._request_window)
        self.places = int(min(wished, MOST_PLACES))

    def new_table(self) -> Floats:
        """A table with all places free."""
        return np.zeros((self.places, 3))

    def take(self, table: Floats, now: float) -> int | None:
        """A place for a call that starts now, with room for its tokens; None where there is none yet."""
        tokens = self._expected_tokens()
        if np.count_nonzero(table[:, REQUEST] > now) >= self._requests:
            return None
        if tokens and table[table[:, TOKENS] > now, AMOUNT].sum() + tokens > self._tokens:
            return None
        free = np.flatnonzero((table[:, REQUEST] <= now) & (table[:, TOKENS] <= now))
        if not len(free):
            return None
        ends = now + self._most_seconds
        table[free[0]] = ends + self._request_window, ends + self._token_window, tokens
        return int(free[0])

    def give_back(self, table: Floats, place: int, now: float, tokens: float | None = 0.0) -> None:
        """The call has ended, and took so many tokens; None if nobody knows."""
        taken = float(table[place, AMOUNT]) if tokens is None else tokens
        self._largest = max(self._largest, tokens or 0.0)
        table[place] = now + self._request_window, now + self._token_window, taken

    def wait(self, table: Floats, now: float) -> float:
        """Seconds until a place may be free, at the earliest that is known now."""
        later = table[:, :2][table[:, :2] > now]
        return float(later.min() - now) if len(later) else 0.0

    def _expected_tokens(self) -> float:
        if math.isinf(self._tokens):
            return 0.0
        return self._known_tokens or min(self._largest, self._tokens) or self._tokens
