"""`mapInArrow` for columns of any name: Spark's own takes neither dots nor backticks in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Renamed:
    """A task whose columns travel under other names."""

    task: Task
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the task makes of them under their own names."""
        return self.task(batch.rename_columns(list(self.names)) for batch in batches)


def map_in_arrow(df: DataFrame, task: Task, schema: StructType) -> DataFrame:
    """What a task makes of the rows; where Spark would not find a column by its name, they are numbered under way."""
    names = tuple(df.columns)
    if not any("." in name or "`" in name for name in names):
        return df.mapInArrow(task, schema)
    numbered = df.toDF(*(f"c{place}" for place in range(len(names))))
    return numbered.mapInArrow(Renamed(task, names), schema)
