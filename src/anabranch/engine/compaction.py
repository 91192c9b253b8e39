"""Compaction: files of answers of relations that stand for many, so that reading one costs the same at any age.

Once the ticks since the last compaction have left `MOST_PLAIN` files, their changes are merged into one. Once the
changes since the last snapshot are as many as its rows, a new snapshot is written instead: all snapshots together have
no more rows than the changelog. The files of ticks stay as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from anabranch import storage
from anabranch.engine.answer_files import SUMMARY, AnswerFiles, FileSet, SummaryFile, fold
from anabranch.engine.layout import UNCONFIRMED, block_name, block_of, tick_of
from anabranch.operators.segments import write_tables

LOOK_TICKS = 4
"""Ticks from one look at the files of a query to the next."""
MOST_PLAIN = 32
MOST_MERGED = 32
MOST_BLOCKS = 16
"""A snapshot is looked for in so many folders of ticks, back from the last: then a new one is due in any case."""
DRIVER_BYTES = 8_000_000
"""What is larger is compacted by a worker."""


@dataclass(frozen=True)
class Compaction:
    """Files of a query that become one.

    Parameters
    ----------
    files
        What there is.
    tick
        The last one.
    position
        Where the query is then.
    folder
        Of the query's answer.
    schema
        Of the answer, with `_ts` and `_op`.
    """

    files: FileSet
    tick: int
    position: int
    folder: Path
    schema: pa.Schema

    @property
    def bytes(self) -> int:
        """What has to be read."""
        return sum(storage.size(part) for path in self.files.paths for part in storage.parts(path))

    def run(self) -> Path:
        """Write the merged changes, or a snapshot if those since the last one are as many as its rows."""
        files = self.files
        first = max([files.since, *(each.last for each in files.merged)]) + 1
        recent = [path for path in files.plain if tick_of(path) >= first]
        fresh = FileSet(plain=recent).read(self.schema)
        older = FileSet(plain=[path for path in files.plain if path not in recent]).read(self.schema)
        changes = sum(each.rows for each in files.merged) + len(older) + len(fresh)
        many = len(files.merged) >= MOST_MERGED or self._blocks >= MOST_BLOCKS
        if files.snapshot is not None and changes < files.snapshot.rows and not many:
            return self._write(first, fresh)
        return self._write(0, fold(pa.concat_tables([replace(files, plain=()).read(self.schema), older, fresh])))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as a task of Spark's."""
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": [str(self.run())]})

    @property
    def is_due(self) -> bool:
        """Whether there are enough files."""
        return len(self.files.plain) >= MOST_PLAIN or self._blocks >= MOST_BLOCKS

    @property
    def _blocks(self) -> int:
        return block_of(self.tick) - block_of(self.files.since)

    def _write(self, first: int, table: pa.Table) -> Path:
        folder = self.folder / block_name(block_of(self.tick))
        made = folder / SummaryFile(folder, first, self.tick, len(table), self.position).name
        beside = made.with_suffix(SUMMARY + UNCONFIRMED)
        storage.make_folder(made.parent)
        write_tables(beside, [table.combine_chunks()])
        storage.rename(beside, made)
        return made


def takes_turn(query: str, tick: int) -> bool:
    """Whether the files of a query are looked at after a tick: not those of all queries after the same one."""
    return (tick + zlib.crc32(query.encode())) % LOOK_TICKS == 0


def compaction(files: AnswerFiles, tick: int, position: int, schema: pa.Schema) -> Compaction | None:
    """What is to be done after a tick, if anything."""
    found = Compaction(files.up_to(tick), tick, position, files.folder, schema)
    return found if found.is_due else None
