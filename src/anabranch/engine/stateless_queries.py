"""Queries without state: rows are answered as they come, without a way through the buffer.

Those that want the same rows answer them in one job (`pass_through.py`). If the job fails, halves of the queries are
tried: one that cannot go on is found in few steps and fails alone.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame

from anabranch import storage
from anabranch.engine.batch_writer import latest_of, time_of
from anabranch.engine.failures import fail, is_fatal, unwrap
from anabranch.engine.ingest import Ingest
from anabranch.engine.inputs import StreamInput
from anabranch.engine.layout import ANSWERS, UNCONFIRMED, filed
from anabranch.engine.manifest import Manifest, StoredFile
from anabranch.engine.parquet_statistics import ParquetStatistics
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.query_runtime import QueryRuntime
from anabranch.engine.registry import Registry
from anabranch.logical_plan import scans
from anabranch.operators.base import TIME

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
class Passed:
    """What a query without state has answered: a folder that Spark has written, or files that are to be confirmed."""

    folder: Path | None = None
    files: tuple[str, ...] = ()


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
            self._ingest.take(offer.stream, offer.batch, offer.df)
        except Exception as error:
            if is_fatal(error):
                raise
            offer.error = unwrap(error)
        return offer.error is None

    def _passes(self, query: ContinuousQuery) -> bool:
        return query.status == "running" and self._runtime.is_direct(query)

    def _missed(self, manifest: Manifest, query: ContinuousQuery) -> list[StoredFile]:
        """What is in the buffer that a query has not taken as it came."""
        name, taken = scans(query.query.plan, "stream")[0], manifest.queries[query.name].tick
        return [file for file in manifest.streams[name].files if file.tick > taken]

    def answer(self, manifest: Manifest, offers: Sequence[Offer], prefix: str, *, bounded: bool) -> list[str]:
        """Queries without state answer rows as they come; what they have missed is in the buffer.

        Returns files of answers that are to be confirmed.

        Rows are almost always in time. If some of those that are answered are not, the answer is thrown away, and the
        batch goes through the buffer, which finds the late rows.
        """
        rows = {each.stream.name: each.df.selectExpr("*", f"{time_of(each.stream)} AS {TIME}") for each in offers}
        readers = [each for each in self._registry.queries.values() if self._passes(each)]
        took = self._take_together(manifest, readers, rows, prefix)
        offered = {query.name for query in readers if scans(query.query.plan, "stream")[0] in rows}
        files = [path for name, passed in took.items() if name not in offered for path in passed.files]
        for offer in offers:
            name = offer.stream.name
            reading = [query for query in readers if scans(query.query.plan, "stream") == [name]]
            done = [query for query in reading if query.name in took]
            answered = _together([ParquetStatistics.of(self._unconfirmed(took[query.name])) for query in done])
            in_time = self._in_time(offer.stream, answered)
            if in_time:
                files += [path for query in done for path in took[query.name].files]
            if in_time and len(done) == len(reading):
                # Time ends with the last row of a bounded stream, also if no query answers it.
                last = _last(rows[name], latest_of(offer.stream)) if bounded else answered.last
                self._book(manifest, offer, replace(answered, last=last))
                continue
            if not self.take(offer):
                continue
            self._ingest.merge(manifest, name)
            again = [] if in_time else done
            for query in again:
                self._discard(manifest, query, took[query.name])
            taken = self._take_together(manifest, again, {}, prefix)
            files += [path for passed in taken.values() for path in passed.files]
        return files

    def _take_together(
        self, manifest: Manifest, readers: Sequence[ContinuousQuery], offered: Mapping[str, DataFrame], prefix: str
    ) -> dict[str, Passed]:
        """Answer what queries have missed, or else what is offered: those that want the same rows together."""
        together: dict[tuple[str, bool, int, tuple[str, ...]], list[ContinuousQuery]] = defaultdict(list)
        for query in readers:
            name, state = scans(query.query.plan, "stream")[0], manifest.queries[query.name]
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
        """Answer some rows; if that fails, halves of the queries are tried."""
        if len(queries) == 1:
            found = self._answer_alone(manifest, queries[0], rows, prefix, begins)
            return {queries[0].name: found} if found else {}
        try:
            written = self._runtime.direct_together(queries, manifest, rows, prefix, begins=begins).collect()
        except Exception as error:
            log.warning("a batch of %s queries is tried again: %s", len(queries), unwrap(error))
            middle = len(queries) // 2
            halves = (queries[:middle], queries[middle:])
            tried = [self._answer_together(manifest, half, rows, prefix, begins) for half in halves]
            return tried[0] | tried[1]
        for row in written:
            manifest.queries[row["name"]].rows += row["rows"]
        for query in queries:
            manifest.queries[query.name].tick = manifest.tick
        return {q.name: Passed(files=tuple(r["path"] for r in written if r["name"] == q.name)) for q in queries}

    def _answer_alone(
        self, manifest: Manifest, query: ContinuousQuery, rows: DataFrame, prefix: str, begins: bool
    ) -> Passed | None:
        """Answer some rows; None if that failed."""
        state, folder = manifest.queries[query.name], self._folder / ANSWERS / query.name / f"{filed(prefix)}.parquet"
        try:
            storage.make_folder(folder.parent)
            self._runtime.direct(query, manifest, rows, begins=begins).write.parquet(storage.uri(folder))
            storage.settle_tree(folder)
        except Exception as error:
            with suppress(OSError):
                storage.remove(folder)
            fail(query, error)
            return None
        state.rows += ParquetStatistics.of([folder]).rows
        state.tick = manifest.tick
        return Passed(folder)

    def _discard(self, manifest: Manifest, query: ContinuousQuery, passed: Passed) -> None:
        state, paths = manifest.queries[query.name], self._unconfirmed(passed)
        state.rows -= ParquetStatistics.of(paths).rows
        state.tick = manifest.tick - 1
        for path in paths:
            storage.remove(path)

    def _unconfirmed(self, passed: Passed) -> list[Path]:
        folder = [passed.folder] if passed.folder else []
        return [*folder, *(self._folder / (path + UNCONFIRMED) for path in passed.files)]

    def _in_time(self, stream: StreamInput, answered: ParquetStatistics) -> bool:
        if answered.first is None or answered.last is None:
            return not answered.rows
        in_time = answered.first >= self._ingest.closed(stream.name) and answered.last <= latest_of(stream)
        return in_time and not answered.nulls

    def _book(self, manifest: Manifest, offer: Offer, answered: ParquetStatistics) -> None:
        """A batch that did not go through the buffer."""
        stream, state = offer.stream, manifest.streams[offer.stream.name]
        state.batch = offer.batch
        state.rows += answered.rows
        if answered.last is not None:
            state.newest = answered.last if state.newest is None else max(state.newest, answered.last)
            state.passed = state.newest
            self._ingest.close(stream.name, state.newest - stream.skew)
        self._ingest.booked(stream.name, offer.batch)


def _together(found: Sequence[ParquetStatistics]) -> ParquetStatistics:
    """What several queries answered of one batch: it has as many rows as the one that answered most, or more."""
    times = [time for each in found for time in (each.first, each.last) if time is not None]
    rows, nulls = max((each.rows for each in found), default=0), sum(each.nulls for each in found)
    return ParquetStatistics(rows, nulls, min(times, default=None), max(times, default=None))


def _last(rows: DataFrame, latest: int) -> int | None:
    found = rows.where(f"{TIME} <= {latest}").agg({TIME: "max"}).head()
    return None if found is None else found[0]
