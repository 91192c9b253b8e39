"""Rows that a join is unlikely to need, on disk, with little in memory: filters.

A *segment* is written once: for each key its codes in order, and where the rows with them are, then the columns of the
rows, all in blocks with checksums, which are tested when a block is read for the first time. Segments of about the same
size are merged, and one goes when all of its rows are over. Small ones share a file. Files are for the process that has
written them: what the engine starts again from is the log.

>>> rows = pa.table({"city": ["Oslo", "Rome", "Oslo"], "_start": [1, 2, 3], "_end": [9, 9, 9]})
>>> cold = ColdRows(((0,),))
>>> cold.add(rows, {(0,): np.array([70, 80, 70])})
>>> cold.find((0,), np.array([70, 90])).to_pydict()
{'city': ['Oslo', 'Oslo'], '_start': [1, 3], '_end': [9, 9]}
>>> len(cold), cold.nbytes < 200
(3, True)
>>> cold.expire(9)
>>> len(cold)
0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch import storage
from anabranch.joins.code_filter import CodeFilter
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask, Rows, ranges
from anabranch.operators.base import END, EVER
from anabranch.operators.payload import as_ints, ints_of, is_fixed, of_ints

ROWS_IN_BLOCK = 1024
FILE_BYTES = 1 << 23
"""A file takes another segment while it is smaller."""
MERGED_AT_ONCE = 4
"""So many segments of about one size become one."""
MOST_ROWS = 1 << 21


class _Sorted(NamedTuple):
    """The codes of a key in order: a filter, and where the codes and their rows are."""

    filter: CodeFilter
    codes: storage.Block
    rows: storage.Block


class _Fixed(NamedTuple):
    """Where the values of a column of a fixed width are, and which of them are there."""

    values: storage.Block
    valid: storage.Block | None


class ColdSegment:
    """Rows in a file, which nobody changes; it is mapped, so that a few of them are read as if they were in memory."""

    def __init__(self, table: pa.Table, codes: Mapping[Key, Counts], file: storage.ScratchFile | None = None) -> None:
        self._file = file or storage.ScratchFile()
        begins = self._file.bytes
        self._schema = table.schema
        self._rows: int = table.num_rows
        self._gone: Mask | None = None
        self.ends = int(pc.max(table[END]).as_py())
        self._keys = {key: self._sorted(values) for key, values in codes.items()}
        self._fixed = {each.name: self._written(table[each.name]) for each in table.schema if is_fixed(each.type)}
        others = table.select([name for name in table.column_names if name not in self._fixed])
        starts = range(0, self._rows if others.num_columns else 0, ROWS_IN_BLOCK)
        self._blocks = tuple(self._file.write(_bytes(others.slice(first, ROWS_IN_BLOCK))) for first in starts)
        self.file_bytes = self._file.bytes - begins

    @property
    def rows(self) -> int:
        """Rows that have not been taken out."""
        gone = int(np.count_nonzero(self._gone)) if self._gone is not None else 0
        return self._rows - gone

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        gone = self._gone.nbytes if self._gone is not None else 0
        return int(gone) + sum(each.filter.nbytes for each in self._keys.values())

    def may_have(self, key: Key, codes: Counts) -> Mask:
        """Whether there may be a row with each code."""
        return self._keys[key].filter.may_have(codes)

    def find(self, key: Key, codes: Counts) -> Rows:
        """The rows with some codes, which are ascending and each once; the rows are, too."""
        known = self._keys[key]
        wanted = codes[known.filter.may_have(codes)]
        if not len(wanted):
            return wanted
        there = self._ints(known.codes)
        first = np.searchsorted(there, wanted, side="left")
        _, at = ranges(first, np.searchsorted(there, wanted, side="right") - first)
        found = np.sort(self._ints(known.rows)[at])
        return found if self._gone is None else found[~self._gone[found]]

    def take(self, rows: Rows) -> pa.Table:
        """Rows by their numbers, ascending."""
        found = {name: self._read_fixed(name, rows) for name in self._fixed}
        if self._blocks:
            others = self._read_others(rows)
            found |= dict(zip(others.column_names, others.columns, strict=True))
        return pa.table({name: found[name] for name in self._schema.names}, schema=self._schema)

    def take_out(self, rows: Rows) -> None:
        """They are elsewhere from now on."""
        if self._gone is None:
            self._gone = np.zeros(self._rows, np.bool_)
        self._gone[rows] = True

    @property
    def tier(self) -> int:
        """About how large it is."""
        return int(np.log2(self._rows)) // int(np.log2(MERGED_AT_ONCE))

    def codes(self, key: Key) -> Counts:
        """The code of each row."""
        known = self._keys[key]
        found = np.empty(self._rows, np.int64)
        found[self._ints(known.rows)] = self._ints(known.codes)
        return found if self._gone is None else found[~self._gone]

    def table(self) -> pa.Table:
        """All rows; as long as none has been taken out they stay in the file, which is mapped."""
        if self._gone is not None:
            return self.take(np.flatnonzero(~self._gone))
        found = {name: self._read_fixed(name, slice(None)) for name in self._fixed}
        if self._blocks:
            others = pa.concat_tables(map(self._read, self._blocks))
            found |= dict(zip(others.column_names, others.columns, strict=True))
        return pa.table({name: found[name] for name in self._schema.names}, schema=self._schema)

    def _sorted(self, codes: Counts) -> _Sorted:
        order = np.argsort(codes)
        numbers = order.astype(np.int64)
        return _Sorted(CodeFilter(codes), self._file.write(codes[order].data), self._file.write(numbers.data))

    def _ints(self, block: storage.Block) -> Counts:
        return np.frombuffer(self._file.view(block), np.int64)

    def _written(self, column: pa.ChunkedArray) -> _Fixed:
        values = np.concatenate([np.empty(0, ints_of(column.type)), *map(as_ints, column.chunks)])
        valid = column.is_valid().to_numpy() if column.null_count else None
        return _Fixed(self._file.write(values.data), None if valid is None else self._file.write(valid.data))

    def _read(self, block: storage.Block) -> pa.Table:
        return pa.ipc.open_stream(pa.py_buffer(self._file.view(block))).read_all()

    def _read_fixed(self, name: str, rows: Rows | slice) -> pa.Array:
        kind, where = self._schema.field(name).type, self._fixed[name]
        valid = None if where.valid is None else np.frombuffer(self._file.view(where.valid), np.bool_)[rows]
        return of_ints(kind, np.frombuffer(self._file.view(where.values), ints_of(kind))[rows], valid)

    def _read_others(self, rows: Rows) -> pa.Table:
        """The columns that are in blocks."""
        first, last = (int(rows[place]) // ROWS_IN_BLOCK if len(rows) else 0 for place in (0, -1))
        bounds = np.searchsorted(rows, np.arange(first, last + 2) * ROWS_IN_BLOCK).tolist()
        return pa.concat_tables(
            self._read(self._blocks[block]).take(pa.array(rows[low:high] - block * ROWS_IN_BLOCK))
            for block, low, high in zip(range(first, last + 1), bounds[:-1], bounds[1:], strict=True)
            if low < high or block == first
        )


Place: TypeAlias = tuple[ColdSegment, Rows]
"""Rows of a segment, ascending."""


class ColdRows:
    """The cold rows of one input of a join.

    Parameters
    ----------
    keys
        By which they are looked for.
    most_rows
        Of a segment that is merged: a larger one goes late, as its last row does, and is in memory while it is written.
    """

    def __init__(self, keys: Sequence[Key], most_rows: int = MOST_ROWS) -> None:
        self._keys = tuple(keys)
        self.most_rows = most_rows
        self._segments: list[ColdSegment] = []
        self._file: storage.ScratchFile | None = None
        self._now = EVER

    def __len__(self) -> int:
        return sum(each.rows for each in self._segments)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(each.nbytes for each in self._segments)

    @property
    def file_bytes(self) -> int:
        """Bytes on disk."""
        return sum(each.file_bytes for each in self._segments)

    def add(self, table: pa.Table, codes: Mapping[Key, Counts]) -> None:
        """Put rows away, with their codes by each key."""
        if table.num_rows:
            self._segments.append(self._written(table, {key: codes[key] for key in self._keys}))
            self._merge()

    def may_have(self, key: Key, codes: Counts) -> Mask:
        """Whether there may be a row with each code; a few are told that are not there."""
        may = np.zeros(len(codes), np.bool_)
        for each in self._segments:
            may |= each.may_have(key, codes)
        return may

    def find(self, key: Key, codes: Counts) -> pa.Table | None:
        """The rows with some codes; None if there are none."""
        return self.take(self.places(key, codes))

    def places(self, key: Key, codes: Counts) -> list[Place]:
        """Where the rows with some codes are."""
        ordered = np.sort(codes)
        wanted = ordered[np.append(np.ones(min(1, len(codes)), np.bool_), ordered[1:] != ordered[:-1])]
        return [(each, rows) for each in self._segments if len(rows := each.find(key, wanted))]

    def take(self, places: Sequence[Place]) -> pa.Table | None:
        """The rows at some places; None if there are none."""
        return pa.concat_tables([each.take(rows) for each, rows in places]) if places else None

    def take_out(self, key: Key, codes: Counts, wanted: Callable[[pa.Table], Mask]) -> pa.Table | None:
        """Give up those of the rows with some codes that are wanted; None if there are none."""
        taken = []
        for segment, rows in self.places(key, codes):
            table = segment.take(rows)
            chosen = wanted(table)
            if chosen.any():
                segment.take_out(rows[chosen])
                taken.append(table.filter(pa.array(chosen)))
        self._segments = [each for each in self._segments if each.rows]
        return pa.concat_tables(taken) if taken else None

    def tables(self) -> Iterator[pa.Table]:
        """All rows, in tables one after the other."""
        return (each.table() for each in self._segments)

    def expire(self, now: int) -> None:
        """Let segments go all of whose rows are over; of others, such rows go when they are merged."""
        self._now = now
        self._segments = [each for each in self._segments if each.ends > now]
        if not self._segments:
            self._file = None

    def _merge(self) -> None:
        """Segments of about the same size become one."""
        while True:
            tiers = dict.fromkeys(each.tier for each in self._segments)
            alike = ([each for each in self._segments if each.tier == tier] for tier in tiers)
            together = next((each for each in alike if self._may_merge(each)), None)
            if together is None:
                return
            table = pa.concat_tables([each.table() for each in together])
            codes = {key: np.concatenate([each.codes(key) for each in together]) for key in self._keys}
            there = table[END].to_numpy() > self._now
            if not there.all():
                table, codes = table.filter(pa.array(there)), {key: each[there] for key, each in codes.items()}
            others = [each for each in self._segments if each not in together]
            self._segments = [*([self._written(table, codes)] if len(table) else []), *others]

    def _written(self, table: pa.Table, codes: Mapping[Key, Counts]) -> ColdSegment:
        if self._file is None or self._file.bytes > FILE_BYTES:
            self._file = storage.ScratchFile()
        return ColdSegment(table, codes, self._file)

    def _may_merge(self, alike: Sequence[ColdSegment]) -> bool:
        return len(alike) >= MERGED_AT_ONCE and sum(each.rows for each in alike) <= self.most_rows


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue())
