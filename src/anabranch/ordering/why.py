"""Why an order changed, in words. A filter is `{number}` there, to be formatted with the names of the filters.

>>> outranked(0, better=Rank(2, 30, 1e-6), worse=Rank(0, 12, 4e-6)).format("a", "b", "c")
'at place 1 c drops 30 profiled rows at 1 us each, a 12 at 4 us'
>>> cheaper(2e-6, than=5e-6)
'2 us per profiled row instead of 5'
"""

from __future__ import annotations

from typing import NamedTuple


class Rank(NamedTuple):
    """A filter, how many profiled rows it drops of those that get to some place, and the seconds of one call."""

    filter: int
    drops: int
    seconds: float


def outranked(place: int, *, better: Rank, worse: Rank) -> str:
    """One filter drops more per second than the one that stood at a place."""
    more = f"{{{better.filter}}} drops {better.drops} profiled rows at {_us(better.seconds)} us each"
    return f"at place {place + 1} {more}, {{{worse.filter}}} {worse.drops} at {_us(worse.seconds)} us"


def cheaper(seconds: float, *, than: float) -> str:
    """The new order costs less over the profiled rows."""
    return f"{_us(seconds)} us per profiled row instead of {_us(than)}"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.3g}"
