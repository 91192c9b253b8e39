"""Units of time, and durations in microseconds as people write them.

>>> microseconds("0.5", "Seconds"), in_words(90_000_000)
(500000, '90 seconds')
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

SECOND = 1_000_000
UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": 3_600 * SECOND,
    "day": 86_400 * SECOND,
    "week": 604_800 * SECOND,
}
VARYING_UNITS = ("month", "quarter", "year")
"""Units whose length depends on the calendar: a window of them would hold rows for longer or shorter."""

MOST = 2**60
"""Rows, or microseconds: 36,000 years. Times and counts are 64 bits wide, and sums of them have to fit."""


def unit_of(word: str) -> int | None:
    """Microseconds of a unit of time, singular or plural; None if there is no such unit."""
    lower = word.lower()
    return UNITS.get(lower, UNITS.get(lower.removesuffix("s")))


def varies(word: str) -> bool:
    """Whether a unit has no fixed length.

    >>> varies("Months"), varies("Weeks")
    (True, False)
    """
    return word.lower().removesuffix("s") in VARYING_UNITS


def microseconds(number: str, unit: str) -> int | None:
    """A duration in microseconds; None unless it is a whole number of them."""
    factor = unit_of(unit)
    try:
        product = Decimal(number) * (factor or 0)
    except InvalidOperation:
        return None
    return int(product) if factor and product == product.to_integral_value() else None


def in_words(duration: int) -> str:
    """Microseconds in the largest unit of which they are a whole number.

    >>> in_words(3_600_000_000)
    '1 hour'
    """
    unit = max((each for each in UNITS if duration % UNITS[each] == 0), key=lambda each: UNITS[each])
    number = duration // UNITS[unit]
    return f"{number} {unit}{'' if number == 1 else 's'}"
