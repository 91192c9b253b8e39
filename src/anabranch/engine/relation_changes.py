"""Changes of relations while queries run: from which time on, and which queries can follow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import Column

from anabranch.engine.ingest import Ingest
from anabranch.engine.inputs import RelationInput
from anabranch.engine.loop import Loop
from anabranch.engine.manifest import Manifest
from anabranch.engine.parts import EngineParts
from anabranch.engine.registration import Registration
from anabranch.engine.registry import Registry
from anabranch.engine.relations import Rows, change_time
from anabranch.errors import QueryError
from anabranch.operators.base import EVER
from anabranch.spark.quiet_errors import quiet_errors


class RelationChanges:
    """Changes the relations of an engine, between ticks.

    Parameters
    ----------
    parts
        Of the engine; changes are committed to its checkpoint.
    registration
        Compiles queries again that have not begun.
    loop
        Runs ticks.
    """

    def __init__(self, parts: EngineParts, registration: Registration, loop: Loop) -> None:
        self._checkpoint, self._registry = parts.checkpoint, parts.registry
        self._ingest, self._runtime = parts.ingest, parts.runtime
        self._registration = registration
        self._loop = loop

    @quiet_errors()
    def change(
        self, relation: RelationInput, change: Callable[..., int], rows: Rows | str | Column, at: datetime | None
    ) -> int:
        """Change a relation by a method of `Relations`, and commit that; returns how many rows enter or leave."""
        with self._loop.between_ticks(), self._ingest.standing_still():
            self._let_change(relation)
            manifest = self._checkpoint.manifest
            bounds = settled(relation.name, self._registry, manifest, self._ingest)
            count = change(relation, manifest, rows, change_time(relation.name, at, *bounds))
            if count:
                self._checkpoint.commit()
                self._runtime.relations.remove_merged()
        return count

    def let_change(self, relation: RelationInput) -> None:
        """From now on a relation may change."""
        with self._loop.between_ticks():
            self._let_change(relation)

    def _let_change(self, relation: RelationInput) -> None:
        """Queries that have joined it once and for all are compiled again, if they have not begun."""
        if relation.changing:
            return
        queries, states = self._registry.queries.values(), self._checkpoint.manifest.queries
        readers = [each for each in queries if relation.name in self._runtime.constants(each.name)]
        begun = [each.name for each in readers if states[each.name].has_begun]
        if begun:
            raise QueryError(
                f"relation {relation.name!r} was joined once and for all by {', '.join(begun)}, which has begun",
                hint="register it with relation(..., changing=True) before such queries",
            )
        relation.changing = True
        for each in readers:
            self._registration.add_again(each)
        self._registration.update_ingest()


def settled(name: str, registry: Registry, manifest: Manifest, ingest: Ingest) -> tuple[int, int]:
    """The time before which a relation cannot be changed any more, and the time after all rows that have come."""
    readers = [each for each in registry.queries.values() if name in each.query.relations]
    streams = {stream for each in readers for stream in each.query.streams}
    states = {stream: manifest.streams[stream] for stream in streams}
    passed = [state.passed + 1 for state in states.values() if state.passed is not None]
    closed = [max(state.closed, ingest.closed(stream)) for stream, state in states.items()]
    answered = [manifest.queries[each.name].position for each in readers]
    known = manifest.relations.get(name)
    earliest = max([EVER, *passed, *closed, *answered, *([known.changed] if known else [])])
    newest = [time + 1 for stream, state in states.items() for time in ingest.newest(stream, state)]
    return earliest, max([earliest, *newest])
