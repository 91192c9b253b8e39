"""Flows of a tick as DataFrames: what needs no state is left to Spark, stages are shuffled to cells in workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DoubleType, FloatType

from anabranch.cells.base import ELEMENT, EVER, FOREVER, TIME, Tick
from anabranch.cells.segments import INPUT, Segment
from anabranch.model.continuous import Scalar, Scan
from anabranch.planning.stages import Feed, Items, Stage, first
from anabranch.spark.cell_task import CELL, INSTANT, MARKER, CellTask

Logs = Mapping[int, Mapping[int, tuple[Segment, ...]]]
"""By stage and cell."""


@dataclass(frozen=True)
class Grid:
    """Cells of a stage and the numbers that send rows to them.

    Spark sends rows to partitions by the hash of a column. `values[c]` is a number whose hash is c: with it every cell
    has a partition of its own.
    """

    values: tuple[int, ...]

    @classmethod
    def of(cls, spark: SparkSession, cells: int) -> Grid:
        """A grid of so many cells."""
        tried = 64 * cells
        row = spark.sql("SELECT " + ", ".join(f"pmod(hash({n}), {cells})" for n in range(tried))).head()
        assert row is not None, "a query without a table has one row"
        places = list(row)
        return cls(tuple(places.index(cell) for cell in range(cells)))

    def __len__(self) -> int:
        return len(self.values)


@dataclass
class TickFlows:
    """The backend of one query in one tick.

    Parameters
    ----------
    spark
        The session.
    owner, query, attempt
        Names: of the engine's run, of the query, of this attempt at the tick.
    tick
        The step in time.
    origins
        The first time of each stream that has shown a row before the tick's end.
    due
        Rows of a stream whose time falls into the tick, or so many microseconds earlier, with its own columns and
        `_time`.
    relations
        Static tables.
    orders
        Columns that order rows of the same time, per stream.
    grid
        Cells.
    logs
        State so far.
    folder
        Where state is.
    reports
        Takes what the stages report.
    filters
        Applies conditions that call user functions.
    begins
        Whether this is the query's first tick, in which it is told of relations.
    stages
        Filled while a plan is read.
    held
        Filled too: how long rows of each stream are needed after their time.
    """

    spark: SparkSession
    owner: str
    query: str
    attempt: str
    tick: Tick
    origins: Mapping[str, int]
    due: Callable[[str, int], DataFrame]
    relations: Mapping[str, DataFrame]
    orders: Mapping[str, tuple[str, ...]]
    grid: Grid
    logs: Logs
    folder: str
    reports: Accumulator[Any]
    filters: Callable[[DataFrame, Sequence[Scalar]], DataFrame]
    begins: bool = True
    stages: list[Stage] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)

    def stream(self, scan: Scan) -> DataFrame:
        """Rows of a stream that are due, with `_time`."""
        return self.due(scan.name, 0).select(*_renamed(scan), TIME)

    def expired(self, scan: Scan, span: int) -> DataFrame:
        """Rows of a stream that leave a window, with `_time`."""
        self.held[scan.name] = max(span + 1, self.held.get(scan.name, 0))
        return self.due(scan.name, span + 1).select(*_renamed(scan), TIME)

    def order_of(self, stream: str) -> tuple[str, ...]:
        """Columns of a stream that order rows of the same time."""
        return self.orders[stream]

    def relation(self, scan: Scan) -> DataFrame:
        """Elements of a relation: all of them in the first tick."""
        bounds = [F.lit(value).alias(name) for name, value in zip(ELEMENT, (EVER, FOREVER, 1), strict=True)]
        table = self.table(scan).select("*", *bounds)
        return table if self.begins else table.limit(0)

    def table(self, scan: Scan) -> DataFrame:
        """All rows of a relation, without times."""
        return self.relations[scan.name].select(*_renamed(scan))

    def schema(self, flow: DataFrame) -> pa.Schema:
        """Names and types of a flow's columns."""
        return to_arrow_schema(flow.schema, timezone="UTC")

    def filter(self, flow: DataFrame, conditions: Sequence[Scalar]) -> DataFrame:
        """Rows for which all conditions are true."""
        if any(condition.functions for condition in conditions):
            return self.filters(flow, conditions)
        return flow.where(reduce(Column.__and__, (F.expr(condition.sql) for condition in conditions)))

    def project(self, flow: DataFrame, items: Items) -> DataFrame:
        """Exactly these columns."""
        return flow.select(*(F.expr(scalar.sql).alias(name) for name, scalar in items))

    def union(self, flows: Sequence[DataFrame]) -> DataFrame:
        """All rows."""
        return reduce(DataFrame.unionByName, flows)

    def look_up(self, flow: DataFrame, table: DataFrame, pairs: Sequence[tuple[str, str]]) -> DataFrame:
        """Rows of the flow combined with those of the table that agree, by a join of Spark's own."""
        agree = [F.col(f"`{left}`") == F.col(f"`{right}`") for left, right in pairs]
        return flow.join(table, reduce(Column.__and__, agree)) if agree else flow.crossJoin(table)

    def instants(self, streams: Sequence[str]) -> DataFrame:
        """Times of the rows that are due."""
        return reduce(DataFrame.union, (self.due(name, 0).select(TIME) for name in streams)).distinct()

    def stage(self, stage: Stage, flows: Sequence[DataFrame]) -> DataFrame:
        """What the operator makes of the flows: one shuffle, one task per cell."""
        self.stages.append(stage)
        cells = Grid((0,)) if stage.single else self.grid
        coded = [_coded(flow, feed) for flow, feed in zip(flows, stage.feeds, strict=True)]
        columns = tuple(tuple(flow.columns) for flow in coded)
        sent = [
            _sent(flow, feed, number, cells) for number, (flow, feed) in enumerate(zip(coded, stage.feeds, strict=True))
        ]
        together = reduce(_joined, [*sent, *self._control(stage, cells)])
        schema = self.schema(together.drop(CELL))
        task = CellTask(
            self.owner,
            self.query,
            stage,
            columns,
            schema,
            replace(self.tick, origin=first(self.origins, stage.streams)),
            self.logs.get(stage.number, {}),
            self.folder,
            self.attempt,
            self.reports,
        )
        return together.repartition(len(cells), CELL).mapInArrow(task, from_arrow_schema(stage.output))

    def _control(self, stage: Stage, cells: Grid) -> list[DataFrame]:
        """A row for every cell, so that time goes on in it, and the instants that the operator asks for."""
        places = F.explode(F.array(*(F.lit(value) for value in cells.values))).alias(CELL)
        one = self.spark.range(1).select(places, F.lit(MARKER).alias(INPUT))
        if not stage.instants:
            return [one]
        times = self.instants(stage.instants).select(places, F.lit(INSTANT).alias(INPUT), TIME)
        return [one, times]


def _renamed(scan: Scan) -> list[Column]:
    return [F.col(f"`{source}`").alias(name) for source, name in scan.renamed]


def _joined(first: DataFrame, second: DataFrame) -> DataFrame:
    return first.unionByName(second, allowMissingColumns=True)


def _coded(flow: DataFrame, feed: Feed) -> DataFrame:
    return flow.select("*", *(_code(flow, columns).alias(name) for name, columns in feed.codes))


def _sent(flow: DataFrame, feed: Feed, number: int, cells: Grid) -> DataFrame:
    return flow.select(_cell(flow, feed, cells).alias(CELL), F.lit(number).alias(INPUT), "*")


def _cell(flow: DataFrame, feed: Feed, cells: Grid) -> Column:
    """The cell of a row; where the row lacks a dimension of the grid, one row for every place along it."""
    if len(cells) == 1:
        return F.lit(cells.values[0])
    sizes = _sizes(len(feed.routes), len(cells))
    values = F.array(*map(F.lit, cells.values))
    choices = [range(1) if columns else range(size) for size, columns in zip(sizes, feed.routes, strict=True)]
    places = []
    for choice in product(*choices):
        place = F.lit(0)
        for size, columns, at in zip(sizes, feed.routes, choice, strict=True):
            place = place * size + (F.pmod(_code(flow, columns), F.lit(size)).cast("int") if columns else F.lit(at))
        places.append(F.element_at(values, place + 1))
    return places[0] if len(places) == 1 else F.explode(F.array(*places))


def _sizes(dimensions: int, cells: int) -> list[int]:
    """How many places each dimension has: a square as far as that goes.

    >>> _sizes(1, 4), _sizes(2, 4), _sizes(2, 8)
    ([4], [2, 2], [4, 2])
    """
    if dimensions == 1:
        return [cells]
    second = next(size for size in range(int(cells**0.5), 0, -1) if cells % size == 0)
    return [cells // second, second]


def _code(flow: DataFrame, columns: Sequence[str]) -> Column:
    """Equal values have equal codes: also NULLs, which Spark's hash passes over, and both zeros."""
    if not columns:
        return F.lit(0).cast("long")
    parts: list[Column] = []
    for name in columns:
        column = F.col(f"`{name}`")
        if isinstance(flow.schema[name].dataType, DoubleType | FloatType):
            column = F.when(column == 0, F.lit(0.0)).otherwise(column)
        parts += [column, column.isNull()]
    return F.xxhash64(*parts)
