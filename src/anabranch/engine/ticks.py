"""A tick: queries advance as far as time is complete, and that is committed.

All queries advance in one Spark job. If it fails, they are tried one by one: a query that cannot go on fails alone, and
the others do not notice.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from anabranch import storage
from anabranch.cells.base import FOREVER, TIME
from anabranch.engine.answering import Answering
from anabranch.engine.failures import concerns_all, plain
from anabranch.engine.footers import Answered
from anabranch.engine.inputs import Progress, StreamInput, complete_until
from anabranch.engine.intake import Intake
from anabranch.engine.manifest import Manifest, QueryState, StoredFile
from anabranch.engine.merging import worth_merging
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.registry import Registry
from anabranch.engine.shelving import latest_of, time_of
from anabranch.engine.store import ANSWERS, STATE, confirm, filed, prefix_of
from anabranch.model.continuous import scans
from anabranch.spark.attempts import attempt
from anabranch.spark.cell_task import ReportBook, Reports
from anabranch.spark.delivery import address_of
from anabranch.spark.summaries import stream_of

BATCH_ROWS = 250_000

log = logging.getLogger("anabranch")


@dataclass
class Offer:
    """A batch of a stream that is answered as it is, and waits for the tick that does it."""

    stream: StreamInput
    batch: int
    df: DataFrame
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


@dataclass(frozen=True)
class Advance:
    """A query and how far it can go."""

    query: ContinuousQuery
    until: int


class TickRunner:
    """Runs ticks of one engine.

    Parameters
    ----------
    spark
        The session.
    folder
        Of the checkpoint.
    registry
        Streams, relations and queries.
    intake
        Brings rows of streams.
    answering
        Knows the programs of queries.
    """

    def __init__(
        self, spark: SparkSession, folder: Path, registry: Registry, intake: Intake, answering: Answering
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._registry = registry
        self._intake = intake
        self._answering = answering
        self.reports: Reports = {}
        self.last: Reports = {}
        self.queued: dict[str, int] = {}

    @attempt()
    def run(
        self, manifest: Manifest, offers: Sequence[Offer], idle: Mapping[str, bool], *, until: int | None = None
    ) -> Manifest:
        """The manifest after a tick, committed; queries go as far as time is complete, or up to `until` if given."""
        new = deepcopy(manifest)
        new.tick += 1
        self.last = {}
        prefix = prefix_of(new.tick, uuid.uuid4().hex[:8])
        passing = [offer for offer in offers if not self.waits(new, offer.stream)]
        for offer in (each for each in offers if each not in passing):
            self._take(offer)
        with self._intake.standing_still():
            self._intake.merge(new)
            advances = self._due(new, idle, until)
            for each in advances:
                for name in scans(each.query.query.plan, "stream"):
                    self._intake.close(name, each.until)
        self._pass_through(new, passing, prefix, bounded=until is not None)
        answers = self._advance_all(new, advances, prefix)
        self._close(new)
        self.queued = _queued(new)
        gone = self._forget(manifest, new) + self._merge(new, prefix)
        confirm(self._folder, answers)
        segments = [f"{STATE}/{path}" for path in new.segments() - manifest.segments()]
        storage.settle(self._folder / path for path in (*answers, *segments))
        new.save(self._folder)
        self._intake.settle(new)
        for path in gone:
            storage.remove(path)
        return new

    def waits(self, manifest: Manifest, stream: StreamInput) -> bool:
        """Whether rows of a stream have to be put on the shelf: for history, or for a query that takes them later."""
        readers = [name for name, state in manifest.queries.items() if stream.name in map(stream_of, state.needs)]
        known = [self._registry.queries.get(name) for name in readers]
        ready = [q is not None and q.direct and q.status == "running" and not self._missed(manifest, q) for q in known]
        return bool(stream.keep) or not ready or not all(ready) or self._intake.unsettled(stream.name)

    def cuts(self, manifest: Manifest) -> list[int]:
        """Times up to which ticks go, so that none takes many more than `BATCH_ROWS` rows; the last one is the end."""
        ends = [state.newest + 1 for state in manifest.streams.values() if state.newest is not None]
        files = [file for state in manifest.streams.values() for file in state.files]
        pieces = sum(file.rows for file in files) // BATCH_ROWS
        if pieces < 2:
            return ends and [max(ends)]
        times = self._spark.read.parquet(*(storage.uri(self._folder / file.path) for file in files)).select(TIME)
        inner = times.approxQuantile(TIME, [n / pieces for n in range(1, pieces)], 0.1 / pieces)
        return [*sorted({int(each) for each in inner}), max(ends)]

    def _take(self, offer: Offer) -> bool:
        """Put a batch on the shelf; if it cannot be read, its stream is told, and others go on."""
        try:
            self._intake.take(offer.stream, offer.batch, offer.df)
        except Exception as error:
            if concerns_all(error):
                raise
            offer.error = plain(error)
        return offer.error is None

    # -- queries with state

    def _due(self, manifest: Manifest, idle: Mapping[str, bool], given: int | None) -> list[Advance]:
        advances = []
        for query in self._registry.queries.values():
            if query.direct or query.error is not None:
                continue
            names = scans(query.query.plan, "stream")
            until = self._complete(manifest, names, idle) if given is None else given
            if query.status == "running" and until is not None and until > manifest.queries[query.name].position:
                advances.append(Advance(query, until))
        return advances

    def _complete(self, manifest: Manifest, names: Sequence[str], idle: Mapping[str, bool]) -> int | None:
        streams = self._registry.streams
        return complete_until(
            {name: Progress(manifest.streams[name].newest, streams[name].skew, idle.get(name, False)) for name in names}
        )

    def _advance_all(self, manifest: Manifest, advances: Sequence[Advance], prefix: str) -> list[str]:
        """Let queries go on; returns the files of their answers."""
        if not advances:
            return []
        try:
            return self._advance(manifest, advances, prefix)
        except Exception as error:
            log.warning(
                "a tick of %s is tried again: %s", ", ".join(each.query.name for each in advances), plain(error)
            )
            return [path for each in advances for path in self._advance_alone(manifest, each, prefix)]

    def _advance_alone(self, manifest: Manifest, advance: Advance, prefix: str) -> list[str]:
        try:
            return self._advance(manifest, [advance], prefix)
        except Exception as error:
            self._failed(advance.query, error)
            return []

    def _advance(self, manifest: Manifest, advances: Sequence[Advance], prefix: str) -> list[str]:
        book = ReportBook()
        reports = address_of(book, self._spark.sparkContext)
        parts = []
        for each in advances:
            self._begin(manifest, each, manifest.queries[each.query.name])
            parts.append(self._answering.written(each.query, manifest, each.until, prefix, reports))
        written = reduce(DataFrame.union, parts).collect()
        for each in advances:
            manifest.queries[each.query.name].position = each.until
        for row in written:
            manifest.queries[row["name"]].rows += row["rows"]
        for (name, stage, cell), report in book.reports.items():
            manifest.queries[name].logs.setdefault(stage, {})[cell] = report.log
        self.reports.update(book.reports)
        self.last.update(book.reports)
        return [row["path"] for row in written]

    def _begin(self, manifest: Manifest, advance: Advance, state: QueryState) -> None:
        """Time begins for a query with the first row of its streams."""
        for name in scans(advance.query.query.plan, "stream"):
            shelves = [shelf for shelf in state.needs if stream_of(shelf) == name]
            found = (file for shelf in shelves for file in manifest.shelf(shelf))
            files = [file for file in found if file.last >= state.position]
            firsts = [max(file.first, state.position) for file in files]
            if name not in state.origins and min(firsts, default=FOREVER) < advance.until:
                state.origins[name] = min(firsts)

    def _failed(self, query: ContinuousQuery, error: BaseException) -> None:
        query.error, query.status = plain(error), "failed"
        query.error.add_note(f"in query {query.name!r}")
        log.error("query %s failed and stands still: %s", query.name, query.error)

    # -- queries without state

    def _missed(self, manifest: Manifest, query: ContinuousQuery) -> list[StoredFile]:
        """What is on the shelf that a query has not taken as it came."""
        name, taken = scans(query.query.plan, "stream")[0], manifest.queries[query.name].tick
        return [file for file in manifest.streams[name].files if file.tick > taken]

    def _pass_through(self, manifest: Manifest, offers: Sequence[Offer], prefix: str, *, bounded: bool) -> None:
        """Queries without state answer rows as they come; what they have missed is on the shelf.

        Rows are almost always in time. If some of those that are answered are not, the answer is thrown away, and the
        batch goes over the shelf, where it is told which.
        """
        rows = {each.stream.name: each.df.selectExpr("*", f"{time_of(each.stream)} AS {TIME}") for each in offers}
        readers = [each for each in self._registry.queries.values() if each.direct and each.status == "running"]
        took = {each.name for each in readers if self._take_directly(manifest, each, rows, prefix)}
        for offer in offers:
            name = offer.stream.name
            reading = [query for query in readers if scans(query.query.plan, "stream") == [name]]
            told = [query for query in reading if query.name in took]
            answered = _together([Answered.of([self._answer_folder(query, prefix)]) for query in told])
            in_time = self._in_time(offer.stream, answered)
            if in_time and len(told) == len(reading):
                # Time ends with the last row of a bounded stream, also if no query answers it.
                last = _last(rows[name], latest_of(offer.stream)) if bounded else answered.last
                self._book(manifest, offer, replace(answered, last=last))
                continue
            if not self._take(offer):
                continue
            self._intake.merge(manifest, name)
            for query in [] if in_time else told:
                self._discard(manifest, query, prefix)
                self._take_directly(manifest, query, {}, prefix)

    def _take_directly(
        self, manifest: Manifest, query: ContinuousQuery, offered: Mapping[str, DataFrame], prefix: str
    ) -> bool:
        """Answer what a query has missed, or else what is offered; False if there is nothing, or it failed."""
        name, missed = scans(query.query.plan, "stream")[0], self._missed(manifest, query)
        if not missed and name not in offered:
            return False
        state, folder = manifest.queries[query.name], self._answer_folder(query, prefix)
        try:
            # What was there before the query may lack columns.
            rows = self._answering.stored(name, missed).where(f"{TIME} >= {state.since}") if missed else offered[name]
            storage.make_folder(folder.parent)
            answer = self._answering.direct(query, rows, begins=state.position == state.since)
            answer.write.parquet(storage.uri(folder))
            storage.settle_tree(folder)
        except Exception as error:
            with suppress(OSError):
                storage.remove(folder)
            self._failed(query, error)
            return False
        state.rows += Answered.of([self._answer_folder(query, prefix)]).rows
        state.tick = manifest.tick
        return True

    def _discard(self, manifest: Manifest, query: ContinuousQuery, prefix: str) -> None:
        state = manifest.queries[query.name]
        state.rows -= Answered.of([self._answer_folder(query, prefix)]).rows
        state.tick = manifest.tick - 1
        storage.remove(self._answer_folder(query, prefix))

    def _answer_folder(self, query: ContinuousQuery, prefix: str) -> Path:
        return self._folder / ANSWERS / query.name / f"{filed(prefix)}.parquet"

    def _in_time(self, stream: StreamInput, answered: Answered) -> bool:
        if answered.first is None or answered.last is None:
            return not answered.rows
        in_time = answered.first >= self._intake.closed(stream.name) and answered.last <= latest_of(stream)
        return in_time and not answered.nulls

    def _book(self, manifest: Manifest, offer: Offer, answered: Answered) -> None:
        """A batch that did not go over the shelf."""
        stream, state = offer.stream, manifest.streams[offer.stream.name]
        state.batch = offer.batch
        state.rows += answered.rows
        if answered.last is not None:
            state.newest = answered.last if state.newest is None else max(state.newest, answered.last)
            state.passed = state.newest
            self._intake.close(stream.name, state.newest - stream.skew)
        self._intake.booked(stream.name, offer.batch)

    # -- what stays

    def _close(self, manifest: Manifest) -> None:
        """What queries have been told is closed, and what streams have promised not to show any more."""
        for name, stream in self._registry.streams.items():
            state = manifest.streams[name]
            readers = [each for each in self._registry.queries.values() if name in scans(each.query.plan, "stream")]
            told = [manifest.queries[each.name].position for each in readers if not each.direct]
            promised = [] if state.newest is None else [state.newest - stream.skew]
            state.closed = max([state.closed, *told, *promised])
            for each in readers:
                if each.direct and manifest.queries[each.name].tick == manifest.tick:
                    manifest.queries[each.name].position = state.closed

    def _forget(self, old: Manifest, new: Manifest) -> list[Path]:
        """Forget what no query and no history needs any more, also none that is yet to be registered again.

        Returns the files, to be deleted once that is committed.
        """
        deleted: list[Path] = []
        for shelf, state in list(new.streams.items()):
            stream, readers = self._registry.streams.get(stream_of(shelf)), new.readers(shelf)
            if stream is None:
                continue
            waiting = [each.position - each.needs[shelf] for each in readers if not each.direct]
            needed = min([new.streams[stream.name].closed, *waiting]) - stream.keep
            gone = [file for file in state.files if file.last < needed and file.tick <= _taken(readers, new)]
            if shelf != stream.name and not readers:
                gone = new.streams.pop(shelf).files
            state.files = [file for file in state.files if file not in gone]
            deleted += [self._folder / file.path for file in gone]
        return deleted + [self._folder / STATE / path for path in old.segments() - new.segments()]

    def _merge(self, manifest: Manifest, prefix: str) -> list[Path]:
        """Write some small files of each shelf as one; the old ones are to be deleted once that is committed."""
        gone: list[Path] = []
        for shelf, state in manifest.streams.items():
            some = worth_merging(state.files, _taken(manifest.readers(shelf), manifest))
            if not some or not self._answering.knows(shelf):
                continue
            merged = self._answering.merged(shelf, some, state.columns, prefix)
            state.files = [file for file in state.files if file not in some] + merged
            gone += [self._folder / file.path for file in some]
        return gone


def _taken(readers: Sequence[QueryState], manifest: Manifest) -> int:
    """The tick up to which all queries have taken rows that take them as they come."""
    return min((state.tick for state in readers if state.direct), default=manifest.tick)


def _queued(manifest: Manifest) -> dict[str, int]:
    """How many rows a tick has found on each shelf that were not there before."""
    shelves = manifest.streams.items()
    return {shelf: sum(file.rows for file in state.files if file.tick == manifest.tick) for shelf, state in shelves}


def _together(found: Sequence[Answered]) -> Answered:
    """What several queries answered of one batch: it has as many rows as the one that answered most, or more."""
    times = [time for each in found for time in (each.first, each.last) if time is not None]
    rows, nulls = max((each.rows for each in found), default=0), sum(each.nulls for each in found)
    return Answered(rows, nulls, min(times, default=None), max(times, default=None))


def _last(rows: DataFrame, latest: int) -> int | None:
    found = rows.where(f"{TIME} <= {latest}").agg({TIME: "max"}).head()
    return None if found is None else found[0]
