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
from anabranch.errors import QueryError
from anabranch.operators.base import EVER
from anabranch.operators.segments import Segment
from anabranch.spark.continuous.summaries import stream_of

VERSION = 7
KEPT_MANIFESTS = 2
_NAME, _ANY = "manifest-{:012d}.json", "manifest-*.json"

Logs = dict[int, tuple[Segment, ...]]
"""The state of an operator, by cell."""


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
        Rows up to this time may have been answered, or summed up, without being put in the buffer.
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
class RelationState:
    """What has been changed of a relation.

    Parameters
    ----------
    columns
        Its columns, as Spark writes their types.
    files
        All changes, beginning with the rows that were there before the first.
    changed
        The time of the last one; later ones come at this time or after it.
    deletes
        Whether some of them take rows away.
    """

    columns: str
    files: list[StoredFile] = field(default_factory=list)
    changed: int = EVER
    deletes: bool = False


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
    nodes
        The operators of the network that it uses, by the numbers of its stages.
    registered
        The tick after which it was registered.
    status
        As of the tick.
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
    nodes: dict[int, str] = field(default_factory=dict)
    registered: int = 0
    status: str = "registered"

    @property
    def has_begun(self) -> bool:
        """Whether it has seen rows, or time go on."""
        return self.position != self.since or bool(self.origins) or (self.direct and self.tick > self.registered)


@dataclass
class Manifest:
    """All that has been committed; a summary of a stream has its files in a state of its own.

    State belongs to cells, and which rows belong to a cell depends on how many there are: `cells` never changes. The
    operators of all queries are the `nodes` of one network.
    """

    cells: int
    tick: int = 0
    streams: dict[str, StreamState] = field(default_factory=dict)
    queries: dict[str, QueryState] = field(default_factory=dict)
    relations: dict[str, RelationState] = field(default_factory=dict)
    nodes: dict[str, Logs] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Commit."""
        storage.make_folder(folder)
        storage.write_json(folder / _NAME.format(self.tick), {"version": VERSION, **asdict(self)})
        for old in storage.listed(folder, _ANY)[:-KEPT_MANIFESTS]:
            storage.remove(old)

    def buffer(self, name: str) -> list[StoredFile]:
        """The files of a stream, or of a summary of one."""
        return self.streams[name].files if name in self.streams else []

    def readers(self, buffer: str) -> list[QueryState]:
        """The queries that read a stream itself, or a summary of one."""
        return [state for state in self.queries.values() if buffer in state.needs]

    def summaries(self, stream: str) -> dict[str, str]:
        """How a stream is summed up for queries."""
        found = {name: text for state in self.queries.values() for name, text in state.summaries.items()}
        return {name: text for name, text in found.items() if stream_of(name) == stream}

    def segments(self) -> set[str]:
        """Files of the state of operators."""
        return {segment.path for cells in self.nodes.values() for log in cells.values() for segment in log}

    @staticmethod
    def committed(folder: Path) -> int:
        """The last tick that was committed."""
        return max((int(path.stem.split("-")[1]) for path in storage.listed(folder, _ANY)), default=0)

    @staticmethod
    def newest(folder: Path) -> Path | None:
        """The file of the last tick that was committed."""
        return max(storage.listed(folder, _ANY), default=None)

    @classmethod
    def load(cls, folder: Path, cells: int | None, usual: int) -> Manifest:
        """The last one that was committed; where there is none, a new one with so many cells, or the usual number."""
        found = cls.newest(folder)
        if found is None:
            return cls(cells or usual)
        saved = parse(storage.read_text(found), folder)
        if cells not in (None, saved["cells"]):
            raise QueryError(
                f"the checkpoint in {folder} is spread over {saved['cells']} cells, not {cells}",
                hint="leave the number of cells out to go on with it, or start with a new folder",
            )
        streams = {name: _stream(state) for name, state in saved["streams"].items()}
        queries = {name: _query(state) for name, state in saved["queries"].items()}
        relations = {name: _relation(state) for name, state in saved["relations"].items()}
        nodes = {name: _logs(cells) for name, cells in saved["nodes"].items()}
        return cls(saved["cells"], saved["tick"], streams, queries, relations, nodes)


def parse(text: str, folder: Path) -> dict[str, Any]:
    """What a manifest says, if it is of this version."""
    saved: dict[str, Any] = json.loads(text)
    if saved.pop("version", None) != VERSION:
        raise QueryError(
            f"the checkpoint in {folder} is of another version of this library",
            hint="finish with the version that began it, or start with a new folder",
        )
    return saved


def _stream(saved: dict[str, Any]) -> StreamState:
    return StreamState(**(saved | {"files": [StoredFile(**each) for each in saved["files"]]}))


def _relation(saved: dict[str, Any]) -> RelationState:
    return RelationState(**(saved | {"files": [StoredFile(**each) for each in saved["files"]]}))


def _query(saved: dict[str, Any]) -> QueryState:
    return QueryState(**(saved | {"nodes": {int(stage): node for stage, node in saved["nodes"].items()}}))


def _logs(saved: dict[str, list[dict[str, Any]]]) -> Logs:
    return {int(cell): tuple(Segment(**each) for each in log) for cell, log in saved.items()}
