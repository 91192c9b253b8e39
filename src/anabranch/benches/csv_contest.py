"""Contests over streams in CSV files: all read the same rows, and write their answers.

What it takes to start is not counted: each runs over a few rows first, and the time of that is taken off.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.benches import flink
from anabranch.benches.harness import Answer, Race, answer
from anabranch.errors import InternalError

Columns = Sequence[tuple[str, str]]
"""Name and SQL type of each column of a stream, but the first one: `ms`, its time in milliseconds."""


@dataclass(frozen=True)
class Files:
    """Rows of streams: per stream a folder of batches, and one file with all of them."""

    folder: Path
    columns: Mapping[str, Columns]

    def batches(self, name: str) -> Path:
        """Of a stream."""
        return self.folder / name

    def whole(self, name: str) -> Path:
        """Of a stream."""
        return self.folder / f"{name}.csv"

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A stream that has a batch of each file, with its time as `ts`."""
        schema = ", ".join(f"`{column}` {kind}" for column, kind in (("ms", "BIGINT"), *self.columns[name]))
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        rows = reader.csv(str(self.batches(name)))
        return rows.select(F.expr("timestamp_millis(ms)").alias("ts"), *(column for column, _ in self.columns[name]))

    def for_flink(self, names: Sequence[str]) -> dict[str, flink.Source]:
        """The whole files of some streams."""
        return {name: flink.Source(self.columns[name], self.whole(name)) for name in names}


Contender = Callable[[Files, Path], tuple[float, DataFrame]]
"""Answers the rows of files, writes to a folder, and says how long that took and what the answer is."""


def write(folder: Path, columns: Mapping[str, Columns], batches: Mapping[str, Sequence[pa.Table]]) -> Files:
    """Write the batches of every stream: tables with the column `ms` and its other columns, in that order."""
    files = Files(folder, columns)
    for name, tables in batches.items():
        files.batches(name).mkdir(parents=True)
        for number, table in enumerate(tables):
            _write_csv(table, files.batches(name) / f"{number:06d}.csv")
        _write_csv(pa.concat_tables(tables), files.whole(name))
    return files


def _write_csv(table: pa.Table, path: Path) -> None:
    pc.write_csv(table, path, pc.WriteOptions(include_header=False))


def contest(contenders: Mapping[str, Contender], given: Files, small: Files, folder: Path, rounds: int) -> Race:
    """All over the same files, in turn; all must give the same bag of rows. Flink takes off its start by itself."""
    race = Race({name: [] for name in contenders})
    starts = {
        name: 0.0 if name == "Flink" else min(once(each, small, folder)[0] for _ in range(3))
        for name, each in contenders.items()
    }
    for number in range(rounds):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            seconds, found = once(contenders[name], given, folder)
            race.answer = race.answer or found
            if found != race.answer:
                raise InternalError(f"{name} answered {found[0]} rows, or others, instead of {race.answer[0]}")
            race.seconds[name].append(seconds - starts[name])
    return race


def once(contender: Contender, given: Files, folder: Path) -> tuple[float, Answer]:
    """One run, in a folder that is empty when it begins."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    seconds, rows = contender(given, out)
    return seconds, answer(rows)
