"""Attributes that routes are told apart by: which columns may serve, and their values as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.arrays import Floats

UNREADABLE = (ArithmeticError, ValueError, pa.ArrowException)
"""What Arrow raises for values that Python does not have: dates after the year 9999, texts that are not UTF-8."""


def is_discrete(kind: pa.DataType) -> bool:
    """Whether values of a type are told apart by equality rather than by order."""
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
    """The values in Python, None if it does not have one of them.

    >>> python_values(pa.array([4_000_000, 0]).cast(pa.int32()).cast(pa.date32())) is None
    True
    """
    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except UNREADABLE:
        return None


def known_values(array: pa.Array) -> list[Any]:
    """The values in Python, None also for those that it does not have.

    >>> known_values(pa.array([b"north", bytes([255])]).cast(pa.string(), safe=False))
    ['north', None]
    """
    found = python_values(array)
    if found is not None:
        return found
    alone = [python_values(array.slice(i, 1)) for i in range(len(array))]
    return [None if value is None else value[0] for value in alone]
