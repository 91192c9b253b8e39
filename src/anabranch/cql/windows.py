"""What stands in the brackets behind a stream: `[Rows 100]`, `[Range 10 Minutes]`, `[Partition By k Rows 5]`, `[Now]`.

>>> microseconds("0.5", "Seconds")
500000
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class WindowSpec:
    """A window as written; without limits it is unbounded.

    Parameters
    ----------
    span
        `Range`, microseconds; 0 is `[Now]`.
    rows
        `Rows`.
    partition
        Column names of `Partition By`.
    slide
        `Slide` as a time, microseconds.
    slide_rows
        `Slide` as a number of rows.
    """

    span: int | None = None
    rows: int | None = None
    partition: tuple[str, ...] = ()
    slide: int | None = None
    slide_rows: int | None = None


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
