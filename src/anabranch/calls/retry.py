"""Which failed calls are made again, and when.

What a service refuses for the moment (429 and 5xx), and connections that could not be made, are worth another try; a
time-out is not, as the service may have done and charged the work.

>>> class Refused(Exception):
...     status, headers = 429, {"Retry-After": "3"}
>>> RetryRules(retries=4).delay(Refused(), attempt=0, draw=0.5)
3.0
>>> RetryRules(retries=4).delay(ValueError("no JSON"), attempt=0, draw=0.5) is None
True

Notes
-----
Exponential backoff with full jitter; `Retry-After` is the least that is waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

FIRST_SECONDS = 0.25
MOST_SECONDS = 60.0
TOO_MANY = 429
SERVER_ERRORS = range(500, 600)
UNREACHABLE = ("ConnectError", "ConnectionRefusedError", "ConnectionResetError", "ClientConnectorError", "gaierror")


@dataclass(frozen=True)
class RetryRules:
    """How many times a call is made again."""

    retries: int = 4

    def delay(self, error: BaseException, *, attempt: int, draw: float) -> float | None:
        """Seconds to wait before the next attempt; None if there is none.

        Parameters
        ----------
        error
            Why the last attempt failed.
        attempt
            Its number, from 0.
        draw
            A random number between 0 and 1.
        """
        if attempt >= self.retries or not passing(error):
            return None
        backoff: float = min(FIRST_SECONDS * 2**attempt, MOST_SECONDS) * (0.5 + draw / 2)
        asked: float = min(retry_after(error) or 0.0, MOST_SECONDS)
        return max(backoff, asked)


def passing(error: BaseException) -> bool:
    """Whether a call that failed so may succeed a little later, and has not been charged."""
    status = status_of(error)
    if status is not None:
        return status == TOO_MANY or status in SERVER_ERRORS
    return any(kind.__name__ in UNREACHABLE for kind in type(error).__mro__)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an exception tells of, in the ways of the usual clients."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "status_code", "code"):
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return None


def retry_after(error: BaseException, now: datetime | None = None) -> float | None:
    """Seconds that the service asks to wait, given as a number or as a date."""
    for holder in (error, getattr(error, "response", None)):
        headers: Any = getattr(holder, "headers", None)
        text = next((v for k, v in headers.items() if k.lower() == "retry-after"), None) if _maps(headers) else None
        if text is None:
            continue
        try:
            return max(0.0, float(text))
        except ValueError:
            return _until(str(text), now or datetime.now(UTC))
    return None


def _maps(headers: Any) -> bool:
    return isinstance(headers, Mapping) or hasattr(headers, "items")


def _until(date: str, now: datetime) -> float | None:
    try:
        return max(0.0, (parsedate_to_datetime(date) - now).total_seconds())
    except (TypeError, ValueError):
        return None
