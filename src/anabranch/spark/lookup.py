"""Look-up tables for workers: collected once, bounded in size, probed as whole Arrow columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from anabranch.errors import DataError, QueryError, ResourceError, UnknownColumn, suggest
from anabranch.model.attributes import python_values
from anabranch.model.floats import canonical
from anabranch.model.predicates import LookupPredicate
from anabranch.model.prefixes import PrefixSet
from anabranch.spark.names import quoted

LARGEST_TABLE_ROWS = 5_000_000
LARGEST_TABLE_BYTES = 256 * 1024 * 1024
REHASHED_VALUES = 1000


class Member:
    """Whether values are in a set. NULL is neither in nor out.

    >>> Member(pa.array(["a", "b"]))(pa.array(["a", "c", None])).to_pylist()
    [True, False, None]
    >>> Member(pa.array([1.5, 2.0]))(pa.array([1, 2])).to_pylist()
    [False, True]
    """

    def __init__(self, values: pa.Array, *, negate: bool = False, name: str = "lookup", time_zone: str = "UTC") -> None:
        self.values, self.negate, self.name, self.time_zone = values, negate, name, time_zone
        self._table: _Table | None = None

    def __call__(self, column: pa.Array) -> pa.Array:
        """Probe a column."""
        if pa.types.is_null(column.type):
            return column.cast(pa.bool_())
        if self._table is None or self._table.values.type != column.type:
            self._table = _Table(_fitting(self.name, self.values, column.type, self.time_zone))
        found = self._table.holds(column)
        return pc.if_else(column.is_valid(), pc.invert(found) if self.negate else found, pa.scalar(None, pa.bool_()))


class _Table:
    """A set of values of a column's type."""

    def __init__(self, values: pa.Array) -> None:
        self.values = canonical(values)
        # Arrow hashes the set anew at every call, which a large one makes slower than a Python set.
        known = python_values(self.values) if len(values) > REHASHED_VALUES else None
        self._hashed = None if known is None else frozenset(known)

    def holds(self, column: pa.Array) -> pa.Array:
        column = canonical(column)
        asked = None if self._hashed is None else python_values(column)
        if self._hashed is None or asked is None:
            return pc.is_in(column, value_set=self.values, skip_nulls=True)
        found = pa.array([value in self._hashed for value in asked], type=pa.bool_())
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(self.values)).as_py():
            found = pc.or_kleene(found, pc.is_nan(column))
        return found


def _fitting(name: str, values: pa.Array, kind: pa.DataType, time_zone: str) -> pa.Array:
    """The values in a column's type, without those that no value of that type equals."""
    if values.type == kind or pa.types.is_null(values.type):
        return values.cast(kind)
    if _family(values.type) != _family(kind):
        raise DataError(
            f"{name!r} looks up values of type {kind} among values of type {values.type}",
            hint="bring both to one type: cast the column, or convert the values",
        )
    if _family(kind) == "time":
        values = _times(values, kind, time_zone)
    try:
        cast = values.cast(kind)
        return cast.filter(pc.equal(cast.cast(values.type), values))
    except pa.ArrowInvalid:
        return pa.array([v for v in values.to_pylist() if _equals_one_of(v, kind)], type=kind)


def _times(values: pa.Array, kind: pa.DataType, time_zone: str) -> pa.Array:
    """Times that can be compared with a column's: local ones and dates are of the session's zone, as in Spark."""
    values = values.cast(pa.timestamp("us")) if pa.types.is_date(values.type) else values
    here, instants = getattr(kind, "tz", None), values.type.tz
    if here and not instants:
        return pc.assume_timezone(values, time_zone, ambiguous="earliest", nonexistent="earliest")
    if instants and not here:
        return pc.local_timestamp(values.cast(pa.timestamp(values.type.unit, time_zone)))
    return values


def _equals_one_of(value: Any, kind: pa.DataType) -> bool:
    try:
        return bool(pa.scalar(value, type=kind).as_py() == value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False


def _family(kind: pa.DataType) -> str:
    types = pa.types
    families = {
        "number": (types.is_integer, types.is_floating, types.is_decimal),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "bytes": (types.is_binary, types.is_large_binary, types.is_binary_view),
        "time": (types.is_date, types.is_timestamp),
    }
    return next((name for name, tests in families.items() if any(test(kind) for test in tests)), str(kind))


class UnderPrefix:
    """Whether addresses or texts lie under one of some prefixes; each distinct value of a column is looked up once."""

    def __init__(self, prefixes: PrefixSet, *, negate: bool = False, name: str = "lookup") -> None:
        self.prefixes, self.negate, self.name = prefixes, negate, name

    def __call__(self, column: pa.Array) -> pa.Array:
        """Probe a column."""
        if pa.types.is_null(column.type):
            return column.cast(pa.bool_())
        if _family(column.type) != "text":
            raise DataError(
                f"{self.name!r} looks for prefixes in values of type {column.type}", hint="cast it to string"
            )
        encoded = column.dictionary_encode()
        found = [self.prefixes.contains(value) != self.negate for value in _texts(encoded.dictionary)]
        return pa.array(found, type=pa.bool_()).take(encoded.indices)


def _texts(values: pa.Array) -> list[Any]:
    """The values in Python, also of texts that are not UTF-8."""
    found = python_values(values)
    if found is not None:
        return found
    read = values.cast(pa.large_binary()).to_pylist()
    return [None if v is None else v.decode(errors="surrogateescape") for v in read]


def member_test(lookup: LookupPredicate, values: pa.Array, time_zone: str) -> Member | UnderPrefix:
    """The test that a worker runs for a look-up."""
    if lookup.match == "prefix":
        prefixes = PrefixSet(v for v in _texts(values) if v is not None)
        return UnderPrefix(prefixes, negate=lookup.negate, name=lookup.name)
    return Member(values.drop_null(), negate=lookup.negate, name=lookup.name, time_zone=time_zone)


def collect_values(lookup: LookupPredicate) -> pa.Array:
    """The distinct values of a look-up's set or table."""
    values = lookup.values
    if hasattr(values, "toArrow"):
        values = _collect(lookup, values)
    elif hasattr(values, "to_arrow"):  # of Polars
        values = values.to_arrow()
    elif hasattr(values, "to_frame") or hasattr(values, "iloc"):
        frame = values.to_frame(values.name or "value") if values.ndim == 1 else values
        values = pa.Table.from_pandas(frame, preserve_index=False)
    if isinstance(values, pa.Table | pa.RecordBatch):
        values = values.column(_chosen(lookup, values.schema.names))
    elif lookup.on not in (None, "prefix"):
        raise QueryError(
            f"{lookup.name!r} has on={lookup.on!r}, and its values are no table",
            hint='on=... names a column of a table; of a set it may only be "prefix"',
        )
    elif not isinstance(values, pa.Array | pa.ChunkedArray):
        values = _from_python(lookup, values)
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if len(array) > LARGEST_TABLE_ROWS or array.nbytes > LARGEST_TABLE_BYTES:
        raise _too_big(lookup, f"{len(array):,} values, {array.nbytes / 1e6:,.0f} MB")
    if pa.types.is_nested(array.type):
        raise QueryError(f"{lookup.name!r} looks up values of type {array.type}", hint="join with such a table instead")
    return (array.dictionary_decode() if pa.types.is_dictionary(array.type) else array).unique()


def _collect(lookup: LookupPredicate, df: Any) -> pa.Table:
    """The distinct values of a DataFrame's column; of values of any length, the driver first asks how long they are."""
    name = _chosen(lookup, df.columns)
    values = df.select(F.col(quoted(name)).alias("value")).distinct().limit(LARGEST_TABLE_ROWS + 1)
    if isinstance(values.schema["value"].dataType, (StringType, BinaryType)):
        size = values.agg(F.count("*"), F.coalesce(F.sum(F.octet_length("value")), F.lit(0))).first()
        if size[1] > LARGEST_TABLE_BYTES:
            raise _too_big(lookup, f"{size[0]:,} values, {size[1] / 1e6:,.0f} MB")
    table = values.withColumnRenamed("value", name).toArrow()
    if table.num_rows > LARGEST_TABLE_ROWS:
        raise _too_big(lookup, f"more than {LARGEST_TABLE_ROWS:,} values")
    return table


def _from_python(lookup: LookupPredicate, values: Any) -> pa.Array:
    try:
        return pa.array(list(values))
    except (TypeError, OverflowError, pa.ArrowException) as error:
        raise QueryError(
            f"the values of {lookup.name!r} are not a set of one type: {error}",
            hint="pass a set, a list, a pandas or Arrow table, or a small Spark DataFrame",
        ) from error


def _chosen(lookup: LookupPredicate, columns: list[str]) -> str:
    if lookup.on in columns:
        return str(lookup.on)
    if lookup.on not in (None, "prefix"):
        raise UnknownColumn(str(lookup.on), columns, where=f"the table of {lookup.name!r}")
    if len(columns) != 1:
        way = 'on=..., and ask for prefixes with match="prefix".' if lookup.on else "on=..."
        raise QueryError(
            f"the table of {lookup.name!r} has {len(columns)} columns",
            hint=f"name one with {way} {suggest('', columns, 'columns')}",
        )
    return columns[0]


def _too_big(lookup: LookupPredicate, size: str) -> ResourceError:
    return ResourceError(
        f"the table of {lookup.name!r} is too big to ship to the workers: {size}",
        hint=f"the limits are {LARGEST_TABLE_ROWS:,} values and {LARGEST_TABLE_BYTES // 2**20} MiB; join larger tables",
    )
