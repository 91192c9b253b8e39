"""Queries without state over one batch: each row is read once, however many of them look at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from anabranch.engine.store import WRITTEN, WRITTEN_ROW, AnswerTask
from anabranch.expressions import Scalar
from anabranch.spark.continuous.exchange import Arrived, Exchange, Parcel, Wanted
from anabranch.spark.continuous.flows import Select, Sql
from anabranch.spark.continuous.views import Views
from anabranch.spark.mapping import map_in_arrow

HERE = Scalar.parsed("0")
"""The cell of rows that stay in the partition they are in."""


@dataclass(frozen=True)
class PassThroughTask:
    """Writes the answers of some queries to the rows of a partition: per query its answer, and where its rows are."""

    answers: tuple[tuple[AnswerTask, tuple[Parcel, ...]], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and return a row about each file."""
        writers = [task.begin() for task, _ in self.answers]
        for batch in batches:
            arrived = Arrived(pa.Table.from_batches([batch]))
            for writer, (_, parcels) in zip(writers, self.answers, strict=True):
                for parcel in parcels:
                    writer.write(arrived.rows(parcel).to_batches())
        files = [writer.file.close() for writer in writers if writer.file is not None]
        if files:
            yield pa.RecordBatch.from_pylist(files, WRITTEN)


def pass_through(views: Views, answers: Sequence[tuple[Sql, pa.Schema, AnswerTask]], *, begins: bool) -> DataFrame:
    """The job that answers some queries: per query what it selects, its columns, and what writes them."""
    exchange = Exchange(HERE)
    wanted = [(task, [_wanted(branch, schema) for branch in flow.branches]) for flow, schema, task in answers]
    for _, some in wanted:
        for each in some:
            exchange.send(each)
    found = tuple((task, tuple(exchange.found(each) for each in some)) for task, some in wanted)
    return map_in_arrow(views.select(exchange.text, begins), PassThroughTask(found), WRITTEN_ROW)


def _wanted(branch: Select, schema: pa.Schema) -> Wanted:
    below = branch.nested() if branch.calls else branch
    return Wanted(below, HERE, tuple((name, scalar, schema.field(name).type) for name, scalar in below.items))
