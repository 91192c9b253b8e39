"""What a backend has to offer, so that a plan can be read into stages: the same reading for Spark and for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from anabranch.logical_plan import Scalar, Scan
from anabranch.operators.base import TIME, WEIGHT, Port
from anabranch.operators.tapped import Made, Tap
from anabranch.planning.distribution import Distribution
from anabranch.planning.probes import Probe
from anabranch.planning.scalars import fields_of

VALID_FROM, VALID_TO = "_valid_from", "_valid_to"
"""Microseconds from which on, and before which, a version of a row of a relation is there."""
VALID = (VALID_FROM, VALID_TO)
CHANGED = pa.schema([(TIME, pa.int64()), (WEIGHT, pa.int64())])
Flow = TypeVar("Flow")
Items: TypeAlias = Sequence[tuple[str, Scalar]]


@dataclass(frozen=True)
class Then:
    """An operator that follows on a stage in the same cells.

    Parameters
    ----------
    title
        What it does, for people.
    make
        Starts it.
    names
        The columns that it gets: there, and here.
    instants
        Streams whose rows give the instants that it asks for.
    slides
        Or the steps at whose multiples these instants lie.
    """

    title: str
    make: Made
    names: tuple[tuple[str, str], ...]
    instants: tuple[str, ...] = ()
    slides: tuple[int, ...] = ()


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
    distributions
        One per input.
    made
        Columns that the operator makes.
    output
        Columns that come out.
    streams
        Time begins for it with the first row of one of them: the streams of the query, or of the query within a query.
    instants
        Streams whose rows give the instants that the operator asks for.
    slides
        Or the steps at whose multiples these instants lie.
    then
        The operator that follows in the same cells, if one does.
    port
        Which output of an operator with several.
    inputs
        What a join calls its inputs, for people.
    """

    number: int
    title: str
    make: Made
    distributions: tuple[Distribution, ...]
    made: pa.Schema
    output: pa.Schema
    streams: tuple[str, ...] = ()
    instants: tuple[str, ...] = ()
    slides: tuple[int, ...] = ()
    then: Then | None = None
    port: Port | None = None
    inputs: tuple[str, ...] = ()

    @property
    def tap(self) -> Tap:
        """What is wanted of the operator."""
        if self.then is None:
            return Tap(port=self.port)
        read = {there for there, _ in self.then.names}
        columns = tuple(name for name in self.made.names if name in read)
        return Tap(columns, self.then.make, self.port, self.then.slides)

    @property
    def tap_schema(self) -> pa.Schema:
        """What comes out of the tap, under the names of the operator."""
        return self.made if self.then is None else fields_of(self.made, self.tap.columns, CHANGED)

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The columns that come out: the name with the operator, and the one that is theirs."""
        if self.then is None:
            return tuple((name, name) for name in self.output.names)
        return (*self.then.names, *((name, name) for name in CHANGED.names))

    def named(self, emitted: pa.Table, there: Mapping[str, str] | None = None) -> pa.Table:
        """What comes out, under its own names; `there` says what another one calls the operator's columns."""
        other = there or {}
        columns = [emitted[other.get(name, name)] for name, _ in self.shown]
        return pa.table(columns, names=[name for _, name in self.shown]).select(self.output.names).cast(self.output)

    @property
    def asks(self) -> tuple[str, ...]:
        """Streams whose rows give the instants that the operator, or the one that follows, asks for."""
        return self.instants if self.then is None else self.then.instants

    @property
    def single(self) -> bool:
        """Whether all rows meet in one cell."""
        return not any(any(each.routes) for each in self.distributions)

    @property
    def placeable(self) -> bool:
        """Whether there is a choice to which cells rows go."""
        return len(self.distributions) > 1 and not self.single


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

    def key_of(self, stream: str) -> tuple[str, ...]:
        """Columns of a stream, or relation, that its user says are a key."""

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
