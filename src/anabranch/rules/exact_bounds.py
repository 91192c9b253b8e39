"""Constants of one numeric type as bounds for values of another, without rounding.

Each constant becomes the least value of the rows' type that is not below it, and whether that is equal to it. A
comparison with the constant is one with this value: an integer is below 1.5 where it is below 2, and never equal to it.

>>> doubles = float_keys(np.array([-0.5, 1.0, 1.5, 1e300]))
>>> bounds = bounds_of(doubles, Domain("number", "float"), Domain("number", "integer"))
>>> bounds.values.keys.tolist(), bounds.exact.tolist()  # no integer of 64 bits is as large as 1e300
([0, 1, 2], [False, True, False])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from anabranch.model.arrays import Floats, Mask
from anabranch.rules.bucket_search import Keys
from anabranch.rules.domains import MOST_DIGITS, Domain, Numbers, Values, float_keys, floats_of
from anabranch.rules.texts import Texts

FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_WIDE = 10**38
_EXACT_FLOATS = 1 << 53


@dataclass(frozen=True)
class Bounds:
    """Bounds for constants in ascending order, without those that are larger than all values of the rows' type.

    Parameters
    ----------
    values
        Keys of the rows' type, ascending.
    exact
        Which of them are equal to the constant; None if all are.
    """

    values: Values
    exact: Mask | None


def bounds_of(constants: Values, held: Domain, rows: Domain) -> Bounds:
    """The bounds of sorted constants of one domain for rows of another one of the same kind."""
    if held == rows or rows.form == "bytes":
        return Bounds(constants, None)
    if isinstance(constants, Numbers):
        if held.form == rows.form == "integer" and abs(rows.scale - held.scale) <= MOST_DIGITS:
            return _scaled(constants.keys, rows.scale - held.scale)
        if held.form == "float" and rows.form == "integer" and not rows.scale:
            return _ceilings(floats_of(constants.keys))
        if held.form == "integer" and not held.scale and rows.form == "float":
            return _next_floats(constants.keys)
    return _by_fractions(_fractions(constants, held), rows)


def _scaled(keys: Keys, digits: int) -> Bounds:
    unit = 10 ** abs(digits)
    if digits <= 0:
        rest = keys % unit != 0
        return Bounds(Numbers(keys // unit + rest), ~rest)
    below = keys < -(-FIRST // unit)
    keys, below = keys[keys <= LAST // unit], below[keys <= LAST // unit]
    return Bounds(Numbers(np.where(below, FIRST, np.where(below, 0, keys) * unit)), ~below)


def _ceilings(floats: Floats) -> Bounds:
    floats = floats[floats < 2.0**63]
    ceilings = np.ceil(floats)
    below = ceilings < -(2.0**63)
    keys = np.where(below, 0, ceilings).astype(np.int64)
    return Bounds(Numbers(np.where(below, FIRST, keys)), (ceilings == floats) & ~below)


def _next_floats(keys: Keys) -> Bounds:
    floats = keys.astype(np.float64)
    exact = np.ones(len(keys), np.bool_)
    for place in np.flatnonzero((keys > _EXACT_FLOATS) | (keys < -_EXACT_FLOATS)):
        floats[place], exact[place] = _next_float(Fraction(int(keys[place])))
    return Bounds(Numbers(float_keys(floats).keys), exact)


def _next_float(number: Fraction) -> tuple[float, bool]:
    """The least float that is not below a number, and whether it is equal."""
    nearest = float(number)
    return (math.nextafter(nearest, math.inf) if nearest < number else nearest), nearest == number


def _fractions(constants: Values, held: Domain) -> list[Fraction | float]:
    """The constants as exact numbers; infinities stay floats, and NaN is infinite."""
    if isinstance(constants, Texts):
        data = constants.data.tobytes()
        unscaled = [int.from_bytes(data[at : at + 16]) - (1 << 127) for at in constants.begins.tolist()]
    elif held.form == "integer":
        unscaled = constants.keys.tolist()
    else:
        floats = np.nan_to_num(floats_of(constants.keys), nan=np.inf, posinf=np.inf, neginf=-np.inf).tolist()
        return [Fraction(value) if math.isfinite(value) else value for value in floats]
    unit = Fraction(10) ** held.scale
    return [value / unit for value in unscaled]


def _by_fractions(numbers: list[Fraction | float], rows: Domain) -> Bounds:
    """Number by number: for decimals against floats, and for wide decimals."""
    if rows.form == "float":
        nearest = [_next_float(number) for number in numbers if isinstance(number, Fraction)]
        floats = np.array([value for value, _ in nearest], np.float64)
        return Bounds(Numbers(float_keys(floats).keys), _flags(nearest))
    unit = Fraction(10) ** rows.scale
    least, most = (-_WIDE, _WIDE) if rows.form == "wide" else (FIRST, LAST)
    bounds = [_ceiling(number, unit, least) for number in numbers]
    found = [(value, exact) for value, exact in bounds if value is not None and value <= most]
    if rows.form == "wide":
        data = b"".join((value + (1 << 127)).to_bytes(16) for value, _ in found)
        return Bounds(Texts.of_width(np.frombuffer(data, np.uint8).reshape(-1, 16)), _flags(found))
    return Bounds(Numbers(np.array([value for value, _ in found], np.int64)), _flags(found))


def _ceiling(number: Fraction | float, unit: Fraction, least: int) -> tuple[int | None, bool]:
    if not isinstance(number, Fraction):
        return (None if number > 0 else least), False
    scaled = number * unit
    return max(math.ceil(scaled), least), scaled.denominator == 1 and scaled >= least


def _flags(found: Sequence[tuple[float, bool]]) -> Mask:
    return np.array([exact for _, exact in found], np.bool_)
