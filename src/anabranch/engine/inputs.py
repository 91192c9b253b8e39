"""The input manager: how far time has come, given what each stream has shown.

A stream that has shown time t and may be out of order by its skew will show nothing before t - skew any more. A query
is answered up to the smallest of these over its streams. A stream that brings no rows for longer than its idle timeout
is *silent* and does not hold the others up; where all are silent, all that they have shown is answered.

A stream whose source has no times gets them: all rows of a batch the instant at which the batch is taken. Each instant
is after the one before, so that whatever such a stream has shown is complete.

Notes
-----
After the input manager of STREAM (thesis, section 2.2.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from pyspark.sql import DataFrame

from anabranch.cql.catalog import folded
from anabranch.engine.durations import duration
from anabranch.errors import QueryError, UnknownColumn
from anabranch.model.stream_times import ARRIVAL, Arrival, AutoSkew
from anabranch.operators.base import TIME

TIMES = ("timestamp", "timestamp_ntz", "date")
AT_ONCE = -1
"""The skew of a stream that gets times of arrival: what comes next is later than what has come, so that is complete."""
NO_TIMES = "If rows have no time, timestamp=ab.ARRIVAL gives them that of their arrival"


@dataclass
class RelationInput:
    """A registered relation: the rows that it begins with, and whether it may have others at other times.

    `changing` is set when it is declared, or when it is changed for the first time.
    """

    name: str
    df: DataFrame
    changing: bool = False


@dataclass(eq=False)
class StreamInput:
    """A registered stream; durations in microseconds.

    `timestamp` is None if rows get the time of their arrival. `late` is the share of rows that may come late if the
    skew follows their delays, which begins with `skew` then. Both may change between ticks. `key` are columns that tell
    its rows apart.
    """

    name: str
    df: DataFrame
    timestamp: str | None
    skew: int
    sequence: str | None
    idle_timeout: int | None
    retain: int
    horizon: int | None
    late: float | None = None
    key: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        df: DataFrame,
        timestamp: str | Arrival,
        skew: str | timedelta | AutoSkew,
        sequence: str | None,
        idle: str | timedelta | None,
        retain: str | timedelta,
        horizon: str | timedelta | None,
        key: str | Sequence[str] = (),
    ) -> StreamInput:
        """What a user declares, checked."""
        column = None if timestamp is ARRIVAL else _known(str(timestamp), df, name, NO_TIMES)
        sequence = sequence and _known(sequence, df, name)
        require_different(df, f"stream {name!r}")
        taken = folded(TIME, df.columns)
        if taken in df.columns:
            raise QueryError(
                f"column {taken!r} of stream {name!r} has a reserved name",
                hint=f"rename it first, as in df.withColumnRenamed({taken!r}, 'time')",
            )
        micros, may_be_late = _skew(skew)
        if column is None:
            _require_no_skew(name, skewed=bool(micros or may_be_late))
        else:
            _require_time(name, column, df)
        return cls(
            name,
            df,
            column,
            AT_ONCE if column is None else micros,
            sequence,
            None if idle is None else duration(idle, "idle"),
            duration(retain, "retain"),
            None if column is None or horizon is None else duration(horizon, "horizon"),
            may_be_late,
            tuple(_known(each, df, name) for each in ([key] if isinstance(key, str) else key)),
        )

    @property
    def declared_skew(self) -> timedelta | AutoSkew:
        """As it was given."""
        skew = timedelta(microseconds=self.skew)
        return skew if self.late is None else AutoSkew(self.late, skew)

    def set_skew(self, skew: str | timedelta | AutoSkew) -> None:
        """Let its rows be more, or less, out of order than was said when it was registered."""
        if self.timestamp is None:
            _require_no_skew(self.name, skewed=True)
        self.skew, self.late = _skew(skew)


def _skew(given: str | timedelta | AutoSkew) -> tuple[int, float | None]:
    """Microseconds, and the share of rows that may be late if the skew follows them."""
    auto = AutoSkew() if given == "auto" else given if isinstance(given, AutoSkew) else None
    return duration(auto.begin if auto else cast("str | timedelta", given), "skew"), None if auto is None else auto.late


def _known(column: str, df: DataFrame, stream: str, more: str = "") -> str:
    own = folded(column, df.columns)
    if own not in df.columns:
        raise UnknownColumn(column, df.columns, where=f"stream '{stream}'", more=more)
    return own


def _require_time(stream: str, column: str, df: DataFrame) -> None:
    kind = df.schema[column].dataType.typeName()
    if kind not in TIMES:
        raise QueryError(
            f"column {column!r} of stream {stream!r} is of type {kind}, not a time",
            hint=f"convert it first, as in df.withColumn({column!r}, F.timestamp_micros({column!r}))",
        )


def _require_no_skew(stream: str, *, skewed: bool) -> None:
    if skewed:
        raise QueryError(
            f"stream {stream!r} has a skew, and rows with the times of their arrival",
            hint="such rows come in order: leave the skew out",
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
class StreamProgress:
    """What a stream has shown: the largest time, and whether it is silent for longer than it may."""

    newest: int | None
    skew: int
    silent: bool = False


def complete_until(streams: Mapping[str, StreamProgress]) -> int | None:
    """The watermark: no row before this time is still to come; None while it is unknown.

    >>> complete_until({"a": StreamProgress(100, 5), "b": StreamProgress(80, 0)})
    80
    >>> complete_until({"a": StreamProgress(100, 5), "b": StreamProgress(80, 0, silent=True)})
    95
    >>> complete_until({"a": StreamProgress(100, 5, silent=True), "b": StreamProgress(80, 0, silent=True)})
    95
    >>> complete_until({"a": StreamProgress(100, 5), "b": StreamProgress(None, 0)})
    """
    awaited = [each for each in streams.values() if not each.silent]
    if any(each.newest is None for each in awaited):
        return None
    if not awaited:
        return max((each.newest - each.skew for each in streams.values() if each.newest is not None), default=None)
    return min(each.newest - each.skew for each in awaited if each.newest is not None)
