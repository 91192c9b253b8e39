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

from pyspark.sql import DataFrame


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
