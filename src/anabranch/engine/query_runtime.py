"""Queries as programs: compiled once, and run over the rows that are due in a tick."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from anabranch import storage
from anabranch.engine.answer_blocks import Entries, read_index
from anabranch.engine.answer_tasks import AnswerFolder, AnswerTask, SplitAnswerTask
from anabranch.engine.explaining import look_up_in_words, pair_by_pair
from anabranch.engine.fold_nodes import Foldable, FoldGroup, fold_signatures
from anabranch.engine.folding import (
    MEMBER,
    Folded,
    Folds,
    folded,
    is_plain,
    together,
    unlike_constants,
    with_conditions,
)
from anabranch.engine.functions import Functions
from anabranch.engine.indexes import Indexes
from anabranch.engine.join_ledger import JoinLedger, distinct_names
from anabranch.engine.layout import ANSWERS, STATE, UNCONFIRMED, filed
from anabranch.engine.manifest import Manifest, QueryState, StoredFile
from anabranch.engine.memory_limit import Budget, MemoryLimits
from anabranch.engine.network_graph import NetworkGraph, network_graph
from anabranch.engine.network_tick import FoldedQuery, NetworkQuery, NetworkTick, Setting
from anabranch.engine.pass_through import Answering, pass_through
from anabranch.engine.query import ContinuousQuery
from anabranch.engine.query_folds import Members, QueryTemplates
from anabranch.engine.registry import Registry
from anabranch.engine.relations import Relations
from anabranch.engine.store import WRITTEN_ROW, BufferTask
from anabranch.events import MemoryExceeded
from anabranch.logical_plan import scans
from anabranch.model.names import OP, TS, quoted
from anabranch.operators.base import EVER, FOREVER, TIME, WEIGHT
from anabranch.planning.query_templates import QueryTemplate
from anabranch.spark.continuous.cell_task import Reports
from anabranch.spark.continuous.compiler import Compiler
from anabranch.spark.continuous.grid import Grid
from anabranch.spark.continuous.known_types import KnownTypes, without_constants
from anabranch.spark.continuous.layer_exchange import LayerExchanges
from anabranch.spark.continuous.programs import FilterStep, Input, LookUpStep, Program
from anabranch.spark.continuous.summaries import NEWEST, OLDEST, of_batch
from anabranch.spark.continuous.views import Views
from anabranch.spark.mailbox import Address
from anabranch.spark.mapping import map_in_arrow
from anabranch.spark.schemas import arrow_schema, empty_frame
from anabranch.spark.session import own_session


@dataclass(frozen=True)
class Requirements:
    """What a compiled query asks of its streams.

    Parameters
    ----------
    needs
        For each stream, or summary of one, how long rows are needed after their time, in microseconds.
    reads
        The columns of each stream that are read.
    summaries
        How batches of streams are summed up, by the names of the summaries.
    direct
        Whether the query has no state: rows are answered as they come.
    """

    needs: dict[str, int]
    reads: dict[str, list[str]]
    summaries: dict[str, str]
    direct: bool


NOTHING_REQUIRED = Requirements({}, {}, {}, direct=False)


class QueryRuntime:
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
    cache_bytes
        What the caches of all joins may take.
    memory
        What all operators may take; None if that is not limited.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        cells: int,
        registry: Registry,
        state_bytes: int | None,
        cache_bytes: int,
        memory: int | None,
    ) -> None:
        self._session = own_session(spark, cells)
        self._folder = folder
        self._registry = registry
        self._grid = Grid.of(cells)
        owner = f"anabranch_{uuid.uuid4().hex[:12]}"
        self._views = Views(self._session, owner)
        self._programs: dict[str, Program] = {}
        self._requirements: dict[str, Requirements] = {}
        self._nothing: dict[str, DataFrame] = {}
        self._summaries: dict[str, StructType] = {}
        self._types = KnownTypes()
        self.functions = Functions(self._session, self._types.forget)
        self.relations = Relations(self._session, folder)
        self._indexes = Indexes(self._views, self.relations, registry.relations)
        self._folds = Folds(self._views)
        self._folded: dict[str, Folded] = {}
        self._memory = memory
        self._limits = MemoryLimits()
        self.templates = QueryTemplates(self._views, self._template_program)
        self.joins = JoinLedger()
        looked_up, learned = self._indexes.look_up, self.joins.seeds
        exchanges = LayerExchanges(self._grid.each)
        self._setting = Setting(
            self._views,
            self._grid,
            exchanges,
            folder,
            owner,
            state_bytes,
            self.functions.apply,
            looked_up,
            learned,
            cache_bytes,
        )
        self.titles: dict[tuple[str, int], str] = {}
        self.taps: dict[str, dict[int, str]] = {}
        """What queries want of their operators."""

    def compile(self, query: ContinuousQuery, *, summing: bool) -> StructType:
        """The columns of the answer; what does not fit together is found here, before anything runs.

        If `summing`, its streams may be summed up for it as they come.
        """
        self.forget(query.name)
        program = self._programs[query.name] = self._program(query, summing)
        for each in (each for each in program.inputs if each.name in program.summaries):
            self._summaries[each.name] = self._session.table(each.view).drop(OLDEST, NEWEST).schema
        self.taps[query.name] = {each.stage.number: each.tap for each in program.operators}
        self.titles.update({(query.name, each.stage.number): each.stage.title for each in program.operators})
        names = {each.name for each in program.inputs if each.is_stream}
        needs = {name: program.held.get(name, 0) for name in names}
        direct = not program.operators and len(scans(query.query.plan, "stream")) == 1
        self._requirements[query.name] = Requirements(needs, program.reads, program.summaries, direct)
        output = query.query.output
        if direct:
            (stream,) = names
            known = folded(program, arrow_schema(self._columns(stream)), output)
            self._folded |= {query.name: known} if known else {}
        elif len(names) == 1 and not program.summaries:
            (stream,) = names
            self.templates.add(query.query, arrow_schema(self._registry.streams[stream].df.schema), program)
        question = ("answer", without_constants(program.answer), output, query.query.is_stream)
        return self._types.ask(question, lambda: self._views.select(_answer_text(query, program)).schema)

    def _program(self, query: ContinuousQuery, summing: bool) -> Program:
        """The program of a query: that of another one, with other constants, or a new one."""
        about = (self._order, self._sample, summing, self._types, query.join, query.constraints, self._key)
        compiler = Compiler(self._views, query.name, self._grid, *about)
        streams = scans(query.query.plan, "stream")
        known = {field.name: field.type for field in arrow_schema(self._columns(streams[0]))}
        found = unlike_constants(query.query, known) if len(streams) == 1 else None
        if found is None:
            return compiler.compile(query.query)
        question, conditions = ("plain", found[0]), found[1]
        plain = self._types.get(question)
        if isinstance(plain, Program):
            return with_conditions(plain, conditions)
        program = compiler.compile(query.query)
        if is_plain(program, conditions):
            self._types.ask(question, lambda: program)
        return program

    def _template_program(self, template: QueryTemplate) -> Program:
        """What queries with state that differ in constants do, of the rows that they want."""
        about = (self._order, self._sample, False, self._types)
        return Compiler(self._views, template.matches, self._grid, *about).compile(template.query)

    def foldable(self, queries: Iterable[ContinuousQuery], manifest: Manifest) -> dict[str, Foldable]:
        """Those of some queries with state that run as one with others, or will: they are many, or have done so."""
        return self.templates.foldable(queries, self._registry.queries.values(), manifest)

    def folds(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Which of some queries without state are answered as one, by what they have in common."""
        queries = self._registry.queries
        return together((name, self._folded.get(name)) for name in names if name in queries and queries[name].share)

    def as_one(self, manifest: Manifest) -> dict[tuple[str, str], list[str]]:
        """Queries that differ in constants and are answered as one, by what they are and what they have in common."""
        filters, groups = self.folds(self._registry.queries), self.templates.folds(manifest)
        found = {("filters that differ in constants", key): names for key, names in filters.items()}
        return found | {("groups that differ in constants", key): names for key, names in groups.items()}

    @property
    def cache_bytes(self) -> int:
        """What caches of joins may take together."""
        return self._setting.cache_bytes

    @cache_bytes.setter
    def cache_bytes(self, given: int) -> None:
        self._setting = replace(self._setting, cache_bytes=given)

    @property
    def state_bytes(self) -> int | None:
        """What each worker may hold of the states of cells."""
        return self._setting.state_bytes

    @state_bytes.setter
    def state_bytes(self, given: int | None) -> None:
        self._setting = replace(self._setting, state_bytes=given)

    def graph(self, nodes: Mapping[str, Mapping[int, str]]) -> NetworkGraph:
        """The network of all queries, given the nodes that serve their stages."""
        return network_graph(dict(self._programs), nodes)

    def requirements(self, name: str) -> Requirements:
        """What a query asks of its streams; nothing once it is dropped."""
        return self._requirements.get(name, NOTHING_REQUIRED)

    def is_direct(self, query: ContinuousQuery) -> bool:
        """Whether a query has no state: rows are answered as they come."""
        return self.requirements(query.name).direct

    def described(self, name: str) -> list[str]:
        """The steps of a query's program, a line for each."""
        return self._programs[name].describe().splitlines()

    def look_ups(self, query: ContinuousQuery) -> list[str]:
        """How a query finds rows of tables by indexes, in words."""
        steps = [step for step in self._programs[query.name].steps if isinstance(step, LookUpStep)]
        plan = query.query.plan
        words = [look_up_in_words(plan, step, self._indexes.describe(step)) for step in steps]
        return words or pair_by_pair(plan)

    def placed(self, name: str, manifest: Manifest) -> list[str]:
        """Where the rows of a query's joins go, in words."""
        lines, state = [], manifest.queries[name]
        for step in self._programs[name].operators if len(self._grid) > 1 else ():
            if step.stage.placeable:
                placement = manifest.placements.get(state.nodes[step.stage.number], step.placement)
                inputs = distinct_names(step.stage.inputs or tuple(map(str, range(1, len(step.inputs) + 1))))
                lines.append(f"rows of {step.title}: {placement.in_words(step.stage.distributions, inputs)}")
        return lines

    def joined(self, name: str) -> dict[int, tuple[str, ...]]:
        """What the joins of a query call their inputs, by stage."""
        program = self._programs.get(name)
        steps = () if program is None else program.operators
        return {step.stage.number: distinct_names(step.stage.inputs) for step in steps if step.stage.inputs}

    def constants(self, name: str) -> set[str]:
        """The relations that must not change any more once a query has begun."""
        return self._programs[name].constants

    def forget(self, name: str) -> None:
        """A query is gone."""
        program = self._programs.pop(name, None)
        self.taps.pop(name, None)
        self._folded.pop(name, None)
        self._requirements.pop(name, None)
        self.templates.forget(name)
        if program is not None:
            self._views.drop(program.views)
            self._indexes.forget(program.views)

    def rest(self) -> None:
        """Nothing is answered for now: drop the views. The next tick binds them again."""
        self._views.drop_all()

    def forget_source(self, name: str) -> None:
        """A stream or relation is gone; another one may come under its name."""
        self.templates.forget_stream(name)
        self._types.forget()
        self._nothing.pop(name, None)
        self._views.drop_source(name)
        self.relations.forget(name)

    def signatures(self, name: str, *, folded: bool = False) -> dict[int, str]:
        """What the operators of a query do, by stage; if it is folded, those for all that differ in constants."""
        if folded:
            return fold_signatures(self.templates.signatures(name))
        return {step.stage.number: step.signature for step in self._programs[name].operators}

    def tick(
        self,
        queries: Sequence[ContinuousQuery],
        manifest: Manifest,
        until: int,
        prefix: str,
        reports: Address,
        last: Reports,
    ) -> NetworkTick:
        """What queries that are equally far do in a tick."""
        members = [NetworkQuery(query, self._programs[query.name], manifest.queries[query.name]) for query in queries]
        state = members[0].state
        self._make_folders(prefix)

        def rows(each: Input) -> DataFrame:
            if each.kind == "changes":
                relation, begins = self._registry.relations[each.name], state.position == state.since
                return self.relations.changes(relation, manifest, state.position, until, begins=begins)
            if each.is_stream:
                return self._due(manifest, state, until, each.name, each.ago)
            return self._known(each, manifest)

        limits = self._limits_of(manifest, last)
        return NetworkTick(self._setting, members, manifest, until, prefix, reports, rows, limits)

    def _limits_of(self, manifest: Manifest, last: Reports) -> dict[str, dict[int, int]]:
        """The bytes that operators may take, by node and cell."""
        budgets = self._budgets(manifest)
        if not budgets:
            return {}
        return self._limits.divided(budgets, _nodes(manifest), self._cells_of_nodes(manifest), last)

    def memory_exceeded(self, manifest: Manifest, reports: Reports) -> list[MemoryExceeded]:
        """What is to be said of limits of memory after a tick."""
        budgets = self._budgets(manifest)
        return self._limits.exceeded(budgets, _nodes(manifest), reports) if budgets else []

    def _budgets(self, manifest: Manifest) -> list[Budget]:
        """The limit of the engine, and those of queries."""
        own = {name: query.memory for name, query in self._registry.queries.items() if name in manifest.queries}
        budgets = [Budget(limit, [name], name) for name, limit in own.items() if limit is not None]
        return budgets if self._memory is None else [Budget(self._memory, list(manifest.queries)), *budgets]

    def _cells_of_nodes(self, manifest: Manifest) -> dict[str, Sequence[int]]:
        """The cells in which the operators of all queries run."""
        states = manifest.queries.values()
        found: dict[str, Sequence[int]] = {node: self._grid.values for state in states for node in state.nodes.values()}
        for name, program in self._programs.items():
            for step in program.operators:
                node = manifest.queries[name].nodes.get(step.stage.number)
                if step.stage.single and node is not None:
                    found[node] = [self._grid.one(step.signature)]
        return found

    def fold_tick(self, groups: Sequence[FoldGroup], manifest: Manifest, prefix: str, reports: Address) -> NetworkTick:
        """What queries that differ in constants do in a tick, as one; all groups are equally far."""
        self._make_folders(prefix)
        queries, members = self._registry.queries, []
        matches: dict[str, tuple[QueryTemplate, Members, QueryState]] = {}
        for group in groups:
            template, program = self.templates.known(group.names[0])
            states = {name: manifest.queries[name] for name in group.names}
            origins = [time for state in states.values() for time in state.origins.values()]
            since = min(state.since for state in states.values())
            origin = {template.matches: min(origins)} if origins else {}
            whole = QueryState("", group.position, since, origins=origin, nodes=dict(group.nodes))
            matches[template.matches] = template, self.templates.members(states), whole
            numbers = {name: state.number for name, state in states.items()}
            members.append(FoldedQuery(queries[group.names[0]], program, whole, group, template, numbers))

        def rows(each: Input) -> DataFrame:
            template, wanting, state = matches[each.name]
            due = self._due(manifest, state, groups[0].until, template.stream, each.ago)
            return self.templates.matches(template, wanting, due)

        return NetworkTick(self._setting, members, manifest, groups[0].until, prefix, reports, rows, {})

    def direct(
        self, queries: Sequence[ContinuousQuery], manifest: Manifest, rows: DataFrame, prefix: str, *, begins: bool
    ) -> DataFrame:
        """What queries without state answer to rows of their stream, written; the rows say where."""
        self._make_folders(prefix)
        by_name = {query.name: query for query in queries}
        folds = self.folds(by_name)
        alone = by_name.keys() - {name for members in folds.values() for name in members}
        answers: list[Answering] = []
        for query in (query for query in queries if query.name in alone):
            self._bind_direct(query, manifest, rows, begins)
            program, number = self._programs[query.name], manifest.queries[query.name].number
            task = AnswerTask(number, _shown(query), not query.query.is_stream)
            answers.append((program.answer, program.schema, task))
        answers += [
            self._fold([by_name[name] for name in members], manifest, rows, begins=begins) for members in folds.values()
        ]
        self._folds.forget(self.folds(self._folded))
        return pass_through(self._views, answers, AnswerFolder(str(self._folder), filed(prefix)), begins=begins)

    def _fold(
        self, queries: Sequence[ContinuousQuery], manifest: Manifest, rows: DataFrame, *, begins: bool
    ) -> Answering:
        """What queries that differ in constants answer, as one of them says it."""
        first, known = queries[0], [self._folded[query.name] for query in queries]
        self._bind_direct(first, manifest, rows, begins)
        flow = self._folds.rows(known[0].template, [each.values for each in known], begins=begins)
        numbers = tuple((place, manifest.queries[query.name].number) for place, query in enumerate(queries))
        task = SplitAnswerTask(MEMBER, numbers, _shown(first), not first.query.is_stream)
        return flow, self._programs[first.name].schema.append(pa.field(MEMBER, pa.int32())), task

    def _make_folders(self, prefix: str) -> None:
        """The driver makes folders, workers write files."""
        storage.make_folder((self._folder / ANSWERS / filed(prefix)).parent)
        storage.make_folder(self._folder / STATE)

    def indexes(self, paths: Sequence[str]) -> list[Entries]:
        """What files of answers say that are not confirmed yet."""
        storage.require(self._folder / (path + UNCONFIRMED) for path in paths)
        return [read_index(self._folder / (path + UNCONFIRMED)) for path in paths]

    def _bind_direct(self, query: ContinuousQuery, manifest: Manifest, rows: DataFrame, begins: bool) -> None:
        program = self._programs[query.name]
        for each in program.inputs:
            self._views.bind(each.view, rows if each.is_stream else self._known(each, manifest))
        for step in program.steps:
            assert isinstance(step, FilterStep | LookUpStep), "a query without state has no operators"
            found = self._views.select(step.flow.text, begins)
            if isinstance(step, LookUpStep):
                made = self._indexes.look_up(step, found, manifest)
            else:
                made = self.functions.apply(query.name, found, step.conditions)
            self._views.bind(step.view, made)

    def over(self, name: str, batch: DataFrame, text: str) -> DataFrame:
        """What a text makes of a batch, for which it says `BATCH`; under a name, one batch after the other."""
        view = self._views.name(f"batch_{name}")
        self._views.bind(view, batch)
        return self._views.select(of_batch(text, view))

    def stored(self, name: str, files: Sequence[StoredFile]) -> DataFrame:
        """Rows of a stream, or of a summary, from the buffer, with `_time`."""
        paths = [storage.uri(self._folder / file.path) for file in files]
        return self._session.read.schema(self._columns(name)).parquet(*paths)

    def merged(self, name: str, files: Sequence[StoredFile], columns: Sequence[str], prefix: str) -> list[StoredFile]:
        """Rows of some files in one."""
        rows = self.stored(name, files)
        if name in self._registry.streams:
            rows = rows.select(*(quoted(column) for column in columns), TIME)
        rows = rows.coalesce(1)
        task = BufferTask(name, str(self._folder), prefix, EVER, FOREVER, skew=EVER)
        tick, oldest = max(file.tick for file in files), min(file.first for file in files)
        written = map_in_arrow(rows, task, WRITTEN_ROW).collect()
        storage.settle(self._folder / row["path"] for row in written)
        return [StoredFile(row["path"], row["rows"], oldest, row["last"], tick) for row in written]

    def knows(self, buffer: str) -> bool:
        """Whether the columns of a stream, or of a summary, are known: not before they have been registered again."""
        return buffer in self._registry.streams or buffer in self._summaries

    def _due(self, manifest: Manifest, state: QueryState, until: int, name: str, ago: int) -> DataFrame:
        """Rows of a stream whose time falls into the tick, or so many microseconds earlier."""
        start, end = max(state.position - ago, state.since), until - ago
        files = [file for file in manifest.buffer(name) if file.last >= start and file.first < end]
        if not files:
            return self._empty(name)
        whole = [file for file in files if file.first >= start and file.last < end]
        part = [file for file in files if file not in whole]
        found = [self.stored(name, whole)] if whole else []
        found += [self.stored(name, part).where(_between(start, end))] if part else []
        return reduce(DataFrame.union, found)

    def _order(self, stream: str) -> tuple[str, ...]:
        found = self._registry.streams[stream]
        return (found.sequence,) if found.sequence else tuple(found.df.columns)

    def _key(self, stream: str) -> tuple[str, ...]:
        found = self._registry.streams.get(stream)
        return found.key if found else ()

    def _known(self, given: Input, manifest: Manifest) -> DataFrame:
        """The rows of a relation, or their versions."""
        relation = self._registry.relations[given.name]
        return relation.df if given.kind == "table" else self.relations.versions(relation, manifest)

    def _sample(self, given: Input) -> DataFrame:
        """Something with the columns of an input."""
        if given.is_stream:
            return self._empty(given.name)
        relation, nothing = self._registry.relations[given.name], Manifest(cells=1)
        if given.kind == "changes":
            return self.relations.changes(relation, nothing, EVER, FOREVER, begins=False)
        return relation.df if given.kind == "table" else self.relations.unchanged(relation)

    def _empty(self, name: str) -> DataFrame:
        if name not in self._nothing:
            self._nothing[name] = empty_frame(self._session, self._columns(name))
        return self._nothing[name]

    def _columns(self, name: str) -> StructType:
        if name in self._summaries:
            return self._summaries[name]
        if name in self.templates:
            return self.templates.columns(name)
        return StructType([*self._registry.streams[name].df.schema.fields, StructField(TIME, LongType())])


def _between(start: int, end: int) -> str:
    """SQL: a time from `start` on and before `end`.

    Spark compiles a filter anew for numbers that it has not seen before, which takes longer than most ticks have; the
    values of structs are no part of the code.
    """
    return f"struct({TIME}) >= struct({start}L) AND struct({TIME}) < struct({end}L)"


def _shown(query: ContinuousQuery) -> tuple[tuple[str, str], ...]:
    """The columns of a plan, each with its name in the answer."""
    return tuple(zip(query.query.plan.columns, query.query.output, strict=True))


def _answer_text(query: ContinuousQuery, program: Program) -> str:
    columns = {
        shown: quoted(unique) for unique, shown in zip(query.query.plan.columns, query.query.output, strict=True)
    }
    columns[TS] = f"timestamp_micros({TIME})"
    if not query.query.is_stream:
        columns[OP] = f"CASE WHEN {WEIGHT} > 0 THEN '+' ELSE '-' END"
    listed = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items())
    return f"SELECT {listed} FROM ({program.answer.text})"


def _nodes(manifest: Manifest) -> dict[str, list[str]]:
    """The operators of each query."""
    return {name: list(state.nodes.values()) for name, state in manifest.queries.items()}
