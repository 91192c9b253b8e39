"""What a backend has to offer, so that a plan can be read into stages: the same reading for Spark and for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from anabranch.logical_plan import Scalar, Scan
from anabranch.operators.base import Operator
from anabranch.planning.probes import Probe

VALID_FROM, VALID_TO = "_valid_from", "_valid_to"
"""Microseconds from which on, and before which, a version of a row of a relation is there."""
VALID = (VALID_FROM, VALID_TO)
Flow = TypeVar("Flow")
Items: TypeAlias = Sequence[tuple[str, Scalar]]


@dataclass(frozen=True)
class Feed:
    """How the rows of one input reach the cells of a stage.

    Parameters
    ----------
    codes
        Columns to add: a name, and the columns of which it is the hash code.
    routes
        For every dimension of the grid of cells the columns whose code chooses the place, or None: to all places.
    """

    codes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    routes: tuple[tuple[str, ...] | None, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A stateful operator over cells.

    Parameters
    ----------
    number
        Its place in the plan: the same plan gives the same numbers, also after a restart.
    title
        What it does, for people.
    make
        Starts the operator of one cell; it is sent to workers.
    feeds
        One per input.
    output
        Columns that come out.
    streams
        Time begins for it with the first row of one of them: the streams of the query, or of the query within a query.
    instants
        Streams whose rows give the instants that the operator asks for.
    slides
        Or the steps at whose multiples these instants lie.
    """

    number: int
    title: str
    make: Callable[[], Operator]
    feeds: tuple[Feed, ...]
    output: pa.Schema
    streams: tuple[str, ...] = ()
    instants: tuple[str, ...] = ()
    slides: tuple[int, ...] = ()

    @property
    def single(self) -> bool:
        """Whether all rows meet in one cell."""
        return not any(self.feeds[0].routes)


class Backend(Protocol[Flow]):
    """Rows and elements somewhere: in Spark, or in memory."""

    def stream(self, scan: Scan) -> Flow:
        """Rows of a stream that are due, with `_time`."""

    def arriving(self, scan: Scan) -> Flow:
        """Rows of a stream as they come, due or not, with `_time`; only to be summed up, see `summary`."""

    def expired(self, scan: Scan, span: int) -> Flow:
        """Rows of a stream that leave a window of so many microseconds, with `_time`; they are still in the buffer."""

    def order_of(self, stream: str) -> tuple[str, ...]:
        """Columns of a stream that order rows of the same time."""

    def relation(self, scan: Scan) -> Flow:
        """Elements of a relation that have not been given yet."""

    def table(self, scan: Scan) -> Flow:
        """All rows of a relation that does not change, without times."""

    def versions(self, scan: Scan) -> Flow:
        """All rows that a relation has had up to the end of the tick, each with `VALID_FROM` and `VALID_TO`."""

    def schema(self, flow: Flow) -> pa.Schema:
        """Names and types of a flow's columns."""

    def filter(self, flow: Flow, conditions: Sequence[Scalar]) -> Flow:
        """Rows for which all conditions are true."""

    def project(self, flow: Flow, items: Items) -> Flow:
        """Exactly these columns."""

    def union(self, flows: Sequence[Flow]) -> Flow:
        """All rows; the flows have the same columns."""

    def sum_up(self, flow: Flow, keys: Sequence[str], sums: Mapping[str, str]) -> Flow:
        """Elements of equal keys and equal ends as one: their weights together, and columns of bundles.

        `sums` are the columns to sum up, each with the name that its bundle gets (see `operators.exact_sums.BUNDLE`).
        """

    def summary(self, stream: str, flow: Flow) -> Flow:
        """What is summed up of arriving rows of a stream, when it is due; it may be kept instead of the rows."""

    def look_up(self, flow: Flow, table: Flow, pairs: Sequence[tuple[str, str]], probes: Sequence[Probe] = ()) -> Flow:
        """Rows of the flow combined with those of the table that agree on all pairs of columns, and on all probes.

        Of versions of rows, those count that are valid at the start of the flow's element.
        """

    def instants(self, streams: Sequence[str]) -> Flow:
        """Times of the rows that are due, in the column `_time`; repetitions do not matter."""

    def stage(self, stage: Stage, flows: Sequence[Flow]) -> Flow:
        """What the operator makes of the flows."""


def first(origins: Mapping[str, int], streams: Sequence[str]) -> int | None:
    """The first of the times at which some of the streams have begun.

    >>> first({"a": 5, "b": 3}, ["a", "c"])
    5
    """
    return min((origins[name] for name in streams if name in origins), default=None)
