"""Durations as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from anabranch.errors import QueryError, suggest
from anabranch.model.time_units import UNITS, microseconds


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
                f"{what} {given!r} is not a duration",
                hint=f"write e.g. '5 seconds'. {suggest(unit, list(UNITS), 'units')}",
            )
        found = parsed
    if found < 0:
        raise QueryError(f"{what} {given!r} is negative", hint="a duration counts from zero")
    return found


def refuse_renamed(options: Mapping[str, object]) -> None:
    """Say how long streams and answers stay under its present name.

    >>> refuse_renamed({"keep": "1 day"})
    Traceback (most recent call last):
        ...
    anabranch.errors.QueryError: unknown option 'keep'
      hint: how long rows stay is retain now, as in retain='1 day'
    """
    for name in options:
        if name.lower() == "keep":
            raise QueryError(f"unknown option {name!r}", hint="how long rows stay is retain now, as in retain='1 day'")
