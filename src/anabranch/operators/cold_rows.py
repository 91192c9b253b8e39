"""Rows that a join is unlikely to need, on disk, with little in memory: filters, and the first code of each block.

A *segment* is written once: for each key its codes in order, and where the rows with them are, then the rows, all in
blocks with checksums. Segments of about the same size are merged, and one goes when all of its rows are over. Files are
for the process that has written them: what the engine starts again from is the log.

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
from anabranch.joins.code_filter import CodeFilter, Hashes, hashes
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask, Rows, ranges
from anabranch.operators.base import END, EVER

CODES_IN_BLOCK = 8192
ROWS_IN_BLOCK = 1024
MERGED_AT_ONCE = 4
"""So many segments of about one size become one."""
MOST_ROWS = 1 << 21


class _Sorted(NamedTuple):
    """The codes of a key in order: a filter, the first of each block, where the blocks of codes and of rows are."""

    filter: CodeFilter
    first: Counts
    codes: tuple[storage.Block, ...]
    rows: tuple[storage.Block, ...]

    @property
    def nbytes(self) -> int:
        return self.filter.nbytes + self.first.nbytes


class ColdSegment:
    """Rows in a file, which nobody changes."""

    def __init__(self, table: pa.Table, codes: Mapping[Key, Counts]) -> None:
        self._file = storage.ScratchFile()
        self._schema = table.schema
        self._rows = table.num_rows
        self._gone: Mask | None = None
        self.ends = int(pc.max(table[END]).as_py())
        self._keys = {key: self._sorted(values) for key, values in codes.items()}
        self._blocks = tuple(
            self._file.write(_bytes(table.slice(first, ROWS_IN_BLOCK))) for first in range(0, self._rows, ROWS_IN_BLOCK)
        )

    @property
    def rows(self) -> int:
        """Rows that have not been taken out."""
        return self._rows - (int(np.count_nonzero(self._gone)) if self._gone is not None else 0)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        gone = self._gone.nbytes if self._gone is not None else 0
        return gone + sum(each.nbytes for each in self._keys.values())

    @property
    def file_bytes(self) -> int:
        """Bytes on disk."""
        return self._file.bytes

    def find(self, key: Key, codes: Counts, hashed: Hashes) -> Rows:
        """The rows with some codes, ascending and each once, in order."""
        known = self._keys[key]
        wanted = codes[known.filter.may_have_hashed(hashed)]
        if not len(wanted):
            return wanted
        low = np.maximum(np.searchsorted(known.first, wanted, side="left") - 1, 0)
        _, blocks = ranges(low, np.searchsorted(known.first, wanted, side="right") - low)
        read = np.unique(blocks)
        if not len(read):
            return read
        there = np.concatenate([self._ints(known.codes[block]) for block in read])
        first = np.searchsorted(there, wanted, side="left")
        _, at = ranges(first, np.searchsorted(there, wanted, side="right") - first)
        found = np.sort(np.concatenate([self._ints(known.rows[block]) for block in read])[at])
        return found if self._gone is None else found[~self._gone[found]]

    def take(self, rows: Rows) -> pa.Table:
        """Rows by their numbers, ascending."""
        parts = [self._schema.empty_table()]
        for block in np.unique(rows // ROWS_IN_BLOCK):
            mine = rows[rows // ROWS_IN_BLOCK == block] - block * ROWS_IN_BLOCK
            parts.append(self._read(self._blocks[block]).take(pa.array(mine)))
        return pa.concat_tables(parts)

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
        for codes, rows in zip(known.codes, known.rows, strict=True):
            found[self._ints(rows)] = self._ints(codes)
        return found if self._gone is None else found[~self._gone]

    def table(self) -> pa.Table:
        """All rows."""
        whole = pa.concat_tables([self._schema.empty_table(), *map(self._read, self._blocks)])
        return whole if self._gone is None else whole.filter(pa.array(~self._gone))

    def _sorted(self, codes: Counts) -> _Sorted:
        order = np.argsort(codes, kind="stable")
        whole = np.ascontiguousarray(codes[order])
        starts = range(0, len(whole), CODES_IN_BLOCK)
        blocks = [
            tuple(self._file.write(each[first : first + CODES_IN_BLOCK].tobytes()) for first in starts)
            for each in (whole, order.astype(np.int64))
        ]
        return _Sorted(CodeFilter(codes), whole[::CODES_IN_BLOCK].copy(), *blocks)

    def _ints(self, block: storage.Block) -> Counts:
        return np.frombuffer(self._file.read(block), np.int64)

    def _read(self, block: storage.Block) -> pa.Table:
        """A block; its values stay in the file, which is mapped."""
        return pa.ipc.open_stream(pa.py_buffer(self._file.read(block))).read_all()


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
            self._segments.append(ColdSegment(table, {key: codes[key] for key in self._keys}))
            self._merge()

    def find(self, key: Key, codes: Counts) -> pa.Table | None:
        """The rows with some codes; None if there are none."""
        return self.take(self.places(key, codes))

    def places(self, key: Key, codes: Counts) -> list[Place]:
        """Where the rows with some codes are."""
        wanted = np.unique(codes)
        hashed = hashes(wanted)
        return [(each, rows) for each in self._segments if len(rows := each.find(key, wanted, hashed))]

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
            self._segments = [*([ColdSegment(table, codes)] if len(table) else []), *others]

    def _may_merge(self, alike: Sequence[ColdSegment]) -> bool:
        return len(alike) >= MERGED_AT_ONCE and sum(each.rows for each in alike) <= self.most_rows


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue())
