"""Attribute values as the mesh sees them: floats with NaN for NULL, or objects that are only compared for equality.

Training and classification convert through the same function, so a threshold that was learned means the same later.

>>> import datetime as dt
>>> numeric(pa.array([dt.date(1970, 1, 3), None])).tolist()
[2.0, nan]
>>> column(pa.array(["north", None])).tolist(), column(pa.array([1, 2])).tolist()
(['north', None], [1.0, 2.0])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.model.arrays import Floats
from anabranch.model.attributes import is_discrete, is_numeric, known_values, numbers

Column = NDArray[Any]
SampleColumns = Mapping[str, Column]
"""Attributes of sampled rows, by name, as the mesh sees them."""


def numeric(array: pa.Array) -> Floats:
    """Values of an ordered type as floats, NaN for NULL; timestamps in microseconds and dates in days since 1970."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", tz=array.type.tz), safe=False)
    return numbers(array)


def column(array: pa.Array | pa.ChunkedArray) -> Column:
    """The values as an attribute of a sample: objects if they are told apart by equality, floats otherwise."""
    array = whole(array)
    if is_discrete(array.type):
        values = np.empty(len(array), dtype=object)
        values[:] = known_values(array)
        return values
    if not usable(array.type):
        raise QueryError(f"a column of type {array.type} cannot tell routes apart", hint="leave it out of the sample")
    return numeric(array)


def usable(kind: pa.DataType) -> bool:
    """Whether a column of this type can be an attribute."""
    return is_discrete(kind) or is_numeric(kind.value_type if pa.types.is_dictionary(kind) else kind)


def whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A chunked array as one array."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def is_ordered(values: Column) -> bool:
    """Whether an attribute of a sample holds numbers; what is true or false, text or mixed is discrete."""
    return values.dtype.kind in "fiu"


def known(values: Column) -> NDArray[np.bool_]:
    """Where an attribute has a value that can be compared: not None, and equal to itself."""
    if values.dtype == object:
        return np.fromiter((v is not None and v == v for v in values), dtype=np.bool_, count=len(values))
    return np.asarray(values == values)
