"""Queries without state over one batch: each row is read once, however many of them look at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
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
class Passing:
    """What some queries answer to a batch.

    Parameters
    ----------
    flow
        What they select.
    schema
        Its columns.
    tasks
        Write the answers.
    by
        The column with the place of the task that a row is for; without it they are for all.
    """

    flow: Sql
    schema: pa.Schema
    tasks: tuple[AnswerTask, ...]
    by: str = ""


@dataclass(frozen=True)
class PassThroughTask:
    """Writes the answers of some queries to the rows of a partition: who writes, whose a row is, and where rows are."""

    answers: tuple[tuple[tuple[AnswerTask, ...], str, tuple[Parcel, ...]], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and return a row about each file."""
        writers = [[task.begin() for task in tasks] for tasks, _, _ in self.answers]
        for batch in batches:
            arrived = Arrived(pa.Table.from_batches([batch]))
            for some, (_, by, parcels) in zip(writers, self.answers, strict=True):
                for parcel in parcels:
                    for place, rows in _shares(arrived.rows(parcel), len(some), by):
                        some[place].write(rows.to_batches())
        files = [writer.file.close() for some in writers for writer in some if writer.file is not None]
        if files:
            yield pa.RecordBatch.from_pylist(files, WRITTEN)


def _shares(rows: pa.Table, count: int, by: str) -> Iterator[tuple[int, pa.Table]]:
    """The places of writers, each with its rows."""
    if not by:
        yield from ((place, rows) for place in range(count))
        return
    if not rows.num_rows:
        return
    places = rows[by].to_numpy()
    order = np.argsort(places, kind="stable")
    sorted_rows = rows.take(pa.array(order))
    found, starts = np.unique(places[order], return_index=True)
    for place, start, end in zip(found.tolist(), starts.tolist(), [*starts[1:].tolist(), len(places)], strict=True):
        yield place, sorted_rows.slice(start, end - start)


def pass_through(views: Views, answers: Sequence[Passing], *, begins: bool) -> DataFrame:
    """The job that answers some queries."""
    exchange = Exchange(HERE)
    wanted = [(each, [_wanted(branch, each.schema) for branch in each.flow.branches]) for each in answers]
    for _, some in wanted:
        for each in some:
            exchange.send(each)
    found = tuple((each.tasks, each.by, tuple(map(exchange.found, some))) for each, some in wanted)
    return map_in_arrow(views.select(exchange.text, begins), PassThroughTask(found), WRITTEN_ROW)


def _wanted(branch: Select, schema: pa.Schema) -> Wanted:
    below = branch.nested() if branch.calls else branch
    return Wanted(below, HERE, tuple((name, scalar, schema.field(name).type) for name, scalar in below.items))
