"""Decisions as data: every change of plan is one frozen record in one stream that logs, tests and reports read.

>>> event = Reordered(at=2048, policy="exhaustive", before=("a", "b"), after=("b", "a"), reason="3 us instead of 5")
>>> event.after, event.reason
(('b', 'a'), '3 us instead of 5')
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Something that happened to a filter (`FilterEvent`), a stream or a query."""


@dataclass(frozen=True)
class FilterEvent(Event):
    """A filter decides. `at` counts the rows that the deciding worker had processed."""

    at: int
    policy: str


@dataclass(frozen=True)
class Started(FilterEvent):
    """A worker begins with an order: as written, or learned before."""

    order: tuple[str, ...]
    learned: bool = False
    partition: int | None = None


@dataclass(frozen=True)
class Reordered(FilterEvent):
    """The order of predicates changed, for all rows or on the route with these tests."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    reason: str = ""
    partition: int | None = None
    route: str = ""


@dataclass(frozen=True)
class EffortChanged(FilterEvent):
    """The policy profiles more (after a change) or less (while things stay still)."""

    mode: str
    profile_probability: float
    reason: str = ""
    partition: int | None = None
    route: str = ""


@dataclass(frozen=True)
class PilotDecided(FilterEvent):
    """A pilot sample, or the profile of the last micro-batch, fixed the order of native predicates."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    sample_rows: int = 0
    reason: str = ""


@dataclass(frozen=True)
class RoutesChanged(FilterEvent):
    """Routes are tried, kept, or given up; `routes` holds a line of tests and order for each that rows take now.

    `order` is the one for all rows; where there are several routes, it waits until they are given up.
    """

    routes: tuple[str, ...]
    reason: str = ""
    partition: int | None = None
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProbesReordered(Event):
    """New rows of an input of a join probe the other inputs in another order, in one cell."""

    query: str
    input: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    reason: str = ""
    cell: int | None = None


@dataclass(frozen=True)
class CacheAdded(Event):
    """In one cell a join keeps what rows of an input find in some windows together, from now on."""

    query: str
    input: str
    windows: tuple[str, ...]
    reason: str = ""
    cell: int | None = None


@dataclass(frozen=True)
class CacheDropped(Event):
    """In one cell a join does not keep it any more."""

    query: str
    input: str
    windows: tuple[str, ...]
    reason: str = ""
    cell: int | None = None


@dataclass(frozen=True)
class ConstraintAdopted(Event):
    """In one cell a join has found a key, or a constraint of its inputs, and goes by it from now on."""

    query: str
    constraint: str
    cell: int | None = None


@dataclass(frozen=True)
class ConstraintViolated(Event):
    """In one cell a key, or a constraint, does not hold any more: the join does not go by it."""

    query: str
    constraint: str
    cell: int | None = None


@dataclass(frozen=True)
class MemoryExceeded(Event):
    """Operators have begun to take more memory than the limit: what is left cannot go to disk. Answers are the same.

    `query` is the one whose operators take most; `alone` says that the limit is its own.
    """

    query: str
    bytes: int
    limit: int
    alone: bool = False


@dataclass(frozen=True)
class StreamFailed(Event):
    """A stream cannot be read any more; the queries that read it stop."""

    stream: str
    reason: str


@dataclass(frozen=True)
class QueryFailed(Event):
    """A query cannot go on: its functions, its state or its sink fail, or a stream that it reads."""

    query: str
    reason: str
