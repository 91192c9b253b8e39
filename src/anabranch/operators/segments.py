"""The durable state of a cell: a log of what came in, tick after tick, and now and then a snapshot.

Operators are functions of their inputs, so the inputs are the log: to replay them gives the state. Once the log
is more than twice as large as the state, or has many files, a snapshot of the state is written instead, and the log
before it can be deleted. A worker that holds the state of an earlier tick reads only what it has missed.

The operators of a task write into one file per tick, one segment after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from anabranch import storage
from anabranch.operators.base import EVER, Tick
from anabranch.operators.tapped import TappedOperator, tapped_part, tapped_united

LONGEST_LOG = 64
"""Segments in a log before a snapshot is written, whatever their size."""
LOG_PER_STATE = 2
"""A snapshot is written once the log has more than this many times the bytes of the state."""
SMALLEST_LOG_BYTES = 4_000_000
"""A log up to this size is never replaced for its size."""
PIECE_BYTES = 2**20
_TICK = b"anabranch.tick"
INPUT = "_input"


@dataclass(frozen=True)
class Segment:
    """A part of a log: so many bytes of a file. A snapshot stands for all that came before it."""

    path: str
    kind: Literal["inputs", "snapshot"]
    bytes: int
    offset: int = 0


class LogFile:
    """The file into which the operators of a task write their segments, made when there is something to write.

    Parameters
    ----------
    folder
        Of all such files.
    path
        The name of this one.
    """

    def __init__(self, folder: Path, path: str) -> None:
        self.folder = folder
        self.path = path
        self._file: storage.NewFile | None = None

    def append(self, kind: Literal["inputs", "snapshot"], tables: Sequence[pa.Table]) -> Segment:
        """Write a segment."""
        file = self._file = self._file or storage.NewFile(self.folder / self.path)
        offset = int(file.sink.tell())
        _write(file, tables)
        return Segment(self.path, kind, int(file.sink.tell()) - offset, offset)

    def close(self) -> None:
        """Finish the file: what was written is on the disk."""
        if self._file is not None:
            self._file.close()


class CellState:
    """An operator and how far it has come.

    Parameters
    ----------
    make
        Starts the operator.
    columns
        Per input the columns that the operator wants.
    schema
        Of the table in which all inputs travel.
    names
        Columns that other queries, which share the operator, call otherwise: in files they are called after their
        places here.

    Attributes
    ----------
    is_logged
        Whether a log and the rows of a tick say all; else the state itself has to be written.
    """

    def __init__(
        self,
        make: Callable[[], TappedOperator],
        columns: Sequence[Sequence[str]],
        schema: pa.Schema,
        names: Sequence[str] = (),
    ) -> None:
        self._make = make
        self._columns = columns
        self._schema = schema
        self._in_files = {name: f"%{place}" for place, name in enumerate(names)}
        self._limit: int | None = None
        self._begin()

    def limit_memory(self, limit: int | None) -> None:
        """Take so many bytes of memory from now on, as far as the operator can."""
        self._limit = limit
        self.operator.limit_memory(limit)

    def _begin(self) -> None:
        self.operator = self._make()
        self.operator.limit_memory(self._limit)
        self._applied: list[Segment] = []
        self._until = EVER
        self._kept: frozenset[int] | None = None
        self.is_logged = True

    def advance(self, table: pa.Table, tick: Tick) -> Iterator[tuple[str, pa.Table]]:
        """What follows from the rows of a tick, in parts, each from a tap; all of them have to be taken."""
        yield from self.operator.in_parts(self.split(table), tick)
        self._until = tick.until

    def logged(self, log: Sequence[Segment]) -> None:
        """Remember that the state is that of this log."""
        self._applied = list(log)
        self.is_logged = True

    def keep(self, column: str, values: Collection[int]) -> None:
        """Forget what is held for other values of a column than these; none of them will come again."""
        if self._kept is None or not self._kept <= set(values):
            self._restore(tapped_part(self.operator.snapshot(), column, values))
        self._kept = frozenset(values)

    def unite(self, log: Sequence[Segment], column: str, values: Collection[int], folder: Path, tick: Tick) -> int:
        """Take in what another state, that of a log, holds for some values of a column; its log is written anew.

        Returns how many segments had to be read.
        """
        other = CellState(self._make, self._columns, self._schema, list(self._in_files))
        read = other.catch_up(log, folder, tick)
        theirs = tapped_part(other.operator.snapshot(), column, values)
        self._restore(tapped_united([self.operator.snapshot(), theirs]))
        self._kept = (self._kept or frozenset()) | set(values)
        self.is_logged = False
        return read

    def _restore(self, tables: Sequence[pa.Table]) -> None:
        self.operator = self._make()
        self.operator.limit_memory(self._limit)
        self.operator.restore(tables)

    def catch_up(self, log: Sequence[Segment], folder: Path, tick: Tick, wanted: Collection[int] = ()) -> int:
        """Bring the state to where a tick starts, from wherever it is; a state with another past starts anew.

        So does one that has forgotten what is held for some of the values that are `wanted`; see `keep`.

        Returns how many segments had to be read.
        """
        lacking = self._kept is not None and not self._kept.issuperset(wanted)
        if list(log[: len(self._applied)]) != self._applied or self._until > tick.start or lacking:
            self._begin()
        missed = log[len(self._applied) :]
        self._kept = None if missed else self._kept
        for segment in missed:
            self._apply(segment, folder)
        self._applied = list(log)
        if self._until < tick.start:  # ticks that brought nothing are not in the log
            origin = tick.origin if tick.origin is not None and tick.origin < tick.start else None
            self._absorb(self._schema.empty_table(), Tick(self._until, tick.start, origin))
        return len(missed)

    def _apply(self, segment: Segment, folder: Path) -> None:
        names = {there: here for here, there in self._in_files.items()}
        aside = segment.kind == "snapshot" and self._limit is not None
        tables = [_renamed(table, names) for table in read_segment(segment, folder, aside=aside)]
        stamp = json.loads(tables[0].schema.metadata[_TICK])
        if segment.kind == "snapshot":
            self._restore(tables[1:])
            self._until = stamp["until"]
        else:
            self._absorb(tables[0].replace_schema_metadata(None), Tick(**stamp))

    def _absorb(self, table: pa.Table, tick: Tick) -> None:
        if tick.start > self._until:
            self.operator.absorb(self.split(self._schema.empty_table()), Tick(self._until, tick.start, tick.origin))
        self.operator.absorb(self.split(table), tick)
        self._until = tick.until

    def in_files(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Tables under the names that all queries which share the operator understand."""
        return [_renamed(table, self._in_files) for table in tables]

    def split(self, table: pa.Table) -> list[pa.Table]:
        """The operator's inputs, which travel in one table and are told apart by a number."""
        if len(self._columns) == 1:
            return [table.select(self._columns[0])]
        numbers = table[INPUT]
        masks = [pc.equal(numbers, number) for number in range(len(self._columns))]
        return [table.filter(mask).select(names) for mask, names in zip(masks, self._columns, strict=True)]


def next_segment(state: CellState, log: Sequence[Segment], table: pa.Table, tick: Tick, file: LogFile) -> list[Segment]:
    """Write the rows of a tick, or a snapshot of the state if the log would get too long; return the new log."""
    if table.num_rows == 0 and state.is_logged:
        return list(log)
    logged = sum(segment.bytes for segment in log) + table.nbytes
    whole = state.operator.held_bytes + state.operator.file_bytes
    most = max(SMALLEST_LOG_BYTES, LOG_PER_STATE * whole)
    stamp = {_TICK: json.dumps({"start": tick.start, "until": tick.until, "origin": tick.origin})}
    if logged > most or len(log) >= LONGEST_LOG or not state.is_logged:
        head = pa.table({"tick": pa.array([0])}).replace_schema_metadata(stamp)
        tables = [head, *state.in_files(state.operator.snapshot())]
        return [file.append("snapshot", tables)]
    return [*log, file.append("inputs", state.in_files([table.replace_schema_metadata(stamp)]))]


def _renamed(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    renamed = table.rename_columns([names.get(name, name) for name in table.column_names])
    return renamed.replace_schema_metadata(table.schema.metadata)


def read_segment(segment: Segment, folder: Path, *, aside: bool = False) -> list[pa.Table]:
    """The tables of a segment; if they are to be put `aside` they are in a file of this process, which is mapped."""
    with storage.opened(folder / segment.path) as file:
        file.seek(segment.offset)
        buffer = pa.BufferReader(_copied(file, segment.bytes) if aside else file.read_buffer(segment.bytes))
    tables = []
    while buffer.tell() < segment.bytes:
        tables.append(pa.ipc.open_stream(buffer).read_all())
    return tables


def _copied(file: pa.NativeFile, size: int) -> pa.Buffer:
    copy = storage.ScratchFile()
    for at in range(0, size, PIECE_BYTES):
        copy.write(memoryview(file.read_buffer(min(PIECE_BYTES, size - at))))
    return pa.py_buffer(copy.whole())


def _write(file: storage.NewFile, tables: Sequence[pa.Table]) -> None:
    with file.writing():
        for table in tables:
            with pa.ipc.new_stream(file.sink, table.schema) as writer:
                writer.write_table(table)
