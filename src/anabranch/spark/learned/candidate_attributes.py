"""The columns that may tell rows apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.model.attributes import LONGEST_TEXT, bounded

MOST_ATTRIBUTES = 12
SIMPLE = (BooleanType, NumericType, StringType, DateType, TimestampType, TimestampNTZType)


def attribute(array: pa.Array, time_zone: str) -> pa.Array:
    """A column as routes look at it: long texts left out, instants in the session's zone, in which they have hours.

    >>> attribute(pa.array([0], pa.timestamp("us", tz="UTC")), "Asia/Tokyo").type
    TimestampType(timestamp[us, tz=Asia/Tokyo])
    """
    zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None
    return array.cast(pa.timestamp(array.type.unit, tz=time_zone)) if zoned else bounded(array)


def looked_at(value: Column, kind: DataType) -> Column:
    """A column of Spark as routes look at it: without long texts, as `attribute` leaves them out."""
    return F.when(F.octet_length(value) <= LONGEST_TEXT, value) if isinstance(kind, StringType) else value


class Attributes(Mapping[str, pa.Array]):
    """Columns as routes look at them, each prepared on first use: most chunks use none.

    >>> found = Attributes({"method": pa.array(["GET"]), "body": pa.array(["x" * 1000])}, "UTC")
    >>> found["body"].to_pylist()
    [None]
    """

    def __init__(self, columns: Mapping[str, pa.Array], time_zone: str) -> None:
        self._columns, self._time_zone = columns, time_zone
        self._found: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._found:
            self._found[name] = attribute(self._columns[name], self._time_zone)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


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
