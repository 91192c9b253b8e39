"""Queries without state: rows are answered as they come, without a way through the buffer.

Those that want the same rows answer them in one job (`pass_through.py`). If the job fails, halves of the queries are
tried: one that cannot go on is found in few steps and fails alone.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame

from anabranch import storage
from anabranch.engine.answer_blocks import Answered, answered
from anabranch.engine.batch_writer import latest_of, timed_at
from anabranch.engine.failures import fail, is_fatal, unwrap
from anabranch.engine.ingest import Ingest
from anabranch.engine.inputs import StreamInput
from anabranch.engine.layout import UNCONFIRMED
from anabranch.engine.manifest import Manifest, StoredFile
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.query_runtime import QueryRuntime
from anabranch.engine.registry import Registry
from anabranch.operators.base import TIME

log = logging.getLogger("anabranch")


@dataclass
class Offer:
    """A batch of a stream that is answered as it is, and waits for the tick that does it, when it has `arrived`."""

    stream: StreamInput
    batch: int
    df: DataFrame
    arrived: int | None = None
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


@dataclass(frozen=True)
class Passed:
    """What a query without state has answered, and the files of the job that answered it, with those of others."""

    answered: Answered
    files: tuple[str, ...]


class StatelessQueries:
    """Answers rows as they come.

    Parameters
    ----------
    folder
        Of the checkpoint.
    registry
        Streams and queries.
    ingest
        Takes the batches that cannot be answered as they come.
    runtime
        Knows the programs of queries.
    """

    def __init__(self, folder: Path, registry: Registry, ingest: Ingest, runtime: QueryRuntime) -> None:
        self._folder = folder
        self._registry = registry
        self._ingest = ingest
        self._runtime = runtime

    def ready(self, manifest: Manifest, name: str) -> bool:
        """Whether a query would answer rows as they come: it has no state, runs, and has missed nothing."""
        query = self._registry.queries.get(name)
        return query is not None and self._passes(query) and not self._missed(manifest, query)

    def take(self, offer: Offer) -> bool:
        """Put a batch in the buffer; if it cannot be read, its stream alone fails."""
        try:
            self._ingest.take(offer.stream, offer.batch, offer.df, offer.arrived)
        except Exception as error:
            if is_fatal(error):
                raise
            offer.error = unwrap(error)
        return offer.error is None

    def _passes(self, query: ContinuousQuery) -> bool:
        return query.status == "running" and self._runtime.is_direct(query)

    def _missed(self, manifest: Manifest, query: ContinuousQuery) -> list[StoredFile]:
        """What is in the buffer that a query has not taken as it came."""
        name, taken = query.query.streams[0], manifest.queries[query.name].tick
        return [file for file in manifest.streams[name].files if file.tick > taken]

    def answer(self, manifest: Manifest, offers: Sequence[Offer], prefix: str, *, bounded: bool) -> list[str]:
        """Queries without state answer rows as they come; what they have missed is in the buffer.

        Returns files of answers that are to be confirmed.

        Rows are almost always in time. If some of those that are answered are not, the answer is thrown away, and the
        batch goes through the buffer, which finds the late rows.
        """
        rows = {each.stream.name: self._timed(each) for each in offers}
        readers = [each for each in self._registry.queries.values() if self._passes(each)]
        took = self._take_together(manifest, readers, rows, prefix)
        offered = {query.name for query in readers if query.query.streams[0] in rows}
        files = [path for name, passed in took.items() if name not in offered for path in passed.files]
        for offer in offers:
            name = offer.stream.name
            reading = [query for query in readers if query.query.streams == (name,)]
            done = [query for query in reading if query.name in took]
            about = _together([took[query.name].answered for query in done])
            in_time = self._in_time(offer.stream, about)
            if in_time:
                files += [path for query in done for path in took[query.name].files]
            if in_time and len(done) == len(reading):
                # Time ends with the last row of a bounded stream, also if no query answers it.
                last = _last(rows[name], latest_of(offer.stream)) if bounded else about.last
                self._book(manifest, offer, replace(about, last=last))
                continue
            if not self.take(offer):
                continue
            self._ingest.merge(manifest, name)
            again = [] if in_time else done
            for query in again:
                self._discard(manifest, query, took[query.name])
            taken = self._take_together(manifest, again, {}, prefix)
            files += [path for passed in taken.values() for path in passed.files]
        return list(dict.fromkeys(files))

    def _timed(self, offer: Offer) -> DataFrame:
        """The rows of a batch with their times; times that are given stay if the batch has to go through the buffer."""
        offer.arrived = self._ingest.instant(offer.stream.name)
        return offer.df.selectExpr("*", timed_at(offer.stream, offer.arrived))

    def _take_together(
        self, manifest: Manifest, readers: Sequence[ContinuousQuery], offered: Mapping[str, DataFrame], prefix: str
    ) -> dict[str, Passed]:
        """Answer what queries have missed, or else what is offered: those that want the same rows together."""
        together: dict[tuple[str, bool, int, tuple[str, ...]], list[ContinuousQuery]] = defaultdict(list)
        for query in readers:
            name, state = query.query.streams[0], manifest.queries[query.name]
            missed = tuple(file.path for file in self._missed(manifest, query))
            if missed or name in offered:
                together[name, state.position == state.since, state.since, missed].append(query)
        took: dict[str, Passed] = {}
        for (name, begins, since, missed), queries in together.items():
            rows = offered[name] if not missed else self._kept(manifest, name, missed, since)
            took |= self._answer_together(manifest, queries, rows, prefix, begins)
        return took

    def _kept(self, manifest: Manifest, name: str, paths: Sequence[str], since: int) -> DataFrame:
        """Rows of a stream in some files of the buffer; what was there before a query may lack columns."""
        files = [file for file in manifest.streams[name].files if file.path in paths]
        return self._runtime.stored(name, files).where(f"{TIME} >= {since}")

    def _answer_together(
        self, manifest: Manifest, queries: Sequence[ContinuousQuery], rows: DataFrame, prefix: str, begins: bool
    ) -> dict[str, Passed]:
        """Answer some rows; if that fails, halves of the queries are tried: one alone fails."""
        try:
            written = self._runtime.direct(queries, manifest, rows, prefix, begins=begins).collect()
            files = tuple(row["path"] for row in written)
            found = answered(self._runtime.indexes(files))
        except Exception as error:
            if len(queries) == 1:
                fail(queries[0], error)
                return {}
            log.warning("a batch of %s queries is tried again: %s", len(queries), unwrap(error))
            middle = len(queries) // 2
            halves = (queries[:middle], queries[middle:])
            tried = [self._answer_together(manifest, half, rows, prefix, begins) for half in halves]
            return tried[0] | tried[1]
        took = {}
        for query in queries:
            state = manifest.queries[query.name]
            took[query.name] = Passed(found.get(state.number, Answered()), files)
            state.rows += took[query.name].answered.rows
            state.tick = manifest.tick
        return took

    def _discard(self, manifest: Manifest, query: ContinuousQuery, passed: Passed) -> None:
        """Forget what a query has answered; all others in these files read the same stream."""
        state = manifest.queries[query.name]
        state.rows -= passed.answered.rows
        state.tick = manifest.tick - 1
        for path in passed.files:
            storage.remove(self._folder / (path + UNCONFIRMED))

    def _in_time(self, stream: StreamInput, answered: Answered) -> bool:
        if answered.first is None or answered.last is None:
            return not answered.rows
        in_time = answered.first >= self._ingest.closed(stream.name) and answered.last <= latest_of(stream)
        return in_time and not answered.nulls

    def _book(self, manifest: Manifest, offer: Offer, answered: Answered) -> None:
        """A batch that did not go through the buffer."""
        state = manifest.streams[offer.stream.name]
        state.batch = offer.batch
        state.rows += answered.rows
        if answered.last is not None:
            state.newest = answered.last if state.newest is None else max(state.newest, answered.last)
            state.passed = state.newest
        self._ingest.booked(offer.stream, offer.batch, answered)
        self._ingest.tell_lateness(offer.stream.name, state)


def _together(found: Sequence[Answered]) -> Answered:
    """What several queries answered of one batch: it has as many rows as the one that answered most, or more."""
    times = [time for each in found for time in (each.first, each.last) if time is not None]
    rows, nulls = max((each.rows for each in found), default=0), sum(each.nulls for each in found)
    return Answered(rows, nulls, min(times, default=None), max(times, default=None))


def _last(rows: DataFrame, latest: int) -> int | None:
    found = rows.where(f"{TIME} <= {latest}").agg({TIME: "max"}).head()
    return None if found is None else found[0]
