"""The intake: batches of streams are put on the shelf as they come, each committed by a record of its own.

A batch that Spark brings again after a crash has its record and is not taken twice. Ticks take the records into the
manifest when they get to them, so that streams go on while queries advance.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.cells.base import EVER, FOREVER, TIME
from anabranch.engine.inputs import StreamInput
from anabranch.engine.manifest import Manifest, StoredFile, StreamState
from anabranch.engine.store import (
    ASIDE,
    UNCONFIRMED,
    WRITTEN_SQL,
    AsideTask,
    ShelveTask,
    confirm,
    now,
    prefix_of,
    write_text,
)

RECORDS = "intake"
KINDS = ("kept", "late", "unusable")


@dataclass(frozen=True)
class Taken:
    """What a batch of a stream brought.

    Parameters
    ----------
    stream, batch
        Which one.
    rows, late, unusable
        How many rows were kept, came late, or have no usable time.
    newest
        The largest time of those that were kept.
    closed
        Rows of later batches before this time come too late.
    files
        What was kept.
    aside
        Files of the others.
    columns
        Of what was kept.
    """

    stream: str
    batch: int
    rows: int
    late: int
    unusable: int
    newest: int | None
    closed: int
    files: tuple[StoredFile, ...]
    aside: tuple[str, ...]
    columns: tuple[str, ...]


class Intake:
    """Takes batches of streams, any number of them at a time.

    Parameters
    ----------
    folder
        Of the checkpoint.
    manifest
        What has been committed so far.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._closed = {name: state.closed for name, state in manifest.streams.items()}
        self._last = {name: state.batch for name, state in manifest.streams.items()}
        self._waiting: list[Taken] = []
        self._untidy: set[str] = set()
        self._columns: dict[str, tuple[str, ...]] = {}
        for record in sorted((folder / RECORDS).glob("*/*.json"), key=lambda path: int(path.stem)):
            taken = _load(record)
            manifest.streams.setdefault(taken.stream, StreamState())  # if no tick has got to it before the end
            if taken.batch > self._last.get(taken.stream, -1):
                self._confirm(taken)
                self._waiting.append(taken)
                self._last[taken.stream] = taken.batch
                self._closed[taken.stream] = max(self._closed.get(taken.stream, EVER), taken.closed)

    def want(self, stream: str, columns: Sequence[str]) -> None:
        """From the next batch on, these columns of a stream are put on the shelf."""
        with self._lock:
            self._columns[stream] = tuple(columns)

    def take(self, stream: StreamInput, batch: int, df: DataFrame) -> None:
        """Put the rows of a batch on the shelf."""
        done = False
        while not done:
            closed, columns = self._terms(stream.name)
            taken = self._shelved(stream, batch, df, closed, columns)
            with self._lock:
                # Where time went on meanwhile, some of the rows have become late; a new query may want more columns.
                done = (closed, columns) == self._terms(stream.name)
                if done:
                    self._commit(taken)
            if not done:
                for path in (*(file.path for file in taken.files), *(path + UNCONFIRMED for path in taken.aside)):
                    (self._folder / path).unlink()

    def _terms(self, stream: str) -> tuple[int, tuple[str, ...]]:
        with self._lock:
            return self._closed.get(stream, EVER), self._columns[stream]

    def _shelved(self, stream: StreamInput, batch: int, df: DataFrame, closed: int, columns: tuple[str, ...]) -> Taken:
        prefix, latest, rows = prefix_of(batch, uuid.uuid4().hex[:8]), latest_of(stream), timed(stream, df)
        about = (stream.name, str(self._folder), prefix, closed, latest)
        needed = rows.select(*(F.col(f"`{name}`") for name in columns), TIME)
        written = needed.mapInArrow(ShelveTask(*about, stream.skew), WRITTEN_SQL).collect()
        if any(row["kind"] == ASIDE for row in written):
            others = F.coalesce(F.col(TIME).between(closed, latest), F.lit(False))
            written += rows.where(~others).mapInArrow(AsideTask(*about), WRITTEN_SQL).collect()
        counts = {kind: sum(row["rows"] for row in written if row["kind"] == kind) for kind in KINDS}
        files = tuple(
            StoredFile(row["path"], row["rows"], row["first"], row["last"]) for row in written if row["kind"] == "kept"
        )
        newest = max((file.last for file in files), default=None)
        aside = tuple(row["path"] for row in written if row["kind"] in ("late", "unusable"))
        kept, late, unusable = (counts[kind] for kind in KINDS)
        closed = closed if newest is None else max(closed, newest - stream.skew)
        return Taken(stream.name, batch, kept, late, unusable, newest, closed, files, aside, columns)

    def _commit(self, taken: Taken) -> None:
        write_text(self._record(taken), json.dumps(asdict(taken)))
        self._confirm(taken)
        self._waiting.append(taken)
        self._last[taken.stream] = taken.batch
        self._closed[taken.stream] = taken.closed
        (self._untidy.add if taken.aside else self._untidy.discard)(taken.stream)

    def since(self, stream: str, columns: Sequence[str], state: StreamState, *, history: bool) -> int:
        """The time from which on a new query can be told all rows of a stream, with these columns.

        That is from the beginning if nothing has come yet, or with history what is on the shelf; else from the time on
        that is not closed. What is on the shelf may lack some of the columns: then it is from what comes after that.
        """
        with self._lock:
            waiting = [taken for taken in self._waiting if taken.stream == stream]
            newest = [time for time in (state.newest, *(taken.newest for taken in waiting)) if time is not None]
            if not newest:
                return EVER
            there = [*([state.columns] if state.files else []), *(taken.columns for taken in waiting if taken.files)]
            if not all(set(columns) <= set(each) for each in there):
                return max(newest) + 1
            return EVER if history else self._closed.get(stream, EVER)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While no batch is taken: whoever closes a time has to know all that came before it."""
        with self._lock:
            yield

    def last(self, stream: str) -> int:
        """The last batch of a stream that was taken."""
        with self._lock:
            return self._last.get(stream, -1)

    def booked(self, stream: str, batch: int) -> None:
        """A batch was answered as it came."""
        with self._lock:
            self._last[stream] = max(self._last.get(stream, -1), batch)

    def waiting(self, stream: str | None = None) -> int:
        """How many batches, of one stream or of all, no tick has got to yet."""
        with self._lock:
            return sum(stream in (None, taken.stream) for taken in self._waiting)

    def waiting_rows(self) -> int:
        """How many rows no tick has got to yet."""
        with self._lock:
            return sum(taken.rows for taken in self._waiting)

    def unsettled(self, stream: str) -> bool:
        """Whether batches of a stream wait for a tick, or the last one had rows that had to be put aside."""
        with self._lock:
            return stream in self._untidy or self.waiting(stream) > 0

    def closed(self, stream: str) -> int:
        """Rows of a stream before this time come too late."""
        with self._lock:
            return self._closed.get(stream, EVER)

    def close(self, stream: str, until: int) -> None:
        """Queries are about to be told that all rows before this time are there."""
        with self._lock:
            self._closed[stream] = max(self._closed.get(stream, EVER), until)

    def merge(self, manifest: Manifest, stream: str | None = None) -> None:
        """Write what was taken, of one stream or of all, into the manifest of a tick."""
        with self._lock:
            waiting = [taken for taken in self._waiting if stream in (None, taken.stream)]
        for taken in waiting:
            state = manifest.streams.get(taken.stream)
            if state is None or taken.batch <= state.batch:
                continue
            state.batch = taken.batch
            state.rows += taken.rows
            state.late += taken.late
            state.unusable += taken.unusable
            if taken.files:
                state.columns = [name for name in taken.columns if not state.files or name in state.columns]
            state.files += [replace(file, tick=manifest.tick) for file in taken.files]
            if taken.newest is not None:
                state.newest = taken.newest if state.newest is None else max(state.newest, taken.newest)

    def settle(self, manifest: Manifest) -> None:
        """Forget the records that a committed manifest holds."""
        with self._lock:
            batches = {name: state.batch for name, state in manifest.streams.items()}
            done = [taken for taken in self._waiting if taken.batch <= batches.get(taken.stream, FOREVER)]
            self._waiting = [taken for taken in self._waiting if taken not in done]
        for taken in done:
            self._record(taken).unlink(missing_ok=True)

    def forget(self, stream: str) -> None:
        """A stream is gone."""
        with self._lock:
            self._waiting = [taken for taken in self._waiting if taken.stream != stream]
            self._closed.pop(stream, None)
            self._last.pop(stream, None)
            self._columns.pop(stream, None)

    def current(self) -> bool:
        """Whether all batches that are recorded are known here."""
        with self._lock:
            recorded = ((path.parent.name, int(path.stem)) for path in (self._folder / RECORDS).glob("*/*.json"))
            return all(batch <= self._last.get(stream, -1) for stream, batch in recorded)

    def files(self) -> Iterator[str]:
        """Files on the shelf that no manifest names yet."""
        with self._lock:
            yield from (file.path for taken in self._waiting for file in taken.files)

    def _confirm(self, taken: Taken) -> None:
        for path in taken.aside:
            if (self._folder / (path + UNCONFIRMED)).exists():
                confirm(self._folder, path)

    def _record(self, taken: Taken) -> Path:
        return self._folder / RECORDS / taken.stream / f"{taken.batch:012d}.json"


def timed(stream: StreamInput, df: DataFrame) -> DataFrame:
    """The rows of a batch with their time in microseconds."""
    return df.withColumn(TIME, F.unix_micros(F.col(f"`{stream.timestamp}`").cast("timestamp")))


def latest_of(stream: StreamInput) -> int:
    """Rows after this time cannot be believed."""
    return FOREVER if stream.horizon is None else now() + stream.horizon


def _load(record: Path) -> Taken:
    saved = json.loads(record.read_text())
    files = tuple(StoredFile(**each) for each in saved["files"])
    return Taken(**(saved | {"files": files, "aside": tuple(saved["aside"]), "columns": tuple(saved["columns"])}))
