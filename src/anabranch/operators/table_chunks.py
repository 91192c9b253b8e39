"""Rows that stay in the Arrow tables in which they came, found by their numbers.

>>> kept = TableChunks()
>>> kept.append(pa.table({"city": ["Oslo", "Rome"]}))
>>> kept.append(pa.table({"city": ["Lima"]}))
>>> kept.take(np.array([2, 0])).to_pydict()
{'city': ['Lima', 'Oslo']}
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.joins.sorted_runs import push
from anabranch.operators.elements import Flags, Rows, concat, stacked, take

CHUNK_ROWS = 65_536
"""Short tables are merged into chunks of so many rows at most."""


class TableChunks:
    """Rows numbered from 0 in the order in which they came, until `keep` numbers them anew."""

    def __init__(self) -> None:
        self._chunks: list[pa.Table] = []

    @property
    def seen(self) -> bool:
        """Whether a table has come, be it empty."""
        return bool(self._chunks)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, approximately."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def append(self, table: pa.Table) -> None:
        """Add rows."""
        if self._chunks and not len(table):
            return
        self._chunks = [*filter(len, self._chunks)]
        push(self._chunks, table.combine_chunks(), lambda older, newer: concat([older, newer]), CHUNK_ROWS)

    def append_for_now(self, table: pa.Table) -> None:
        """Add rows that `shorten` takes away again, all of them."""
        self._chunks.append(table.combine_chunks())

    def shorten(self, length: int) -> None:
        """Drop what was added for now, so that so many rows are left."""
        while len(self._chunks) > 1 and sum(map(len, self._chunks)) > length:
            self._chunks.pop()

    def take(self, rows: Rows, names: list[str] | None = None) -> pa.Table:
        """All columns, or those named, of rows, each time they are asked for."""
        chunks = self._chunks if names is None else [chunk.select(names) for chunk in self._chunks]
        if len(chunks) == 1 or not chunks[0].num_columns:
            return take(chunks[0], rows)
        bounds = np.cumsum([0, *map(len, chunks)])
        order = None if (rows[1:] >= rows[:-1]).all() else np.argsort(rows)
        ordered = rows if order is None else rows[order]
        cuts = np.searchsorted(ordered, bounds)
        parts = [
            take(chunk, ordered[low:high] - bound)
            for chunk, bound, low, high in zip(chunks, bounds[:-1], cuts[:-1], cuts[1:], strict=True)
            if low < high
        ]
        if order is None:
            return concat(parts or [chunks[0].slice(0, 0)])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return take(concat(parts), place)

    def keep(self, wanted: slice | Flags) -> None:
        """Drop all other rows; those that stay get new numbers, in the same order."""
        kept = self.table().slice(wanted.start) if isinstance(wanted, slice) else self.take(np.flatnonzero(wanted))
        self._chunks = [kept]

    def fit(self) -> None:
        """Take no more memory than the rows need: a part of a table would hold all of it."""
        self._chunks = [take(chunk, np.arange(len(chunk))) for chunk in self._chunks]

    def table(self) -> pa.Table:
        """All rows, in order; nothing is copied."""
        return stacked(self._chunks)
