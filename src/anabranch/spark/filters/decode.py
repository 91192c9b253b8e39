"""Arrow columns as a predicate's arguments: Python values, pandas Series or Arrow arrays, for some of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import _create_converter_to_pandas, from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    Row,
    StringType,
    StructType,
    TimestampType,
    UserDefinedType,
    VariantType,
    VariantVal,
)

from anabranch.calls.messages import message
from anabranch.model.arrays import Mask, Rows, all_rows

Converter = Callable[[Any], Any]

AS_IN_SPARK = {"date_as_object": True, "coerce_temporal_nanoseconds": True}
"""How Spark turns Arrow arrays into the Series of a pandas UDF."""

# Integers with NULLs stay exact inside nested values; Spark 4.0 has no such parameter.
EXACT: dict[str, Any] = {
    name: True for name in signature(_create_converter_to_pandas).parameters if name == "integer_object_nulls"
}

BESIDE_EXACT = (StringType, DecimalType, DayTimeIntervalType, ArrayType, MapType, StructType)
"""A struct with a field of such a type has its integers with NULLs as Int64 in Spark, any other as float64."""


class ChunkColumns:
    """The columns of one chunk, decoded at most once per row.

    A column is decoded for the rows that a predicate asks for, and what the next one asks for is mostly among them.

    Parameters
    ----------
    arrays
        Name -> Arrow array, all of one length.
    converters
        Name -> function from `to_pylist` values to what a Python UDF of Spark would get, where these differ.
    time_zone
        Session time zone: that of local times in pandas, given and returned.
    length
        Number of rows.
    failed
        Name -> the rows for which the column could not be computed, by an earlier stage.

    >>> columns = ChunkColumns({"a": pa.array([10, None, 30])}, {}, "UTC", length=3)
    >>> columns.values("a", np.array([0, 1])), columns.values("a", np.array([1]))
    ([10, None], [None])
    """

    def __init__(
        self,
        arrays: dict[str, pa.Array],
        converters: dict[str, Converter],
        time_zone: str,
        *,
        length: int,
        failed: dict[str, Mask] | None = None,
    ) -> None:
        self.arrays = arrays
        self.length = length
        self.time_zone = time_zone
        self._converters = converters
        self._whole: dict[str, list[Any]] = {}
        self._decoded: dict[str, tuple[Any, Mask]] = {}
        self._places: dict[str, Rows] = {}
        self._failed: dict[str, Mask] = failed or {}
        self._unreadable: dict[str, dict[int, str]] = {}

    def keep(self, name: str, rows: Rows, values: pa.Array, failed: Rows) -> None:
        """Add values of a computed column for some rows; another route of the chunk may have added others.

        Of the `failed` ones there is no value: not NULL, but none.
        """
        before = [self.arrays[name]] if name in self._places else []
        places = self._places.setdefault(name, np.full(self.length, -1, dtype=np.int64))
        places[rows] = sum(map(len, before)) + np.arange(len(rows))
        self.arrays[name] = pa.concat_arrays([*before, values])
        if len(failed):
            self._failed.setdefault(name, np.zeros(self.length, dtype=np.bool_))[failed] = True

    def failed(self, names: Sequence[str], rows: Rows) -> Mask | None:
        """At which of some rows one of the columns could not be computed; None if at no row of the chunk."""
        found = [self._failed[name][rows] for name in names if name in self._failed]
        return np.logical_or.reduce(found) if found else None

    def has_failed(self, name: str, row: int) -> bool:
        """Whether a column could not be computed at a row."""
        return name in self._failed and bool(self._failed[name][row])

    def spread(self, name: str, rows: Rows) -> pa.Array:
        """A kept column over the whole chunk: its values at some rows, NULL elsewhere, also if never computed."""
        if name not in self._places:
            return pa.nulls(self.length)
        values = self.arrays[name]
        # NULLs come from a NULL: a place that is NULL would leave NULLs in fields that must have none, as of a variant.
        places = np.full(self.length, len(values), dtype=np.int64)
        places[rows] = self._places[name][rows]
        return pa.concat_arrays([values, pa.array([None], values.type)]).take(pa.array(places))

    def array(self, name: str, rows: Rows) -> pa.Array:
        """The column at some rows, as an Arrow array."""
        column = self.arrays[name]
        if name in self._places:
            places = self._places[name][rows]
            return column.take(pa.array(places, mask=places < 0))
        return column if self._is_all(rows) else column.take(pa.array(rows))

    def values(self, name: str, rows: Rows) -> list[Any]:
        """The column at some rows, as the Python values that a UDF of Spark would get; None for `unreadable` ones.

        Lists and dicts are copies: a function may change its own, and the next one must not see that.
        """
        values = self._values(name, rows)
        copy = copier(self.arrays[name].type)
        return values if copy is None else list(map(copy, values))

    def _values(self, name: str, rows: Rows) -> list[Any]:
        if name not in self._whole and name not in self._decoded and self._is_all(rows):
            self._decode_whole(name)
        whole = self._whole.get(name)
        if whole is not None:
            return whole if self._is_all(rows) else [whole[row] for row in rows.tolist()]
        if name not in self._decoded:
            self._decoded[name] = np.empty(self.length, dtype=object), np.zeros(self.length, dtype=np.bool_)
        decoded, known = self._decoded[name]
        missing = rows[~known[rows]]
        if len(missing):
            self._decode(name, missing, decoded)
            known[missing] = True
        values: list[Any] = decoded[rows].tolist()
        return values

    def unreadable(self, names: Sequence[str], rows: Rows) -> dict[int, str]:
        """Which of some rows, by their places, have a value that Python does not have, among those decoded; and why."""
        found = [self._unreadable[name] for name in reversed(names) if name in self._unreadable]
        return {i: why[row] for why in found for i, row in enumerate(rows.tolist()) if row in why}

    def _decode_whole(self, name: str) -> None:
        """Decode a column at once, where all its values are there in Python."""
        with suppress(Exception):  # those who decode it in parts find out what is wrong, and where
            self._whole[name] = list(
                _python_values(self.array(name, all_rows(self.length)), self._converters.get(name))
            )

    def _decode(self, name: str, rows: Rows, decoded: Any) -> None:
        """Decode some rows at once; where that fails, halve them until those that cannot be decoded stand alone."""
        try:
            decoded[rows] = _python_values(self.array(name, rows), self._converters.get(name))
        except Exception as error:
            half = len(rows) // 2
            if half:
                self._decode(name, rows[:half], decoded)
                self._decode(name, rows[half:], decoded)
            else:
                why = f"the value of column {name!r} cannot be read in Python: {message(error)}"
                self._unreadable.setdefault(name, {})[int(rows[0])] = why

    def _is_all(self, rows: Rows) -> bool:
        everything = all_rows(self.length)
        return rows is everything or (len(rows) == self.length and bool(np.array_equal(rows, everything)))

    def series(self, name: str, rows: Rows) -> Any:
        """The column at some rows, as a pandas Series (a DataFrame for a struct), as in Spark's pandas UDFs."""
        return _series(self.array(name, rows), self.time_zone)


def _series(array: pa.Array, time_zone: str) -> Any:
    """An Arrow array as a Series that may be changed in place."""
    import pandas as pd

    if pa.types.is_nested(array.type):
        return _nested_series(array, time_zone)
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return pd.Series(array.to_numpy(zero_copy_only=False, writable=True))
    series = array.to_pandas(**AS_IN_SPARK)
    if pa.types.is_timestamp(array.type) and array.type.tz:
        series = series.dt.tz_convert(time_zone).dt.tz_localize(None)
    return series


def _nested_series(array: pa.Array, time_zone: str) -> Any:
    import pandas as pd

    kind = from_arrow_type(array.type, prefer_timestamp_ntz=True)
    if not isinstance(kind, StructType):
        return _as_spark_nests(array, kind, time_zone)
    if any(isinstance(field.dataType, BESIDE_EXACT) for field in kind):
        fields = [_as_spark_nests(a, f.dataType, time_zone) for a, f in zip(array.flatten(), kind, strict=True)]
    else:
        fields = [_series(a, time_zone) for a in array.flatten()]
    frame = pd.concat(fields, axis=1) if fields else pd.DataFrame(index=range(len(array)))
    frame.columns = kind.names
    return frame


def _as_spark_nests(array: pa.Array, kind: DataType, time_zone: str) -> Any:
    """By the function that Spark itself uses: what is inside dicts and arrays differs between its versions."""
    convert = _create_converter_to_pandas(kind, timezone=time_zone, struct_in_pandas="dict", **EXACT)
    return convert(array.to_pandas(**AS_IN_SPARK, **EXACT))


def _python_values(array: pa.Array, convert: Converter | None) -> Any:
    kind = array.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
    if text and convert is None and len(array) > 1:  # of one alone, `to_pylist` says what is wrong with it
        return array.to_numpy(zero_copy_only=False)
    if convert is None and not array.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return array.to_numpy(zero_copy_only=False).tolist()
    values = np.empty(len(array), dtype=object)
    for i, value in enumerate(array.to_pylist()):
        values[i] = value if value is None or convert is None else convert(value)
    return values


def true_mask(array: pa.Array) -> Any:
    """A boolean Arrow array as a numpy mask; NULL is not true.

    >>> true_mask(pa.array([True, None, False])).tolist()
    [True, False, False]
    """
    known = pc.fill_null(array, False) if array.null_count else array
    return known.to_numpy(zero_copy_only=False)


def converter(kind: DataType) -> Converter | None:
    """From Arrow's Python values to those that a Python UDF of Spark gets; `None` where they are the same.

    >>> from pyspark.sql.types import StringType
    >>> converter(StructType().add("a", MapType(StringType(), StringType())))({"a": [("k", "v")]})
    Row(a={'k': 'v'})
    """
    if isinstance(kind, UserDefinedType):
        inner = converter(kind.sqlType()) or same
        return lambda value: kind.deserialize(inner(value))
    if isinstance(kind, VariantType):
        return lambda value: VariantVal(value["value"], value["metadata"])
    if isinstance(kind, TimestampType):
        return lambda value: value.astimezone().replace(tzinfo=None)
    if isinstance(kind, StructType):
        fields = [(f.name, nullable(converter(f.dataType))) for f in kind.fields]
        make_row = Row(*kind.names)
        return lambda value: make_row(*(convert(value[name]) for name, convert in fields))
    if isinstance(kind, MapType):
        key, item = converter(kind.keyType) or same, nullable(converter(kind.valueType))
        return lambda value: {key(k): item(v) for k, v in value}
    if isinstance(kind, ArrayType) and (element := converter(kind.elementType)):
        each = nullable(element)
        return lambda value: [each(v) for v in value]
    return None


def same(value: Any) -> Any:
    """The value as it is."""
    return value


def nullable(convert: Converter | None) -> Converter:
    """A converter that leaves NULL alone."""
    return same if convert is None else lambda value: None if value is None else convert(value)


def copier(kind: pa.DataType) -> Converter | None:
    """Copies decoded values of a nested type as deep as they can be changed; `None` where they cannot.

    >>> copy, value = copier(pa.list_(pa.int64())), [1, 2]
    >>> copy(value), copy(value) is value, copier(pa.int64())
    ([1, 2], False, None)
    """
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = copier(kind.value_type)
        return _if_of(list, list.copy if element is None else lambda value: list(map(element, value)))
    if pa.types.is_map(kind):
        item = copier(kind.item_type)
        return _if_of(dict, dict.copy if item is None else lambda value: {k: item(v) for k, v in value.items()})
    if pa.types.is_struct(kind) and not is_variant(kind):
        fields = [copier(field.type) or same for field in kind]
        return _if_of(Row, same if all(copy is same for copy in fields) else partial(_copied_row, fields))
    return None


def _if_of(expected: type, copy: Converter) -> Converter:
    """Copy values of the type that a column mostly has; whatever else a user's own type has made of them, slowly."""

    def copied(value: Any) -> Any:
        if type(value) is expected:
            return copy(value)
        return None if value is None else deepcopy(value)

    return copied


def _copied_row(fields: Sequence[Converter], row: Any) -> Row:
    copied = Row(*(copy(value) for copy, value in zip(fields, row, strict=True)))
    copied.__fields__ = row.__fields__
    return copied


def is_variant(kind: pa.DataType) -> bool:
    """Whether a struct is how Spark sends a variant: it marks one of the two fields."""
    return {field.name for field in kind} == {"value", "metadata"} and b"variant" in (
        kind.field("metadata").metadata or {}
    )
