"""Look-up tables on the driver: collected once, bounded in size, in types that Spark has.

Times without a zone are instants, as Spark makes them of the same values. Single ones, of a set, a list or a column of
objects, are of the process's time zone, as in `isin`; those of a whole column of pandas, Polars, numpy or Arrow are of
the session's, as in `createDataFrame`. Dates are midnights of the session's. Where the session's
`spark.sql.timestampType` is `TIMESTAMP_NTZ`, times without a zone are local ones to Spark, and so they are here.

When clocks are put back, an hour comes twice. A single time says which one by its `fold` (in `isin`, that depends on
which time was converted before). A column of pandas or numpy means the second one, as in `createDataFrame`. One of
Arrow, which `createDataFrame` refuses, means the first one, as Spark casts a `timestamp_ntz`.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType

from anabranch.errors import QueryError, ResourceError, UnknownColumn, suggest
from anabranch.model.predicates import LookupPredicate
from anabranch.spark.filters.lookup import (
    INSTANT,
    LOCAL_TIME,
    MOST_DIGITS,
    SessionRules,
    arrow_zone,
    common_time,
    converted,
    family,
    held,
    instants,
)
from anabranch.spark.schemas import arrow_type

LARGEST_TABLE_ROWS = 5_000_000
LARGEST_TABLE_BYTES = 256 * 1024 * 1024
HELD_IN = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
"""Types of numbers that Spark does not have, and the type that holds all their values."""


def collect_values(lookup: LookupPredicate, rules: SessionRules) -> pa.Array:
    """The distinct values of a look-up's set or table, in types that Spark has."""
    values = _column(lookup, rules)
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if len(array) > LARGEST_TABLE_ROWS or array.nbytes > LARGEST_TABLE_BYTES:
        raise _too_big(lookup, f"{len(array):,} values, {array.nbytes / 1e6:,.0f} MB")
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if family(array.type) is None:
        raise _not_plain(lookup, str(array.type))
    return _as_in_spark(lookup, array).unique()


def _column(lookup: LookupPredicate, rules: SessionRules) -> pa.Array | pa.ChunkedArray:
    """The values as they are in the user's set or table; times without a zone as what they are to the session."""
    values = lookup.values
    if hasattr(values, "toArrow"):
        return _collect(lookup, values)
    if hasattr(values, "to_arrow"):  # of Polars
        values = values.to_arrow()
    if hasattr(values, "to_frame") or hasattr(values, "iloc"):
        return _from_pandas(lookup, values, rules)
    if isinstance(values, pa.Table | pa.RecordBatch):
        return _of_session(lookup, values.column(_chosen(lookup, values.schema.names)), rules, "earliest")
    if lookup.on is not None:
        raise QueryError(
            f"{lookup.name!r} has on={lookup.on!r}, but its values are not a table",
            hint="leave on=... out, or pass a table that has this column",
        )
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _of_session(lookup, values, rules, "earliest")
    return _from_python(lookup, values, rules)


def _of_session(
    lookup: LookupPredicate, values: Any, rules: SessionRules, twice: Literal["earliest", "latest"]
) -> pa.Array | pa.ChunkedArray:
    """A column; its times without a zone are of the session's."""
    if rules.local_times or not pa.types.is_timestamp(values.type) or values.type.tz:
        return values
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return instants(held(array, LOCAL_TIME), arrow_zone(lookup, rules.time_zone), twice=twice)


def _as_in_spark(lookup: LookupPredicate, array: pa.Array) -> pa.Array:
    """Values in a type of Spark, without those that it cannot hold: times between two microseconds."""
    had, types = array.type, pa.types
    if types.is_decimal(had):
        if had.precision > MOST_DIGITS:
            raise QueryError(
                f"the values of {lookup.name!r} are decimals of {had.precision} digits",
                hint=f"decimals in Spark have at most {MOST_DIGITS}: round the values, or leave the largest out",
            )
        return array.cast(pa.decimal128(had.precision + max(-had.scale, 0), max(had.scale, 0)))
    if types.is_timestamp(had):
        return held(array, INSTANT if had.tz else LOCAL_TIME)
    if types.is_duration(had):
        return held(array, pa.duration("us"))
    return array.cast(pa.date32() if types.is_date(had) else HELD_IN.get(had, had))


def _collect(lookup: LookupPredicate, df: Any) -> pa.ChunkedArray:
    """The distinct values of a DataFrame's column; of values of any length, the driver first asks how long they are."""
    place = _chosen(lookup, df.columns)
    by_place = df.toDF(*map(str, range(len(df.columns))))  # names that differ by case only are one to Spark
    values = by_place.select(F.col(str(place)).alias("value"))
    kind = values.schema["value"].dataType
    _require_plain(lookup, kind)
    values = values.distinct().limit(LARGEST_TABLE_ROWS + 1)
    if isinstance(kind, (StringType, BinaryType)):
        size = values.agg(F.count("*"), F.coalesce(F.sum(F.octet_length("value")), F.lit(0))).first()
        if size[1] > LARGEST_TABLE_BYTES:
            raise _too_big(lookup, f"{size[0]:,} values, {size[1] / 1e6:,.0f} MB")
    table = values.toArrow()
    if table.num_rows > LARGEST_TABLE_ROWS:
        raise _too_big(lookup, f"more than {LARGEST_TABLE_ROWS:,} values")
    return table.column(0)


def _require_plain(lookup: LookupPredicate, kind: DataType) -> None:
    """Refuse values that cannot be compared here, before Spark collects them."""
    try:
        plain = family(arrow_type(kind)) is not None
    except PySparkException:
        plain = False
    if not plain:
        raise _not_plain(lookup, kind.simpleString())
    if isinstance(kind, StringType) and kind.collation != "UTF8_BINARY":
        raise QueryError(
            f"the table of {lookup.name!r} has values with the collation {kind.collation}",
            hint="look-ups compare texts byte by byte: cast the table's column to string, or join instead",
        )


def _from_pandas(lookup: LookupPredicate, values: Any, rules: SessionRules) -> pa.Array | pa.ChunkedArray:
    frame = values if values.ndim == 2 else values.to_frame("value" if values.name is None else values.name)
    column = frame.iloc[:, _chosen(lookup, list(frame.columns))]
    if column.dtype == object:
        column = [None if null else value for value, null in zip(column, column.isna(), strict=True)]
    return _from_python(lookup, column, rules)


def _from_python(lookup: LookupPredicate, values: Any, rules: SessionRules) -> pa.Array | pa.ChunkedArray:
    try:
        # A column with a dtype has one type for all values; of others Arrow would have to guess it value by value.
        if getattr(values, "dtype", None) not in (None, np.dtype(object)):
            return _of_session(lookup, pa.array(values), rules, "latest")
        found = list(values)
        if any(isinstance(v, datetime) for v in found):
            return _times(lookup, [v for v in found if v is not None], rules)
        return _of_session(lookup, pa.array(found), rules, "latest")
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise QueryError(
            f"the values of {lookup.name!r} are not a set of one type: {error}",
            hint="pass a set, a list, a pandas or Arrow table, or a small Spark DataFrame",
        ) from error


def _times(lookup: LookupPredicate, values: Sequence[Any], rules: SessionRules) -> pa.Array:
    """Single times and dates, each as the literal that Spark makes of it, in the type that it compares them in."""
    other = next((v for v in values if not isinstance(v, date)), None)
    if other is not None:
        raise TypeError(f"{type(other).__name__} among times")
    times = [v for v in values if isinstance(v, datetime)]
    local = [v for v in times if v.tzinfo is None and rules.local_times]
    parts = [
        pa.array([_micros(v, _instant_seconds(v)) for v in times if v.tzinfo or not rules.local_times], INSTANT),
        pa.array([_micros(v, calendar.timegm(v.timetuple())) for v in local], LOCAL_TIME),
        pa.array([v for v in values if not isinstance(v, datetime)], pa.date32()),
    ]
    there = [part for part in parts if len(part)]
    kind, zone = common_time(*(part.type for part in there)), arrow_zone(lookup, rules.time_zone)
    return pa.concat_arrays([converted(part, kind, zone) for part in there])


def _micros(moment: datetime, seconds: int) -> int:
    return seconds * 1_000_000 + moment.microsecond


def _instant_seconds(moment: datetime) -> int:
    """Seconds since the epoch; without a zone, when the clocks of the process show it, by its fold if twice."""
    if moment.tzinfo is not None:
        return calendar.timegm(moment.utctimetuple())
    whole = datetime(*moment.timetuple()[:6])  # noqa: DTZ001 - pandas takes its own local times for those of UTC
    try:
        first, second = (int(whole.replace(fold=fold).timestamp()) for fold in (0, 1))
    except (ValueError, OverflowError):  # at the ends of the calendar
        return int(time.mktime(whole.timetuple()))
    return max(first, second) if moment.fold else first


def _chosen(lookup: LookupPredicate, columns: list[Any]) -> int:
    """The place of the column that is looked up; in pandas, columns may be named by numbers."""
    on = lookup.on
    named = [at for at, column in enumerate(columns) if column == on]
    named = named or [at for at, column in enumerate(columns) if on is not None and str(column) == str(on)]
    if len(named) > 1:
        raise QueryError(
            f"the table of {lookup.name!r} has {len(named)} columns named {on!r}",
            hint="rename them, or pass the one that is meant",
        )
    if named:
        return named[0]
    texts = [str(column) for column in columns]
    if on is not None:
        raise UnknownColumn(str(on), texts, where=f"the table of {lookup.name!r}")
    if len(columns) != 1:
        raise QueryError(
            f"the table of {lookup.name!r} has {len(columns)} columns",
            hint=f"name one with on=... {suggest('', texts, 'columns')}",
        )
    return 0


def _not_plain(lookup: LookupPredicate, kind: str) -> QueryError:
    return QueryError(
        f"the values of {lookup.name!r} are of type {kind}, which look-ups cannot compare",
        hint="join with the table instead",
    )


def _too_big(lookup: LookupPredicate, size: str) -> ResourceError:
    return ResourceError(
        f"the table of {lookup.name!r} is too big to send to the workers: {size}",
        hint=f"the limits are {LARGEST_TABLE_ROWS:,} values and {LARGEST_TABLE_BYTES // 2**20} MiB; join larger tables",
    )
