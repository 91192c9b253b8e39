"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

from anabranch.cql.windows import UNITS, microseconds
from anabranch.errors import QueryError, suggest


def duration(given: str | timedelta, what: str) -> int:
    """Microseconds of `"5 seconds"` or a timedelta.

    >>> duration("1.5 minutes", "skew")
    90000000
    """
    if isinstance(given, timedelta):
        found = given // timedelta(microseconds=1)
    else:
        number, _, unit = given.strip().partition(" ")
        parsed = microseconds(number, unit.strip())
        if parsed is None:
            raise QueryError(
                f"{what} {given!r} is no duration",
                hint=f"write e.g. '5 seconds'. {suggest(unit, list(UNITS), 'units')}",
            )
        found = parsed
    if found < 0:
        raise QueryError(f"{what} {given!r} is negative", hint="a duration counts from zero")
    return found
