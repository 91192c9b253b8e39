"""What a task found out about one batch: the rows that go on, kept values, and errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType

from anabranch.model.arrays import Mask, Rows
from anabranch.spark.filters.decode import ChunkColumns
from anabranch.spark.filters.undecided import ERROR_TYPE
from anabranch.spark.schemas import arrow_type


class Undecided(NamedTuple):
    """A row of a chunk that no predicate rejects and on which one fails, here or in an earlier stage: `ERROR_TYPE`."""

    row: int
    lacking: list[str]
    place: int | None = None
    predicate: str | None = None
    message: str | None = None
    text: str | None = None


class BatchVerdict:
    """Decisions and kept values of one batch, collected chunk by chunk."""

    def __init__(self, rows: int, kept: tuple[tuple[str, DataType], ...]) -> None:
        self.rows = rows
        self.mask: Mask = np.zeros(rows, dtype=np.bool_)
        self.failed: dict[int, Undecided] = {}
        self._kept = {name: (arrow_type(kind), list[pa.Array]()) for name, kind in kept}

    def add(self, at: int, survivors: Rows, columns: ChunkColumns, undecided: list[Undecided]) -> None:
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
