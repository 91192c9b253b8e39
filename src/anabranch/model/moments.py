"""Moments in time, as Python's and as microseconds since 1970.

>>> micros(datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), "at")
2000000
>>> moment(2_000_000)
datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=datetime.timezone.utc)
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from anabranch.errors import QueryError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(time: datetime, name: str) -> int:
    """Microseconds since 1970 of a time that a user gives under a name."""
    if getattr(time, "tzinfo", None) is None:
        raise QueryError(
            f"{name} is {time!r}", hint="give a datetime with a time zone, as datetime(2026, 1, 1, tzinfo=timezone.utc)"
        )
    return (time - EPOCH) // timedelta(microseconds=1)


def moment(micros: int) -> datetime:
    """The time of so many microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)
