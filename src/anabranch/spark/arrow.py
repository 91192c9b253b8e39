"""The Arrow executor: adaptive filters inside Spark's Python workers.

On the driver, `ArrowStage` compiles predicates into evaluators and puts one Python node into the Spark plan. In a
worker, `FilterTask` runs every Arrow batch through the adaptive loop. What a worker has learned about a filter stays
in its memory for the next task; when a task ends it sends counts, decisions and profiles to the driver's ledger,
which seeds the next DataFrame that the filter is applied to.

Only the columns that predicates read enter the worker: from Spark 4.1 on, an Arrow UDF returns a struct of decision and
kept values, and the other columns never leave the JVM (decision record 002). Spark 4.0 has no such UDF: there,
`mapInArrow` carries all columns.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, StringType, StructField, StructType

from anabranch import events
from anabranch.config import OrderingConfig
from anabranch.errors import DataError
from anabranch.model.arrays import Mask, Rows
from anabranch.ordering import make
from anabranch.ordering.base import Reoptimizer, Seed
from anabranch.ordering.pipeline import Failure, Tally, Verdict
from anabranch.ordering.precedence import Precedence
from anabranch.routing.routed import RoutedPipeline, RoutePlan, RouteState, shown_orders
from anabranch.routing.source_based_order import SourceBasedOrder
from anabranch.spark.decode import Columns, converter
from anabranch.spark.delivery import Address
from anabranch.spark.evaluators import Evaluator
from anabranch.spark.identities import with_identities_of
from anabranch.spark.ledger import Kinds, Part, TaskKey, TaskRecord
from anabranch.spark.names import column, unused_name
from anabranch.spark.plans import attribute
from anabranch.spark.schemas import arrow_type

REMEMBERED_FILTERS = 64
ROUTING = ("auto", "content", "mesh")
PREDICATE_COLUMN, ERROR_COLUMN = "_predicate", "_error"
ERROR_TYPE = StructType([StructField(PREDICATE_COLUMN, StringType()), StructField(ERROR_COLUMN, StringType())])

_learned: OrderedDict[str, RoutedPipeline] = OrderedDict()


@dataclass(frozen=True)
class FilterTask:
    """Everything that a worker needs to run one stage of a filter; pickled into the Spark plan."""

    identity: str
    part: Part
    evaluators: tuple[Evaluator, ...]
    columns: tuple[str, ...]
    types: tuple[DataType, ...]
    kept: tuple[tuple[str, DataType], ...]
    policy: str
    config: OrderingConfig
    precedence: Precedence
    unprofiled: frozenset[int]
    time_zone: str
    application: str
    attributes: tuple[str, ...] = ()
    plan: RoutePlan | None = None
    plan_version: int = 0
    plan_reason: str = ""
    node: int = 0
    run_of_batch: str = ""
    quarantine: bool = False
    seed: Seed | None = None
    ledger: Address | None = None

    @property
    def kinds(self) -> Kinds:
        """Names and types of the attributes."""
        known = dict(zip(self.columns, self.types, strict=True))
        return tuple((name, known[name].simpleString()) for name in self.attributes)

    def run(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[Judged]:
        """Judge batch after batch; the record of the task goes to the driver when the input ends."""
        pa.array(np.zeros(1))  # now Arrow has imported pandas, and no predicate is charged for it
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        pipeline, decisions = self._pipeline(partition)
        typed = [*zip(self.columns, self.types, strict=True), *self.kept]
        converters = {name: found for name, kind in typed if (found := converter(kind))}
        finished = False
        try:
            for batch in batches:
                yield self._judge(batch, pipeline, converters, decisions, partition)
            finished = True
        finally:
            tally = pipeline.take_tally()
            if finished and self.ledger is not None:
                self.ledger.send(self._record(context, pipeline, tally, decisions))

    def _record(
        self, context: TaskContext | None, pipeline: RoutedPipeline, tally: Tally, decisions: list[events.Event]
    ) -> TaskRecord:
        return TaskRecord(
            key=self._key(context),
            part=self.part,
            tally=tally,
            attempt=context.taskAttemptId() if context else 0,
            events=tuple(decisions),
            learned=Seed(pipeline.reoptimizer.order, pipeline.take_profiles(), pipeline.costs()),
            learned_rows=pipeline.rows_done,
            routes=pipeline.take_routes(),
            kinds=self.kinds,
            plan=pipeline.plan,
            plan_version=pipeline.version,
            given_up=pipeline.take_given_up(),
            sample=pipeline.take_sample(),
            trial=pipeline.on_trial,
        )

    def _key(self, context: TaskContext | None) -> TaskKey:
        """Which task this is: of a micro-batch, whichever run of it comes last counts."""
        if context is None:
            return TaskKey("", self.application, 0, 0, self.node)
        query, batch = map(context.getLocalProperty, ("sql.streaming.queryId", "streaming.sql.batchId"))
        job = f"{query}/{batch}" if query and batch else ""
        # A streaming query sets its job group anew at each start; in a sink of its own, a user may set another one.
        run = self.run_of_batch or (context.getLocalProperty("spark.jobGroup.id") if job else "")
        return TaskKey(job, f"{self.application}/{run}", context.stageId(), context.partitionId(), self.node)

    def _pipeline(self, partition: int) -> tuple[RoutedPipeline, list[events.Event]]:
        known = _learned.get(self.identity)
        if known is not None:
            _learned.move_to_end(self.identity)
            known.take_tally()
            known.take_routes()
            if self.plan_version <= known.version:
                return known, []
            known.switch(self.plan, self.plan_version, self.plan_reason)
            return known, [self._routes_changed(known, partition)]
        make_policy = partial(make_order, self.policy, len(self.evaluators), self.config, self.precedence)
        pipeline = RoutedPipeline(
            make_policy,  # it outlives this task, and must not hold the evaluators with their tables
            start=self.seed,
            plan=self.plan,
            version=self.plan_version,
            learning=bool(self.attributes),
            unprofiled=self.unprofiled,
            seed=self.config.seed + partition,
        )
        _learned[self.identity] = pipeline
        while len(_learned) > REMEMBERED_FILTERS:
            _learned.popitem(last=False)
        first = pipeline.reoptimizer.order
        started: list[events.Event] = [
            events.Started(0, self.policy, self._names(first), self.seed is not None, partition)
        ]
        if self.plan is not None:
            started.append(self._routes_changed(pipeline, partition))
        return pipeline, started

    def _judge(
        self,
        batch: tuple[pa.Array, ...],
        pipeline: RoutedPipeline,
        converters: dict[str, Any],
        decisions: list[events.Event],
        partition: int,
    ) -> Judged:
        judged = Judged(len(batch[0]), self.kept)
        at = 0
        while at < judged.rows:
            size = pipeline.chunk_rows(judged.rows - at)
            slices = {n: a.slice(at, size) for n, a in zip(self.columns, batch, strict=False)}
            columns = Columns(slices, converters, self.time_zone, length=size)
            before, reason = pipeline.policies(), pipeline.reason
            attributes = {name: attribute(slices[name], self.time_zone) for name in self.attributes}
            outcome = pipeline.process(size, partial(self._evaluate, columns), attributes)
            if pipeline.reason != reason:
                decisions.append(self._routes_changed(pipeline, partition))
            decisions += self._changes(pipeline, before, partition)
            if outcome.failures and not self.quarantine:
                raise self._failed(outcome.failures[0])
            judged.add(at, outcome.survivors, columns, [(f, self.evaluators[f.filter].name) for f in outcome.failures])
            at += size
        return judged

    def _changes(
        self, pipeline: RoutedPipeline, before: dict[str, tuple[tuple[int, ...], str]], partition: int
    ) -> Iterator[events.Event]:
        """What the last chunk led to: another order or effort on a route."""
        after, at = pipeline.policies(), pipeline.rows_done
        for route in after.keys() & before.keys():
            (old, was), (new, now) = before[route], after[route]
            policy = pipeline.policy_of(route)
            if new != old:
                why = self._told(policy.why)
                yield events.Reordered(at, self.policy, self._names(old), self._names(new), why, partition, route)
            if now != was:
                why = self._told(policy.reason)
                yield events.EffortChanged(at, self.policy, now, policy.profile_probability, why, partition, route)

    def _told(self, why: str) -> str:
        """Words of a policy, with the names of the predicates."""
        return why.format(*self._names(range(len(self.evaluators))))

    def _routes_changed(self, pipeline: RoutedPipeline, partition: int) -> events.Event:
        alone, plan = pipeline.reoptimizer.order, pipeline.plan
        ways = [RouteState((), alone, 0, 0.0)] if plan is None else shown_orders(plan)
        lines = tuple(f"{' | '.join(w.tests) or 'all rows'}: {' -> '.join(self._names(w.order))}" for w in ways)
        order = self._names(alone)
        return events.RoutesChanged(pipeline.rows_done, self.policy, lines, pipeline.reason, partition, order)

    def _evaluate(self, columns: Columns, f: int, rows: Rows) -> Verdict:
        return self.evaluators[f](columns, rows)

    def _names(self, order: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.evaluators[f].name for f in order)

    def _failed(self, failure: Failure) -> DataError:
        return DataError(
            f"predicate {self.evaluators[failure.filter].name!r} failed on a row that no other predicate rejects: "
            f"{failure.message}",
            hint='make it return None on such rows, guard it, or set them aside with on_error="quarantine"',
        )


class Judged:
    """Decisions and kept values of one batch, collected chunk by chunk."""

    def __init__(self, rows: int, kept: tuple[tuple[str, DataType], ...]) -> None:
        self.rows = rows
        self.mask: Mask = np.zeros(rows, dtype=np.bool_)
        self.failed: dict[int, tuple[str, str]] = {}
        self._kept = {name: (arrow_type(kind), list[pa.Array]()) for name, kind in kept}

    def add(self, at: int, survivors: Any, columns: Columns, failures: list[tuple[Failure, str]]) -> None:
        """Enter the outcome of the chunk that starts at row `at`."""
        self.mask[at + survivors] = True
        self.failed.update({at + f.row: (name, f.message) for f, name in failures})
        for name, (kind, pieces) in self._kept.items():
            pieces.append(columns.spread(name, survivors).cast(kind))

    def kept(self) -> list[pa.Array]:
        """One array per kept column, as long as the batch, NULL where a row did not pass."""
        return [pa.concat_arrays([pa.array([], kind), *pieces]) for kind, pieces in self._kept.values()]

    def errors(self) -> pa.Array:
        """Predicate and message of every row that could not be decided, NULL elsewhere."""
        pairs = [self.failed.get(i) for i in range(self.rows)] if self.failed else [None] * self.rows
        kind = pa.struct([(PREDICATE_COLUMN, pa.string()), (ERROR_COLUMN, pa.string())])
        return pa.array([None if p is None else {PREDICATE_COLUMN: p[0], ERROR_COLUMN: p[1]} for p in pairs], type=kind)


def make_order(
    policy: str, filters: int, config: OrderingConfig, precedence: Precedence, seed: Seed | None = None
) -> Reoptimizer:
    """What keeps the order of a pipeline, or of one route, under a policy."""
    if policy == SourceBasedOrder.name:
        return SourceBasedOrder(filters, config=config, precedence=precedence, seed=seed)
    name = "auto" if policy in ROUTING else policy
    return make(name, filters, config=config, precedence=precedence, seed=seed)


def apply(df: DataFrame, task: FilterTask, *, quarantined: bool = False) -> DataFrame:
    """Put the task into a DataFrame's plan: the rows that pass, or with `quarantined` the undecided ones."""
    run = _with_arrow_udf if hasattr(F, "arrow_udf") else _with_map_in_arrow
    return run(df, task, quarantined)


def _with_arrow_udf(df: DataFrame, task: FilterTask, quarantined: bool) -> DataFrame:
    """Spark 4.1 and newer: only the columns that predicates read enter the worker."""
    kept = [f"kept{i}" for i in range(len(task.kept))]
    shape = StructType([StructField("passed", BooleanType())])
    for name, (_, kind) in zip(kept, task.kept, strict=True):
        shape.add(name, kind)
    if task.quarantine:
        shape.add("error", ERROR_TYPE)

    def judge(batches: Iterator[Any]) -> Iterator[pa.Array]:
        for judged in task.run((b,) if isinstance(b, pa.Array) else b for b in batches):
            arrays = [pa.array(judged.mask), *judged.kept(), *([judged.errors()] if task.quarantine else [])]
            yield pa.StructArray.from_arrays(arrays, names=shape.fieldNames())

    inputs = [column(df, name) for name in task.columns] or [F.lit(0)]
    batch_type: Any = pa.Array if len(inputs) == 1 else tuple[pa.Array, ...]
    judge.__annotations__ = {"batches": Iterator[batch_type], "return": Iterator[pa.Array]}
    udf = F.arrow_udf(judge, shape).asNondeterministic()  # type: ignore[attr-defined]
    verdict = unused_name(df, "__anabranch")
    judged, fields = df.withColumn(verdict, udf(*inputs)), F.col(verdict)
    if quarantined:
        error = fields["error"]
        added = {name: error[name] for name in (PREDICATE_COLUMN, ERROR_COLUMN)}
        return judged.where(error.isNotNull()).withColumns(added).drop(verdict)
    passed = judged.where(fields["passed"])
    for (name, _), field in zip(task.kept, kept, strict=True):
        passed = passed.withColumn(name, fields[field])
    return passed.drop(verdict)


def _with_map_in_arrow(df: DataFrame, task: FilterTask, quarantined: bool) -> DataFrame:
    """Spark 4.0: all columns travel through the worker, and only rows that pass travel back.

    Under way the columns are numbered, as `mapInArrow` takes neither dots in a name nor one name twice.
    """
    errors = [StructField(PREDICATE_COLUMN, StringType()), StructField(ERROR_COLUMN, StringType())]
    fields = [*df.schema.fields, *(errors if quarantined else [StructField(n, t) for n, t in task.kept])]
    shape = StructType([StructField(f"c{i}", f.dataType, f.nullable, f.metadata) for i, f in enumerate(fields)])
    carried = len(df.columns)

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: deque[pa.RecordBatch] = deque()

        def inputs() -> Iterator[tuple[pa.Array, ...]]:
            for batch in batches:
                held.append(batch)
                yield tuple(batch.columns[carried:]) or (pa.nulls(len(batch)),)

        for judged in task.run(inputs()):
            batch = held.popleft()
            rows = pa.array(sorted(judged.failed) if quarantined else np.flatnonzero(judged.mask), type=pa.int64())
            extra = judged.errors().flatten() if quarantined else judged.kept()
            arrays = [*batch.columns[:carried], *extra]
            yield pa.RecordBatch.from_arrays([a.take(rows) for a in arrays], names=shape.fieldNames())

    wide = df.select("*", *(column(df, name) for name in task.columns))
    numbered = wide.toDF(*(f"c{i}" for i in range(len(wide.columns))))
    return with_identities_of(df, numbered.mapInArrow(judge, shape), [f.name for f in fields])


def new_identity() -> str:
    """A name under which workers remember what they learned about one filter."""
    return uuid.uuid4().hex
