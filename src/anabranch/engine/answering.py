"""Queries as programs: compiled once, and run over the rows that are due in a tick."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from anabranch import storage
from anabranch.cells.base import EVER, FOREVER, TIME, WEIGHT, Tick
from anabranch.engine.functions import Functions
from anabranch.engine.manifest import Manifest, QueryState, StoredFile
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.registry import Registry
from anabranch.engine.store import ANSWERS, STATE, WRITTEN_ROW, AnswerTask, ShelveTask, filed
from anabranch.model.continuous import OP, TS, scans
from anabranch.model.names import quoted
from anabranch.planning.stages import first
from anabranch.spark.cell_task import CellTask
from anabranch.spark.delivery import Address
from anabranch.spark.grid import CELL, Grid, listed
from anabranch.spark.mapping import map_in_arrow
from anabranch.spark.programs import CellStep, Compiler, FilterStep, Input, Program, bind, select, unbind
from anabranch.spark.schemas import empty_frame
from anabranch.spark.session import own_session
from anabranch.spark.summaries import NEWEST, OLDEST, of_batch


class Answering:
    """Runs the programs of one engine's queries, in a session of its own.

    Parameters
    ----------
    spark
        The user's session.
    folder
        Of the checkpoint.
    cells
        How many cells a stage has.
    registry
        Streams and relations.
    state_bytes
        What each worker may hold of the states of cells.
    """

    def __init__(
        self, spark: SparkSession, folder: Path, cells: int, registry: Registry, state_bytes: int | None
    ) -> None:
        self._session = own_session(spark, cells)
        self._folder = folder
        self._registry = registry
        self._grid = Grid.of(cells)
        self._state_bytes = state_bytes
        self._database = self._session.conf.get("spark.sql.globalTempDatabase")
        self._owner = uuid.uuid4().hex[:12]
        self._programs: dict[str, Program] = {}
        self._batches: set[str] = set()
        self._rested: set[str] = set()
        self._nothing: dict[str, DataFrame] = {}
        self._summaries: dict[str, StructType] = {}
        self.functions = Functions(self._session)
        self.titles: dict[tuple[str, int], str] = {}

    def compile(self, query: ContinuousQuery, *, summing: bool) -> StructType:
        """The columns of the answer; what does not fit together is found here, before anything runs.

        If `summing`, its streams may be summed up for it as they come.
        """
        owner = f"anabranch_{self._owner}_{query.name}"
        compiler = Compiler(self._session, owner, self._grid, self._order, self._without_rows, summing)
        self.forget(query.name)
        program = self._programs[query.name] = compiler.compile(query.query)
        for each in (each for each in program.inputs if each.name in program.summaries):
            self._summaries[each.name] = self._session.table(each.view).drop(OLDEST, NEWEST).schema
        self.titles.update({(query.name, stage.number): stage.title for stage in program.stages})
        query.direct = not program.stages and len(scans(query.query.plan, "stream")) == 1
        names = {each.name for each in program.inputs if each.kind != "table"}
        query.needs = {name: program.held.get(name, 0) for name in names}
        query.reads, query.summaries = program.reads, program.summaries
        return select(self._session, _told(query, program)).schema

    def forget(self, name: str) -> None:
        """A query is gone."""
        program = self._programs.pop(name, None)
        if program is not None:
            unbind(self._session, program.views)

    def rest(self) -> None:
        """Nothing is answered for now: let go of the views. The next tick binds them again."""
        unbind(self._session, [*self._batches, *(view for each in self._programs.values() for view in each.views)])
        self._batches.clear()
        self._rested = set(self._programs)

    def written(
        self,
        query: ContinuousQuery,
        manifest: Manifest,
        until: int,
        prefix: str,
        reports: Address,
    ) -> DataFrame:
        """What a query answers in a tick, written by the tasks that find it; the rows say where."""
        program, state = self._programs[query.name], manifest.queries[query.name]
        told = tuple(zip(query.query.plan.columns, query.query.output, strict=True))
        task = AnswerTask(query.name, str(self._folder), filed(prefix), told, not query.query.is_stream)
        storage.make_folder((self._folder / ANSWERS / query.name / filed(prefix)).parent)
        storage.make_folder(self._folder / STATE / query.name)
        tick = Tick(state.position, until)

        def rows(each: Input) -> DataFrame:
            return self._due(manifest, state, until, each.name, each.ago)

        def cells(step: CellStep) -> CellTask:
            return CellTask(
                f"{self._owner}/{query.name}",
                query.name,
                step.stage,
                step.columns,
                step.schema,
                replace(tick, origin=first(state.origins, step.stage.streams)),
                state.logs.get(step.stage.number, {}),
                str(self._folder / STATE),
                prefix,
                reports,
                self._state_bytes,
            )

        last = program.steps[-1] if program.steps else None
        fused = isinstance(last, CellStep) and last.stage.number == program.answer.stage
        self._bind(query.name, rows)
        begins = state.position == state.since
        for step in program.steps[:-1] if fused else program.steps:
            bind(self._step(query.name, step, cells, begins), step.view)
        if fused:
            assert isinstance(last, CellStep)
            return map_in_arrow(self._sent(last, begins), replace(cells(last), after=task), WRITTEN_ROW)
        return map_in_arrow(select(self._session, program.answer.text, begins), task, WRITTEN_ROW)

    def direct(self, query: ContinuousQuery, rows: DataFrame, *, begins: bool) -> DataFrame:
        """What a query without state answers to rows of its stream, with their `_time`."""
        program = self._programs[query.name]
        self._bind(query.name, lambda _: rows)
        for step in program.steps:
            bind(self._step(query.name, step, None, begins), step.view)
        return select(self._session, _told(query, program), begins)

    def over(self, name: str, batch: DataFrame, text: str) -> DataFrame:
        """What a text makes of a batch, for which it says `BATCH`; under a name, one batch after the other."""
        view = f"{self._database}.`anabranch_{self._owner}_{name.replace('.', '_')}`"
        bind(batch, view)
        self._batches.add(view)
        return select(self._session, of_batch(text, view))

    def stored(self, name: str, files: Sequence[StoredFile]) -> DataFrame:
        """Rows of a stream, or of a summary, from the shelf, with `_time`."""
        paths = [storage.uri(self._folder / file.path) for file in files]
        return self._session.read.schema(self._columns(name)).parquet(*paths)

    def merged(self, name: str, files: Sequence[StoredFile], columns: Sequence[str], prefix: str) -> list[StoredFile]:
        """Rows of some files in one."""
        rows = self.stored(name, files)
        if name in self._registry.streams:
            rows = rows.select(*(quoted(column) for column in columns), TIME)
        rows = rows.coalesce(1)
        task = ShelveTask(name, str(self._folder), prefix, EVER, FOREVER, skew=EVER)
        tick, oldest = max(file.tick for file in files), min(file.first for file in files)
        written = map_in_arrow(rows, task, WRITTEN_ROW).collect()
        storage.settle(self._folder / row["path"] for row in written)
        return [StoredFile(row["path"], row["rows"], oldest, row["last"], tick) for row in written]

    def knows(self, shelf: str) -> bool:
        """Whether the columns of a stream, or of a summary, are known: not before they have been registered again."""
        return shelf in self._registry.streams or shelf in self._summaries

    def _due(self, manifest: Manifest, state: QueryState, until: int, name: str, ago: int) -> DataFrame:
        """Rows of a stream whose time falls into the tick, or so many microseconds earlier."""
        start, end = max(state.position - ago, state.since), until - ago
        files = [file for file in manifest.shelf(name) if file.last >= start and file.first < end]
        if not files:
            return self._empty(name)
        whole = [file for file in files if file.first >= start and file.last < end]
        part = [file for file in files if file not in whole]
        found = [self.stored(name, whole)] if whole else []
        found += [self.stored(name, part).where(_between(start, end))] if part else []
        return reduce(DataFrame.union, found)

    def _bind(self, name: str, rows: Callable[[Input], DataFrame]) -> None:
        for each in self._programs[name].inputs:
            if each.kind != "table":
                bind(rows(each), each.view)
            elif name in self._rested:  # else it stands for its relation since the query was compiled
                bind(self._without_rows(each), each.view)
        self._rested.discard(name)

    def _step(
        self, name: str, step: CellStep | FilterStep, cells: Callable[[CellStep], CellTask] | None, begins: bool
    ) -> DataFrame:
        if isinstance(step, CellStep):
            assert cells is not None, "a query without state has no stages"
            return map_in_arrow(self._sent(step, begins), cells(step), from_arrow_schema(step.stage.output))
        return self.functions.apply(name, select(self._session, step.text, begins), step.conditions)

    def _sent(self, step: CellStep, begins: bool) -> DataFrame:
        return select(self._session, step.text, begins).repartition(step.cells, CELL)

    def _order(self, stream: str) -> tuple[str, ...]:
        found = self._registry.streams[stream]
        return (found.sequence,) if found.sequence else tuple(found.df.columns)

    def _without_rows(self, given: Input) -> DataFrame:
        return self._registry.relations[given.name] if given.kind == "table" else self._empty(given.name)

    def _empty(self, name: str) -> DataFrame:
        if name not in self._nothing:
            self._nothing[name] = empty_frame(self._session, self._columns(name))
        return self._nothing[name]

    def _columns(self, name: str) -> StructType:
        if name in self._summaries:
            return self._summaries[name]
        return StructType([*self._registry.streams[name].df.schema.fields, StructField(TIME, LongType())])


def _between(start: int, end: int) -> str:
    """SQL: a time from `start` on and before `end`.

    Spark compiles a filter anew for numbers that it has not seen before, which takes longer than most ticks have; the
    values of structs are no part of the code.
    """
    return f"struct({TIME}) >= struct({start}L) AND struct({TIME}) < struct({end}L)"


def _told(query: ContinuousQuery, program: Program) -> str:
    columns = {
        shown: quoted(unique) for unique, shown in zip(query.query.plan.columns, query.query.output, strict=True)
    }
    columns[TS] = f"timestamp_micros({TIME})"
    if not query.query.is_stream:
        columns[OP] = f"CASE WHEN {WEIGHT} > 0 THEN '+' ELSE '-' END"
    return f"SELECT {listed(columns)} FROM ({program.answer.text})"
