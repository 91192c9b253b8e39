"""Files of blocks: rows of many queries in one file, ordered by query, with an index of fixed cost at the end.

A block is a stream of Arrow data, compressed if that pays. The index has an entry of fixed width for each block of each
query, ordered by the numbers of queries, so that one is found in a file of thousands by two reads. Queries whose
answers are the same rows have one block together. Columns are known by their places: each query has names of its own
for them.

>>> import tempfile
>>> rows = pa.table({"n": [1, 2], "_ts": pa.array([5, 7], pa.timestamp("us", "UTC"))})
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "some.blocks"
...     writer = BlockWriter(path)
...     writer.add([3, 8], rows)
...     _ = writer.close()
...     with BlockFile(path) as file:
...         found, none = file.of(8), file.of(4)
...         read = [file.read(entry)["n"].to_pylist() for entry in found]
>>> read, len(none), found["last"].tolist()
([[1, 2]], 0, [7])
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch import storage
from anabranch.errors import ResourceError
from anabranch.model.names import TS
from anabranch.operators.base import EVER, FOREVER

Entries = npt.NDArray[Any]
"""Some entries of an index."""
ENTRY = np.dtype([(name, "<i8") for name in ("query", "offset", "bytes", "rows", "first", "last", "nulls")])
"""Whose rows, where, how many, from which time to which, and how many without a time."""
TAIL_BYTES = 65_536
"""What is read of the end of a file at first: most indexes are in it."""
_END = struct.Struct("<qq8s")
_MARK = b"anabr-01"
WORTH_COMPRESSING = 4096
"""Bytes of a block: to compress a smaller one takes many times as long as to write it, and saves next to nothing."""
_COMPRESSED, _PLAIN = pa.ipc.IpcWriteOptions(compression="lz4"), pa.ipc.IpcWriteOptions()


class BlockWriter:
    """Writes a file of blocks.

    Parameters
    ----------
    path
        Of the file.
    entry
        The fields of an entry: those of `ENTRY`, and maybe more.
    """

    def __init__(self, path: Path, entry: np.dtype[Any] = ENTRY) -> None:
        self._file = storage.NewFile(path)
        self._entry = entry
        self._entries: list[tuple[int, ...]] = []

    def add(self, queries: Iterable[int], table: pa.Table, **more: int) -> None:
        """Write rows that are an answer of some queries."""
        offset = int(self._file.sink.tell())
        with self._file.writing():
            if table.nbytes < WORTH_COMPRESSING:
                self._file.sink.write(_small(table))
            else:
                _write(table, self._file.sink, _COMPRESSED)
        about = {"offset": offset, "bytes": int(self._file.sink.tell()) - offset, "rows": table.num_rows}
        self.enter(queries, **(about | _times(table) | more))

    def copy(self, block: pa.Buffer, entries: Entries) -> None:
        """Write a block as another file has it, with its entries there."""
        offset = int(self._file.sink.tell())
        with self._file.writing():
            self._file.sink.write(block)
        for entry in entries:
            about = {name: int(entry[name]) for name in self._names if name != "query"}
            self.enter([int(entry["query"])], **(about | {"offset": offset}))

    def enter(self, queries: Iterable[int], **about: int) -> None:
        """Put something about queries into the index; what is not said is 0."""
        for query in queries:
            self._entries.append(tuple({**about, "query": query}.get(name, 0) for name in self._names))

    def close(self) -> int:
        """Write the index, and finish; returns the size."""
        index = np.array(self._entries, dtype=self._entry)
        index = index[np.lexsort((index["offset"], index["query"]))]
        with self._file.writing():
            self._file.sink.write(index.tobytes())
            self._file.sink.write(_END.pack(len(index), self._entry.itemsize, _MARK))
        return self._file.close()

    @property
    def _names(self) -> tuple[str, ...]:
        return self._entry.names or ()


class BlockFile:
    """A file of blocks to be read; what was read stays good when the file goes.

    Parameters
    ----------
    path
        Of the file.
    entry
        The fields of an entry, as it was written.
    """

    def __init__(self, path: Path, entry: np.dtype[Any] = ENTRY) -> None:
        self._file = storage.opened(path)
        try:
            self.index = self._index(path, entry)
        except BaseException:
            self._file.close()
            raise

    def _index(self, path: Path, entry: np.dtype[Any]) -> Entries:
        size = self._file.size()
        tail = self._file.read_at(min(size, TAIL_BYTES), size - min(size, TAIL_BYTES))
        count, width, mark = _END.unpack(tail[-_END.size :]) if len(tail) >= _END.size else (0, 0, b"")
        if mark != _MARK or width != entry.itemsize:
            raise ResourceError(
                f"{str(path)!r} is not a whole file of answers",
                hint="bring the checkpoint back from a copy, or start with a new folder",
            )
        whole = count * width + _END.size
        if whole > len(tail):
            tail = self._file.read_at(whole, size - whole)
        return np.frombuffer(tail, entry, count, len(tail) - whole)

    def of(self, query: int) -> Entries:
        """The entries of a query."""
        queries = self.index["query"]
        return self.index[np.searchsorted(queries, query) : np.searchsorted(queries, query, "right")]

    def read(self, entry: Any) -> pa.Table:
        """The rows of an entry."""
        return pa.ipc.open_stream(self.bytes(entry)).read_all()

    def bytes(self, entry: Any) -> pa.Buffer:
        """The block of an entry, as it is."""
        return pa.py_buffer(self._file.read_at(int(entry["bytes"]), int(entry["offset"])))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> BlockFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Answered:
    """How many rows a query has answered, how many of them have no time, and the first and last time."""

    rows: int = 0
    nulls: int = 0
    first: int | None = None
    last: int | None = None


def answered(indexes: Iterable[Entries]) -> dict[int, Answered]:
    """What indexes say about each query.

    >>> index = np.array([(3, 0, 64, 2, 5, 7, 0), (3, 64, 64, 1, 6, 9, 0)], ENTRY)
    >>> answered([index])
    {3: Answered(rows=3, nulls=0, first=5, last=9)}
    """
    found: dict[int, Answered] = {}
    for query, _, _, rows, first, last, nulls in (entry for index in indexes for entry in index.tolist()):
        old = found.get(query, Answered())
        times = [] if rows == nulls else [first, last]
        known = [time for time in (old.first, old.last, *times) if time is not None]
        bounds = (min(known, default=None), max(known, default=None))
        found[query] = Answered(old.rows + rows, old.nulls + nulls, *bounds)
    return found


def read_index(path: Path) -> Entries:
    """The index of a file of `ENTRY`."""
    with BlockFile(path) as file:
        return file.index


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema, place by place; what Spark and Arrow write differently is cast."""
    cast: Sequence[pa.ChunkedArray] = [
        column if column.type == each.type else column.cast(each.type)
        for column, each in zip(table.columns, schema, strict=True)
    ]
    return pa.table(cast, schema=schema)


def _small(table: pa.Table) -> pa.Buffer:
    """A block in memory: to write it at once takes less than to write its parts."""
    sink = pa.BufferOutputStream()
    _write(table, sink, _PLAIN)
    return sink.getvalue()


def _write(table: pa.Table, sink: pa.NativeFile, options: pa.ipc.IpcWriteOptions) -> None:
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())


def _times(table: pa.Table) -> dict[str, int]:
    times = table[TS].cast(pa.int64())
    bounds = pc.min_max(times).as_py()
    if bounds["min"] is None:
        return {"first": FOREVER, "last": EVER, "nulls": times.null_count}
    return {"first": bounds["min"], "last": bounds["max"], "nulls": times.null_count}
