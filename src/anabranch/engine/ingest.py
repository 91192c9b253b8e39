"""The ingest: batches of streams are put in the buffer as they come, each committed by a record of its own.

A batch that Spark brings again after a crash has its record and is not taken twice. Ticks take the records into the
manifest when they get to them, so that streams go on while queries advance.

What a source holds when its stream begins is its *backlog*. Files of it may overlap in time, so that no row of it is
late against another one: time is closed only when the backlog has come (decision 024). Rows that get the time of their
arrival have none: each batch ends it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from anabranch import storage
from anabranch.engine.answer_blocks import Answered
from anabranch.engine.batch_writer import BatchWriter, IngestSpec, StoredBatch, Terms
from anabranch.engine.inputs import StreamInput
from anabranch.engine.lateness import Lateness
from anabranch.engine.layout import UNCONFIRMED
from anabranch.engine.manifest import Manifest, StoredFile, StreamState
from anabranch.engine.store import confirm, now
from anabranch.engine.sysstream import NAME as SYS_STREAM
from anabranch.operators.base import EVER, FOREVER

RECORDS = "ingest"
MOST_BACKLOG_ROWS = 1_000_000
PRESENT_SECONDS = 5.0
"""A backlog ends with so many rows, or with a row that is not older than this."""


@dataclass
class Backlog:
    """What has come of a stream that has not caught up with its source yet."""

    rows: int = 0
    newest: int | None = None

    def add(self, rows: int, newest: int | None) -> bool:
        """Count a batch; False if it is not part of the backlog any more, or ends it."""
        self.rows += rows
        self.newest = max((time for time in (self.newest, newest) if time is not None), default=None)
        present = self.newest is not None and self.newest > now() - PRESENT_SECONDS * 1e6
        return self.rows < MOST_BACKLOG_ROWS and not present


@dataclass(frozen=True)
class IngestRecord:
    """A batch of a stream that was put in the buffer.

    Parameters
    ----------
    stream, batch
        Which one.
    closed
        Rows of later batches before this time come too late.
    columns
        Of the rows, if they are in the buffer.
    what
        What it became.
    """

    stream: str
    batch: int
    closed: int
    columns: tuple[str, ...] | None
    what: StoredBatch


class Ingest:
    """Takes batches of streams, any number of them at a time.

    Parameters
    ----------
    folder
        Of the checkpoint.
    manifest
        What has been committed so far.
    writer
        Writes batches.
    """

    def __init__(self, folder: Path, manifest: Manifest, writer: BatchWriter) -> None:
        self._folder = folder
        self._writer = writer
        self._lock = threading.RLock()
        self._closed = {name: state.closed for name, state in manifest.streams.items()}
        self._last = {name: state.batch for name, state in manifest.streams.items()}
        self._backlogs = {
            name: Backlog(newest=state.newest) for name, state in manifest.streams.items() if state.closed == EVER
        }
        self._waiting: list[IngestRecord] = []
        self._lateness = Lateness(manifest)
        self._untidy: set[str] = set()
        self._wanted: dict[str, IngestSpec] = {}
        for record in sorted(storage.listed(folder / RECORDS, "*/*.json"), key=lambda path: int(path.stem)):
            taken = _load(record)
            manifest.streams.setdefault(taken.stream, StreamState())  # if no tick has got to it before the end
            if taken.batch > self._last.get(taken.stream, -1):
                self._confirm(taken)
                self._waiting.append(taken)
                self._last[taken.stream] = taken.batch
                self._lateness.note(taken.stream, *_of_rows(taken.what))
                self._backlogs.setdefault(taken.stream, Backlog()).add(taken.what.rows, taken.what.newest)
                self.close(taken.stream, taken.closed)

    def want(self, stream: str, wanted: IngestSpec) -> None:
        """From the next batch on, this is put in the buffer."""
        with self._lock:
            self._wanted[stream] = wanted
            if stream not in self._closed:
                self._closed[stream] = EVER
                self._backlogs[stream] = Backlog()

    def instant(self, stream: str, given: int | None = None) -> int:
        """When a batch of a stream arrives: now, or a given instant, but never before what the stream has closed."""
        return max(now() if given is None else given, self.closed(stream))

    def take(self, stream: StreamInput, batch: int, df: DataFrame, arrived: int | None = None) -> None:
        """Put the rows of a batch in the buffer; it arrives now if it is not said when."""
        done = False
        while not done:
            terms = self._terms(stream)
            what = self._writer.write(stream, batch, df, terms, self.instant(stream.name, arrived))
            with self._lock:
                # Where time went on meanwhile, some of the rows have become late; a new query may want more columns.
                done = terms == self._terms(stream)
                if done:
                    columns = terms.wanted.columns if terms.wanted.rows else None
                    self._lateness.note(stream.name, *_of_rows(what))
                    self._compare(stream, what.newest)
                    closed = self._closed_after(stream, what.rows, what.newest)
                    self._commit(IngestRecord(stream.name, batch, closed, columns, what))
            if not done:
                self._writer.discard(what)

    def _closed_after(self, stream: StreamInput, rows: int, newest: int | None) -> int:
        """The time that is closed once a batch has been taken."""
        backlog = None if stream.timestamp is None else self._backlogs.get(stream.name)
        closed = self._closed.get(stream.name, EVER)
        if backlog is not None:
            if backlog.add(rows, newest):
                return closed
            newest = backlog.newest
        self._lateness.follow(stream)
        return closed if newest is None else max(closed, newest - self.skew(stream))

    def catching_up(self, stream: str) -> bool:
        """Whether the backlog of a stream is still coming."""
        with self._lock:
            return stream in self._backlogs

    def caught_up(self, stream: StreamInput) -> None:
        """A source has brought all that it held when its stream began."""
        with self._lock:
            backlog = self._backlogs.pop(stream.name, None)
            if backlog is not None and backlog.newest is not None:
                self.close(stream.name, backlog.newest - self.skew(stream))

    def skew(self, stream: StreamInput) -> int:
        """By how much rows of a stream may be out of order, as was said or learned."""
        with self._lock:
            return self._lateness.skew(stream)

    def tell_lateness(self, stream: str, state: StreamState) -> None:
        """Write into the state of a stream how far out of order its rows are."""
        with self._lock:
            self._lateness.tell(stream, state)

    def _terms(self, stream: StreamInput) -> Terms:
        with self._lock:
            name, shown = stream.name, self._shown(stream.name)
            return Terms(self._closed.get(name, EVER), self._wanted[name], self.skew(stream), shown)

    def _shown(self, stream: str) -> int | None:
        """What a stream has shown, if it has caught up with its source: delays count from then on."""
        return None if stream in self._backlogs else self._lateness.shown(stream)

    def _compare(self, stream: StreamInput, newest: int | None) -> None:
        """Compare a stream with the others, once it has caught up; times that the engine gives compare with none."""
        given = stream.timestamp is not None and stream.name != SYS_STREAM
        if given and newest is not None and stream.name not in self._backlogs:
            self._lateness.compare(stream.name, newest)

    def _commit(self, taken: IngestRecord) -> None:
        record = self._record(taken)
        storage.make_folder(record.parent)
        storage.write_json(record, asdict(taken))
        self._confirm(taken)
        self._waiting.append(taken)
        self._last[taken.stream] = taken.batch
        self.close(taken.stream, taken.closed)
        (self._untidy.add if taken.what.aside else self._untidy.discard)(taken.stream)

    def since(self, stream: str, columns: Sequence[str], state: StreamState, *, history: bool) -> int:
        """The time from which on a new query can read all rows of a stream, with these columns.

        That is from the beginning if nothing has come yet, or with history what is in the buffer; else from the time on
        that is not closed. What is in the buffer may lack some of the columns: then it is from what comes after that.
        """
        with self._lock:
            waiting = [taken for taken in self._waiting if taken.stream == stream]
            newest = self.newest(stream, state)
            if not newest:
                return EVER
            there = [*([state.columns] if state.files else []), *(taken.columns for taken in waiting)]
            if any(each is None or not set(columns) <= set(each) for each in there):
                return max(newest) + 1
            begins = EVER if history else self._closed.get(stream, EVER)
            return begins if state.passed is None else max(begins, state.passed + 1)

    def newest(self, stream: str, state: StreamState) -> list[int]:
        """The largest times of what has come of a stream: none if nothing has."""
        with self._lock:
            waiting = [taken.what.newest for taken in self._waiting if taken.stream == stream]
        return [time for time in (state.newest, *waiting) if time is not None]

    def begun(self, stream: str) -> bool:
        """Whether a batch of a stream was taken."""
        with self._lock:
            return self._last.get(stream, -1) >= 0

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While no batch is taken: a time may be closed only when all rows before it are known."""
        with self._lock:
            yield

    def last(self, stream: str) -> int:
        """The last batch of a stream that was taken."""
        with self._lock:
            return self._last.get(stream, -1)

    def booked(self, stream: StreamInput, batch: int, came: Answered) -> None:
        """A batch was answered as it came; of its delays only the largest is known, and counts for all its rows."""
        with self._lock:
            name, shown = stream.name, self._shown(stream.name)
            self._last[name] = max(self._last.get(name, -1), batch)
            behind = 0 if shown is None or came.first is None else shown - came.first
            self._lateness.note(name, came.rows, 0, came.last, [(behind, came.rows)] if behind > 0 else [])
            self._compare(stream, came.last)
            self.close(name, self._closed_after(stream, came.rows, came.last))

    def waiting(self, stream: str | None = None) -> int:
        """How many batches, of one stream or of all, no tick has got to yet."""
        with self._lock:
            return sum(stream in (None, taken.stream) for taken in self._waiting)

    def waiting_rows(self) -> int:
        """How many rows, or sums of them, no tick has got to yet."""
        with self._lock:
            return sum(file.rows for taken in self._waiting for file in taken.what.all_files)

    def seconds_behind(self, stream: str | None = None) -> float:
        """How far rows, of one stream or of all, that no tick has got to are behind the clock."""
        with self._lock:
            waiting = [taken.what.newest for taken in self._waiting if stream in (None, taken.stream)]
            newest = [time for time in waiting if time is not None]
            return max(0.0, (now() - max(newest)) / 1e6) if newest else 0.0

    def unsettled(self, stream: str) -> bool:
        """Whether batches of a stream wait for a tick, or the last one had rows that had to be put aside."""
        with self._lock:
            return stream in self._untidy or self.waiting(stream) > 0

    def closed(self, stream: str) -> int:
        """Rows of a stream before this time come too late."""
        with self._lock:
            return self._closed.get(stream, EVER)

    def close(self, stream: str, until: int) -> None:
        """Close a time: queries are about to be answered up to it."""
        with self._lock:
            self._closed[stream] = max(self._closed.get(stream, EVER), until)
            if until > EVER:
                self._backlogs.pop(stream, None)

    def merge(self, manifest: Manifest, stream: str | None = None) -> None:
        """Write what was taken, of one stream or of all, into the manifest of a tick."""
        with self._lock:
            waiting = [taken for taken in self._waiting if stream in (None, taken.stream)]
        for taken in waiting:
            state = manifest.streams.get(taken.stream)
            if state is None or taken.batch <= state.batch:
                continue
            what = taken.what
            self.tell_lateness(taken.stream, state)
            state.batch = taken.batch
            state.rows += what.rows
            state.late += what.late
            state.unusable += what.unusable
            if what.files and taken.columns is not None:
                state.columns = [name for name in taken.columns if not state.files or name in state.columns]
            if what.newest is not None:
                state.newest = what.newest if state.newest is None else max(state.newest, what.newest)
                state.passed = state.newest if taken.columns is None else state.passed
            for buffer, files in ((taken.stream, what.files), *what.sums.items()):
                there = manifest.streams.setdefault(buffer, StreamState())
                there.files += [replace(file, tick=manifest.tick) for file in files]

    def settle(self, manifest: Manifest) -> None:
        """Forget the records that a committed manifest holds."""
        with self._lock:
            batches = {name: state.batch for name, state in manifest.streams.items()}
            done = [taken for taken in self._waiting if taken.batch <= batches.get(taken.stream, FOREVER)]
            self._waiting = [taken for taken in self._waiting if taken not in done]
        for taken in done:
            storage.remove(self._record(taken))

    def forget(self, stream: str) -> None:
        """A stream is gone."""
        with self._lock:
            self._waiting = [taken for taken in self._waiting if taken.stream != stream]
            self._closed.pop(stream, None)
            self._backlogs.pop(stream, None)
            self._last.pop(stream, None)
            self._wanted.pop(stream, None)
            self._lateness.forget(stream)

    def current(self) -> bool:
        """Whether all batches that are recorded are known here."""
        with self._lock:
            records = storage.listed(self._folder / RECORDS, "*/*.json")
            return all(int(path.stem) <= self._last.get(path.parent.name, -1) for path in records)

    def sweep(self) -> None:
        """Delete records that a manifest holds already, and those that were not finished."""
        with self._lock:
            waiting = {self._record(taken) for taken in self._waiting}
        for path in storage.listed(self._folder / RECORDS, "*/*"):
            if path not in waiting:
                storage.remove(path)

    def files(self) -> Iterator[str]:
        """Files in the buffer that no manifest names yet."""
        with self._lock:
            yield from (file.path for taken in self._waiting for file in taken.what.all_files)

    def _confirm(self, taken: IngestRecord) -> None:
        waiting = [path for path in taken.what.aside if storage.is_there(self._folder / (path + UNCONFIRMED))]
        confirm(self._folder, waiting)
        storage.settle(self._folder / path for path in waiting)

    def _record(self, taken: IngestRecord) -> Path:
        return self._folder / RECORDS / taken.stream / f"{taken.batch:012d}.json"


def _of_rows(what: StoredBatch) -> tuple[int, int, int | None, tuple[tuple[int, int], ...]]:
    return what.rows, what.late, what.newest, what.delayed


def _load(record: Path) -> IngestRecord:
    saved = json.loads(storage.read_text(record))
    what, columns = saved["what"], saved["columns"]
    delayed = tuple((delay, rows) for delay, rows in what.get("delayed", ()))
    sums = {name: _files(files) for name, files in what["sums"].items()}
    stored = StoredBatch(
        **(what | {"files": _files(what["files"]), "sums": sums, "aside": tuple(what["aside"]), "delayed": delayed})
    )
    return IngestRecord(**(saved | {"columns": None if columns is None else tuple(columns), "what": stored}))


def _files(saved: Sequence[dict[str, Any]]) -> tuple[StoredFile, ...]:
    return tuple(StoredFile(**each) for each in saved)
