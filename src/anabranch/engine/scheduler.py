"""Running queries: which start and stop, what each tick of them publishes, and batches up to their end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from anabranch.engine import sysqueries, sysstream
from anabranch.engine.failures import of_stream, unwrap
from anabranch.engine.inputs import StreamInput
from anabranch.engine.join_ledger import cache_events, constraint_events, reordered
from anabranch.engine.leftovers import remove_leftovers
from anabranch.engine.loop import Loop
from anabranch.engine.manifest import Manifest
from anabranch.engine.parts import EngineParts
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.relation_changes import settled
from anabranch.engine.stateless_queries import Offer
from anabranch.engine.ticks import TickRunner
from anabranch.errors import QueryError, in_a_line
from anabranch.events import StreamFailed
from anabranch.operators.base import EVER

ALIVE = ("running", "paused")


class Scheduler:
    """Runs the queries of an engine: in a loop while streams flow, or to the end of bounded ones.

    Parameters
    ----------
    parts
        Of the engine; its checkpoint gets the manifest of each tick, its history what ticks publish.
    """

    def __init__(self, parts: EngineParts) -> None:
        self._spark, self._checkpoint, self._registry = parts.spark, parts.checkpoint, parts.registry
        self._ingest, self._runtime = parts.ingest, parts.runtime
        self._results, self._history = parts.results, parts.history
        checkpoint, registry = parts.checkpoint, parts.registry
        self.runner = TickRunner(parts.spark, checkpoint.folder, registry, parts.ingest, parts.runtime, checkpoint.log)
        self.loop = Loop(
            checkpoint.folder / "sources",
            registry.streams,
            parts.ingest,
            lambda stream: self.runner.waits(checkpoint.manifest, stream),
            self._tick,
            self._lost,
        )

    # -- queries

    def start(self, query: ContinuousQuery) -> None:
        """Let a query run, and the streams that it reads flow."""
        outer = [name for name in query.query.streams if name != sysstream.NAME]
        for name in outer:
            if not self._registry.streams[name].df.isStreaming:
                raise QueryError(f"stream {name!r} is a bounded DataFrame", hint="use Engine.run_batch()")
        streams = [self._registry.streams[name] for name in outer]
        self._take_over(streams)
        query.error = None
        self.set_status(query, "running")
        self.loop.start(streams)

    def set_status(self, query: ContinuousQuery, status: str) -> None:
        """Change the status of a query, and run a tick after it."""

        def change() -> None:
            query.status = status

        self.loop.want(change)

    def stop_query(self, query: ContinuousQuery) -> None:
        """Stop a query, and the streams that only it has read."""
        if query.status in ALIVE:
            query.status = "stopped"
        alive = [each for each in self._registry.queries.values() if each.status in ALIVE]
        self.loop.keep({name for each in alive for name in each.query.streams})

    def stop(self) -> None:
        """Stop all queries and streams, and unlock the checkpoint."""
        for query in self._registry.queries.values():
            if query.status in ALIVE:
                query.status = "stopped"
        self.loop.stop()
        self._runtime.rest()
        self._checkpoint.lock.release()

    def await_idle(self, query: ContinuousQuery, timeout: float | None) -> None:
        """Wait until a query has answered what is there by now, for so many seconds at most."""
        done = self.loop.await_idle(query.query.streams, timeout)
        failed = self.loop.failure or query.error
        if failed is not None:
            raise failed
        if not done:
            raise TimeoutError(f"query {query.name} was still busy after {timeout} s")

    def _take_over(self, streams: Sequence[StreamInput]) -> None:
        """Lock the checkpoint, and check that it fits these streams."""
        lock = self._checkpoint.lock
        first = lock.acquire()
        try:
            if first and not (self._checkpoint.is_current() and self._ingest.current()):
                hint = "create a new Engine on it"
                raise QueryError("another engine has used the checkpoint since this one was created", hint=hint)
            for stream in streams:
                self.loop.check(stream)
        except QueryError:
            if first:
                lock.release()
            raise
        if first:
            self._results.sweep(self._checkpoint.manifest, self._ingest.files())
            self._ingest.sweep()
            remove_leftovers(self._checkpoint.folder, self._checkpoint.manifest)

    # -- bounded inputs

    def run_to_the_end(self) -> None:
        """Run all queries over bounded streams, in as many ticks as it takes."""
        registry, checkpoint = self._registry, self._checkpoint
        for query in registry.queries.values():
            query.status = "running"
        self._results.describe(registry.queries.values(), checkpoint.manifest)
        self._describe_queries()
        for stream in registry.streams.values():
            self._ingest.caught_up(stream)
        offers = [Offer(each, 0, each.df) for name, each in registry.streams.items() if name != sysstream.NAME]
        checkpoint.manifest = self.runner.run(checkpoint.manifest, offers, {}, until=EVER)
        for offer in offers:
            if offer.error is not None:
                self._lost(offer.stream.name, offer.error)
        for until in self.runner.cuts(checkpoint.manifest):
            checkpoint.manifest = self.runner.run(checkpoint.manifest, [], {}, until=until)
            self._note_joins(checkpoint.manifest)
        self._results.deliver(registry.queries.values(), checkpoint.manifest)
        for query in registry.queries.values():
            if query.error is None:
                query.status = "ended"

    # -- for the loop

    def _tick(self, offers: Sequence[Offer], silent: Mapping[str, bool]) -> None:
        began, old = time.perf_counter(), self._checkpoint.manifest
        self._describe_queries()
        self._results.describe(self._registry.queries.values(), old)
        manifest = self.runner.run(old, [*offers, *self._introspection()], silent)
        seconds = time.perf_counter() - began
        self._checkpoint.manifest = manifest
        self._publish(old, manifest, seconds)
        for offer in offers:
            offer.done.set()
        self.loop.committed()
        self._results.note(self.runner.answered)
        queries = list(self._registry.queries.values())
        self._results.deliver(queries, manifest)
        self._results.keep(queries, manifest)

    def _publish(self, old: Manifest, new: Manifest, seconds: float) -> None:
        """Let SysStream and the events say what a tick did."""
        did = sysstream.TickStatistics(self.runner.last, self.runner.queued, seconds)
        joined = {name: self._runtime.joined(name) for name in new.queries}
        rows = sysstream.published(old, new, did, self._runtime.titles, joined)
        self._note_joins(new)
        self._history.publish(new.tick, rows)

    def _note_joins(self, manifest: Manifest) -> None:
        """What joins have changed in the last tick."""
        joined = {name: self._runtime.joined(name) for name in manifest.queries}
        self._history.events += reordered(manifest, self.runner.last, joined)
        self._history.events += cache_events(manifest, self.runner.last, joined)
        self._history.events += constraint_events(manifest, self.runner.last, joined)
        self._history.events += self._runtime.memory_exceeded(manifest, self.runner.reports)

    def _lost(self, stream: str, error: BaseException) -> None:
        """A stream cannot be read: queries that read it stop, others go on."""
        self._history.events.append(StreamFailed(stream, in_a_line(unwrap(error))))
        for query in self._registry.queries.values():
            if stream in query.query.streams and query.status in ALIVE:
                query._fail(query.error or of_stream(stream, error))

    def _describe_queries(self) -> None:
        """Let SysQueries hold what queries are and cost by now, if some query reads it."""
        name, manifest = sysqueries.NAME, self._checkpoint.manifest
        if any(name in each.query.relations for each in self._registry.queries.values()):
            rows = sysqueries.sys_queries(self._registry, manifest, self.runner.reports)
            _, now = settled(name, self._registry, manifest, self._ingest)
            self._runtime.relations.replace(self._registry.relations[name], manifest, rows, now)

    def _introspection(self) -> list[Offer]:
        """The rows that earlier ticks have published, if some query reads SysStream."""
        queries = self._registry.queries.values()
        read = any(sysstream.NAME in each.query.streams for each in queries)
        rows = self._history.take_unread() if read else []
        if not rows:
            return []
        stream = self._registry.streams[sysstream.NAME]
        return [Offer(stream, self._checkpoint.manifest.tick, sysstream.frame(self._spark, rows))]
