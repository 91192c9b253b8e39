"""Dropping streams, relations, views and queries, with what they have left in the checkpoint."""

from __future__ import annotations

from sqlglot import exp

from anabranch.cql.catalog import folded
from anabranch.cql.dialect import parse_query
from anabranch.engine import sysqueries, sysstream
from anabranch.engine.ingest import RECORDS
from anabranch.engine.layout import STATE
from anabranch.engine.network import forget_nodes
from anabranch.engine.parts import EngineParts
from anabranch.engine.registration import Registration
from anabranch.engine.scheduler import Scheduler
from anabranch.errors import QueryError, suggest
from anabranch.spark.continuous.summaries import stream_of


class Dropping:
    """Drops what is registered with an engine.

    Parameters
    ----------
    parts
        Of the engine; what is gone is committed to its checkpoint.
    registration
        Says which columns of streams are still needed.
    scheduler
        Stops queries.
    """

    def __init__(self, parts: EngineParts, registration: Registration, scheduler: Scheduler) -> None:
        self._checkpoint, self._registry = parts.checkpoint, parts.registry
        self._ingest, self._runtime, self._results = parts.ingest, parts.runtime, parts.results
        self._registration = registration
        self._scheduler = scheduler

    def drop(self, name: str) -> None:
        """Remove a stream, relation, view or query that nothing reads."""
        registry, names = self._registry, self._registration.catalog.names()
        name = folded(name, [*names, *self._checkpoint.manifest.queries])
        self._require_unread(name)
        query = registry.queries.get(name)
        if query is not None:
            self._scheduler.stop_query(query)
        with self._scheduler.loop.between_ticks():
            if query is not None or name in self._checkpoint.manifest.queries:
                self._drop_query(name)
            elif name in registry.streams:
                self._drop_stream(name)
            elif name in registry.relations:
                self._drop_relation(name)
            elif name in registry.views:
                del registry.views[name]
            else:
                raise QueryError(f"there is no {name!r} to drop", hint=suggest(name, names, "names"))

    def _require_unread(self, name: str) -> None:
        if name in (sysstream.NAME, sysqueries.NAME):
            raise QueryError(
                f"{name!r} is built in and cannot be dropped", hint="it costs nothing while no query reads it"
            )
        readers = [
            each.name
            for each in self._registry.queries.values()
            if name in (*each.query.streams, *each.query.relations)
        ]
        readers += [] if readers else self._naming(name)
        if readers:
            raise QueryError(f"{name!r} is read by {', '.join(readers)}", hint="drop them first")

    def _naming(self, name: str) -> list[str]:
        """Queries and views that read another query, or a view, by its name."""
        written = {each.name: each.written for each in self._registry.queries.values()} | self._registry.views
        found = []
        for reader, text in written.items():
            if reader != name and (not isinstance(text, str) or name.lower() in text.lower()):
                tree = parse_query(text) if isinstance(text, str) else text
                own = {each.alias.lower() for each in tree.find_all(exp.CTE)}
                named = {each.name.lower() for each in tree.find_all(exp.Table)} - own
                found += [reader] if name.lower() in named else []
        return found

    def _drop_query(self, name: str) -> None:
        manifest = self._checkpoint.manifest
        self._registry.queries.pop(name, None)
        state = manifest.queries.pop(name)
        before = manifest.segments()
        forget_nodes(manifest)
        self._runtime.forget(name)
        self._registration.update_ingest()
        self._clear(name, "delivered", "queries")  # summaries for it alone go with the next tick
        self._results.dropped(state, manifest.tick)
        for path in before - manifest.segments():
            self._results.clear(path, STATE)

    def _drop_stream(self, name: str) -> None:
        streams = self._checkpoint.manifest.streams
        del self._registry.streams[name]
        self._runtime.forget_source(name)
        buffers = [buffer for buffer in streams if stream_of(buffer) == name]
        for buffer in buffers:
            del streams[buffer]
        self._ingest.forget(name)
        self._clear(name, "sources", "late", "unusable", RECORDS)
        for buffer in buffers:
            self._results.clear(buffer, "kept")

    def _drop_relation(self, name: str) -> None:
        del self._registry.relations[name]
        self._runtime.forget_source(name)
        if self._checkpoint.manifest.relations.pop(name, None) is not None:
            self._clear(name, "kept")

    def _clear(self, name: str, *kinds: str) -> None:
        """Commit that something is gone, then delete what it has left."""
        manifest = self._checkpoint.manifest
        if manifest.tick or manifest.relations:
            self._checkpoint.commit()
        self._results.clear(name, *kinds)
