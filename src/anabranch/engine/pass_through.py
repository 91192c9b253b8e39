"""Queries without state over one batch: each row is read once, however many of them look at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.engine.answer_tasks import AnswerFolder, AnswerTask, SplitAnswerTask
from anabranch.expressions import Scalar
from anabranch.spark.continuous.exchange import Arrived, Exchange, ExchangeInput, Parcel
from anabranch.spark.continuous.flows import Select, Sql
from anabranch.spark.continuous.views import Views
from anabranch.spark.mapping import map_in_arrow

PATHS = StructType([StructField("path", StringType())])
"""What the rows of a job say that writes answers."""
HERE = Scalar.parsed("0")
"""The cell of rows that stay in the partition they are in."""
Answering: TypeAlias = tuple[Sql, pa.Schema, AnswerTask | SplitAnswerTask]
"""What one query selects, or several that differ in constants; its columns, and what writes them."""


@dataclass(frozen=True)
class PassThroughTask:
    """Writes the answers of some queries to the rows of a partition, into one file.

    Parameters
    ----------
    folder
        Where the file goes.
    answers
        Per query what writes its answer, and where its rows are.
    """

    folder: AnswerFolder
    answers: tuple[tuple[AnswerTask | SplitAnswerTask, tuple[Parcel, ...]], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and return a row about the file."""
        writer = self.folder.begin()
        for batch in batches:
            arrived = Arrived(pa.Table.from_batches([batch]))
            for task, parcels in self.answers:
                for parcel in parcels:
                    writer.write([task], arrived.rows(parcel))
        files = writer.close()
        if files:
            yield pa.RecordBatch.from_pydict({"path": list(files)})


def pass_through(
    views: Views,
    answers: Sequence[Answering],
    folder: AnswerFolder,
    *,
    begins: bool,
    tasks: int | None = None,
) -> DataFrame:
    """The job that answers some queries: per query what it selects, its columns, and what writes them.

    Its rows are the paths of files. There are at most so many `tasks`, if that is given.
    """
    exchange = Exchange(HERE)
    wanted = [(task, [_wanted(branch, schema) for branch in flow.branches]) for flow, schema, task in answers]
    for _, some in wanted:
        for each in some:
            exchange.send(each)
    found = tuple((task, tuple(exchange.found(each) for each in some)) for task, some in wanted)
    rows = views.select(exchange.text, begins)
    return map_in_arrow(rows if tasks is None else rows.coalesce(tasks), PassThroughTask(folder, found), PATHS)


def _wanted(branch: Select, schema: pa.Schema) -> ExchangeInput:
    below = branch.nested() if branch.calls else branch
    return ExchangeInput(below, HERE, tuple((name, sql, schema.field(name).type) for name, sql in below.items))
