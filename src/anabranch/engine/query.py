"""A registered query, as its user holds it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from anabranch.constraints.config import Mode
from anabranch.cql.rendering import describe, render
from anabranch.engine.durations import duration, refuse_renamed
from anabranch.engine.join_report import JoinedRow, JoinReport
from anabranch.engine.sinks import Sink, sink_of
from anabranch.errors import QueryError, in_a_line
from anabranch.events import QueryFailed
from anabranch.logical_plan import Plan, Query
from anabranch.model.moments import moment
from anabranch.model.names import OP, quoted
from anabranch.operators.base import EVER
from anabranch.planning.reading import JoinPlan
from anabranch.spark.filters.filter import Filter
from anabranch.spark.filters.row_traces import require_share
from anabranch.spark.names import unused_name

if TYPE_CHECKING:
    from anabranch.engine.query_host import QueryHost


log = logging.getLogger("anabranch")


class ContinuousQuery:
    """A query that has been registered with an engine.

    `start` lets it run; `to_dataframe` is its answer so far: for a stream the rows with the time `_ts` at which each
    appears, for a relation a changelog with `_ts` and `_op` (`+` or `-`).
    """

    def __init__(
        self,
        host: QueryHost,
        query: Query,
        written: str | exp.Query,
        *,
        share: bool = True,
        join: JoinPlan = "auto",
        constraints: Mode = "off",
        memory: int | None = None,
    ) -> None:
        self._host = host
        self.query = query
        self.written = written  # as it was registered: a text, or a syntax tree
        self.share = share
        self.join = join
        self.constraints = constraints
        self.memory = memory  # bytes that its operators may take
        self.join_trace = 0.0  # the share of rows of which its joins tell the partners
        self.sink: Sink | None = None
        self.retain: int | None = None  # microseconds that its answer stays after it was delivered
        self.status = "registered"
        self.error: BaseException | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.query.name

    @property
    def text(self) -> str:
        """As it was written."""
        return self.query.text

    def start(
        self, sink: object = "memory", *, retain: str | timedelta | None = None, **options: object
    ) -> ContinuousQuery:
        """Run on the streams as they come.

        Parameters
        ----------
        sink
            `memory` keeps the answer for `to_dataframe`, `console` prints it, `parquet`, `json` or `csv` writes files
            (with `path=...`), and a function is called with the DataFrame of each tick and the tick's number.
        retain
            For how long what the sink has had stays readable here, too; for ever if not given. What is older goes, not
            at once, but in the end: the rows of a stream, and those changes of a relation that later ones have undone.
        """
        if self.sink is None or sink != "memory":
            self.use_sink(sink, retain=retain, **options)
        elif retain is not None:
            self.retain = duration(retain, "retain")
        self._host.scheduler.start(self)
        return self

    def use_sink(self, sink: object, *, retain: str | timedelta | None = None, **options: object) -> None:
        """Set the sink before the query starts."""
        refuse_renamed(options)
        self.sink, self.retain = sink_of(sink, options), None if retain is None else duration(retain, "retain")

    def pause(self) -> None:
        """Pause; rows of its streams wait in the buffer."""
        self._check("running")
        self._host.scheduler.set_status(self, "paused")

    def resume(self) -> None:
        """Resume where it paused."""
        self._check("paused")
        self._host.scheduler.set_status(self, "running")

    def stop(self) -> None:
        """Stop; its answer stays readable."""
        self._host.scheduler.stop_query(self)

    def await_idle(self, timeout: float | None = None) -> None:
        """Wait until all rows that are there by now have been answered, as far as time is complete."""
        self._host.scheduler.await_idle(self, timeout)

    def to_dataframe(self) -> DataFrame:
        """The answer so far."""
        return self._host.answer(self)

    def current(self) -> DataFrame:
        """The relation as it is now: inserts without what was deleted since."""
        if self.query.is_stream:
            raise QueryError(
                f"the answer of {self.name} is a stream, which has no current state",
                hint="leave out Istream, Dstream and Rstream",
            )
        if self._host.state(self).materialise == "none":
            raise QueryError(
                f"nothing is kept of the answer of {self.name}", hint="register it with materialise='auto'"
            )
        return fold_changelog(self._host.contents(self), self.query.output)

    @property
    def filled_since(self) -> datetime | None:
        """How far back it is filled: it has seen all rows of its streams from this time on; None if it has seen all.

        A query that comes while its streams run sees rows from then on, or, with `history=True`, all that they retain.
        """
        since = self._host.state(self).since
        return None if since == EVER else moment(since)

    def filters(self) -> list[Filter]:
        """Its conditions that are ordered while it runs: see `Filter.report` and `Filter.events`."""
        return self._host.filters(self)

    def report(self) -> JoinReport:
        """How its joins run: for each input the order in which it probes the others, and what that costs."""
        return self._host.join_report(self)

    def trace_joins(self, share: float) -> None:
        """Let its joins tell of some of the new rows which partners they meet, from the next tick on; 0 tells of none.

        What is answered stays the same. Joins that are trees tell nothing.
        """
        self._host.trace_joins(self, require_share(share))

    def joined_rows(self) -> list[JoinedRow]:
        """The rows that were traced lately, oldest first, with the partners that they met."""
        return self._host.joined_rows(self)

    def explain(self) -> str:
        """The plan, as text, and how it is run: what is summed up as rows come, and what indexes find."""
        return "\n".join([render(self.query.plan), *self._host.explained(self)])

    def _fail(self, error: BaseException) -> None:
        """Stop with an error, which the log and the engine's events report."""
        self.error, self.status = error, "failed"
        self._host.failed(QueryFailed(self.name, in_a_line(error)))
        log.error("query %s failed and stopped: %s", self.name, error)

    def _check(self, wanted: str) -> None:
        if self.status != wanted:
            raise QueryError(f"query {self.name} is {self.status}, not {wanted}", hint="see engine.show()")

    def _repr_html_(self) -> str:
        """Its text, its status and its plan, for notebooks."""
        why = f": {in_a_line(self.error)}" if self.error else ""
        return (
            f"<div><h4>Query {escape(self.name)}</h4><p>{escape(self.status + why)}</p>"
            f"<pre>{escape(self.text)}</pre><p>Plan</p>{self._plan_html()}</div>"
        )

    def _plan_html(self) -> str:
        def node(plan: Plan) -> str:
            inputs = "".join(map(node, plan.inputs))
            return f"<li>{escape(describe(plan))}{f'<ul>{inputs}</ul>' if inputs else ''}</li>"

        return f"<ul>{node(self.query.plan)}</ul>"

    def __repr__(self) -> str:
        return f"<query {self.name}: {self.status}>"


def fold_changelog(changes: DataFrame, columns: Sequence[str], *about: Column) -> DataFrame:
    """The rows that are there after some changes, with more that is known about each."""
    weight = F.sum(F.when(F.col(OP) == "+", 1).otherwise(-1))
    count = unused_name(changes, "_n")
    counted = changes.groupBy(*map(quoted, columns)).agg(weight.alias(count), *about).where(f"{count} > 0")
    return counted.withColumn(count, F.explode(F.sequence(F.lit(1), F.col(count).cast("int")))).drop(count)
