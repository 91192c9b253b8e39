"""What a query has answered, read from as few files as possible, however long it has run.

A tick writes files for all queries. Summaries stand for the files of many ticks: of each relation they have the changes
since the summary before, *merged*, or a *snapshot*, the rows that are there after a tick, or, where nothing has
changed, only the tick of the last summary that has something. A reader of the relation after a tick goes from the
last summary back to the one with a snapshot, and reads the files of the ticks since. What was answered up to the
`floor` of a query is gone; of a relation a snapshot after that tick counts instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.engine.answer_blocks import ENTRY, BlockFile, conformed
from anabranch.engine.layout import SUMMARY, tick_of
from anabranch.engine.tick_files import TickFiles
from anabranch.model.names import OP, TS
from anabranch.operators.elements import identities, net_weights, take


class Kind(IntEnum):
    """What a summary has of a relation."""

    NOTHING = 0
    MERGED = 1
    SNAPSHOT = 2


_ABOUT = ("kind", "since", "position", "previous", "snapshot", "held", "changes", "links")
SUMMARY_ENTRY = np.dtype([*ENTRY.descr, *((name, "<i8") for name in _ABOUT)])
"""Of a relation in a summary.

`kind`; the summary stands for the ticks after `since`; where the query was then; the last summary before it that has
rows of the query; the tick of the last snapshot and its rows (0 and -1 if there is none); changes since, and the merged
pieces that they are in.
"""


class AnswerFiles:
    """The answer of one query.

    Parameters
    ----------
    checkpoint
        The folder of the checkpoint.
    query
        Its number.
    registered, floor
        The ticks after which it was registered, and up to which it is not retained.
    schema
        Of the answer.
    summed
        Whether summaries have it.
    """

    def __init__(
        self, checkpoint: Path, query: int, registered: int, floor: int, schema: pa.Schema, *, summed: bool
    ) -> None:
        self.query = query
        self.floor = floor
        self._files = TickFiles(checkpoint)
        self._begin = max(registered, floor)
        self._schema = schema
        self._summed = summed

    def up_to(self, tick: int) -> pa.Table:
        """The changes up to a tick, those that a snapshot stands for as if they had come at once."""
        summary = self._last_summary(tick)
        since = self._begin if summary is None else tick_of(summary)
        return self._table([*self.chain(summary), *self._plain(since + 1, tick)])

    def paths_up_to(self, tick: int) -> list[Path]:
        """The files of which `up_to` reads something."""
        summary = self._last_summary(tick)
        since = self._begin if summary is None else tick_of(summary)
        return [*(path for path, _, _ in self._walk(summary)), *self.plain(since + 1, tick)]

    def chain(self, summary: Path | None) -> list[pa.Table]:
        """What a summary and those before it have, back to a snapshot."""
        return [file.read(entry) for _, file, entry in self._walk(summary)][::-1]

    def _last_summary(self, tick: int) -> Path | None:
        found = self._files.last_summary(self._begin, tick) if self._summed else None
        if found is None and self._summed and self.floor:
            raise FileNotFoundError(
                ENOENT, "what counts instead of older answers", str(self._files.summary(self.floor))
            )
        return found

    def _walk(self, summary: Path | None) -> Iterator[tuple[Path, BlockFile, Any]]:
        """Summaries that have rows of the query, from one back to a snapshot, each with its entry."""
        while summary is not None:
            with BlockFile(summary, SUMMARY_ENTRY) as file:
                entry = next(iter(file.of(self.query)), None)
                if entry is None:
                    return
                if entry["kind"] != Kind.NOTHING:
                    yield summary, file, entry
                ends = entry["kind"] == Kind.SNAPSHOT or not entry["previous"]
                summary = None if ends else self._files.summary(int(entry["previous"]))

    def around(self, first: int, last: int, time: int) -> tuple[int, int]:
        """Given ticks whose changes come before a time and after it, some closer to it, each with a summary."""
        if self._summed:
            for path in self._files.summaries(first + 1, last):
                entry = self._entry(path)
                if entry is not None and entry["position"] <= time:
                    first = tick_of(path)
                elif entry is not None:
                    return first, tick_of(path)
        return first, last

    def between(self, first: int, last: int) -> pa.Table:
        """The changes of ticks from one to another, both included; from summaries where these have them."""
        first, tables = max(first, self._begin + 1), list[pa.Table]()
        for path in self._files.summaries(first, last) if self._summed else []:
            with BlockFile(path, SUMMARY_ENTRY) as file:
                entry = next(iter(file.of(self.query)), None)
                if entry is None or entry["since"] + 1 < first or entry["kind"] == Kind.SNAPSHOT:
                    continue
                tables += self._plain(first, int(entry["since"]))
                tables += [file.read(entry)] if entry["kind"] == Kind.MERGED else []
            first = tick_of(path) + 1
        return self._table([*tables, *self._plain(first, last)])

    def at_floor(self) -> list[Path]:
        """The file that counts instead of all changes that are not retained."""
        return [self._files.summary(self.floor)] if self._summed and self.floor else []

    def plain(self, first: int, last: int) -> list[Path]:
        """Files of ticks that may have something of it."""
        return self._files.plain(max(first, self._begin + 1), last)

    def read(self, paths: Iterable[Path]) -> pa.Table:
        """The rows in some files."""
        return self._table(rows_of(self.query, paths))

    def _plain(self, first: int, last: int) -> Iterator[pa.Table]:
        return rows_of(self.query, self.plain(first, last))

    def _entry(self, path: Path) -> Any | None:
        with BlockFile(path, SUMMARY_ENTRY) as file:
            return next(iter(file.of(self.query)), None)

    def _table(self, tables: Iterable[pa.Table]) -> pa.Table:
        return pa.concat_tables([self._schema.empty_table(), *(conformed(each, self._schema) for each in tables)])


def rows_of(query: int, paths: Iterable[Path]) -> Iterator[pa.Table]:
    """The rows of a query in files of ticks and summaries, under the names that were written."""
    for path in paths:
        with BlockFile(path, entry_of(path)) as file:
            yield from [file.read(entry) for entry in file.of(query) if entry["bytes"]]


def entry_of(path: Path) -> np.dtype[Any]:
    """The fields of an entry in a file."""
    return SUMMARY_ENTRY if path.suffix == SUMMARY else ENTRY


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
