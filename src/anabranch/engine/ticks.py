"""A tick: queries advance as far as time is complete, and that is committed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch import storage
from anabranch.engine.ingest import Ingest
from anabranch.engine.inputs import StreamInput, StreamProgress, complete_until
from anabranch.engine.layout import STATE, prefix_of
from anabranch.engine.log_files import changed, gather
from anabranch.engine.manifest import Manifest
from anabranch.engine.manifest_log import ManifestLog
from anabranch.engine.query_runtime import QueryRuntime
from anabranch.engine.registry import Registry
from anabranch.engine.retention import Retention
from anabranch.engine.stateful_queries import Advance, StatefulQueries
from anabranch.engine.stateless_queries import Offer, StatelessQueries
from anabranch.engine.store import confirm
from anabranch.operators.base import TIME
from anabranch.spark.continuous.cell_task import Reports
from anabranch.spark.continuous.summaries import stream_of
from anabranch.spark.quiet_errors import quiet_errors

BATCH_ROWS = 250_000


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
    ingest
        Brings rows of streams.
    runtime
        Knows the programs of queries.
    log
        Where ticks are committed.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        registry: Registry,
        ingest: Ingest,
        runtime: QueryRuntime,
        log: ManifestLog,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._registry = registry
        self._ingest = ingest
        self._runtime = runtime
        self._log = log
        self._stateful = StatefulQueries(spark, runtime)
        self._stateless = StatelessQueries(folder, registry, ingest, runtime)
        self._retention = Retention(folder, registry, runtime)
        self.queued: dict[str, int] = {}
        self.answered: set[str] = set()
        """Queries that had something to answer in the last tick."""

    @quiet_errors()
    def run(
        self, manifest: Manifest, offers: Sequence[Offer], silent: Mapping[str, bool], *, until: int | None = None
    ) -> Manifest:
        """The manifest after a tick, committed; queries go as far as time is complete, or up to `until` if given."""
        new = manifest.branch()
        new.tick += 1
        self._stateful.last = {}
        prefix = prefix_of(new.tick, uuid.uuid4().hex[:8])
        passing = [offer for offer in offers if not self.waits(new, offer.stream)]
        for offer in (each for each in offers if each not in passing):
            self._stateless.take(offer)
        with self._ingest.standing_still():
            self._ingest.merge(new)
            advances = self._due(new, silent, until)
            for each in advances:
                for name in each.query.query.streams:
                    self._ingest.close(name, each.until)
        answers = self._stateless.answer(new, passing, prefix, bounded=until is not None)
        answers += self._stateful.advance(new, advances, prefix)
        self._close(new)
        self.queued = _queued(new)
        gone = self._retention.forget(new) + self._retention.merge(new, prefix)
        gather(new, self._folder / STATE, f"{prefix}.log")
        came, went = changed(manifest, new)
        gone += [self._folder / STATE / path for path in went]
        confirm(self._folder, answers)
        storage.settle(self._folder / path for path in (*answers, *(f"{STATE}/{path}" for path in came)))
        for name, query in self._registry.queries.items():
            new.queries[name].status = query.status
        self._log.commit(new)
        self.answered = {name for name, state in new.queries.items() if state.rows != manifest.queries[name].rows}
        self._ingest.settle(new)
        for path in gone:
            storage.remove(path)
        return new

    @property
    def reports(self) -> Reports:
        """The last report of every operator in every cell."""
        return self._stateful.reports

    @property
    def last(self) -> Reports:
        """The reports of the last tick."""
        return self._stateful.last

    def waits(self, manifest: Manifest, stream: StreamInput) -> bool:
        """Whether rows of a stream have to be put in the buffer: for history, or for a query that takes them later."""
        readers = [name for name, state in manifest.queries.items() if stream.name in map(stream_of, state.needs)]
        ready = [self._stateless.ready(manifest, name) for name in readers]
        return bool(stream.retain) or not ready or not all(ready) or self._ingest.unsettled(stream.name)

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

    def _due(self, manifest: Manifest, silent: Mapping[str, bool], given: int | None) -> list[Advance]:
        advances = []
        for query in self._registry.queries.values():
            if self._runtime.is_direct(query) or query.error is not None:
                continue
            names = query.query.streams
            until = self._complete(manifest, names, silent) if given is None else given
            if query.status == "running" and until is not None and until > manifest.queries[query.name].position:
                advances.append(Advance(query, until))
        return advances

    def _complete(self, manifest: Manifest, names: Sequence[str], silent: Mapping[str, bool]) -> int | None:
        streams = self._registry.streams
        shown = {name: None if self._ingest.catching_up(name) else manifest.streams[name].newest for name in names}
        return complete_until(
            {
                name: StreamProgress(shown[name], self._ingest.skew(streams[name]), silent.get(name, False))
                for name in names
            }
        )

    def _close(self, manifest: Manifest) -> None:
        """Close the time that queries have answered, and the time before which streams promise no more rows."""
        for name, stream in self._registry.streams.items():
            state = manifest.streams[name]
            readers = [each for each in self._registry.queries.values() if name in each.query.streams]
            answered = [manifest.queries[each.name].position for each in readers if not self._runtime.is_direct(each)]
            shown = None if self._ingest.catching_up(name) else state.newest
            promised = [] if shown is None else [shown - self._ingest.skew(stream)]
            state.closed = max([state.closed, *answered, *promised])
            for each in readers:
                if self._runtime.is_direct(each) and manifest.queries[each.name].tick == manifest.tick:
                    manifest.queries[each.name].position = state.closed


def _queued(manifest: Manifest) -> dict[str, int]:
    """How many rows a tick has found in each buffer that were not there before."""
    buffers = manifest.streams.items()
    return {buffer: sum(file.rows for file in state.files if file.tick == manifest.tick) for buffer, state in buffers}
