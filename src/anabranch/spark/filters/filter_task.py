"""A task of the Arrow executor: runs every Arrow batch through the adaptive loop, inside a Python worker of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import DataType

from anabranch.calls.reply import Unasked
from anabranch.config import OrderingConfig
from anabranch.errors import DataError
from anabranch.events import Event
from anabranch.model.arrays import Rows
from anabranch.ordering.base import Seed
from anabranch.ordering.pipeline import CHUNK_SECONDS, Failure, Outcome, Tally, Verdict
from anabranch.ordering.profile_price import ProfilePrice
from anabranch.routing.chunk_pipeline import ChunkPipeline
from anabranch.routing.plan_comparison import ComparedPlans
from anabranch.routing.policies import make_pipeline
from anabranch.spark.filters import worker_clock, worker_memory
from anabranch.spark.filters.batch_verdict import BatchVerdict, Undecided
from anabranch.spark.filters.decision_events import DecisionEvents
from anabranch.spark.filters.decode import ChunkColumns, Converter, converter, true_mask
from anabranch.spark.filters.evaluators import Evaluator
from anabranch.spark.filters.learned_orders import LEARNED_ROWS
from anabranch.spark.filters.row_traces import OTHER_PLAN, TaskTraces, routes_of
from anabranch.spark.filters.task_progress import TaskProgress
from anabranch.spark.filters.task_record import Part, TaskKey, TaskRecord
from anabranch.spark.filters.task_spec import (
    CallSettings,
    ErrorRules,
    OrderingRules,
    Rival,
    StartingPoint,
    TaskInput,
    TaskOrigin,
    Watching,
)
from anabranch.spark.learned.candidate_attributes import Attributes

GUARD = "make it return None on such rows, or guard it"
ASIDE = '; or set them aside with on_error="quarantine"'
"""The end of a hint, for filters; conditions of continuous queries have no such option."""
CALLING_CHUNK_SECONDS = 5.0
"""Of a chunk whose rows wait for answers: long, so that as many calls as may be are under way most of the time."""


@dataclass(frozen=True)
class FilterTask:
    """Everything that a worker needs to run one stage of a filter; pickled into the Spark plan.

    Parameters
    ----------
    identity
        Name under which workers remember what they learned.
    part
        Positions of the predicates in the written list.
    evaluators
        The predicates.
    kept
        Names and types of the columns that they compute.
    input, ordering, start, errors, origin, calls, watching
        See `task_spec`.
    """

    identity: str
    part: Part
    evaluators: tuple[Evaluator, ...]
    kept: tuple[tuple[str, DataType], ...]
    input: TaskInput
    ordering: OrderingRules
    origin: TaskOrigin
    start: StartingPoint
    errors: ErrorRules = field(default_factory=ErrorRules)
    calls: CallSettings = field(default_factory=CallSettings)
    watching: Watching = field(default_factory=Watching)

    def converters(self) -> dict[str, Converter]:
        """How values of each column become those of a Python UDF, where that takes a conversion."""
        typed = [*self.input.columns.items(), *self.kept]
        return {name: found for name, kind in typed if (found := converter(kind))}

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[BatchVerdict]:
        """Judge batch after batch; the record of the task goes to the driver when the input ends."""
        pa.array(np.zeros(1))  # now Arrow has imported pandas, and no predicate is charged for it
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        made = DecisionEvents(self.ordering.policy, tuple(e.name for e in self.evaluators), partition)
        pipeline, decisions = self._pipeline(made)
        converters, finished = self.converters(), False
        progress = TaskProgress(self.calls, context)
        share, names = self.watching.trace_share, [e.name for e in self.evaluators]
        traces = TaskTraces(share, names, partition) if share else None
        try:
            for batch in batches:
                yield self._judge(batch, pipeline, converters, made, decisions, progress, traces)
            finished = True
        finally:
            tally = pipeline.take_tally()
            if finished and self.origin.ledger is not None:
                self.origin.ledger.send(self._record(context, pipeline, tally, decisions, traces))

    def _record(
        self,
        context: TaskContext | None,
        pipeline: ChunkPipeline,
        tally: Tally,
        decisions: list[Event],
        traces: TaskTraces | None,
    ) -> TaskRecord:
        policy = self.ordering.policy  # a fixed order was given, and holds however few rows there were
        return TaskRecord(
            key=self._key(context),
            part=self.part,
            tally=tally,
            attempt=context.taskAttemptId() if context else 0,
            events=tuple(decisions),
            learned=Seed(pipeline.reoptimizer.order, pipeline.take_profiles(), pipeline.costs()),
            learned_rows=pipeline.rows_done if policy != "fixed" else max(pipeline.rows_done, LEARNED_ROWS),
            routes=pipeline.take_routes(),
            kinds=self.input.kinds,
            plan=pipeline.plan,
            plan_version=pipeline.version,
            given_up=pipeline.take_given_up(),
            sample=pipeline.take_sample(),
            trial=pipeline.on_trial,
            traces=traces.taken() if traces else (),
            compared=pipeline.take_blocks() if isinstance(pipeline, ComparedPlans) else ((), 0),
        )

    def _key(self, context: TaskContext | None) -> TaskKey:
        """Which task this is: of a micro-batch, whichever run of it comes last counts."""
        if context is None:
            return TaskKey("", self.origin.application, 0, 0, self.origin.node)
        query, batch = map(context.getLocalProperty, ("sql.streaming.queryId", "streaming.sql.batchId"))
        job = f"{query}/{batch}" if query and batch else ""
        # A streaming query sets its job group anew at each start; in a sink of its own, a user may set another one.
        run = self.origin.run or (context.getLocalProperty("spark.jobGroup.id") if job else "")
        whole = f"{self.origin.application}/{run}"
        return TaskKey(job, whole, context.stageId(), context.partitionId(), self.origin.node)

    def _pipeline(self, made: DecisionEvents) -> tuple[ChunkPipeline, list[Event]]:
        """What this worker has learned before about the filter, or a new pipeline; and the events of how it starts."""
        present, events = self._present_pipeline(made)
        rival = self.watching.rival
        return (
            present if rival is None else ComparedPlans(present, self._rival(rival, made.partition), made.partition)
        ), events

    def _rival(self, rival: Rival, partition: int) -> ChunkPipeline:
        """The pipeline of another plan, which this worker remembers under a name of its own."""
        known = worker_memory.recall(rival.identity)
        if known is None:
            filters = len(self.evaluators)
            nothing, unknown = np.zeros((0, filters), dtype=np.bool_), np.full(filters, np.nan)
            seed = self.start.seed if rival.order is None else Seed(rival.order, nothing, unknown)
            known = self._pipeline_of(rival.policy, rival.config, seed, partition)
            worker_memory.remember(rival.identity, known)
        known.take_tally()
        return known

    def _present_pipeline(self, made: DecisionEvents) -> tuple[ChunkPipeline, list[Event]]:
        """The pipeline of the plan in use."""
        start = self.start
        known = worker_memory.recall(self.identity)
        if known is not None:
            known.take_tally()
            known.take_routes()
            if start.plan_version <= known.version:
                return known, []
            known.switch(start.plan, start.plan_version, start.plan_reason)
            return known, [made.event(known.rows_done, known.new_routes())]
        pipeline = self._new_pipeline(made.partition)
        worker_memory.remember(self.identity, pipeline)
        started = [made.started(pipeline.reoptimizer.order, learned=start.seed is not None)]
        if start.plan is not None:
            started.append(made.event(0, pipeline.new_routes()))
        return pipeline, started

    def _new_pipeline(self, partition: int) -> ChunkPipeline:
        rules, start = self.ordering, self.start
        known = {"mesh": rules.mesh, "plan": start.plan, "version": start.plan_version}
        return self._pipeline_of(rules.policy, rules.config, start.seed, partition, **known)

    def _pipeline_of(
        self, policy: str, config: OrderingConfig, seed: Seed | None, partition: int, **known: Any
    ) -> ChunkPipeline:
        return make_pipeline(  # it outlives this task, and must not hold the evaluators with their tables
            policy,
            len(self.evaluators),
            config,
            self.ordering.precedence,
            start=seed,
            learning=bool(self.input.attributes),
            unprofiled=self.ordering.unprofiled,
            seed=config.seed + partition,
            clock=worker_clock.seconds,
            price=ProfilePrice() if self.calls.by_money else None,
            chunk_seconds=CALLING_CHUNK_SECONDS if self.calls.meter else CHUNK_SECONDS,
            **known,
        )

    def _judge(
        self,
        batch: tuple[pa.Array, ...],
        pipeline: ChunkPipeline,
        converters: dict[str, Converter],
        made: DecisionEvents,
        decisions: list[Event],
        progress: TaskProgress,
        traces: TaskTraces | None,
    ) -> BatchVerdict:
        found = BatchVerdict(len(batch[0]), self.kept)
        names, zone = tuple(self.input.columns), self.input.time_zone
        flags = dict(zip(self.errors.lacking, map(true_mask, batch[len(names) :]), strict=False))
        failed = {name: mask for name, mask in flags.items() if mask.any()}
        at = 0
        while at < found.rows:
            wanted = progress.rows_wanted(found.rows - at)
            size = pipeline.chunk_rows(wanted) if wanted else found.rows - at
            slices = {n: a.slice(at, size) for n, a in zip(names, batch, strict=False)}
            there = {name: mask[at : at + size] for name, mask in failed.items()}
            columns = ChunkColumns(dict(slices), converters, zone, length=size, failed=there)  # it adds kept values
            attributes = Attributes({name: slices[name] for name in self.input.attributes}, zone)
            if not wanted:
                found.add(at, np.zeros(0, dtype=np.int64), columns, [])
                break
            evaluate, watch = partial(self._evaluate, columns), traces.watch(size) if traces else None
            plan = pipeline.plan if watch else None  # before the chunk, which may change it
            outcome = pipeline.process(size, watch.over(evaluate) if watch else evaluate, attributes)
            if traces and watch:
                by_rival = isinstance(pipeline, ComparedPlans) and pipeline.by_rival
                routes = [OTHER_PLAN] * len(watch.calls) if by_rival else routes_of(watch, plan, attributes)
                traces.note(watch, slices, routes, set(outcome.survivors.tolist()))
            progress.note(size, len(outcome.survivors))
            decisions += [made.event(pipeline.rows_done, decision) for decision in outcome.decisions]
            undecided = self._undecided_rows(outcome, columns)
            if there:
                undecided += self._without_values(outcome.survivors, columns)
            found.add(at, outcome.survivors, columns, undecided)
            at += size
        return found

    def _undecided_rows(self, outcome: Outcome, columns: ChunkColumns) -> list[Undecided]:
        """Rows on which a predicate failed; the first error, where they have no column to go on with."""
        if outcome.failures and self.errors.column is None:
            raise self._failed(outcome.failures[0])
        return [self._undecided(failure, columns) for failure in outcome.failures]

    def _evaluate(self, columns: ChunkColumns, f: int, rows: Rows) -> Verdict:
        return self.evaluators[f](columns, rows)

    def _undecided(self, failure: Failure, columns: ChunkColumns) -> Undecided:
        name = self.evaluators[failure.filter].name
        text = None if isinstance(failure.message, Unasked) else str(self._failed(failure))
        lacking = self._lacking(failure.row, columns)
        return Undecided(failure.row, lacking, self.part[failure.filter], name, failure.message, text)

    def _without_values(self, survivors: Rows, columns: ChunkColumns) -> list[Undecided]:
        """Rows that failed in an earlier stage, and for which values could not be computed in this one therefore."""
        unknown = columns.failed([name for name, _ in self.kept], survivors)
        rows = [] if unknown is None else survivors[unknown].tolist()
        return [Undecided(row, self._lacking(row, columns)) for row in rows]

    def _lacking(self, row: int, columns: ChunkColumns) -> list[str]:
        return [name for name, _ in self.kept if columns.has_failed(name, row)]

    def _failed(self, failure: Failure) -> DataError:
        unasked = ", ".join(map(repr, self.errors.unasked))
        silent = f" (not asked, as it may fail itself: {unasked})" if unasked else ""
        return DataError(
            f"predicate {self.evaluators[failure.filter].name!r} failed on a row that no other predicate rejects"
            f"{silent}: {failure.message}",
            hint=GUARD + ASIDE,
        )
