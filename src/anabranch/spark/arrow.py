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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, StructField, StructType

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
from anabranch.spark.decode import Columns, converter, true_mask
from anabranch.spark.delivery import Address
from anabranch.spark.evaluators import Evaluator
from anabranch.spark.identities import with_identities_of
from anabranch.spark.ledger import Kinds, Part, TaskKey, TaskRecord
from anabranch.spark.names import unused_name, written
from anabranch.spark.plans import Attributes
from anabranch.spark.schemas import arrow_type
from anabranch.spark.undecided import ERROR_TYPE, lacks, noted

REMEMBERED_FILTERS = 64
ROUTING = ("auto", "content", "mesh")

_learned: OrderedDict[str, RoutedPipeline] = OrderedDict()
GUARD = "make it return None on such rows, or guard it"
ASIDE = '; or set them aside with on_error="quarantine"'
"""The end of a hint, for filters; conditions of continuous queries have no such option."""


@dataclass(frozen=True)
class FilterTask:
    """Everything that a worker needs to run one stage of a filter; pickled into the Spark plan.

    With `errors`, the name of a hidden column, rows on which a predicate fails go on with their error; without it the
    error is raised. Of the columns in `lacking`, which earlier stages keep, rows with errors may have no value; which
    ones comes in behind the `columns`. The `unasked` predicates of later stages have no say about rows with errors.
    """

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
    errors: str | None = None
    lacking: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
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
        flags = dict(zip(self.lacking, map(true_mask, batch[len(self.columns) :]), strict=False))
        failed = {name: mask for name, mask in flags.items() if mask.any()}
        at = 0
        while at < judged.rows:
            size = pipeline.chunk_rows(judged.rows - at)
            slices = {n: a.slice(at, size) for n, a in zip(self.columns, batch, strict=False)}
            there = {name: mask[at : at + size] for name, mask in failed.items()}
            columns = Columns(slices, converters, self.time_zone, length=size, failed=there)
            before, reason = pipeline.policies(), pipeline.reason
            attributes = Attributes({name: slices[name] for name in self.attributes}, self.time_zone)
            outcome = pipeline.process(size, partial(self._evaluate, columns), attributes)
            if pipeline.reason != reason:
                decisions.append(self._routes_changed(pipeline, partition))
            decisions += self._changes(pipeline, before, partition)
            if outcome.failures and self.errors is None:
                raise self._failed(outcome.failures[0])
            undecided = [self._undecided(f, columns) for f in outcome.failures]
            if there:
                undecided += self._without_values(outcome.survivors, columns)
            judged.add(at, outcome.survivors, columns, undecided)
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

    def _undecided(self, failure: Failure, columns: Columns) -> Undecided:
        name, told = self.evaluators[failure.filter].name, str(self._failed(failure))
        lacking = self._lacking(failure.row, columns)
        return Undecided(failure.row, lacking, self.part[failure.filter], name, failure.message, told)

    def _without_values(self, survivors: Rows, columns: Columns) -> list[Undecided]:
        """Rows that failed in an earlier stage, and for which values could not be computed in this one therefore."""
        unknown = columns.failed([name for name, _ in self.kept], survivors)
        rows = [] if unknown is None else survivors[unknown].tolist()
        return [Undecided(row, self._lacking(row, columns)) for row in rows]

    def _lacking(self, row: int, columns: Columns) -> list[str]:
        return [name for name, _ in self.kept if columns.has_failed(name, row)]

    def _failed(self, failure: Failure) -> DataError:
        silent = f" (not asked, as it may fail itself: {', '.join(map(repr, self.unasked))})" if self.unasked else ""
        return DataError(
            f"predicate {self.evaluators[failure.filter].name!r} failed on a row that no other predicate rejects"
            f"{silent}: {failure.message}",
            hint=GUARD + ASIDE,
        )


class Undecided(NamedTuple):
    """A row of a chunk that no predicate rejects and on which one fails, here or in an earlier stage: `ERROR_TYPE`."""

    row: int
    lacking: list[str]
    place: int | None = None
    predicate: str | None = None
    message: str | None = None
    told: str | None = None


class Judged:
    """Decisions and kept values of one batch, collected chunk by chunk."""

    def __init__(self, rows: int, kept: tuple[tuple[str, DataType], ...]) -> None:
        self.rows = rows
        self.mask: Mask = np.zeros(rows, dtype=np.bool_)
        self.failed: dict[int, Undecided] = {}
        self._kept = {name: (arrow_type(kind), list[pa.Array]()) for name, kind in kept}

    def add(self, at: int, survivors: Rows, columns: Columns, undecided: list[Undecided]) -> None:
        """Enter the outcome of the chunk that starts at row `at`."""
        self.mask[at + survivors] = True
        self.failed.update({at + each.row: each for each in undecided})
        going_on = np.concatenate([survivors, [each.row for each in undecided]]).astype(np.int64)
        for name, (kind, pieces) in self._kept.items():
            pieces.append(columns.spread(name, going_on).cast(kind))

    def going_on(self) -> Mask:
        """The rows that passed, and those with errors."""
        found = self.mask.copy()
        found[list(self.failed)] = True
        return found

    def kept(self) -> list[pa.Array]:
        """One array per kept column, as long as the batch, NULL where a row was rejected."""
        return [pa.concat_arrays([pa.array([], kind), *pieces]) for kind, pieces in self._kept.values()]

    def errors(self) -> pa.Array:
        """What is known of every row that could not be decided, NULL elsewhere."""
        kind = arrow_type(ERROR_TYPE)
        if not self.failed:
            return pa.nulls(self.rows, kind)
        found = map(self.failed.get, range(self.rows))
        names = ERROR_TYPE.fieldNames()
        return pa.array([e and dict(zip(names, e[1:], strict=True)) for e in found], type=kind)


def make_order(
    policy: str, filters: int, config: OrderingConfig, precedence: Precedence, seed: Seed | None = None
) -> Reoptimizer:
    """What keeps the order of a pipeline, or of one route, under a policy."""
    if policy == SourceBasedOrder.name:
        return SourceBasedOrder(filters, config=config, precedence=precedence, seed=seed)
    name = "auto" if policy in ROUTING else policy
    return make(name, filters, config=config, precedence=precedence, seed=seed)


def apply(df: DataFrame, task: FilterTask) -> DataFrame:
    """Put the task into a DataFrame's plan: the rows that pass, and those with errors if these have a column."""
    run = _with_arrow_udf if hasattr(F, "arrow_udf") else _with_map_in_arrow
    return run(df, task)


def _inputs(df: DataFrame, task: FilterTask) -> list[str | Column]:
    """What enters the worker: columns, and which of them lack a value."""
    flags = [lacks(task.errors, name) for name in task.lacking] if task.errors else []
    return [*(written(df, name) for name in task.columns), *flags]


def _with_arrow_udf(df: DataFrame, task: FilterTask) -> DataFrame:
    """Spark 4.1 and newer: only the columns that predicates read enter the worker."""
    if not task.kept and not task.errors:
        return df.where(_arrow_udf(df, task, BooleanType(), lambda judged: pa.array(judged.going_on())))
    kept = [f"kept{i}" for i in range(len(task.kept))]
    shape = StructType([StructField("goes_on", BooleanType())])
    for name, (_, kind) in zip(kept, task.kept, strict=True):
        shape.add(name, kind)
    if task.errors:
        shape.add("error", ERROR_TYPE)

    def told(judged: Judged) -> pa.Array:
        arrays = [pa.array(judged.going_on()), *judged.kept(), *([judged.errors()] if task.errors else [])]
        return pa.StructArray.from_arrays(arrays, names=shape.fieldNames())

    verdict = unused_name(df, "__anabranch")
    judged, fields = df.withColumn(verdict, _arrow_udf(df, task, shape, told)), F.col(verdict)
    out = judged.where(fields["goes_on"])
    for (name, _), field in zip(task.kept, kept, strict=True):
        out = out.withColumn(name, fields[field])
    if not task.errors:
        return out.drop(verdict)
    return noted(out.withColumn(verdict, fields["error"]), task.errors, verdict)


def _arrow_udf(df: DataFrame, task: FilterTask, kind: DataType, told: Callable[[Judged], pa.Array]) -> Column:
    """The task as a column: what is told of each batch that was judged.

    Nondeterministic, or Spark would move it, run it twice, or join it with its neighbours into one condition of which
    all parts see all rows.
    """

    def judge(batches: Iterator[Any]) -> Iterator[pa.Array]:
        for judged in task.run((b,) if isinstance(b, pa.Array) else b for b in batches):
            yield told(judged)

    inputs = _inputs(df, task) or [F.lit(0)]
    batch_type: Any = pa.Array if len(inputs) == 1 else tuple[pa.Array, ...]
    judge.__annotations__ = {"batches": Iterator[batch_type], "return": Iterator[pa.Array]}
    found: Column = F.arrow_udf(judge, kind).asNondeterministic()(*inputs)  # type: ignore[attr-defined]
    return found


def _with_map_in_arrow(df: DataFrame, task: FilterTask) -> DataFrame:
    """Spark 4.0: all columns travel through the worker, and only rows that go on travel back.

    Under way the columns are numbered, as `mapInArrow` takes neither dots in a name nor one name twice.
    """
    verdict = unused_name(df, "__anabranch")
    added = [*(StructField(n, t) for n, t in task.kept), *([StructField(verdict, ERROR_TYPE)] if task.errors else [])]
    fields = [*df.schema.fields, *added]
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
            rows = pa.array(np.flatnonzero(judged.going_on()))
            arrays = [*batch.columns[:carried], *judged.kept(), *([judged.errors()] if task.errors else [])]
            yield pa.RecordBatch.from_arrays([a.take(rows) for a in arrays], names=shape.fieldNames())

    wide = df.select("*", *_inputs(df, task))
    numbered = wide.toDF(*(f"c{i}" for i in range(len(wide.columns))))
    out = with_identities_of(df, numbered.mapInArrow(judge, shape), [f.name for f in fields])
    return noted(out, task.errors, verdict) if task.errors else out


def new_identity() -> str:
    """A name under which workers remember what they learned about one filter."""
    return uuid.uuid4().hex
