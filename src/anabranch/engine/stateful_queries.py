"""Queries with state: all that are due advance in one Spark job, as far as time is complete.

If the job fails, halves of the queries are tried: one that cannot go on is found in few steps and fails alone.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from anabranch.engine.answer_blocks import answered
from anabranch.engine.failures import fail, unwrap
from anabranch.engine.fold_nodes import FoldGroup, join_folds
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.network import join_nodes
from anabranch.engine.network_tick import NetworkTick
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.query_runtime import QueryRuntime
from anabranch.operators.base import FOREVER
from anabranch.spark.continuous.cell_task import ReportBook, Reports
from anabranch.spark.continuous.summaries import stream_of
from anabranch.spark.mailbox import Address, address_of

log = logging.getLogger("anabranch")


@dataclass(frozen=True)
class Advance:
    """A query and how far it can go."""

    query: ContinuousQuery
    until: int


class StatefulQueries:
    """Lets queries advance.

    Parameters
    ----------
    spark
        The session.
    runtime
        Knows the programs of queries.
    """

    def __init__(self, spark: SparkSession, runtime: QueryRuntime) -> None:
        self._spark = spark
        self._runtime = runtime
        self.reports: Reports = {}
        self.last: Reports = {}
        """Reports of operators, and those of the last tick."""

    def advance(self, manifest: Manifest, advances: Sequence[Advance], prefix: str) -> list[str]:
        """Let queries go on; returns the files of their answers.

        If that fails, halves of them are tried: one that cannot go on is found in few steps, and fails alone.
        """
        if not advances:
            return []
        try:
            return self._advance(manifest, advances, prefix)
        except Exception as error:
            if len(advances) == 1:
                fail(advances[0].query, error)
                return []
            log.warning("a tick of %s queries is tried again: %s", len(advances), unwrap(error))
            middle = len(advances) // 2
            halves = (advances[:middle], advances[middle:])
            return [path for half in halves for path in self.advance(manifest, half, prefix)]

    def _advance(self, manifest: Manifest, advances: Sequence[Advance], prefix: str) -> list[str]:
        book = ReportBook()
        reports = address_of(book, self._spark.sparkContext)
        parts: list[DataFrame] = []
        ticks: list[NetworkTick] = []
        for each in advances:
            self._begin(manifest, each, manifest.queries[each.query.name])
        before = {name: dict(state.nodes) for name, state in manifest.queries.items()}, dict(manifest.nodes)
        try:
            for tick in self._ticks(manifest, advances, prefix, reports):
                ticks.append(tick)
                parts += tick.frames()
            written = reduce(DataFrame.union, parts).collect()
        except BaseException:
            # What was to be held by other operators never was.
            used, manifest.nodes = before
            for name, nodes in used.items():
                manifest.queries[name].nodes = nodes
            raise
        finally:
            for tick in ticks:
                tick.release()
        for each in advances:
            manifest.queries[each.query.name].position = each.until
        paths = [row["path"] for row in written]
        paths += [path for report in book.reports.values() for path in report.written]
        names = manifest.named()
        for number, found in answered(self._runtime.indexes(paths)).items():
            manifest.queries[names[number]].rows += found.rows
        for (node, cell), report in book.reports.items():
            manifest.nodes.setdefault(node, {})[cell] = report.log
        self._runtime.joins.enter(book.reports)
        self.reports.update(book.reports)
        self.last.update(book.reports)
        return paths

    def _ticks(
        self, manifest: Manifest, advances: Sequence[Advance], prefix: str, reports: Address
    ) -> Iterator[NetworkTick]:
        """A tick for all that are equally far, and go equally far; those that differ in constants do so as one."""
        foldable = self._runtime.foldable([each.query for each in advances], manifest)
        apart = [each for each in advances if each.query.name not in foldable]
        for until, queries in self._together(manifest, apart):
            join_nodes(manifest, {query.name for query in queries}, self._runtime.taps)
            yield self._runtime.tick(queries, manifest, until, prefix, reports, self.reports)
        until_of = {each.query.name: each.until for each in advances if each.query.name in foldable}
        far: dict[tuple[int, int, int], list[FoldGroup]] = defaultdict(list)
        for group in join_folds(manifest, until_of, foldable):
            same = sum(group.template == each.template for groups in far.values() for each in groups)
            far[group.position, group.until, same].append(group)
        for groups in far.values():
            yield self._runtime.fold_tick(groups, manifest, prefix, reports)

    def _together(self, manifest: Manifest, advances: Sequence[Advance]) -> Iterator[tuple[int, list[ContinuousQuery]]]:
        """Queries that are equally far, and go equally far."""
        groups: dict[tuple[int, int, int, str], list[ContinuousQuery]] = defaultdict(list)
        for each in advances:
            state = manifest.queries[each.query.name]
            groups[state.since, state.position, each.until, repr(sorted(state.origins.items()))].append(each.query)
        for (_, _, until, _), queries in groups.items():
            yield until, queries

    def _begin(self, manifest: Manifest, advance: Advance, state: QueryState) -> None:
        """Time begins for a query with the first row of its streams."""
        for name in advance.query.query.streams:
            buffers = [buffer for buffer in state.needs if stream_of(buffer) == name]
            found = (file for buffer in buffers for file in manifest.buffer(buffer))
            files = [file for file in found if file.last >= state.position]
            firsts = [max(file.first, state.position) for file in files]
            if name not in state.origins and min(firsts, default=FOREVER) < advance.until:
                state.origins[name] = min(firsts)
