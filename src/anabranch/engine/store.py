"""The buffer of a stream: rows wait here until their time is complete, and as long as they are retained."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch import storage
from anabranch.engine.layout import UNCONFIRMED
from anabranch.operators.base import TIME, WEIGHT
from anabranch.spark.continuous.summaries import NEWEST, OLDEST
from anabranch.stats.delays import buckets_of

WRITTEN = pa.schema(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)
ASIDE = "aside"
"""The kind of rows that are only counted: those that have to be put aside."""
DELAYED = "delayed"
"""The kind of rows that are older than what was shown before: how many, from when to when."""
SEEN = "seen"
"""The kind of rows that a summary stands for: how many, from when to when."""
GROUP_ROWS = 131_072
SAMPLED_ROWS = 4096
WRITTEN_ROW = from_arrow_schema(WRITTEN)
"""As a type of Spark, which a text would have to be made into for every batch."""


@dataclass(frozen=True)
class BufferTask:
    """Writes the rows of a batch into files, without what comes too late or has no usable time: that is counted.

    Rows whose time is complete once the batch is taken go into another file than those that still wait: most files are
    then taken as a whole by a tick.

    Parameters
    ----------
    name
        Of the stream.
    folder
        Of the checkpoint.
    prefix
        Of file names: tick and attempt.
    closed
        Rows before this time are late.
    latest
        Rows after it are unusable: they would push the watermark too far.
    skew
        Time is complete up to the largest time minus this.
    shown
        The largest time of earlier batches, from which delays count; None if they do not matter.
    """

    name: str
    folder: str
    prefix: str
    closed: int
    latest: int
    skew: int
    shown: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and report what was written."""
        writer = _Files(self.folder, self.name, self.prefix)
        waiting: pa.Table | None = None
        aside = 0
        delayed: list[dict[str, object]] = []
        for table in _gathered(batches):
            kept = self._usable(table)
            delayed += self._delayed(table[TIME])
            aside += table.num_rows - kept.num_rows
            rows = kept if waiting is None else pa.concat_tables([waiting, kept])
            if rows.num_rows:
                complete = pc.less(rows[TIME], pc.max(rows[TIME]).as_py() - self.skew)
                writer.write("kept", rows.filter(complete), "complete")
                waiting = rows.filter(pc.invert(complete))
        if waiting is not None:
            writer.write("kept", waiting, "waiting")
        reports = [*writer.close(), *delayed]
        if aside:
            reports.append({"name": self.name, "kind": ASIDE, "path": "", "rows": aside, "first": None, "last": None})
        if reports:
            yield pa.RecordBatch.from_pylist(reports, WRITTEN)

    def _delayed(self, times: pa.ChunkedArray) -> list[dict[str, object]]:
        """Rows of about the same delay, late ones too; none if all are newer than what was shown."""
        if self.shown is None:
            return []
        old = np.sort(times.filter(pc.less(times, self.shown)).to_numpy())
        cuts = np.flatnonzero(np.diff(buckets_of(self.shown - old))) + 1
        about = {"name": self.name, "kind": DELAYED, "path": ""}
        return [
            about | {"rows": len(each), "first": int(each[0]), "last": int(each[-1])}
            for each in np.split(old, cuts)
            if len(each)
        ]

    def _usable(self, table: pa.Table) -> pa.Table:
        times = table[TIME]
        bounds = pc.min_max(times).as_py()
        if not times.null_count and bounds["min"] >= self.closed and bounds["max"] <= self.latest:
            return table
        in_time = pc.and_(pc.greater_equal(times, self.closed), pc.less_equal(times, self.latest))
        return table.filter(pc.fill_null(in_time, False))


@dataclass(frozen=True)
class AsideTask:
    """Writes the rows of a batch that come too late, and those that have no usable time; see `BufferTask`."""

    name: str
    folder: str
    prefix: str
    closed: int
    latest: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and report what was written."""
        writer = _Files(self.folder, self.name, self.prefix)
        for table in _gathered(batches):
            times = table[TIME]
            unusable = pc.fill_null(pc.greater(times, self.latest), True)
            late = pc.and_(pc.invert(unusable), pc.fill_null(pc.less(times, self.closed), False))
            writer.write("unusable", table.filter(unusable))
            writer.write("late", table.filter(late))
        reports = writer.close()
        if reports:
            yield pa.RecordBatch.from_pylist(reports, WRITTEN)


@dataclass(frozen=True)
class SumsTask:
    """Writes a summary of a batch, and reports the rows that it stands for; see `spark/continuous/summaries.py`.

    The smallest time of its file is that of the rows, the largest is that of the sums.
    """

    name: str
    folder: str
    prefix: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and report what was written."""
        for sums in _gathered(batches):
            about = {"name": self.name, "path": ""}
            known = sums.filter(pc.is_valid(sums[TIME]))
            if known.num_rows:
                file = _File(self.folder, "kept", self.name, self.prefix)
                file.write(known.drop_columns([OLDEST, NEWEST]))
                first, last = pc.min(known[OLDEST]).as_py(), pc.max(known[NEWEST]).as_py()
                rows = {"kind": SEEN, "rows": pc.sum(known[WEIGHT]).as_py(), "first": first, "last": last}
                yield pa.RecordBatch.from_pylist([file.close() | {"first": first}, about | rows], WRITTEN)
            if known.num_rows < sums.num_rows:
                rows = {"kind": ASIDE, "rows": sums.num_rows - known.num_rows, "first": None, "last": None}
                yield pa.RecordBatch.from_pylist([about | rows], WRITTEN)


class _Files:
    """Files of one task, each opened when there is something to write."""

    def __init__(self, folder: str, name: str, prefix: str) -> None:
        self._about = (folder, name, prefix)
        self._files: dict[tuple[str, str], _File] = {}

    def write(self, kind: str, table: pa.Table, part: str = "") -> None:
        if not table.num_rows:
            return
        if (kind, part) not in self._files:
            folder, name, prefix = self._about
            self._files[kind, part] = _File(folder, kind, name, prefix)
        self._files[kind, part].write(table)

    def close(self) -> list[dict[str, object]]:
        return [file.close() for file in self._files.values()]


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as tables that are worth a group of rows in a file."""
    some: list[pa.RecordBatch] = []
    for batch in batches:
        some += [batch] if batch.num_rows else []
        if sum(each.num_rows for each in some) >= GROUP_ROWS:
            yield pa.Table.from_batches(some)
            some = []
    if some:
        yield pa.Table.from_batches(some)


class _File:
    """A Parquet file that is being written."""

    def __init__(self, folder: str, kind: str, name: str, prefix: str) -> None:
        self._about = {"name": name, "kind": kind, "path": f"{kind}/{name}/{prefix}-{uuid.uuid4().hex[:12]}.parquet"}
        self._file = storage.NewFile(Path(folder) / (self._about["path"] + ("" if kind == "kept" else UNCONFIRMED)))
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0
        self._first: int | None = None
        self._last: int | None = None

    def write(self, table: pa.Table) -> None:
        with self._file.writing():
            if self._writer is None:
                few = [name for name, column in zip(table.column_names, table.columns, strict=True) if _repeats(column)]
                sink = self._file.sink
                self._writer = pq.ParquetWriter(sink, table.schema, compression="snappy", use_dictionary=few)
            self._writer.write_table(table)
        self.rows += table.num_rows
        if TIME in table.schema.names:
            bounds = pc.min_max(table[TIME]).as_py()
            if bounds["min"] is not None:
                self._first = min(bounds["min"], bounds["min"] if self._first is None else self._first)
                self._last = max(bounds["max"], bounds["max"] if self._last is None else self._last)

    def close(self) -> dict[str, object]:
        if self._writer is not None:
            with self._file.writing():
                self._writer.close()
        self._file.close()
        return {**self._about, "rows": self.rows, "first": self._first, "last": self._last}


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether values are better written as numbers of a dictionary: words, and numbers if there are few of them."""
    if not pa.types.is_primitive(column.type):
        return True
    some = column.slice(0, SAMPLED_ROWS)
    return bool(len(some) > 4 * pc.count_distinct(some, mode="all").as_py())


def confirm(folder: Path, paths: Sequence[str]) -> None:
    """Rename the files of tasks whose results count; repeated or abandoned tasks leave files that are not renamed."""
    for path in paths:
        storage.rename(folder / (path + UNCONFIRMED), folder / path)


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
