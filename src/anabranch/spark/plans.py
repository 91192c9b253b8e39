"""The columns that may tell rows apart."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

MOST_ATTRIBUTES = 12
SIMPLE = (BooleanType, NumericType, StringType, DateType, TimestampType, TimestampNTZType)


def attribute(array: pa.Array, time_zone: str) -> pa.Array:
    """A column as routes look at it: instants in the session's time zone, in which they have their hours.

    >>> attribute(pa.array([0], pa.timestamp("us", tz="UTC")), "Asia/Tokyo").type
    TimestampType(timestamp[us, tz=Asia/Tokyo])
    """
    zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None
    return array.cast(pa.timestamp(array.type.unit, tz=time_zone)) if zoned else array


def attributes_of(df: DataFrame, read: Sequence[str]) -> tuple[str, ...]:
    """Columns of simple types that predicates read, and some more of fixed width.

    Texts that no predicate reads may be long, and need not even be read from their source: they serve only where the
    user names them. A name that stands for two columns is left out.
    """
    kinds: dict[str, DataType] = {}
    twice: set[str] = set()
    for field in df.schema.fields:
        name = field.name.lower()
        twice |= {name} & {known.lower() for known in kinds}
        kinds[field.name] = field.dataType
    simple = [n for n, kind in kinds.items() if isinstance(kind, SIMPLE) and n.lower() not in twice]
    first = [n for n in simple if n in read]
    more = [n for n in simple if n not in read and not isinstance(kinds[n], StringType)]
    return (*first, *more[: max(0, MOST_ATTRIBUTES - len(first))])
