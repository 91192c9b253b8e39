"""The columns of rows that are kept, found by the numbers of rows.

Values of a fixed width lie in one array per column, so that rows are gathered from all over a window in one go; all
others stay in the Arrow tables in which they came (`table_chunks.py`).

>>> kept = Payload()
>>> kept.append(pa.table({"city": ["Oslo", "Rome"], "n": [1, None]}))
>>> kept.append(pa.table({"city": ["Lima"], "n": [3]}))
>>> kept.take(np.array([2, 0, 1])).to_pydict()
{'city': ['Lima', 'Oslo', 'Rome'], 'n': [3, 1, None]}
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.joins.growing import Growing
from anabranch.operators.elements import Flags, Rows, bare
from anabranch.operators.table_chunks import TableChunks

_WIDTHS = (8, 16, 32, 64)


class Payload:
    """Rows numbered from 0 in the order in which they came, until `keep` numbers them anew."""

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._fixed: dict[str, _FixedColumn] = {}
        self._others: list[str] = []
        self._chunks = TableChunks()
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def seen(self) -> bool:
        """Whether it knows its columns: once a table has come, be it empty."""
        return self._schema is not None

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return [] if self._schema is None else list(self._schema.names)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, approximately."""
        return sum(column.nbytes for column in self._fixed.values()) + self._chunks.nbytes

    def append(self, table: pa.Table, *, for_now: bool = False) -> None:
        """Add rows; `for_now` if `shorten` takes them away again."""
        if self._schema is None:
            self._schema = table.schema.remove_metadata()
            self._fixed = {field.name: _FixedColumn(field.type) for field in self._schema if is_fixed(field.type)}
            self._others = [name for name in table.column_names if name not in self._fixed]
        for name, column in self._fixed.items():
            column.append(table.column(name))
        if self._others and for_now:
            self._chunks.append_for_now(table.select(self._others))
        elif self._others:
            self._chunks.append(table.select(self._others))
        self._rows += len(table)

    def shorten(self, length: int) -> None:
        """Drop the rows that were added for now, so that so many are left."""
        self._chunks.shorten(length)
        for column in self._fixed.values():
            column.shorten(length)
        self._rows = length

    def fit(self) -> None:
        """Take no more memory than the rows need."""
        for column in self._fixed.values():
            column.fit()
        self._chunks.fit()

    def take(self, rows: Rows, names: list[str] | None = None) -> pa.Table:
        """All columns, or those named, of rows, each time they are asked for."""
        names = self.names if names is None else names
        if not names:
            return bare(len(rows))
        others = [name for name in names if name not in self._fixed]
        found = self._chunks.take(rows, others) if others else None
        columns = [
            self._fixed[name].take(rows) if found is None or name in self._fixed else found.column(name)
            for name in names
        ]
        return pa.table(columns, names=names)

    def keep(self, wanted: slice | Flags) -> None:
        """Drop all other rows, which are the first ones or any; those that stay get new numbers, in the same order."""
        if self._chunks.seen:
            self._chunks.keep(wanted)
        if isinstance(wanted, slice):
            self._rows -= wanted.start
            for column in self._fixed.values():
                column.cut(wanted.start)
            return
        stays = np.flatnonzero(wanted)
        self._rows = len(stays)
        for column in self._fixed.values():
            column.keep(stays)

    def table(self, first: int = 0, until: int | None = None) -> pa.Table:
        """All columns of rows in order, all or from one number to before another: what `append` takes."""
        return self.take(np.arange(first, self._rows if until is None else until))


class _FixedColumn:
    """Values of a fixed width, and which of them are there."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._values = Growing(ints_of(kind))
        self._valid: Growing | None = None

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + (self._valid.nbytes if self._valid else 0)

    def append(self, column: pa.ChunkedArray) -> None:
        if column.null_count and self._valid is None:
            self._valid = Growing(np.dtype(np.bool_))
            self._valid.append(np.ones(len(self._values.values), np.bool_))
        for chunk in column.chunks:
            self._values.append(as_ints(chunk))
            if self._valid is not None:
                self._valid.append(chunk.is_valid().to_numpy(zero_copy_only=False))

    def shorten(self, length: int) -> None:
        for column in (self._values, self._valid):
            if column is not None:
                column.shorten(length)

    def fit(self) -> None:
        for column in (self._values, self._valid):
            if column is not None:
                column.fit()

    def take(self, rows: Rows) -> pa.Array:
        valid = None if self._valid is None else self._valid.values[rows].astype(np.bool_, copy=False)
        return of_ints(self._kind, self._values.values.take(rows), valid)

    def cut(self, gone: int) -> None:
        for column in (self._values, self._valid):
            if column is not None:
                column.cut(gone)

    def keep(self, rows: Rows) -> None:
        for column in (self._values, self._valid):
            if column is not None:
                column.assign(column.values.take(rows))


def is_fixed(kind: pa.DataType) -> bool:
    """Whether all values of a type have the same width, in whole bytes.

    >>> is_fixed(pa.float64()), is_fixed(pa.string()), is_fixed(pa.bool_())
    (True, False, False)
    """
    return bool(pa.types.is_primitive(kind) and not pa.types.is_boolean(kind) and kind.bit_width in _WIDTHS)


def ints_of(kind: pa.DataType) -> np.dtype[np.int64]:
    """Whole numbers of the width of a type."""
    return np.dtype(f"i{kind.bit_width // 8}")


def as_ints(chunk: pa.Array) -> npt.NDArray[np.int64]:
    """Values of a fixed width as whole numbers of that width, bit by bit.

    >>> as_ints(pa.array([7, None, 9])).tolist()[::2]
    [7, 9]
    """
    data = chunk.buffers()[1]
    if data is None:
        return np.zeros(len(chunk), ints_of(chunk.type))
    return np.frombuffer(data, ints_of(chunk.type))[chunk.offset : chunk.offset + len(chunk)]


def of_ints(kind: pa.DataType, values: npt.NDArray[np.int64], valid: Flags | None) -> pa.Array:
    """The way back."""
    bits = None if valid is None else pa.array(valid, pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def whole_numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Values that are whole numbers for Arrow (integers, dates, timestamps), without NULLs.

    >>> whole_numbers(pa.chunked_array([pa.array([3], pa.date32())])).tolist()
    [3]
    """
    kind = column.type
    if not pa.types.is_integer(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return np.asarray(pc.cast(column, pa.int64()).to_numpy())


def are_codes(kinds: list[pa.DataType]) -> bool:
    """Whether values of these types are compared by the whole numbers that they are.

    >>> are_codes([pa.int64(), pa.int32()]), are_codes([pa.date32(), pa.date32()]), are_codes([pa.string()] * 2)
    (True, True, False)
    """
    if all(map(pa.types.is_integer, kinds)):
        return all(kind != pa.uint64() for kind in kinds)
    first = kinds[0]
    whole = pa.types.is_date32(first) or pa.types.is_timestamp(first)
    return whole and all(kind == first for kind in kinds)
