"""Durations and rates as people write them.

>>> seconds_of("20 s"), seconds_of(1.5), seconds_of("2 min")
(20.0, 1.5, 120.0)
>>> per_window("600/min")
(600.0, 60.0)
"""

from __future__ import annotations

import math
import re

from anabranch.errors import QueryError

UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_DURATION = re.compile(r"\s*([\d.]+)\s*([A-Za-z]+)\s*")
_RATE = re.compile(r"\s*([\d.]+)\s*/\s*([\d.]*)\s*([A-Za-z]+)\s*")


def seconds_of(given: str | float, what: str = "a duration") -> float:
    """Seconds of a duration: a number of seconds, or a text with a unit."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        found = float(given)
    else:
        text = _DURATION.fullmatch(given) if isinstance(given, str) else None
        found = float(text[1]) * _unit(text[2]) if text else math.nan
    if not 0 < found < math.inf:
        raise QueryError(f"{what} is {given!r}", hint="use a number of seconds, or a text such as '20 s' or '2 min'")
    return found


def per_window(given: str, what: str = "a rate") -> tuple[float, float]:
    """How many in how many seconds."""
    text = _RATE.fullmatch(str(given))
    many, window = (float(text[1]), float(text[2] or 1) * _unit(text[3])) if text else (math.nan, math.nan)
    if not (many >= 1 and 0 < window < math.inf):
        raise QueryError(f"{what} is {given!r}", hint="use a text such as '600/min', '10/s' or '50/10 s'")
    return many, window


def _unit(word: str) -> float:
    lower = word.lower()
    return UNITS.get(lower, UNITS.get(lower.removesuffix("s"), math.nan))
