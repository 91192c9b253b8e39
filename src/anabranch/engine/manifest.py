"""What has been committed: one file per tick, put in place by one rename.

A tick takes batches of streams, advances queries and writes files. Nothing of it counts before the manifest that names
it is there; whatever an interrupted tick has left behind is not named by any and gets deleted.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from anabranch import storage
from anabranch.cells.base import EVER
from anabranch.cells.segments import Segment
from anabranch.errors import QueryError
from anabranch.spark.summaries import stream_of

VERSION = 5
KEPT_MANIFESTS = 2
_NAME, _ANY = "manifest-{:012d}.json", "manifest-*.json"

Logs = dict[int, dict[int, tuple[Segment, ...]]]
"""By stage and cell."""


@dataclass(frozen=True)
class StoredFile:
    """Rows of a stream; `first` and `last` are their smallest and largest time, `tick` is the tick that took them."""

    path: str
    rows: int
    first: int
    last: int
    tick: int = 0


@dataclass
class StreamState:
    """How far a stream has come.

    Parameters
    ----------
    batch
        The last batch that was taken.
    newest
        The largest time of its rows.
    closed
        Rows before this time come too late.
    rows, late, unusable
        Counts.
    passed
        Rows up to this time may have been answered, or summed up, without being put on the shelf.
    files
        Rows that some query may still need.
    columns
        Those that all files have.
    """

    batch: int = -1
    newest: int | None = None
    closed: int = EVER
    rows: int = 0
    late: int = 0
    unusable: int = 0
    passed: int | None = None
    files: list[StoredFile] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)


@dataclass
class QueryState:
    """How far a query has come.

    Parameters
    ----------
    fingerprint
        Of the plan and its inputs: a state serves no other query.
    position
        It has said all about the time before.
    since
        Where its position began: it knows nothing of rows before.
    tick
        The last tick whose rows it has taken, if it takes them as they come.
    needs
        For each of its streams, or their summaries, for how long it needs rows after their time.
    reads
        The columns of each of its streams that it reads.
    summaries
        How batches of its streams are summed up for it, by the names of the summaries.
    direct
        Whether it takes rows as they come.
    origins
        The first time of each of its streams that it has seen.
    rows
        Rows of its answer so far.
    logs
        The state of its stages.
    """

    fingerprint: str
    position: int = EVER
    since: int = EVER
    tick: int = 0
    needs: dict[str, int] = field(default_factory=dict)
    reads: dict[str, list[str]] = field(default_factory=dict)
    summaries: dict[str, str] = field(default_factory=dict)
    direct: bool = False
    origins: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    logs: Logs = field(default_factory=dict)


@dataclass
class Manifest:
    """All that has been committed; a summary of a stream has its files in a state of its own.

    State belongs to cells, and which rows belong to a cell depends on how many there are: `cells` never changes.
    """

    cells: int
    tick: int = 0
    streams: dict[str, StreamState] = field(default_factory=dict)
    queries: dict[str, QueryState] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Commit."""
        storage.make_folder(folder)
        storage.write_text(folder / _NAME.format(self.tick), json.dumps({"version": VERSION, **asdict(self)}))
        for old in storage.listed(folder, _ANY)[:-KEPT_MANIFESTS]:
            storage.remove(old)

    def shelf(self, name: str) -> list[StoredFile]:
        """The files of a stream, or of a summary of one."""
        return self.streams[name].files if name in self.streams else []

    def readers(self, shelf: str) -> list[QueryState]:
        """The queries that read a stream itself, or a summary of one."""
        return [state for state in self.queries.values() if shelf in state.needs]

    def summaries(self, stream: str) -> dict[str, str]:
        """How a stream is summed up for queries."""
        found = {name: text for state in self.queries.values() for name, text in state.summaries.items()}
        return {name: text for name, text in found.items() if stream_of(name) == stream}

    def segments(self) -> set[str]:
        """Files of the state of queries."""
        return {
            segment.path
            for query in self.queries.values()
            for cells in query.logs.values()
            for log in cells.values()
            for segment in log
        }

    @staticmethod
    def committed(folder: Path) -> int:
        """The last tick that was committed."""
        return max((int(path.stem.split("-")[1]) for path in storage.listed(folder, _ANY)), default=0)

    @classmethod
    def load(cls, folder: Path, cells: int | None, usual: int) -> Manifest:
        """The last one that was committed; where there is none, a new one with so many cells, or the usual number."""
        found = storage.listed(folder, _ANY)
        if not found:
            return cls(cells or usual)
        saved = json.loads(storage.read_text(found[-1]))
        if saved.pop("version", None) != VERSION:
            raise QueryError(
                f"the checkpoint in {folder} is of another version of this library",
                hint="finish with the version that began it, or start with a new folder",
            )
        if cells not in (None, saved["cells"]):
            raise QueryError(
                f"the checkpoint in {folder} is spread over {saved['cells']} cells, not {cells}",
                hint="leave the number of cells out to go on with it, or start with a new folder",
            )
        streams = {name: _stream(state) for name, state in saved["streams"].items()}
        queries = {name: _query(state) for name, state in saved["queries"].items()}
        return cls(saved["cells"], saved["tick"], streams, queries)


def _stream(saved: dict[str, Any]) -> StreamState:
    return StreamState(**(saved | {"files": [StoredFile(**each) for each in saved["files"]]}))


def _query(saved: dict[str, Any]) -> QueryState:
    logs = {
        int(stage): {int(cell): tuple(Segment(**each) for each in log) for cell, log in cells.items()}
        for stage, cells in saved["logs"].items()
    }
    return QueryState(**(saved | {"logs": logs}))
