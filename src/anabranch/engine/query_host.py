"""What a registered query asks of its engine: to run it, and what it has answered and cost."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.engine.join_report import JoinedRow, JoinReport
from anabranch.engine.manifest import QueryState
from anabranch.engine.parts import EngineParts
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.scheduler import Scheduler
from anabranch.engine.shared_nodes import shared_nodes
from anabranch.events import QueryFailed
from anabranch.spark.continuous.summaries import stream_of
from anabranch.spark.filters.filter import Filter


class QueryHost:
    """An engine, as its queries see it.

    Parameters
    ----------
    parts
        Of the engine.
    scheduler
        Runs queries.
    """

    def __init__(self, parts: EngineParts, scheduler: Scheduler) -> None:
        self._checkpoint, self._registry, self._runtime = parts.checkpoint, parts.registry, parts.runtime
        self._results, self._history = parts.results, parts.history
        self.scheduler = scheduler

    def state(self, query: ContinuousQuery) -> QueryState:
        """How far a query is."""
        return self._checkpoint.manifest.queries[query.name]

    def answer(self, query: ContinuousQuery) -> DataFrame:
        """Its answer so far."""
        return self._results.read(query.name, self.state(query), self._checkpoint.manifest.tick)

    def contents(self, query: ContinuousQuery) -> DataFrame:
        """Its answer as changes of a relation, from a summary on if there is one."""
        return self._results.contents(query.name, self.state(query), self._checkpoint.manifest.tick)

    def filters(self, query: ContinuousQuery) -> list[Filter]:
        """Its conditions that are ordered while it runs."""
        return self._runtime.functions.filters(query.name)

    def join_report(self, query: ContinuousQuery) -> JoinReport:
        """What its joins have done."""
        nodes, joined = self.state(query).nodes, self._runtime.joined(query.name)
        return self._runtime.joins.report(query.join, {nodes[stage]: names for stage, names in joined.items()})

    def trace_joins(self, query: ContinuousQuery, share: float) -> None:
        """Let its joins trace a share of their rows from the next tick on."""
        with self.scheduler.loop.between_ticks():
            query.join_trace = share

    def joined_rows(self, query: ContinuousQuery) -> list[JoinedRow]:
        """Rows of its joins that were traced lately."""
        nodes, joined = self.state(query).nodes, self._runtime.joined(query.name)
        return self._runtime.joins.traced({nodes[stage]: names for stage, names in joined.items()})

    def explained(self, query: ContinuousQuery) -> list[str]:
        """How it is run: a line for each step, and for what it shares, sums up and looks up."""
        summaries = sorted({stream_of(name) for name in self._runtime.requirements(query.name).summaries})
        summed = [f"summed up as rows come: {', '.join(summaries)}"] if summaries else []
        nodes = shared_nodes(self._checkpoint.manifest, self._runtime.titles, self.scheduler.runner.reports)
        shared = [each.in_words(query.name) for each in nodes if query.name in each.queries]
        folds = self._runtime.as_one(self._checkpoint.manifest).values()
        folded = [f"1 of {len(names):,} queries that differ in constants" for names in folds if query.name in names]
        look_ups, joins = self._runtime.look_ups(query), self.join_report(query).lines()
        placed = self._runtime.placed(query.name, self._checkpoint.manifest)
        return [*self._runtime.described(query.name), *placed, *shared, *summed, *folded, *look_ups, *joins]

    def failed(self, event: QueryFailed) -> None:
        """Add a failure to the engine's events."""
        self._history.events.append(event)
