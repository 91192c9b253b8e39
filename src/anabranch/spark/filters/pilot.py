"""A pilot sample for Python predicates: a few rows, judged by every predicate in one small Spark job."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, StructField, StructType

from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.model.attributes import bounded
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.spark.filters import worker_clock
from anabranch.spark.filters.decode import ChunkColumns
from anabranch.spark.filters.filter_task import FilterTask
from anabranch.spark.learned.candidate_attributes import attribute
from anabranch.spark.names import column

PILOT_ROWS = 400
FEW_ROWS = 8
PARTS = 5
SMALLEST_SECONDS = 1e-9


def judge_sample(df: DataFrame, task: FilterTask, rows: int = PILOT_ROWS) -> JudgedSample:
    """Try all predicates on the first rows; those that must not be called for profiling count as dropping nothing."""
    names = tuple(task.input.columns)
    places = [names.index(name) for name in task.input.attributes]
    inputs = df.select(*(column(df, name).alias(f"c{i}") for i, name in enumerate(names))).limit(rows)
    shape = StructType(
        [
            *(inputs.schema[place] for place in places),
            StructField("drops", ArrayType(BooleanType())),
            StructField("costs", ArrayType(DoubleType())),
        ]
    )

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            drops, costs = judge_all(task, batch.columns, batch.num_rows)
            extra = [pa.array(drops.tolist(), pa.list_(pa.bool_())), pa.array([costs.tolist()] * len(drops))]
            attributes = [bounded(batch.column(place)) for place in places]
            yield pa.RecordBatch.from_arrays([*attributes, *extra], names=shape.fieldNames())

    table = inputs.coalesce(1).mapInArrow(judge, shape).toArrow()
    width = len(task.evaluators)
    drops = np.array(table["drops"].to_pylist(), dtype=np.bool_).reshape(table.num_rows, width)
    costs = np.array(table["costs"].to_pylist(), dtype=float).reshape(table.num_rows, width)
    arrays = {name: table.column(i).combine_chunks() for i, name in enumerate(task.input.attributes)}
    found = {name: attribute(array, task.input.time_zone) for name, array in arrays.items()}
    mean: Floats = costs.mean(axis=0) if len(costs) else np.full(width, np.nan)
    return JudgedSample(found, drops, mean)


def judge_all(task: FilterTask, arrays: list[pa.Array], rows: int) -> tuple[BoolMatrix, Floats]:
    """Which predicates drop which rows, and what a row costs each: without what a call costs, and its first one.

    The rows are judged in parts, and the median of their costs counts: a pause does not look like a dear predicate.
    """
    few = min(rows, FEW_ROWS)
    _judged(task, arrays, 0, few)
    _, short = _judged(task, arrays, 0, few)
    bounds = np.linspace(0, rows, max(1, min(PARTS, rows // (2 * FEW_ROWS))) + 1).astype(int).tolist()
    judged = [_judged(task, arrays, start, end - start) for start, end in pairwise(bounds)]
    rest = np.maximum(1, np.diff(bounds) - few)[:, np.newaxis]
    long = np.array([seconds for _, seconds in judged])
    costs = np.where(long > 0, np.maximum(long - short, SMALLEST_SECONDS), 0.0) / rest
    return np.concatenate([drops for drops, _ in judged]), np.median(costs, axis=0)


def _judged(task: FilterTask, arrays: list[pa.Array], start: int, rows: int) -> tuple[BoolMatrix, Floats]:
    """Which predicates drop which of some rows, and how long it took each to say so."""
    read = {name: array.slice(start, rows) for name, array in zip(task.input.columns, arrays, strict=True)}
    columns = ChunkColumns(read, task.converters(), task.input.time_zone, length=rows)
    drops, seconds = np.zeros((rows, len(task.evaluators)), dtype=np.bool_), np.zeros(len(task.evaluators))
    for f in task.ordering.precedence.legal(range(len(task.evaluators))):
        if f in task.ordering.unprofiled:
            continue
        began = worker_clock.seconds()
        verdict = task.evaluators[f](columns, np.arange(rows))
        seconds[f] = worker_clock.seconds() - began
        drops[:, f] = ~verdict.passed
        drops[list(verdict.failures or ()), f] = False
    return drops, seconds
