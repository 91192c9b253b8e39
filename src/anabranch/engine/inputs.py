"""The input manager: how far time has come, given what each stream has shown.

A stream that has shown time t and may be out of order by its skew will show nothing before t - skew any more. A query
can be told up to the smallest of these over its streams. One that is silent for longer than its declared idle time does
not hold the others up; where all are, it is told what they have shown.

Notes
-----
After the input manager of STREAM (thesis, section 2.2.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import DataFrame

from anabranch.cells.base import TIME
from anabranch.cql.catalog import folded
from anabranch.engine.durations import duration
from anabranch.errors import QueryError, UnknownColumn

TIMES = ("timestamp", "timestamp_ntz", "date")


@dataclass(frozen=True)
class StreamInput:
    """A registered stream; durations in microseconds."""

    name: str
    df: DataFrame
    timestamp: str
    skew: int
    sequence: str | None
    idle: int | None
    keep: int
    horizon: int | None

    @classmethod
    def of(
        cls,
        name: str,
        df: DataFrame,
        timestamp: str,
        skew: str | timedelta,
        sequence: str | None,
        idle: str | timedelta | None,
        keep: str | timedelta,
        horizon: str | timedelta | None,
    ) -> StreamInput:
        """What a user declares, checked."""
        timestamp = folded(timestamp, df.columns)
        sequence = sequence and folded(sequence, df.columns)
        for column in (timestamp, *([sequence] if sequence else [])):
            if column not in df.columns:
                raise UnknownColumn(column, df.columns, where=f"stream '{name}'")
        require_different(df, f"stream {name!r}")
        taken = folded(TIME, df.columns)
        if taken in df.columns:
            raise QueryError(
                f"column {taken!r} of stream {name!r} has the name under which times of rows are kept",
                hint=f"rename it first, as in df.withColumnRenamed({taken!r}, 'time')",
            )
        kind = df.schema[timestamp].dataType.typeName()
        if kind not in TIMES:
            raise QueryError(
                f"column {timestamp!r} of stream {name!r} is of type {kind}, not a time",
                hint=f"convert it first, as in df.withColumn({timestamp!r}, F.timestamp_micros({timestamp!r}))",
            )
        return cls(
            name,
            df,
            timestamp,
            duration(skew, "skew"),
            sequence,
            None if idle is None else duration(idle, "idle"),
            duration(keep, "keep"),
            None if horizon is None else duration(horizon, "horizon"),
        )


def require_different(df: DataFrame, where: str) -> None:
    """Refuse columns that a query could not tell from one another."""
    seen: dict[str, str] = {}
    for name in df.columns:
        other = seen.get(name.lower())
        seen[name.lower()] = name
        if other is not None:
            raise QueryError(
                f"columns {other!r} and {name!r} of {where} have the same name, whatever the case of letters",
                hint="rename one of them first, as in df.toDF(...)",
            )


@dataclass(frozen=True)
class Progress:
    """What a stream has shown: the largest time, and whether it is silent for longer than it may."""

    newest: int | None
    skew: int
    idle: bool = False


def complete_until(streams: Mapping[str, Progress]) -> int | None:
    """No row before this time is to come; None while that cannot be said.

    >>> complete_until({"a": Progress(100, 5), "b": Progress(80, 0)})
    80
    >>> complete_until({"a": Progress(100, 5), "b": Progress(80, 0, idle=True)})
    95
    >>> complete_until({"a": Progress(100, 5, idle=True), "b": Progress(80, 0, idle=True)})
    95
    >>> complete_until({"a": Progress(100, 5), "b": Progress(None, 0)})
    """
    awaited = [each for each in streams.values() if not each.idle]
    if any(each.newest is None for each in awaited):
        return None
    if not awaited:
        return max((each.newest - each.skew for each in streams.values() if each.newest is not None), default=None)
    return min(each.newest - each.skew for each in awaited if each.newest is not None)
