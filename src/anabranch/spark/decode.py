"""Arrow columns as a predicate's arguments: Python values, pandas Series or Arrow arrays, for some of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    Row,
    StructType,
    TimestampType,
    UserDefinedType,
    VariantType,
    VariantVal,
)

from anabranch.model.arrays import Mask, Rows

Converter = Callable[[Any], Any]

AS_IN_SPARK = {"date_as_object": True, "coerce_temporal_nanoseconds": True}
"""How Spark turns Arrow arrays into the Series of a pandas UDF."""


class Columns:
    """The columns of one chunk, decoded at most once per row.

    A column is decoded for the rows that a predicate asks for, and what the next one asks for is mostly among them.

    Parameters
    ----------
    arrays
        Name -> Arrow array, all of one length.
    converters
        Name -> function from `to_pylist` values to what a Python UDF of Spark would get, where these differ.
    time_zone
        Session time zone, for pandas Series of timestamps.
    length
        Number of rows.

    >>> columns = Columns({"a": pa.array([10, None, 30])}, {}, "UTC", length=3)
    >>> columns.values("a", np.array([0, 1])), columns.values("a", np.array([1]))
    ([10, None], [None])
    """

    def __init__(
        self, arrays: dict[str, pa.Array], converters: dict[str, Converter], time_zone: str, *, length: int
    ) -> None:
        self.arrays = arrays
        self.length = length
        self._converters = converters
        self._time_zone = time_zone
        self._decoded: dict[str, tuple[Any, Mask]] = {}
        self._places: dict[str, Rows] = {}
        self._failed: dict[str, Mask] = {}
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

    def spread(self, name: str, rows: Rows) -> pa.Array:
        """A kept column over the whole chunk: its values at some rows, NULL elsewhere, also if never computed."""
        if name not in self._places:
            return pa.nulls(self.length)
        places = np.full(self.length, -1, dtype=np.int64)
        places[rows] = self._places[name][rows]
        return self.arrays[name].take(pa.array(places, mask=places < 0))

    def array(self, name: str, rows: Rows) -> pa.Array:
        """The column at some rows, as an Arrow array."""
        column = self.arrays[name]
        if name in self._places:
            places = self._places[name][rows]
            return column.take(pa.array(places, mask=places < 0))
        return column if self._is_all(rows) else column.take(pa.array(rows))

    def values(self, name: str, rows: Rows) -> list[Any]:
        """The column at some rows, as the Python values that a UDF of Spark would get; None for `unreadable` ones."""
        if name not in self._decoded:
            self._decoded[name] = np.empty(self.length, dtype=object), np.zeros(self.length, dtype=np.bool_)
        decoded, known = self._decoded[name]
        missing = rows[~known[rows]]
        if len(missing):
            self._decode(name, missing, decoded)
            known[missing] = True
        return decoded[rows].tolist()  # type: ignore[no-any-return]

    def unreadable(self, names: Sequence[str], rows: Rows) -> dict[int, str]:
        """Which of some rows, by their places, have a value that Python does not have, among those decoded; and why."""
        found = [self._unreadable[name] for name in reversed(names) if name in self._unreadable]
        return {i: why[row] for why in found for i, row in enumerate(rows.tolist()) if row in why}

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

    def instants(self, series: Any) -> Any:
        """Local times as instants: they are of the session's time zone, as in Spark's pandas UDFs."""
        import pandas as pd

        if getattr(series.dtype, "kind", "") != "M" or getattr(series.dtype, "tz", None) is not None:
            return series
        return pd.Series(series).dt.tz_localize(self._time_zone, ambiguous=False, nonexistent="shift_forward")

    def _is_all(self, rows: Rows) -> bool:
        return len(rows) == self.length and bool(np.array_equal(rows, np.arange(self.length)))

    def series(self, name: str, rows: Rows) -> Any:
        """The column at some rows, as a pandas Series (a DataFrame for a struct), as in Spark's pandas UDFs."""
        array = self.array(name, rows)
        if pa.types.is_struct(array.type):
            return pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)]).to_pandas(**AS_IN_SPARK)
        series = array.to_pandas(**AS_IN_SPARK)
        if pa.types.is_timestamp(array.type) and array.type.tz:
            series = series.dt.tz_convert(self._time_zone).dt.tz_localize(None)
        return series


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


def message(error: Exception) -> str:
    """What an exception says, as a text that can be written anywhere."""
    try:
        said = str(error)
    except Exception:
        said = "an error that cannot say what it is"
    return f"{type(error).__name__}: {said}".encode(errors="backslashreplace").decode()


def true_mask(array: pa.Array) -> Any:
    """A boolean Arrow array as a numpy mask; NULL is not true.

    >>> true_mask(pa.array([True, None, False])).tolist()
    [True, False, False]
    """
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)


def converter(kind: DataType) -> Converter | None:
    """From Arrow's Python values to those that a Python UDF of Spark gets; `None` where they are the same.

    >>> from pyspark.sql.types import StringType
    >>> converter(StructType().add("a", MapType(StringType(), StringType())))({"a": [("k", "v")]})
    Row(a={'k': 'v'})
    """
    if isinstance(kind, UserDefinedType):
        inner = converter(kind.sqlType()) or _same
        return lambda value: kind.deserialize(inner(value))
    if isinstance(kind, VariantType):
        return lambda value: VariantVal(value["value"], value["metadata"])
    if isinstance(kind, TimestampType):
        return lambda value: value.astimezone().replace(tzinfo=None)
    if isinstance(kind, StructType):
        fields = [(f.name, _nullable(converter(f.dataType))) for f in kind.fields]
        make_row = Row(*kind.names)
        return lambda value: make_row(*(convert(value[name]) for name, convert in fields))
    if isinstance(kind, MapType):
        key, item = converter(kind.keyType) or _same, _nullable(converter(kind.valueType))
        return lambda value: {key(k): item(v) for k, v in value}
    if isinstance(kind, ArrayType) and (element := converter(kind.elementType)):
        each = _nullable(element)
        return lambda value: [each(v) for v in value]
    return None


def _same(value: Any) -> Any:
    return value


def _nullable(convert: Converter | None) -> Converter:
    return _same if convert is None else lambda value: None if value is None else convert(value)


def encoder(kind: pa.DataType) -> Converter | None:
    """From what a Python UDF of Spark may return to what Arrow makes the same of; `None` where nothing differs.

    A time without a zone is that of the process, as in Spark.

    >>> from datetime import UTC, datetime
    >>> now = datetime.now()
    >>> encoder(pa.list_(pa.timestamp("us", "UTC")))([now, None]) == [now.astimezone(UTC), None]
    True
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is None else value
    if pa.types.is_map(kind):
        key, item = _nullable(encoder(kind.key_type)), _nullable(encoder(kind.item_type))
        return None if key is item else lambda value: {key(k): item(v) for k, v in dict(value).items()}
    if pa.types.is_list(kind) and (element := encoder(kind.value_type)):
        each = _nullable(element)
        return lambda value: [each(v) for v in value]
    if pa.types.is_struct(kind):
        fields = {field.name: _nullable(encoder(field.type)) for field in kind}
        if all(convert is _same for convert in fields.values()):
            return None
        return lambda value: {
            name: convert(of) for (name, convert), of in zip(fields.items(), _parts(value, fields), strict=True)
        }
    return None


def _parts(value: Any, names: Iterable[str]) -> Iterable[Any]:
    return [value.get(name) for name in names] if isinstance(value, dict) else value
