"""What a task writes of answers: one file, for all queries that its rows answer.

Tasks name queries by their numbers (`manifest.py`). The output of an operator may be the answer of one query, of
several that are equal, or of several that differ in constants: then a column says whose each row is.

>>> task = SplitAnswerTask("rule", (("a", 3), ("b", 8)), (("v", "value"),), changes=False)
>>> rows = pa.table({"rule": ["b", "a", "b", "c"], "v": [1, 2, 3, 4], "_time": [5, 6, 7, 8]})
>>> [(query, part["value"].to_pylist()) for query, part in task.shares(rows)]
[(3, [2]), (8, [1, 3])]
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.engine.answer_blocks import BlockWriter
from anabranch.engine.layout import ANSWERS, BLOCKS, UNCONFIRMED
from anabranch.model.names import OP, TS
from anabranch.operators.base import TIME, WEIGHT

BUFFERED_BYTES = 32_000_000
"""What a task holds of answers before it writes them; of each query the rows up to then are one block."""


@dataclass(frozen=True)
class AnswerTask:
    """The answer of one query.

    Parameters
    ----------
    query
        Its number.
    output
        The columns of an operator's output, each with its name in the answer.
    changes
        Whether the answer is a changelog.
    """

    query: int
    output: tuple[tuple[str, str], ...]
    changes: bool

    def shares(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The query, and its rows."""
        yield self.query, _answer(table, self.output, self.changes)


@dataclass(frozen=True)
class SplitAnswerTask:
    """The answers of several queries in one output: a column says whose each row is.

    Parameters
    ----------
    by
        The column; it need not be part of the answers.
    queries
        Its values, each with the number of a query. One that is given several times is an answer of several queries;
        rows with a value that is not given belong to no query.
    output, changes
        As in `AnswerTask`, for all of them.
    """

    by: str
    queries: tuple[tuple[Any, int], ...]
    output: tuple[tuple[str, str], ...]
    changes: bool

    def shares(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Each query that has rows, and these, in the order in which they came."""
        column = table[self.by]
        values = list(dict.fromkeys(value for value, _ in self.queries))
        places = pc.index_in(column, pa.array(values, column.type)).combine_chunks()
        whose = places.fill_null(-1).to_numpy(zero_copy_only=False)
        order = np.argsort(whose, kind="stable")
        sorted_rows = _answer(table.take(pa.array(order)), self.output, self.changes)
        starts = np.searchsorted(whose[order], np.arange(len(values) + 1))
        share = {value: (int(starts[n]), int(starts[n + 1])) for n, value in enumerate(values)}
        for value, query in self.queries:
            first, end = share[value]
            if end > first:
                yield query, sorted_rows.slice(first, end - first)


@dataclass(frozen=True)
class AnswerFolder:
    """Where the tasks of a tick write answers, each into one file.

    Parameters
    ----------
    checkpoint
        The folder of the checkpoint.
    prefix
        Of file names: block, tick and attempt.
    """

    checkpoint: str
    prefix: str

    def begin(self) -> AnswerWriter:
        """Begin to write."""
        return AnswerWriter(self)


class AnswerWriter:
    """The answers of one task, in a file that is made when there is something to write."""

    def __init__(self, folder: AnswerFolder) -> None:
        self._folder = folder
        self._waiting: dict[tuple[int, ...], list[pa.Table]] = defaultdict(list)
        self._bytes = 0
        self._writer: BlockWriter | None = None
        self.path = f"{ANSWERS}/{folder.prefix}-{uuid.uuid4().hex[:12]}{BLOCKS}"

    def write(self, tasks: Sequence[AnswerTask | SplitAnswerTask], table: pa.Table) -> None:
        """Take rows that answer the queries of all of some tasks; equal answers are written once."""
        if not table.num_rows:
            return
        alike: dict[object, list[AnswerTask]] = defaultdict(list)
        for task in tasks:
            if isinstance(task, AnswerTask):
                alike[tuple(name for name, _ in task.output), task.changes].append(task)
                continue
            for query, rows in task.shares(table):
                self._wait((query,), rows)
        for some in alike.values():
            for _, rows in some[0].shares(table):
                self._wait(tuple(sorted(task.query for task in some)), rows)
        if self._bytes > BUFFERED_BYTES:
            self._flush()

    def _wait(self, queries: tuple[int, ...], rows: pa.Table) -> None:
        self._waiting[queries].append(rows)
        self._bytes += rows.nbytes

    def close(self) -> Sequence[str]:
        """Finish the file; returns it, if there was something to write."""
        self._flush()
        if self._writer is None:
            return ()
        self._writer.close()
        return (self.path,)

    def _flush(self) -> None:
        for queries, tables in sorted(self._waiting.items()):
            self._writer = self._writer or BlockWriter(Path(self._folder.checkpoint) / (self.path + UNCONFIRMED))
            self._writer.add(queries, pa.concat_tables(tables))
        self._waiting.clear()
        self._bytes = 0


def _answer(table: pa.Table, output: Iterable[tuple[str, str]], changes: bool) -> pa.Table:
    columns = {shown: table[unique] for unique, shown in output}
    columns[TS] = table[TIME].cast(pa.timestamp("us", "UTC"))
    if changes:
        columns[OP] = pc.if_else(pc.greater(table[WEIGHT], 0), "+", "-")
    return pa.table(columns)
