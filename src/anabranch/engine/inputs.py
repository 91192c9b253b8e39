"""The input manager: how far time has come, given what each stream has shown.

A stream that has shown time t and may be out of order by its skew will show nothing before t - skew any more. A query
is answered up to the smallest of these over its streams. A stream that brings no rows for longer than its idle timeout
is *silent* and does not hold the others up; where all are silent, all that they have shown is answered.

Notes
-----
After the input manager of STREAM (thesis, section 2.2.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import DataFrame

from anabranch.cql.catalog import folded
from anabranch.engine.durations import duration
from anabranch.errors import QueryError, UnknownColumn
from anabranch.operators.base import TIME

TIMES = ("timestamp", "timestamp_ntz", "date")


@dataclass
class RelationInput:
    """A registered relation: the rows that it begins with, and whether it may have others at other times.

    `changing` is set when it is declared, or when it is changed for the first time.
    """

    name: str
    df: DataFrame
    changing: bool = False


@dataclass(frozen=True)
class StreamInput:
    """A registered stream; durations in microseconds."""

    name: str
    df: DataFrame
    timestamp: str
    skew: int
    sequence: str | None
    idle_timeout: int | None
    retain: int
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
        retain: str | timedelta,
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
                f"column {taken!r} of stream {name!r} has a reserved name",
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
            duration(retain, "retain"),
            None if horizon is None else duration(horizon, "horizon"),
        )


def require_different(df: DataFrame, where: str) -> None:
    """Refuse columns whose names differ by case alone."""
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
    silent: bool = False


def complete_until(streams: Mapping[str, Progress]) -> int | None:
    """The watermark: no row before this time is still to come; None while it is unknown.

    >>> complete_until({"a": Progress(100, 5), "b": Progress(80, 0)})
    80
    >>> complete_until({"a": Progress(100, 5), "b": Progress(80, 0, silent=True)})
    95
    >>> complete_until({"a": Progress(100, 5, silent=True), "b": Progress(80, 0, silent=True)})
    95
    >>> complete_until({"a": Progress(100, 5), "b": Progress(None, 0)})
    """
    awaited = [each for each in streams.values() if not each.silent]
    if any(each.newest is None for each in awaited):
        return None
    if not awaited:
        return max((each.newest - each.skew for each in streams.values() if each.newest is not None), default=None)
    return min(each.newest - each.skew for each in awaited if each.newest is not None)
