"""What is done about answers after a tick: summaries, marks, what is not retained any more, and space.

A query that keeps its answer for a while only drops whole blocks of ticks, once all of their rows are older and were
delivered. That counts with the next tick, whose record has the query's *floor*; blocks of rows go after that. Of a
relation a snapshot at the floor stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from anabranch import storage
from anabranch.engine.answer_blocks import BlockFile
from anabranch.engine.answer_files import SUMMARY_ENTRY, Kind
from anabranch.engine.compaction import DRIVER_BYTES, KeptRelation, compaction
from anabranch.engine.failures import unwrap
from anabranch.engine.layout import block_of, last_tick
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.marks import Marks, write_mark
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.tick_files import TickFiles
from anabranch.engine.vacuum import Vacuum
from anabranch.operators.base import FOREVER
from anabranch.spark.mapping import map_in_arrow

WRITTEN_PATH = StructType([StructField("path", StringType())])
log = logging.getLogger("anabranch")


class AnswerKeeper:
    """Keeps the answers of one engine's queries.

    Parameters
    ----------
    spark
        The session.
    folder
        Of the checkpoint.
    delivered
        The last tick that the sink of a query has had.
    """

    def __init__(self, spark: SparkSession, folder: Path, delivered: Callable[[ContinuousQuery, int], int]) -> None:
        self._spark = spark
        self._folder = folder
        self._delivered = delivered
        self._vacuum = Vacuum(folder)

    def keep(self, queries: Sequence[ContinuousQuery], schemas: Mapping[str, pa.Schema], manifest: Manifest) -> None:
        """Do what is due after a tick that is committed; nothing of it is needed for an answer to be right."""
        steps: dict[str, Callable[[], None]] = {
            "space of old answers is not free yet": lambda: self._vacuum.run(_floors(manifest)),
            "reading answers takes longer than it should": lambda: self._compact(queries, schemas, manifest),
            "reading answers of an earlier time takes longer than it should": lambda: write_mark(
                self._folder, manifest
            ),
            "old answers cannot be deleted": lambda: self._raise_floors(queries, manifest),
        }
        for what, step in steps.items():
            try:
                step()
            except Exception as error:
                log.warning("%s: %s", what, unwrap(error))

    def dropped(self, state: QueryState, tick: int) -> None:
        """A query is gone."""
        self._vacuum.look_at(range(block_of(max(state.floor, state.registered)), block_of(tick) + 1))

    def _compact(self, queries: Sequence[ContinuousQuery], schemas: Mapping[str, pa.Schema], new: Manifest) -> None:
        relations = [
            KeptRelation(
                state.number,
                schemas[query.name],
                state.position,
                state.registered,
                state.floor,
                current=state.materialise == "current",
                retained=query.retain is not None,
            )
            for query in queries
            for state in [new.queries[query.name]]
            if not query.query.is_stream and state.summed
        ]
        first = min((each.registered for each in relations), default=0)
        found = compaction(self._folder, new.tick, relations, first)
        if found is not None and found.bytes <= DRIVER_BYTES:
            found.run()
        elif found is not None:
            map_in_arrow(self._spark.range(1), found, WRITTEN_PATH).collect()

    def _raise_floors(self, queries: Sequence[ContinuousQuery], manifest: Manifest) -> None:
        """Raise the floors of queries where a block ends; the next tick commits them."""
        if manifest.tick != last_tick(block_of(manifest.tick)):
            return
        marks = Marks(self._folder)
        for query in queries:
            state = manifest.queries[query.name]
            if query.retain is None and state.materialise != "none":
                continue
            floor = self._floor(query, state, marks, manifest.tick)
            if floor > state.floor:
                manifest.queries[query.name] = replace(state, floor=floor)
                begin = max(state.floor, state.registered)
                self._vacuum.look_at(range(block_of(begin), block_of(floor) + 1))

    def _floor(self, query: ContinuousQuery, state: QueryState, marks: Marks, tick: int) -> int:
        """The last tick up to which all answers are old, and from which the rest can be read."""
        kept = state.materialise != "none"
        oldest = state.position - (query.retain or 0) if kept else FOREVER
        delivered = self._delivered(query, tick)
        blocks = marks.blocks(max(state.floor, state.registered), min(tick, delivered))
        old = [last_tick(each) for each in blocks if marks.of(query.name, each).latest < oldest]
        if query.query.is_stream or not kept:
            return max(old, default=0)
        if not state.summed:
            return 0
        return next((each for each in sorted(old, reverse=True) if self._has_snapshot(state, each)), 0)

    def _has_snapshot(self, state: QueryState, tick: int) -> bool:
        path = TickFiles(self._folder).summary(tick)
        if not storage.is_there(path):
            return False
        with BlockFile(path, SUMMARY_ENTRY) as file:
            return any(entry["kind"] == Kind.SNAPSHOT for entry in file.of(state.number))


def _floors(manifest: Manifest) -> dict[int, int]:
    return {state.number: state.floor for state in manifest.queries.values()}
