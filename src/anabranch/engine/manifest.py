"""What has been committed: how far streams, queries and operators are.

A tick takes batches of streams, advances queries and writes files. Nothing of it counts before a record of the tick is
there (`manifest_log.py`); whatever an interrupted tick has left behind is not named by any and gets deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.operators.base import EVER
from anabranch.operators.segments import Segment
from anabranch.planning.placement import Placement
from anabranch.spark.continuous.summaries import stream_of

Logs = dict[int, tuple[Segment, ...]]
"""The state of an operator, by cell."""


SUMMED = ("auto", "current")
MATERIALISE = ("none", "matches", *SUMMED)
"""What is kept of answers; see `Engine.query`."""


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
    skew
        By how much its rows may be out of order, if that follows their delays.
    suggested_skew, largest_delay
        What would keep all but one row of a thousand in time, and all of them; microseconds.
    behind, largest_behind
        By how much it was behind the most advanced of the other streams when batches of it came, of 95 in 100 batches
        and of all; None as long as it was not compared with any.
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
    skew: int | None = None
    suggested_skew: int = 0
    largest_delay: int = 0
    behind: int | None = None
    largest_behind: int = 0


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
    number
        What files of answers know it by; another query under its name has another one.
    materialise
        What is kept of its answers for readers; see `Engine.query`.
    floor
        Its answers up to this tick are not retained; of a relation what there was after it is in a summary.
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
    number: int = 0
    floor: int = 0
    materialise: str = "auto"

    @property
    def summed(self) -> bool:
        """Whether summaries have its answer, if it is a relation."""
        return self.materialise in SUMMED

    @property
    def has_begun(self) -> bool:
        """Whether it has seen rows, or time go on."""
        return self.position != self.since or bool(self.origins) or (self.direct and self.tick > self.registered)


@dataclass
class Manifest:
    """All that has been committed; a summary of a stream has its files in a state of its own.

    State belongs to cells, and which rows belong to a cell depends on how many there are: `cells` never changes. The
    operators of all queries are the `nodes` of one network, and `placements` say to which cells rows of those with
    several inputs go. Queries have had numbers up to `numbers`.
    """

    cells: int
    tick: int = 0
    streams: dict[str, StreamState] = field(default_factory=dict)
    queries: dict[str, QueryState] = field(default_factory=dict)
    relations: dict[str, RelationState] = field(default_factory=dict)
    nodes: dict[str, Logs] = field(default_factory=dict)
    numbers: int = 0
    placements: dict[str, Placement] = field(default_factory=dict)

    def branch(self) -> Manifest:
        """A manifest that can be changed while this one stays as it is; what is never changed is not copied."""
        return Manifest(
            self.cells,
            self.tick,
            {name: replace(state, files=list(state.files)) for name, state in self.streams.items()},
            {
                name: replace(state, origins=dict(state.origins), nodes=dict(state.nodes))
                for name, state in self.queries.items()
            },
            dict(self.relations),
            {node: dict(logs) for node, logs in self.nodes.items()},
            self.numbers,
            dict(self.placements),
        )

    def new_number(self) -> int:
        """A number that no query has had."""
        self.numbers += 1
        return self.numbers

    def named(self) -> dict[int, str]:
        """The names of queries by their numbers."""
        return {state.number: name for name, state in self.queries.items()}

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

    @classmethod
    def of(cls, saved: dict[str, Any]) -> Manifest:
        """What was written as JSON."""
        streams = {name: _stream(state) for name, state in saved["streams"].items()}
        queries = {name: _query(state) for name, state in saved["queries"].items()}
        relations = {name: _relation(state) for name, state in saved["relations"].items()}
        nodes = {name: _logs(cells) for name, cells in saved["nodes"].items()}
        placements = {name: Placement.of(placement) for name, placement in saved["placements"].items()}
        return cls(saved["cells"], saved["tick"], streams, queries, relations, nodes, saved["numbers"], placements)


def _stream(saved: dict[str, Any]) -> StreamState:
    return StreamState(**(saved | {"files": [StoredFile(**each) for each in saved["files"]]}))


def _relation(saved: dict[str, Any]) -> RelationState:
    return RelationState(**(saved | {"files": [StoredFile(**each) for each in saved["files"]]}))


def _query(saved: dict[str, Any]) -> QueryState:
    return QueryState(**(saved | {"nodes": {int(stage): node for stage, node in saved["nodes"].items()}}))


def _logs(saved: dict[str, list[dict[str, Any]]]) -> Logs:
    return {int(cell): tuple(Segment(**each) for each in log) for cell, log in saved.items()}
