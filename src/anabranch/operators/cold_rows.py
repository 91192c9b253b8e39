"""Rows that a join is unlikely to need, on disk, with little in memory: filters, and the first code of each block.

A *segment* is written once: for each key its codes in order, and where the rows with them are, then the rows, all in
blocks with checksums. Segments of about the same size are merged, and one goes when all of its rows are over. Small
ones share a file. Files are for the process that has written them: what the engine starts again from is the log.

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

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch import storage
from anabranch.joins.code_filter import CodeFilter
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask, Rows, ranges
from anabranch.operators.base import END, EVER

CODES_IN_BLOCK = 1024
ROWS_IN_BLOCK = 4096
FILE_BYTES = 1 << 23
"""A file takes another segment while it is smaller."""
MERGED_AT_ONCE = 8
"""So many segments of about one size become one."""
MOST_ROWS = 1 << 21
"""Of a segment that is merged: a larger one goes late, as its last row does."""


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

    def __init__(self, table: pa.Table, codes: Mapping[Key, Counts], file: storage.ScratchFile | None = None) -> None:
        self._file = file or storage.ScratchFile()
        self._schema = table.schema
        self.rows = table.num_rows
        self.ends = int(pc.max(table[END]).as_py())
        parts: list[bytes] = []
        sorted_codes = {key: _in_order(values, parts) for key, values in codes.items()}
        parts += [_bytes(table.slice(first, ROWS_IN_BLOCK)) for first in range(0, self.rows, ROWS_IN_BLOCK)]
        self.file_bytes = sum(map(len, parts))
        blocks, each = iter(self._file.write_all(parts)), -(-self.rows // CODES_IN_BLOCK)
        self._keys = {
            key: _Sorted(CodeFilter(codes[key]), first, tuple(islice(blocks, each)), tuple(islice(blocks, each)))
            for key, first in sorted_codes.items()
        }
        self._blocks = tuple(blocks)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(each.nbytes for each in self._keys.values())

    def may_have(self, key: Key, codes: Counts) -> Mask:
        """Whether there may be a row with each code."""
        return self._keys[key].filter.may_have(codes)

    def find(self, key: Key, codes: Counts) -> Rows:
        """The rows with some codes."""
        known = self._keys[key]
        wanted = codes[known.filter.may_have(codes)]
        if not len(wanted):
            return wanted
        wanted = np.unique(wanted)
        low = np.maximum(known.first.searchsorted(wanted) - 1, 0).tolist()
        after = known.first.searchsorted(wanted, "right").tolist()
        read = sorted({block for first, end in zip(low, after, strict=True) for block in range(first, end)})
        if not read:
            return wanted[:0]
        there = np.concatenate([self._codes(known.codes[block]) for block in read])
        first = there.searchsorted(wanted)
        counts = there.searchsorted(wanted, "right") - first
        if not counts.any():
            return wanted[:0]
        _, at = ranges(first, counts)
        return np.concatenate([self._numbers(known.rows[block]) for block in read])[at].astype(np.int64)

    def take(self, rows: Rows) -> pa.Table:
        """Rows by their numbers, ascending."""
        parts = [self._schema.empty_table()]
        for block in np.unique(rows // ROWS_IN_BLOCK):
            mine = rows[rows // ROWS_IN_BLOCK == block] - block * ROWS_IN_BLOCK
            parts.append(self._read(self._blocks[block]).take(pa.array(mine)))
        return pa.concat_tables(parts)

    @property
    def tier(self) -> int:
        """About how large it is."""
        return int(np.log2(self.rows)) // int(np.log2(MERGED_AT_ONCE))

    def codes(self, key: Key) -> Counts:
        """The code of each row."""
        known = self._keys[key]
        found = np.empty(self.rows, np.int64)
        for codes, rows in zip(known.codes, known.rows, strict=True):
            found[self._numbers(rows)] = self._codes(codes)
        return found

    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables([self._schema.empty_table(), *map(self._read, self._blocks)])

    def _codes(self, block: storage.Block) -> Counts:
        return np.frombuffer(self._file.read(block), np.int64)

    def _numbers(self, block: storage.Block) -> NDArray[np.int32]:
        return np.frombuffer(self._file.read(block), np.int32)

    def _read(self, block: storage.Block) -> pa.Table:
        return pa.ipc.open_stream(self._file.read(block)).read_all()


class ColdRows:
    """The cold rows of one input of a join.

    Parameters
    ----------
    keys
        By which they are looked for.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = tuple(keys)
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
        found = [(each, np.unique(rows)) for each in self._segments if len(rows := each.find(key, codes))]
        return pa.concat_tables([each.take(rows) for each, rows in found]) if found else None

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
            tiers = [each.tier for each in self._segments]
            full = next((tier for tier in tiers if tiers.count(tier) >= MERGED_AT_ONCE), None)
            together = [each for each in self._segments if each.tier == full]
            if full is None or sum(each.rows for each in together) > MOST_ROWS:
                return
            table = pa.concat_tables([each.table() for each in together])
            codes = {key: np.concatenate([each.codes(key) for each in together]) for key in self._keys}
            there = table[END].to_numpy() > self._now
            if not there.all():
                table, codes = table.filter(pa.array(there)), {key: each[there] for key, each in codes.items()}
            others = [each for each in self._segments if each.tier != full]
            self._segments = [*([self._written(table, codes)] if len(table) else []), *others]

    def _written(self, table: pa.Table, codes: Mapping[Key, Counts]) -> ColdSegment:
        if self._file is None or self._file.bytes > FILE_BYTES:
            self._file = storage.ScratchFile()
        return ColdSegment(table, codes, self._file)


def _in_order(codes: Counts, parts: list[bytes]) -> Counts:
    """Blocks of codes in order, and of the rows with them; returns the first code of each."""
    order = np.argsort(codes)
    whole = codes[order]
    starts = range(0, len(whole), CODES_IN_BLOCK)
    for values in (whole, order.astype(np.int32)):
        parts += [values[first : first + CODES_IN_BLOCK].tobytes() for first in starts]
    return whole[::CODES_IN_BLOCK].copy()


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue())
