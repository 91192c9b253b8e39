"""Answers without Spark: what queries have answered, read from a checkpoint by any process, while the engine runs.

`anabranch.open` gives a reader. It sees what the last tick has committed, nothing of the tick that is under way, and
writes nothing. The state of a relation is read from the last snapshot before a time and the changes since, so that it
costs the same however long the query has run; see `answer_files.py`.

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data* (PSoup), VLDB 2002, section 2: queries are
answered when they are invoked, from results that are kept up to date.
"""

from __future__ import annotations

import errno
import os
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from anabranch import storage
from anabranch.engine.answer_files import AnswerFiles, fold
from anabranch.engine.descriptions import Description
from anabranch.engine.durations import duration
from anabranch.engine.layout import last_tick
from anabranch.engine.manifest import SUMMED
from anabranch.engine.manifest_log import Follower
from anabranch.engine.marks import Marks
from anabranch.errors import QueryError, ResourceError, suggest
from anabranch.model.moments import micros, moment
from anabranch.model.names import OP, TS
from anabranch.operators.base import EVER, FOREVER

ATTEMPTS = 5
PAUSE_SECONDS = 0.02
GONE = (errno.ENOENT, errno.ESTALE)

Answer = TypeVar("Answer")


def open(checkpoint: str | os.PathLike[str]) -> Reader:
    """Read what queries have answered, without Spark, while the engine runs or after it.

    Parameters
    ----------
    checkpoint
        The folder that the engine was given.

    >>> open("/nowhere")
    Traceback (most recent call last):
        ...
    anabranch.errors.QueryError: there is no checkpoint in '/nowhere'
      hint: give the folder of Engine(spark, checkpoint=...), once a query has run there
    """
    reader = Reader(storage.folder_of(checkpoint, "the checkpoint"))
    reader._committed()
    return reader


class Reader:
    """The queries of a checkpoint, read-only.

    Parameters
    ----------
    folder
        Of the checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._manifest = Follower(folder)
        self._marks = Marks(folder)

    def query(self, name: str) -> QueryReader:
        """A query by its name."""
        self._state(name)
        return QueryReader(self, name)

    def rules(self, name: str) -> RulesReader:
        """The rules of a template by its name; answers carry the key of their rule in front."""
        return RulesReader(self.query(name))

    def queries(self) -> list[dict[str, object]]:
        """For each query what the last tick has committed: status, what it answers, how far it is in time, its rows.

        The status is that of the last tick: an engine that was stopped later does not write it down.
        """
        saved = _patiently("the checkpoint", self._committed)
        found = []
        for name, state in saved["queries"].items():
            about = Description.load(self._folder, name, state["fingerprint"])
            kind = None if about is None else "stream" if about.is_stream else "relation"
            position, status = state["position"], state.get("status", "registered")
            up_to = None if position == EVER else moment(position)
            found.append({"query": name, "status": status, "answer": kind, "up to": up_to, "rows": state["rows"]})
        return found

    def __repr__(self) -> str:
        return f"<checkpoint {str(self._folder)!r}, read-only>"

    def _committed(self) -> dict[str, Any]:
        """What the last tick has committed."""
        saved = self._manifest.look()
        if saved is None:
            raise QueryError(
                f"there is no checkpoint in {str(self._folder)!r}",
                hint="give the folder of Engine(spark, checkpoint=...), once a query has run there",
            )
        return saved

    def _state(self, name: str) -> _State:
        saved = _patiently("the checkpoint", self._committed)
        if name not in saved["queries"]:
            raise QueryError(
                f"the checkpoint knows no query {name!r}", hint=suggest(name, list(saved["queries"]), "queries")
            )
        state = saved["queries"][name]
        about = ("fingerprint", "registered", "since", "position", "number", "floor", "materialise")
        return _State(saved["tick"], *(state[each] for each in about))


@dataclass(frozen=True)
class _State:
    """What a manifest says about a query."""

    tick: int
    fingerprint: str
    registered: int
    since: int
    position: int
    number: int
    floor: int
    materialise: str


class QueryReader:
    """A query of a checkpoint, read-only. Times are aware datetimes.

    Parameters
    ----------
    reader
        Of the checkpoint.
    name
        Of the query.
    """

    def __init__(self, reader: Reader, name: str) -> None:
        self._reader = reader
        self.name = name

    @property
    def text(self) -> str:
        """The query as it was written."""
        return self._about(self._reader._state(self.name)).text

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream; else it is a relation."""
        return self._about(self._reader._state(self.name)).is_stream

    @property
    def filled_since(self) -> datetime | None:
        """How far back it is filled: it has seen all rows of its streams from this time on; None if it has seen all."""
        since = self._reader._state(self.name).since
        return None if since == EVER else moment(since)

    def current(self) -> pa.Table:
        """The relation after the last committed tick: each row as often as it is there."""
        return self._reading(self._current)

    def at(self, time: datetime) -> pa.Table:
        """The relation as it was at an instant, which the query has to have passed."""
        instant = micros(time, "at")
        return self._reading(lambda state, about: self._at(state, about, instant))

    def rows(self, since: datetime | None = None, until: datetime | None = None) -> pa.Table:
        """What was answered for times from `since` on and before `until`, with the time `_ts` of each row.

        For a stream these are its rows, for a relation its changes, with `_op` (`+` or `-`). What is no longer retained
        is not among them; the changes of a relation before that are folded, each row with the time of its last one.
        """
        first = EVER if since is None else micros(since, "since")
        end = FOREVER if until is None else micros(until, "until")
        return self._reading(lambda state, about: self._rows(state, about, first, end))

    def latest(self, span: int) -> pa.Table:
        """What was answered for the last so many microseconds, up to where the query is."""
        return self._reading(lambda state, about: self._rows(state, about, max(state.position - span, EVER), FOREVER))

    def __repr__(self) -> str:
        return f"<query {self.name} of {self._reader!r}>"

    def _about(self, state: _State) -> Description:
        about = Description.load(self._reader._folder, self.name, state.fingerprint)
        if about is None:
            raise QueryError(
                f"the checkpoint does not say what query {self.name!r} answers",
                hint="start its engine once with this version of the library",
            )
        return about

    def _reading(self, read: Callable[[_State, Description], pa.Table]) -> pa.Table:
        """Read; if the engine deletes something meanwhile, read again what it has committed then."""

        def attempt() -> pa.Table:
            state = self._reader._state(self.name)
            table = read(state, self._about(state))
            now = self._reader._state(self.name)
            if (now.number, now.floor) != (state.number, state.floor):
                raise _gone(self._reader._folder)
            return table

        return _patiently(f"the answer of query {self.name!r}", attempt)

    def _files(self, state: _State, about: Description) -> AnswerFiles:
        if state.materialise == "none":
            raise QueryError(
                f"nothing is kept of the answer of query {self.name!r}", hint="register it with materialise='auto'"
            )
        folder, summed = self._reader._folder, not about.is_stream and state.materialise in SUMMED
        return AnswerFiles(folder, state.number, state.registered, state.floor, about.schema, summed=summed)

    def _current(self, state: _State, about: Description) -> pa.Table:
        self._require_relation(about)
        return _contents(self._files(state, about).up_to(state.tick))

    def _at(self, state: _State, about: Description, instant: int) -> pa.Table:
        self._require_relation(about)
        if instant >= state.position:
            known = "nothing yet" if state.position == EVER else f"the time before {moment(state.position)}"
            raise QueryError(
                f"query {self.name!r} has answered {known}, so not {moment(instant)}", hint="use current(), or wait"
            )
        if instant < state.since:
            raise QueryError(
                f"query {self.name!r} began at {moment(state.since)}, after {moment(instant)}",
                hint="register it with history=True to fill it with rows that its streams retain",
            )
        marks, blocks = self._reader._marks, self._reader._marks.blocks(state.registered, state.tick)
        usable = [block for block in blocks if last_tick(block) >= state.floor]
        base = marks.last_before(self.name, usable, instant + 1)
        if base is None and state.floor:
            raise QueryError(
                f"the answer of query {self.name!r} is not retained back to {moment(instant)}",
                hint="give it a longer retain=, or ask for a later time",
            )
        end, files = marks.first_after(self.name, blocks, instant), self._files(state, about)
        first = state.registered if base is None else last_tick(base)
        start, last = files.around(first, state.tick if end is None else last_tick(end), instant + 1)
        changes = _between(files.between(start + 1, last), EVER, instant + 1)
        return _contents(pa.concat_tables([files.up_to(start), changes]))

    def _rows(self, state: _State, about: Description, first: int, end: int) -> pa.Table:
        marks, blocks = self._reader._marks, self._reader._marks.blocks(state.registered, state.tick)
        before = marks.last_before(self.name, blocks, first)
        after = marks.first_after(self.name, blocks, end - 1)
        files, floor = self._files(state, about), max(state.registered, state.floor)
        start = floor if before is None else max(floor, last_tick(before))
        found = files.between(start + 1, state.tick if after is None else last_tick(after))
        table = pa.concat_tables([files.read(files.at_floor()), found]) if start == state.floor else found
        return _between(table, first, end).sort_by(TS)

    def _require_relation(self, about: Description) -> None:
        if about.is_stream:
            raise QueryError(
                f"the answer of query {self.name!r} is a stream, which has no state",
                hint="use rows(since=..., until=...), or leave out Istream, Dstream and Rstream",
            )


class RulesReader:
    """The rules of a template in a checkpoint, read-only."""

    def __init__(self, query: QueryReader) -> None:
        self.query = query

    def __getitem__(self, key: object) -> RuleReader:
        """One rule."""
        return RuleReader(self.query, key)


class RuleReader:
    """What one rule answers."""

    def __init__(self, query: QueryReader, key: object) -> None:
        self._query = query
        self.key = key

    def current(self, window: str | timedelta | None = None) -> pa.Table:
        """What holds now; of a stream of answers those of the last `window`, up to the last answered time."""
        if not self._query.is_stream:
            return self._own(self._query.current())
        if window is None:
            raise QueryError(
                f"the answers of rules {self._query.name!r} are a stream",
                hint="say of which time, as in window='1 hour'",
            )
        return self._own(self._query.latest(duration(window, "window")))

    def _own(self, answers: pa.Table) -> pa.Table:
        column = answers.column(0)
        return answers.filter(pc.equal(column, pa.scalar(self.key, column.type))).drop_columns(answers.column_names[:1])


def _contents(changes: pa.Table) -> pa.Table:
    return fold(changes).drop_columns([TS, OP])


def _between(changes: pa.Table, first: int, end: int) -> pa.Table:
    """Rows with a time from one on and before another."""
    times = changes[TS].cast(pa.int64())
    return changes.filter(pc.and_(pc.greater_equal(times, first), pc.less(times, end)))


def _patiently(what: str, read: Callable[[], Answer]) -> Answer:
    """Try again where the engine has deleted a file that something else stands for by now."""
    for attempt in range(ATTEMPTS):
        try:
            return read()
        except OSError as error:
            if error.errno not in GONE:
                raise
            missing = error
            clock.sleep(PAUSE_SECONDS * attempt)
    raise ResourceError(
        f"{what} changed {ATTEMPTS} times while it was read, or lacks the file {missing.filename!r}",
        hint="try again; if it stays so, files of the checkpoint are missing",
    ) from missing


def _gone(folder: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "deleted while it was read", str(folder))
