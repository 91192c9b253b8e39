"""Which files hold the answer of a query up to a tick: as few as possible, however long the query has run.

A tick writes a file per cell. Beside the files of a relation's ticks, in the same folders, lie some that stand for
many: the changes of several ticks *merged* into one file, and *snapshots*, the rows that are there after a tick.
Whoever wants the relation after a tick reads the last snapshot and the changes since. What was answered before the
relation was `FOLDED`, because it is not retained, is gone.

>>> SummaryFile.of(Path("000000000315-000000000290-72-50000.arrow"))
SummaryFile(path=PosixPath('000000000315-000000000290-72-50000.arrow'), first=290, last=315, rows=72, position=50000)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch import storage
from anabranch.engine.layout import ANSWERS, FOLDED, block_name, block_of, tick_of
from anabranch.model.names import OP, TS
from anabranch.operators.elements import identities, net_weights, take
from anabranch.operators.segments import read_tables

SUMMARY = ".arrow"


@dataclass(frozen=True)
class SummaryFile:
    """The changes of ticks `first` to `last` in one file; if `first` is 0, a snapshot: the rows after `last`.

    The changes are before the `position`, where the query was then, and all later ones are not.
    """

    path: Path
    first: int
    last: int
    rows: int
    position: int

    @classmethod
    def of(cls, path: Path) -> SummaryFile:
        """What its name says."""
        last, first, rows, position = path.stem.split("-", 3)
        return cls(path, int(first), int(last), int(rows), int(position))

    @property
    def name(self) -> str:
        """What says all that."""
        return f"{self.last:012d}-{self.first:012d}-{self.rows}-{self.position}{SUMMARY}"

    @property
    def is_snapshot(self) -> bool:
        """Whether it stands for all changes up to its last tick."""
        return self.first == 0


@dataclass(frozen=True)
class FileSet:
    """Files that hold all changes of some ticks.

    Parameters
    ----------
    snapshot
        The rows before these changes.
    merged
        Changes of several ticks each.
    plain
        Files as ticks have written them.
    since
        The changes of ticks after this one are in `merged` and `plain`.
    folded
        What counts instead of all changes that are not retained.
    """

    snapshot: SummaryFile | None = None
    merged: Sequence[SummaryFile] = ()
    plain: Sequence[Path] = ()
    since: int = 0
    folded: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """All files."""
        base = [self.snapshot.path] if self.snapshot else [self.folded] if self.folded else []
        return [*base, *(each.path for each in self.merged), *self.plain]

    def read(self, schema: pa.Schema) -> pa.Table:
        """The changes, those that a snapshot stands for as if they had come at once."""
        parts = [part for path in self.paths for part in storage.parts(path)]
        return pa.concat_tables([schema.empty_table(), *(_conformed(_read(part), schema) for part in parts)])


@dataclass
class _Block:
    """What lies in a folder of ticks."""

    summaries: list[SummaryFile] = field(default_factory=list)
    plain: list[Path] = field(default_factory=list)


class AnswerFiles:
    """The files of one query's answer.

    Parameters
    ----------
    checkpoint
        The folder of the checkpoint.
    name
        Of the query.
    begin
        The tick after which it was registered.
    """

    def __init__(self, checkpoint: Path, name: str, begin: int = 0) -> None:
        self.name = name
        self.folder = checkpoint / ANSWERS / name
        self.begin = begin

    def folded(self) -> Path | None:
        """What counts instead of all answers up to its tick."""
        return max(storage.listed(self.folder / FOLDED, "*.parquet"), default=None)

    def up_to(self, tick: int) -> FileSet:
        """The last snapshot up to a tick, and the changes since."""
        folded = self.folded()
        floor = self.begin if folded is None else tick_of(folded)
        blocks: dict[int, _Block] = {}
        for block in range(block_of(tick), block_of(floor) - 1, -1):
            found = blocks[block] = self._block(block)
            snapshots = [each for each in found.summaries if each.is_snapshot and floor < each.last <= tick]
            if snapshots:
                last = max(snapshots, key=lambda each: each.last)
                return _covering(list(blocks.values()), last.last + 1, tick, last)
        return _covering(list(blocks.values()), floor + 1, tick, None, folded)

    def around(self, first: int, last: int, time: int) -> tuple[int, int]:
        """Given ticks whose changes come before a time and after it, some closer to it: `first` has a snapshot then."""
        found = [each for block in range(block_of(first), block_of(last) + 1) for each in self._block(block).summaries]
        found = [each for each in found if first < each.last <= last]
        before = (each.last for each in found if each.is_snapshot and each.position <= time)
        after = (each.last for each in found if each.position > time)
        return max(before, default=first), min(after, default=last)

    def between(self, first: int, last: int) -> FileSet:
        """The changes of ticks from one to another, both included."""
        return _covering([self._block(block) for block in range(block_of(first), block_of(last) + 1)], first, last)

    def blocks(self) -> list[int]:
        """The folders that are there, by number."""
        return [int(path.name) for path in storage.listed(self.folder, "[0-9]*")]

    def _block(self, block: int) -> _Block:
        made = _Block()
        for path in storage.listed(self.folder / block_name(block), "*"):
            if path.suffix == SUMMARY:
                made.summaries.append(SummaryFile.of(path))
            elif path.suffix == ".parquet":
                made.plain.append(path)
        return made


def fold(changes: pa.Table) -> pa.Table:
    """The rows that are there after some changes, as if each had come at the time of its last change.

    >>> changes = pa.table({"n": [1, 2, 1, 2, 2], "_ts": [5, 6, 7, 8, 9], "_op": ["+", "+", "-", "+", "-"]})
    >>> fold(changes).to_pydict()
    {'n': [2], '_ts': [9], '_op': ['+']}
    """
    comes = pc.equal(changes[OP], "+").to_numpy(zero_copy_only=False)
    groups = identities(changes, [name for name in changes.column_names if name not in (TS, OP)])
    copies = np.maximum(net_weights(groups, np.where(comes, 1, -1)), 0)
    times = changes[TS].cast(pa.int64()).to_numpy()
    last = np.full(int(groups.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, groups, times)
    rows = np.repeat(np.arange(len(changes)), copies)
    columns = dict(zip(changes.column_names, take(changes, rows).columns, strict=True))
    columns[OP] = pa.repeat(pa.scalar("+", changes.schema.field(OP).type), len(rows))
    columns[TS] = pa.chunked_array([pa.array(last[groups[rows]]).cast(changes.schema.field(TS).type)])
    return pa.table(columns, schema=changes.schema)


def _covering(
    blocks: Sequence[_Block], first: int, last: int, snapshot: SummaryFile | None = None, folded: Path | None = None
) -> FileSet:
    """The changes of ticks `first` to `last`; merged where merged files lie within."""
    merged: list[SummaryFile] = []
    summaries = [each for block in blocks for each in block.summaries if not each.is_snapshot]
    for each in sorted(summaries, key=lambda each: each.first):
        if each.first >= (merged[-1].last + 1 if merged else first) and each.last <= last:
            merged.append(each)
    covered = {tick for each in merged for tick in range(each.first, each.last + 1)}
    plain = [path for block in blocks for path in block.plain if first <= tick_of(path) <= last]
    return FileSet(snapshot, merged, sorted(path for path in plain if tick_of(path) not in covered), first - 1, folded)


def _read(path: Path) -> pa.Table:
    if path.suffix == SUMMARY:
        return read_tables(path)[0]
    with storage.opened(path) as file:
        return pq.ParquetFile(file).read()


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema; what Spark and Arrow write differently is cast."""
    columns = [table[each.name] for each in schema]
    cast = [
        column if column.type == each.type else column.cast(each.type)
        for column, each in zip(columns, schema, strict=True)
    ]
    return pa.table(cast, schema=schema)
