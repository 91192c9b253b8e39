"""The input manager's shelf: rows of streams wait here until their time is complete, and as long as history is kept."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.cells.base import TIME, WEIGHT
from anabranch.errors import ResourceError

TS, OP = "_ts", "_op"
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
UNCONFIRMED = ".tmp"
"""Ends names of files that are found by their names, until the driver knows that the tasks which wrote them count."""
WRITTEN_SQL = "name string, kind string, path string, rows long, first long, last long"


@dataclass(frozen=True)
class ShelveTask:
    """Writes the rows of a batch into files, apart what comes too late or has no usable time.

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
        Rows after it cannot be believed, or the watermark would run away.
    """

    name: str
    folder: str
    prefix: str
    closed: int
    latest: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and tell what was written."""
        writers: dict[str, _File] = {}
        for batch in batches:
            times = batch.column(TIME)
            unusable = pc.fill_null(pc.greater(times, self.latest), True)
            late = pc.and_(pc.invert(unusable), pc.fill_null(pc.less(times, self.closed), False))
            kept = pc.invert(pc.or_(unusable, late))
            for kind, mask in (("kept", kept), ("late", late), ("unusable", unusable)):
                some = batch.filter(mask)
                if some.num_rows:
                    writers.setdefault(kind, _File(self.folder, kind, self.name, self.prefix)).write(some)
        rows = [file.close() for file in writers.values()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, WRITTEN)


@dataclass(frozen=True)
class AnswerTask:
    """Writes the rows of an answer into a file of its own per cell.

    Parameters
    ----------
    name
        Of the query.
    folder
        Of the checkpoint.
    prefix
        Of file names: tick and attempt.
    told
        The columns of a stage's result, each with its name in the answer.
    changes
        Whether the answer tells what comes and what goes.
    """

    name: str
    folder: str
    prefix: str
    told: tuple[tuple[str, str], ...]
    changes: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and tell what was written."""
        file = None
        for batch in batches:
            if batch.num_rows:
                file = file or _File(self.folder, "answers", self.name, self.prefix)
                file.write(self._answer(batch))
        if file is not None:
            yield pa.RecordBatch.from_pylist([file.close()], WRITTEN)

    def _answer(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {shown: batch.column(unique) for unique, shown in self.told}
        columns[TS] = batch.column(TIME).cast(pa.timestamp("us", "UTC"))
        if self.changes:
            columns[OP] = pc.if_else(pc.greater(batch.column(WEIGHT), 0), "+", "-")
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


class _File:
    """A Parquet file that is being written."""

    def __init__(self, folder: str, kind: str, name: str, prefix: str) -> None:
        self._about = {"name": name, "kind": kind, "path": f"{kind}/{name}/{prefix}-{uuid.uuid4().hex[:12]}.parquet"}
        self._path = Path(folder) / (self._about["path"] + ("" if kind == "kept" else UNCONFIRMED))
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._first: int | None = None
        self._last: int | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            if self._writer is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._writer = pq.ParquetWriter(self._path, batch.schema, compression="snappy")
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._failed(error) from error
        self._rows += batch.num_rows
        if TIME in batch.schema.names:
            bounds = pc.min_max(batch.column(TIME)).as_py()
            if bounds["min"] is not None:
                self._first = min(bounds["min"], bounds["min"] if self._first is None else self._first)
                self._last = max(bounds["max"], bounds["max"] if self._last is None else self._last)

    def _failed(self, error: OSError) -> ResourceError:
        hint = "free some space on the disk of the checkpoint, then start again"
        return ResourceError(f"{self._about['path']} cannot be written: {error}", hint=hint)

    def close(self) -> dict[str, object]:
        if self._writer is not None:
            try:
                self._writer.close()
            except OSError as error:
                raise self._failed(error) from error
        return {**self._about, "rows": self._rows, "first": self._first, "last": self._last}


def confirm(folder: Path, path: str) -> None:
    """The task that wrote a file is one whose result counts: tasks that were repeated or given up leave others."""
    (folder / (path + UNCONFIRMED)).rename(folder / path)


def write_text(path: Path, text: str) -> None:
    """Put a file in place by one rename, once it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{uuid.uuid4().hex}{UNCONFIRMED}"
    try:
        with beside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def prefix_of(tick: int, attempt: str) -> str:
    """What names of files that an attempt at a tick writes begin with."""
    return f"{tick:012d}-{attempt}"


def tick_of(path: Path) -> int:
    """The tick in which a file was written."""
    return int(path.name.split("-", 1)[0])


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
