"""The Arrow executor: adaptive filters inside Spark's Python workers.

On the driver, `apply` puts one Python node into the Spark plan. In a worker, `FilterTask` runs every Arrow batch
through the adaptive loop. What a worker has learned about a filter stays in its memory for the next task; when a task
ends it sends counts, decisions and profiles to the driver's ledger, which seeds the next DataFrame that the filter is
applied to.

Only the columns that predicates read enter the worker: from Spark 4.1 on, an Arrow UDF returns a struct of decision and
kept values, and the other columns never leave the JVM (decision record 002). Spark 4.0 has no such UDF: there,
`mapInArrow` carries all columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, StringType, StructField, StructType

from anabranch.errors import ResourceError
from anabranch.spark.connect import is_connect
from anabranch.spark.filters.batch_verdict import BatchVerdict
from anabranch.spark.filters.filter_task import FilterTask
from anabranch.spark.filters.letters import Outbox, gathered
from anabranch.spark.filters.undecided import ERROR_TYPE, lacks, noted
from anabranch.spark.names import unused_name, written

if TYPE_CHECKING:
    from anabranch.spark.mailbox import Recipient

Packed = Callable[[BatchVerdict, bool], pa.Array]
"""What Spark is given for a batch, and whether that is the last one."""


def apply(df: DataFrame, task: FilterTask, recipient: Recipient) -> DataFrame:
    """Put the task into a DataFrame's plan: the rows that pass, and those with errors if these have a column.

    On Spark Connect, the records of tasks reach their recipient with the rows.
    """
    if hasattr(F, "arrow_udf"):
        return _with_arrow_udf(df, task, recipient)
    if is_connect(df):
        raise ResourceError(
            "filters need Spark 4.1 or newer on Spark Connect", hint="use a newer server, or a classic session"
        )
    return _with_map_in_arrow(df, task)


def _inputs(df: DataFrame, task: FilterTask) -> list[str | Column]:
    """What enters the worker: columns, and which of them lack a value."""
    errors = task.errors
    flags = [lacks(errors.column, name) for name in errors.lacking] if errors.column else []
    return [*(written(df, name) for name in task.input.columns), *flags]


def _with_arrow_udf(df: DataFrame, task: FilterTask, recipient: Recipient) -> DataFrame:
    """Spark 4.1 and newer: only the columns that predicates read enter the worker."""
    outbox = task.origin.ledger if isinstance(task.origin.ledger, Outbox) else None
    if not task.kept and not task.errors.column and outbox is None:
        return df.where(_arrow_udf(df, task, BooleanType(), lambda judged, last: pa.array(judged.going_on())))
    kept = [f"kept{i}" for i in range(len(task.kept))]
    shape = StructType([StructField("goes_on", BooleanType())])
    for name, (_, kind) in zip(kept, task.kept, strict=True):
        shape.add(name, kind)
    if task.errors.column:
        shape.add("error", ERROR_TYPE)
    if outbox is not None:
        shape.add("letter", StringType())

    def packed(judged: BatchVerdict, last: bool) -> pa.Array:
        mask = judged.going_on()
        goes_on, *letters = [pa.array(mask)] if outbox is None else outbox.beside(mask, last=last)
        arrays = [goes_on, *judged.kept(), *([judged.errors()] if task.errors.column else []), *letters]
        return pa.StructArray.from_arrays(arrays, names=shape.fieldNames())

    verdict = unused_name(df, "__anabranch")
    fields = F.col(verdict)
    out = df.withColumn(verdict, _arrow_udf(df, task, shape, packed)).where(fields["goes_on"])
    if outbox is not None:
        out = gathered(out, fields["letter"], recipient)
    for (name, _), field in zip(task.kept, kept, strict=True):
        out = out.withColumn(name, fields[field])
    if not task.errors.column:
        return out.drop(verdict)
    return noted(out.withColumn(verdict, fields["error"]), task.errors.column, verdict)


def _arrow_udf(df: DataFrame, task: FilterTask, kind: DataType, packed: Packed) -> Column:
    """The task as a column, from the verdict on each batch.

    A batch is handed over when the next one is there, or the task has ended: the last one takes its record along.

    Nondeterministic, or Spark would move it, run it twice, or join it with its neighbours into one condition of which
    all parts see all rows.
    """

    def judge(batches: Iterator[Any]) -> Iterator[pa.Array]:
        held: BatchVerdict | None = None
        for judged in task.run((b,) if isinstance(b, pa.Array) else b for b in batches):
            if not letters:
                yield packed(judged, False)
                continue
            if held is not None:
                yield packed(held, False)
            held = judged
        if held is not None:
            yield packed(held, True)

    letters = isinstance(task.origin.ledger, Outbox)
    inputs = _inputs(df, task) or [F.lit(0)]
    batch_type: Any = pa.Array if len(inputs) == 1 else tuple[pa.Array, ...]
    judge.__annotations__ = {"batches": Iterator[batch_type], "return": Iterator[pa.Array]}
    found: Column = F.arrow_udf(judge, kind).asNondeterministic()(*inputs)  # type: ignore[attr-defined]
    return found


def _with_map_in_arrow(df: DataFrame, task: FilterTask) -> DataFrame:
    """Spark 4.0: all columns travel through the worker, and only rows that go on travel back.

    Under way the columns are numbered, as `mapInArrow` takes neither dots in a name nor one name twice.
    """
    from anabranch.spark.filters.identities import with_identities_of  # through Java: classic sessions only

    verdict = unused_name(df, "__anabranch")
    errors = [StructField(verdict, ERROR_TYPE)] if task.errors.column else []
    added = [*(StructField(n, t) for n, t in task.kept), *errors]
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
            arrays = [*batch.columns[:carried], *judged.kept(), *([judged.errors()] if task.errors.column else [])]
            yield pa.RecordBatch.from_arrays([a.take(rows) for a in arrays], names=shape.fieldNames())

    wide = df.select("*", *_inputs(df, task))
    numbered = wide.toDF(*(f"c{i}" for i in range(len(wide.columns))))
    out = with_identities_of(df, numbered.mapInArrow(judge, shape), [f.name for f in fields])
    return noted(out, task.errors.column, verdict) if task.errors.column else out
