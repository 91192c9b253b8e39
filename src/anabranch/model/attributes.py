"""Attributes, the columns that routes are chosen by: which types can be attributes, and their values as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.arrays import Floats

ClockPart = Literal["hour", "weekday"]
AttributeArrays = Mapping[str, pa.Array]
"""Attributes of some rows, by name."""

LAST_MICROSECOND = 2_145_916_800_000_000 - 1
"""Of the year 2037: Arrow has no daylight saving after it, and its hours would differ from those of Spark."""
UNREADABLE = (ArithmeticError, ValueError, pa.ArrowException)
"""What Arrow raises for values that Python does not have: dates after the year 9999, texts that are not UTF-8."""

LONGEST_TEXT = 256
"""Bytes of the longest text that routes are chosen by; longer ones are documents, not names of classes."""


def is_discrete(kind: pa.DataType) -> bool:
    """Whether routes compare values of a type by equality rather than by order."""
    if pa.types.is_dictionary(kind):
        return is_discrete(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Whether values of a type have an order and can be numbers."""
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
    )
    return any(test(kind) for test in tests)


def bounded(array: pa.Array) -> pa.Array:
    """The values that routes see: NULL for a text longer than `LONGEST_TEXT`, which equals none of the listed values.

    Only lengths are read, so that samples of documents stay small.

    >>> bounded(pa.array(["GET", "x" * 1_000_000])).to_pylist()
    ['GET', None]
    """
    kind = array.type
    if not any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)):
        return array
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
    long = lengths > LONGEST_TEXT
    if not long.any():
        return array
    return pa.nulls(len(array), kind) if long.all() else array.take(pa.array(np.arange(len(array)), mask=long))


def numbers(array: pa.Array) -> Floats:
    """Values as floats, NaN for NULL; dates in days, timestamps in their own unit, both since 1970.

    >>> numbers(pa.array([1, None, 3])).tolist()
    [1.0, nan, 3.0]
    """
    kind = array.type
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        array = array.cast(pa.int64())
    values: Floats = pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def python_values(array: pa.Array) -> list[Any] | None:
    """The values in Python, None if it cannot represent one of them.

    >>> python_values(pa.array([4_000_000, 0]).cast(pa.int32()).cast(pa.date32())) is None
    True
    """
    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except UNREADABLE:
        return None


def known_values(array: pa.Array) -> list[Any]:
    """The values in Python, None also for those that Python cannot represent.

    >>> known_values(pa.array([b"north", bytes([255])]).cast(pa.string(), safe=False))
    ['north', None]
    """
    found = python_values(array)
    if found is not None:
        return found
    alone = [python_values(array.slice(i, 1)) for i in range(len(array))]
    return [None if value is None else value[0] for value in alone]


def clock_parts(kind: pa.DataType) -> tuple[ClockPart, ...]:
    """The parts of a timestamp or date that recur while the value itself only grows."""
    return ("hour", "weekday") if pa.types.is_timestamp(kind) else ("weekday",) if pa.types.is_date(kind) else ()


def clock_part(array: pa.Array, part: ClockPart) -> pa.Array:
    """The hour, or the weekday from Monday = 0, as Spark's functions of that name give it in the array's time zone.

    NULL for instants outside of 1970 to 2037, and throughout in a zone that Arrow does not know.

    >>> summer = pa.array([1_750_000_000_000_000, None, LAST_MICROSECOND + 1], pa.timestamp("us", tz="Europe/Berlin"))
    >>> clock_part(summer, "hour").to_pylist(), clock_part(summer, "weekday").to_pylist()
    ([17, None, None], [6, None, None])
    """
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        since = array.cast(pa.timestamp("us", tz=array.type.tz), safe=False).cast(pa.int64())
        known = pc.and_(pc.greater_equal(since, 0), pc.less_equal(since, LAST_MICROSECOND))
        array = pc.if_else(known, array, pa.scalar(None, array.type))
    try:
        return (pc.hour if part == "hour" else pc.day_of_week)(array)
    except pa.ArrowInvalid:
        return pa.nulls(len(array), pa.int64())


def in_utc(array: pa.Array) -> pa.Array:
    """Instants in a zone that Python knows, whatever theirs is; other values as they are."""
    zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None
    return array.cast(pa.timestamp(array.type.unit, tz="UTC")) if zoned else array


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """Values of an attribute one after the other; the session's time zone may have changed in between.

    >>> zones = [pa.array([0], pa.timestamp("us", tz=zone)) for zone in ("UTC", "Asia/Tokyo")]
    >>> joined(zones).type
    TimestampType(timestamp[us, tz=Asia/Tokyo])
    """
    kind = arrays[-1].type
    return pa.concat_arrays([a if a.type == kind else a.cast(kind) for a in arrays])
