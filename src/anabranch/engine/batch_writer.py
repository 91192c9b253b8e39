"""Batches become files of rows, or of sums of rows; late rows and those without a usable time are set aside."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Row

from anabranch import storage
from anabranch.engine.failures import is_fatal
from anabranch.engine.inputs import StreamInput
from anabranch.engine.layout import UNCONFIRMED, prefix_of
from anabranch.engine.manifest import StoredFile
from anabranch.engine.store import (
    ASIDE,
    DELAYED,
    SEEN,
    WRITTEN_ROW,
    AsideTask,
    BufferTask,
    SumsTask,
    now,
)
from anabranch.model.names import quoted
from anabranch.operators.base import FOREVER, TIME
from anabranch.spark.continuous.summaries import BATCH, of_batch
from anabranch.spark.mapping import map_in_arrow


@dataclass(frozen=True)
class IngestSpec:
    """What queries want of the batches of a stream: columns of its rows, if rows at all, and texts of summaries."""

    columns: tuple[str, ...]
    rows: bool = True
    summaries: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Terms:
    """On which a batch is taken; times and durations in microseconds.

    Parameters
    ----------
    closed
        Rows before this time come too late.
    wanted
        What becomes of the others.
    skew
        By how much they may be out of order.
    shown
        What earlier batches have shown, if delays count.
    """

    closed: int
    wanted: IngestSpec
    skew: int
    shown: int | None


@dataclass(frozen=True)
class StoredBatch:
    """What a batch became.

    Parameters
    ----------
    rows, late, unusable
        How many rows were in time, came late, or have no usable time.
    newest
        The largest time of those in time.
    files
        Their rows, if those were wanted.
    sums
        Summaries of them, by name.
    aside
        Files of the others.
    delayed
        Delays against what earlier batches have shown, in microseconds, with how many rows had about that; where rows
        are only summed up, all of a part count as its oldest one.
    """

    rows: int
    late: int
    unusable: int
    newest: int | None
    files: tuple[StoredFile, ...]
    sums: dict[str, tuple[StoredFile, ...]]
    aside: tuple[str, ...]
    delayed: tuple[tuple[int, int], ...] = ()

    @property
    def all_files(self) -> list[StoredFile]:
        """Of rows and of summaries."""
        return [*self.files, *(file for files in self.sums.values() for file in files)]


class BatchWriter:
    """Writes batches of streams.

    Parameters
    ----------
    folder
        Of the checkpoint.
    over
        What a text makes of a batch, which goes by a name.
    """

    def __init__(self, folder: Path, over: Callable[[str, DataFrame, str], DataFrame]) -> None:
        self._folder = folder
        self._over = over

    def write(self, stream: StreamInput, batch: int, df: DataFrame, terms: Terms, arrived: int) -> StoredBatch:
        """Write a batch, on terms; rows without times get that at which it `arrived`.

        Rows are almost always in time: whether all are is known only when they have been summed up. If not, that is
        done again without the others.
        """
        closed, wanted = terms.closed, terms.wanted
        latest, prefix, timed = latest_of(stream), prefix_of(batch, uuid.uuid4().hex[:8]), timed_at(stream, arrived)
        about = (stream.name, str(self._folder), prefix, closed, latest)
        usable = f"coalesce({TIME} BETWEEN {closed}L AND {latest}L, false)"
        self._make_folders("kept", [*([stream.name] if wanted.rows else []), *(name for name, _ in wanted.summaries)])
        with _read_once(df, wanted):
            buffer = BufferTask(*about, terms.skew, terms.shown)
            reports = self._rows(df, wanted.columns, timed, buffer) if wanted.rows else []
            aside, seen = any(row["kind"] == ASIDE for row in reports), reports
            sums: dict[str, tuple[StoredFile, ...]] = {}
            for name, text in wanted.summaries:
                task, rows = SumsTask(name, str(self._folder), prefix), _rows_of(df, timed)
                found = None if aside else self._sums_in_time(text, df, rows, task, closed, latest)
                aside = found is None
                seen = self._sums(text, df, f"SELECT * FROM ({rows}) WHERE {usable}", task) if found is None else found
                sums[name] = _files(seen)
            if aside:
                for kind in ("late", "unusable"):
                    self._make_folders(kind, [stream.name])
                others = df.selectExpr("*", timed).where(f"NOT {usable}")
                reports += map_in_arrow(others, AsideTask(*about), WRITTEN_ROW).collect()
        kept = [row for row in seen if row["kind"] == (SEEN if wanted.summaries else "kept")]
        late, unusable = ([row for row in reports if row["kind"] == kind] for kind in ("late", "unusable"))
        newest = max((row["last"] for row in kept), default=None)
        paths = tuple(row["path"] for row in (*late, *unusable))
        old = [row for row in reports if row["kind"] == DELAYED] if wanted.rows else [*kept, *late]
        delayed = tuple(_delays(old, terms.shown))
        stored = StoredBatch(_rows(kept), _rows(late), _rows(unusable), newest, _files(reports), sums, paths, delayed)
        storage.settle(self._folder / path for path in _written(stored))
        return stored

    def discard(self, stored: StoredBatch) -> None:
        """Delete what was written."""
        self.delete(_written(stored))

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files of the checkpoint."""
        for path in paths:
            storage.remove(self._folder / path)

    def _make_folders(self, kind: str, names: Sequence[str]) -> None:
        for name in names:
            storage.make_folder(self._folder / kind / name)

    def _rows(self, df: DataFrame, columns: Sequence[str], timed: str, task: BufferTask) -> list[Row]:
        needed = df.selectExpr(*map(quoted, columns), timed)
        return map_in_arrow(needed, task, WRITTEN_ROW).collect()

    def _sums_in_time(
        self, text: str, df: DataFrame, rows: str, task: SumsTask, closed: int, latest: int
    ) -> list[Row] | None:
        """Sums of all rows; None if some of them are not in time."""
        try:
            seen = self._sums(text, df, rows, task)
        except Exception as error:
            if is_fatal(error):
                raise
            return None  # some times cannot even be computed with; whatever else it is, it will be raised again
        if _in_time(seen, closed, latest):
            return seen
        self.delete([row["path"] for row in seen if row["path"]])
        return None

    def _sums(self, text: str, df: DataFrame, rows: str, task: SumsTask) -> list[Row]:
        sums = self._over(task.name, df, of_batch(text, f"({rows})"))
        return map_in_arrow(sums, task, WRITTEN_ROW).collect()


def timed_at(stream: StreamInput, arrived: int) -> str:
    """SQL: a column with the time of each row in microseconds, which may be that at which the batch arrived."""
    time = f"{arrived}L" if stream.timestamp is None else f"unix_micros(CAST({quoted(stream.timestamp)} AS TIMESTAMP))"
    return f"{time} AS {TIME}"


def latest_of(stream: StreamInput) -> int:
    """Rows after this time are unusable: they are too far ahead of the clock."""
    return FOREVER if stream.horizon is None else now() + stream.horizon


@contextmanager
def _read_once(df: DataFrame, wanted: IngestSpec) -> Iterator[None]:
    """While a batch is written in several ways: all of them see the same rows."""
    several = wanted.rows + len(wanted.summaries) > 1
    if several:
        df.persist()
    try:
        yield
    finally:
        if several:
            df.unpersist()


def _rows_of(df: DataFrame, timed: str) -> str:
    """SQL: the rows of a batch with their time; if they are in one part, Spark need not shuffle them to sum them up."""
    parts = df._jdf.queryExecution().toRdd().getNumPartitions()
    hint = "/*+ COALESCE(1) */ " if parts == 1 else ""
    return f"SELECT {hint}*, {timed} FROM {BATCH}"


def _written(stored: StoredBatch) -> list[str]:
    return [*(file.path for file in stored.all_files), *(path + UNCONFIRMED for path in stored.aside)]


def _in_time(seen: Sequence[Row], closed: int, latest: int) -> bool:
    bounds = [row for row in seen if row["kind"] == SEEN]
    inside = all(row["first"] >= closed and row["last"] <= latest for row in bounds)
    return inside and not any(row["kind"] == ASIDE for row in seen)


def _rows(reports: Sequence[Row]) -> int:
    return sum(row["rows"] for row in reports)


def _delays(reports: Sequence[Row], shown: int | None) -> Iterator[tuple[int, int]]:
    for row in reports:
        if shown is not None and row["first"] < shown:
            yield shown - row["first"], row["rows"]


def _files(reports: Sequence[Row]) -> tuple[StoredFile, ...]:
    return tuple(
        StoredFile(row["path"], row["rows"], row["first"], row["last"]) for row in reports if row["kind"] == "kept"
    )
