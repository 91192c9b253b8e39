"""What compares with what, and values as keys: integers, or texts, in the order of the values.

| kind | types |
|---|---|
| number | integers, floats, decimals: compared exactly, whatever their types |
| text, binary | by their bytes |
| boolean, date, time, duration | |
| timestamp, timestamp without time zone | in any unit |

Values of one kind compare, others do not. NaN is equal to NaN and larger than any number, and the zeros are equal.

>>> values_of(pa.array([-0.0, 0.0, float("nan"), -1.5])).keys.argsort(kind="stable").tolist()
[3, 0, 1, 2]
>>> domain_of(pa.decimal128(9, 2)), domain_of(pa.timestamp("us", "UTC")).kind
(Domain(kind='number', form='integer', scale=2), 'timestamp')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import QueryError
from anabranch.model.arrays import Floats, Mask
from anabranch.rules.bucket_search import Keys
from anabranch.rules.texts import Texts

SCALES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
MOST_DIGITS = 18
"""Decimals of so many digits are integers of 64 bits."""
_SIGN = np.int64(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Domain:
    """The values of a type.

    Parameters
    ----------
    kind
        Only values of one kind compare.
    form
        How keys are made: integers are `value * 10**scale`, wide ones of 128 bits.
    scale
        Digits behind the decimal point; of times, below the second.
    """

    kind: str
    form: Literal["integer", "float", "wide", "bytes"]
    scale: int = 0


@dataclass(frozen=True)
class Numbers:
    """Keys that compare like the values, and numbers that place them in buckets."""

    keys: Keys
    hints: Floats | None = None


Values = Numbers | Texts


def domain_of(kind: pa.DataType) -> Domain | None:
    """The domain of a type; None if its values do not compare."""
    types = pa.types
    if types.is_dictionary(kind):
        return domain_of(kind.value_type)
    if types.is_decimal(kind) or types.is_uint64(kind):
        precision, scale = (20, 0) if types.is_uint64(kind) else (kind.precision, kind.scale)
        return None if precision > 38 else Domain("number", "integer" if precision <= MOST_DIGITS else "wide", scale)
    if types.is_timestamp(kind):
        return Domain("timestamp" if kind.tz else "timestamp without time zone", "integer", SCALES[kind.unit])
    if types.is_time(kind) or types.is_duration(kind):
        return Domain("duration" if types.is_duration(kind) else "time", "integer", SCALES[kind.unit])
    for known, domain in _DOMAINS.items():
        if getattr(types, f"is_{known}")(kind):
            return domain
    return None


_DOMAINS = {
    "integer": Domain("number", "integer"),
    "floating": Domain("number", "float"),
    "boolean": Domain("boolean", "integer"),
    "date": Domain("date", "integer"),
    "string": Domain("text", "bytes"),
    "large_string": Domain("text", "bytes"),
    "string_view": Domain("text", "bytes"),
    "binary": Domain("binary", "bytes"),
    "large_binary": Domain("binary", "bytes"),
    "fixed_size_binary": Domain("binary", "bytes"),
    "binary_view": Domain("binary", "bytes"),
}


def comparable(kind: pa.DataType, what: str) -> Domain:
    """The domain of a type; an error if it has none."""
    domain = domain_of(kind)
    if domain is None:
        raise QueryError(
            f"values of type {kind} do not compare, in {what}", hint="cast them, or compare a part of them"
        )
    return domain


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.unify_dictionaries().chunks) if column.num_chunks else pa.array([], column.type)


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece and without a dictionary."""
    array = whole(column)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def by_value(array: pa.Array, function: Callable[[pa.Array], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """What a function makes of each value; a short dictionary is asked instead of the rows."""
    if not pa.types.is_dictionary(array.type):
        return function(array)
    if len(array.dictionary) > len(array) or array.dictionary.null_count or not len(array.dictionary):
        return function(array.dictionary_decode())
    return np.asarray(function(array.dictionary)[_numpy(array.indices, 0)])


def present(array: pa.Array) -> Mask | None:
    """Which values are not NULL; None if all are."""
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        array = array.dictionary_decode()
    if not array.null_count:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def values_of(array: pa.Array) -> Values:
    """The keys of values; a NULL has any."""
    domain = comparable(array.type, "an array")
    if domain.form == "bytes":
        return Texts.of(array)
    if domain.form == "wide":
        return Texts.of_width(_wide(array))
    if domain.form == "float":
        return float_keys(_numpy(array.cast(pa.float64()), 0.0))
    return Numbers(_integers(array))


def float_keys(values: Floats) -> Numbers:
    """Integers in the order of floats."""
    values = values + 0.0  # -0.0 becomes 0.0
    bits = values.view(np.int64)
    keys = bits ^ ((bits >> 63) & _SIGN)
    nan = np.isnan(values)
    if nan.any():
        keys[nan] = _SIGN
    return Numbers(keys, values)


def floats_of(keys: Keys) -> Floats:
    """The floats of keys that `float_keys` has made; the greatest one is NaN."""
    return (keys ^ ((keys >> 63) & _SIGN)).view(np.float64)


def _integers(array: pa.Array) -> Keys:
    kind = array.type
    if pa.types.is_decimal(kind):
        array = array.cast(pa.decimal128(max(kind.precision, 1), kind.scale))
        return np.ascontiguousarray(_words(array)[:, 0])
    if pa.types.is_date64(kind):
        array = array.cast(pa.date32())
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif not pa.types.is_integer(kind):
        array = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return _numpy(array, 0).astype(np.int64, copy=False)


def _numpy(array: pa.Array, filling: float) -> npt.NDArray[Any]:
    filled = pc.fill_null(array, pa.scalar(filling, array.type)) if array.null_count else array
    return np.asarray(filled.to_numpy())


def _words(array: pa.Array) -> npt.NDArray[np.int64]:
    """The low and the high half of decimals."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros((len(array), 2), np.int64)
    return np.frombuffer(data, np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]


def _wide(array: pa.Array) -> npt.NDArray[np.uint8]:
    """Decimals as bytes, the highest first, in their order."""
    if pa.types.is_uint64(array.type):
        array = array.cast(pa.decimal128(20, 0))
    words = _words(array.cast(pa.decimal128(array.type.precision, array.type.scale)))[:, ::-1].astype(">i8")
    data = words.view(np.uint8).reshape(-1, 16).copy()
    data[:, 0] ^= 128
    return data
