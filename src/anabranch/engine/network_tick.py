"""A tick of queries that are equally far, as one Spark job: a layer of operators after the other, an exchange for each.

Operators whose inputs are streams and relations are the first layer; those that read their output after another
exchange are the second one, and so on. However many operators there are, a layer is one shuffle and one task per cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.engine.answer_tasks import AnswerFolder, AnswerTask, SplitAnswerTask
from anabranch.engine.fold_nodes import FoldGroup
from anabranch.engine.layout import STATE, filed
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.pass_through import PATHS, pass_through
from anabranch.engine.placing import FEWEST_ROWS, is_measurable, measured
from anabranch.engine.query import ContinuousQuery
from anabranch.logical_plan import Scalar
from anabranch.model.names import quoted
from anabranch.operators.base import Tick
from anabranch.ordering.base import Seed
from anabranch.planning.placement import chosen
from anabranch.planning.query_templates import MEMBER, QueryTemplate
from anabranch.planning.stages import first
from anabranch.spark.continuous.cell_task import NODE, CellTask, MembersState, NodeTask, TapTask
from anabranch.spark.continuous.exchange import CELL, Slots
from anabranch.spark.continuous.flows import View
from anabranch.spark.continuous.grid import Grid
from anabranch.spark.continuous.hosted_task import HostedTask
from anabranch.spark.continuous.layer_exchange import LayerExchange, LayerExchanges
from anabranch.spark.continuous.programs import CellStep, FilterStep, Input, Inputs, LookUpStep, Program
from anabranch.spark.continuous.tap_outputs import TapOutput
from anabranch.spark.continuous.views import Views
from anabranch.spark.mailbox import Address
from anabranch.spark.mapping import map_in_arrow


@dataclass(frozen=True)
class Setting:
    """What all ticks of an engine have in common.

    Parameters
    ----------
    views
        What texts read from.
    grid
        Cells.
    exchanges
        Of layers of operators.
    folder
        Of the checkpoint.
    owner
        What tells this engine from others in the same worker.
    state_bytes
        What each worker may hold of the states of cells.
    filtered
        Applies an adaptive filter of a query.
    looked_up
        Combines rows with those of a table, through an index, as the relations are by now.
    learned
        What a join has learned so far, by input.
    cache_bytes
        What the caches of all joins may take.
    """

    views: Views
    grid: Grid
    exchanges: LayerExchanges
    folder: Path
    owner: str
    state_bytes: int | None
    filtered: Callable[[str, DataFrame, Sequence[Scalar]], DataFrame]
    looked_up: Callable[[LookUpStep, DataFrame, Manifest], DataFrame]
    learned: Callable[[str], Mapping[int, Seed]]
    cache_bytes: int = 0


@dataclass(frozen=True)
class NetworkQuery:
    """A query that takes part in a tick."""

    query: ContinuousQuery
    program: Program
    state: QueryState

    @cached_property
    def answer(self) -> CellStep | None:
        """The operator whose output is the answer as it is."""
        steps = self.program.operators
        return next((step for step in steps if step.stage.number == self.program.answer.stage), None)

    def node(self, step: CellStep) -> str:
        """The node of the network that is a step of its program."""
        return self.state.nodes[step.stage.number]

    def folded(self, stage: int) -> tuple[MembersState, ...]:
        """What an operator holds for queries that differ in constants, if it is for such."""
        return ()

    def task(self, names: dict[str, str]) -> AnswerTask | SplitAnswerTask:
        """What writes its answer, of columns with these names."""
        query = self.query.query
        shown = zip((names[name] for name in query.plan.columns), query.output, strict=True)
        return AnswerTask(self.state.number, tuple(shown), not query.is_stream)


@dataclass(frozen=True)
class FoldedQuery(NetworkQuery):
    """Queries with state that differ in constants, as one that takes part in a tick.

    Parameters
    ----------
    group
        What goes on together; the state is that of all.
    template
        What they have in common.
    numbers
        Those of the queries, by their names.
    """

    group: FoldGroup
    template: QueryTemplate
    numbers: Mapping[str, int]

    def task(self, names: dict[str, str]) -> SplitAnswerTask:
        """What writes the answer of each."""
        query = self.template.query
        columns = [name for name in query.plan.columns if name != MEMBER]
        shown = zip((names[name] for name in columns), query.output, strict=True)
        numbers = tuple((number, number) for number in self.numbers.values())
        return SplitAnswerTask(names[MEMBER], numbers, tuple(shown), not query.is_stream)

    def folded(self, stage: int) -> tuple[MembersState, ...]:
        """What is held of them for an operator."""
        return tuple(
            MembersState(self._numbers(each.names), self._numbers(each.fresh), each.logs[stage])
            for each in self.group.held
        )

    def _numbers(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.numbers[name] for name in names)


class NetworkTick:
    """Builds the frames of one tick.

    Parameters
    ----------
    setting
        Of the engine.
    members
        The queries, equally far.
    manifest
        Has the state of nodes.
    until
        How far they go.
    prefix
        Part of the names of what is written.
    reports
        Where tasks report to.
    rows
        What an input stands for in this tick.
    limits
        The bytes of memory that operators may take, by node and cell, if they are limited.
    """

    def __init__(
        self,
        setting: Setting,
        members: Sequence[NetworkQuery],
        manifest: Manifest,
        until: int,
        prefix: str,
        reports: Address,
        rows: Callable[[Input], DataFrame],
        limits: Mapping[str, Mapping[int, int]],
    ) -> None:
        self._setting = setting
        self._limits = limits
        self._members = members
        self._manifest = manifest
        state = members[0].state
        self._tick = Tick(state.position, until)
        self._begins = state.position == state.since
        self._prefix = prefix
        self._folder = AnswerFolder(str(setting.folder), filed(prefix))
        self._reports = reports
        self._rows = rows
        self._chosen: dict[str, tuple[NetworkQuery, CellStep]] = {}
        self._taps: dict[str, dict[str, CellStep]] = defaultdict(dict)
        self._answered: dict[tuple[str, str], list[tuple[NetworkQuery, CellStep]]] = defaultdict(list)
        for member in members:
            if member.answer is not None:
                self._answered[member.node(member.answer), member.answer.tap].append((member, member.answer))
            for step in member.program.operators:
                self._chosen.setdefault(member.node(step), (member, step))
                self._taps[member.node(step)].setdefault(step.tap, step)
        self._filters: list[tuple[NetworkQuery, FilterStep | LookUpStep]] = []
        self._readers: dict[tuple[str, str], list[CellStep]] = defaultdict(list)
        self._look_for_readers()
        self._computed: list[DataFrame] = []
        self._outputs: dict[str, TapOutput] = {}

    def frames(self) -> list[DataFrame]:
        """The parts of the job; their rows say what was written, as far as reports of cells do not."""
        parts = []
        for depth in sorted({step.depth for _, step in self._chosen.values()}):
            self._bind_filters(depth)
            parts += self._layer([node for node, (_, step) in self._chosen.items() if step.depth == depth])
        self._bind_filters()
        others = [member for member in self._members if member.answer is None]
        if others:
            answers = [
                (each.program.answer, each.program.schema, each.task({name: name for name in columns}))
                for each in others
                for columns in [each.program.answer.columns]
            ]
            views, cells = self._setting.views, len(self._setting.grid)
            parts.append(pass_through(views, answers, self._folder, begins=self._begins, tasks=cells))
        return parts

    def release(self) -> None:
        """The job is done: free the memory of what operators of one layer have left for the next."""
        for frame in self._computed:
            frame._jdf.queryExecution().logical().rdd().unpersist(False)

    def _look_for_readers(self) -> None:
        """Bind the inputs that are read; find the filters and operators that are read."""
        inputs: dict[str, Input] = {}
        for member in self._members:
            own = [step for step in member.program.operators if self._chosen[member.node(step)] == (member, step)]
            read = {view.name for step in own for view in step.reads}
            read |= set() if member.answer else {view.name for view in member.program.answer.views}
            for step in reversed(member.program.steps):
                if step.view not in read:
                    continue
                if isinstance(step, CellStep):
                    self._readers[member.node(step), step.tap].append(step)
                    continue
                self._filters.insert(0, (member, step))
                read |= {view.name for view in step.reads}
            inputs |= {each.view: each for each in member.program.inputs if each.view in read}
        for each in inputs.values():
            self._setting.views.bind(each.view, self._rows(each))

    def _bind_filters(self, depth: int | None = None) -> None:
        """Bind the filters over what earlier layers have made."""
        ready = [each for each in self._filters if depth is None or each[1].depth < depth]
        self._filters = [each for each in self._filters if each not in ready]
        for member, step in ready:
            rows = self._setting.views.select(step.flow.text, self._begins)
            if isinstance(step, LookUpStep):
                made = self._setting.looked_up(step, rows, self._manifest)
            else:
                made = self._setting.filtered(member.query.name, rows, step.conditions)
            self._setting.views.bind(step.view, made)

    def _layer(self, nodes: Sequence[str]) -> list[DataFrame]:
        """Run a layer; a part of the job if nothing reads what comes out."""
        setting, read = self._setting, [tap for tap in self._readers if tap[0] in nodes]
        self._place(nodes)
        wanted = [each for node in nodes for inputs in self._inputs(node) for each in inputs]
        exchange, slots = setting.exchanges.of(wanted, self._outputs), Slots()
        outputs = {tap: (number, slots.of(_kinds(self._told(*tap)))) for number, tap in enumerate(read)}
        tasks = tuple(self._task(node, exchange, outputs) for node in nodes)
        schema = pa.schema([(NODE, pa.int32()), *slots.fields]) if read else None
        folder = str(setting.folder / STATE)
        joins = sum(len(step.inputs) > 2 for _, step in self._chosen.values())
        cache_bytes, most = setting.cache_bytes // max(joins * len(setting.grid), 1), setting.state_bytes
        cells = CellTask(setting.owner, tasks, folder, self._prefix, self._folder, most, schema, cache_bytes)
        task = HostedTask(cloudpickle.dumps(cells), self._reports)  # type: ignore[no-untyped-call]
        sent = setting.views.select(exchange.text, self._begins).repartition(len(setting.grid), CELL)
        if schema is None:
            return [map_in_arrow(sent, task, PATHS)]
        made = map_in_arrow(sent, task, from_arrow_schema(schema))
        if sum(len(self._readers[tap]) for tap in read) > 1:
            made = made.localCheckpoint(eager=False)  # computed once, and a leaf of the plans of those who read it
            self._computed.append(made)
        depth = self._chosen[nodes[0]][1].depth
        layer = View(setting.views.name(f"layer_{depth}"), f"layer {depth}")
        setting.views.bind(layer.name, made)
        for tap, (number, found) in outputs.items():
            for step in self._readers[tap]:
                there = self._there(tap[0], step)
                shown = tuple((here, found[there.get(name, name)]) for name, here in step.stage.shown)
                self._outputs[step.view] = TapOutput(layer, number, shown)
                if step.view in self._by_name:
                    columns = [f"{slot} AS {quoted(here)}" for here, slot in shown]
                    setting.views.bind(step.view, made.where(f"{NODE} = {number}").selectExpr(*columns))
        return []

    def _place(self, nodes: Sequence[str]) -> None:
        """Choose where rows of joins go that get their first ones; as it is chosen, it stays."""
        placements, cells = self._manifest.placements, len(self._setting.grid)
        open_ = {node: self._chosen[node][1] for node in nodes if node not in placements and self._is_open(node)}
        if cells == 1 or not open_ or not (due := self._rows_due):
            return
        placements |= {node: step.placement for node, step in open_.items()}
        inputs = [each for member in self._members for each in member.program.inputs]
        streams = frozenset(each.view for each in inputs if each.is_stream)
        joins = {node: step for node, step in open_.items() if is_measurable(step, streams)}
        if joins and due >= FEWEST_ROWS:
            steps = list(joins.values())
            found = measured(steps, self._setting.views, due, begins=self._begins)
            for node, step, each in zip(joins, steps, found, strict=True):
                if sum(each.rows) >= FEWEST_ROWS:
                    placements[node] = chosen(step.stage.distributions, cells, each)

    def _is_open(self, node: str) -> bool:
        """Whether an operator has a choice to which cells its rows go, and no state yet."""
        return self._chosen[node][1].stage.placeable and not any(self._manifest.nodes.get(node, {}).values())

    @property
    def _rows_due(self) -> int:
        """About how many rows of streams are due."""
        names = {each.name for member in self._members for each in member.program.inputs if each.kind == "came"}
        files = [file for name in names for file in self._manifest.buffer(name)]
        return sum(file.rows for file in files if file.last >= self._tick.start and file.first < self._tick.until)

    def _inputs(self, node: str) -> Inputs:
        """What an operator wants, sent to where its state is."""
        step = self._chosen[node][1]
        return step.placed(self._manifest.placements.get(node, step.placement), self._setting.grid)

    @cached_property
    def _by_name(self) -> set[str]:
        """Views that somebody reads by name, and not only through exchanges of rows as they are."""
        steps = [step for _, step in self._chosen.values()]
        sources = [wanted.select.source for step in steps for inputs in step.inputs for wanted in inputs]
        read = [view for source in sources if not isinstance(source, View) for view in source.views]
        read += [
            view
            for taps in self._taps.values()
            for step in taps.values()
            if step.instants
            for view in step.instants.views
        ]
        read += [view for _, step in self._filters for view in step.reads]
        read += [view for member in self._members if member.answer is None for view in member.program.answer.views]
        return {view.name for view in read}

    def _task(
        self, node: str, exchange: LayerExchange, outputs: Mapping[tuple[str, str], tuple[int, dict[str, str]]]
    ) -> NodeTask:
        member, step = self._chosen[node]
        stage = step.stage
        taps = {}
        for key, using in self._taps[node].items():
            output = outputs.get((node, key))
            taps[key] = TapTask(
                using.stage.tap.renamed(self._there(node, using)),
                self._told(node, key),
                tuple(self._answers(node, key)),
                exchange.instants(using.instants) if using.instants else None,
                None if output is None else (output[0], tuple(output[1].items())),
            )
        return NodeTask(
            node,
            stage.make,
            taps,
            step.columns,
            step.schema,
            tuple(tuple(map(exchange.found, inputs)) for inputs in self._inputs(node)),
            replace(self._tick, origin=first(member.state.origins, stage.streams), slides=stage.slides),
            self._manifest.nodes.get(node, {}),
            self._setting.grid.one(step.signature) if stage.single else None,
            step.names,
            tuple(self._setting.learned(node).items()),
            max(each.query.join_trace for each in self._members if node in each.state.nodes.values()),
            self._limits.get(node, {}),
            member.folded(stage.number),
        )

    def _answers(self, node: str, tap: str) -> list[AnswerTask | SplitAnswerTask]:
        """The queries whose answer is what a tap gives as it is."""
        tasks: list[AnswerTask | SplitAnswerTask] = []
        for member, step in self._answered[node, tap]:
            there = self._there(node, step)
            names = {here: there.get(name, name) for name, here in step.stage.shown}
            tasks.append(member.task(names))
        return tasks

    def _there(self, node: str, step: CellStep) -> dict[str, str]:
        """What the operator that runs for a node calls the columns of another one that it stands for."""
        chosen = self._chosen[node][1].stage
        return dict(zip(step.stage.made.names, chosen.made.names, strict=True))

    def _told(self, node: str, tap: str) -> pa.Schema:
        """What a tap gives, as the operator calls it."""
        using = self._taps[node][tap]
        there = self._there(node, using)
        return pa.schema([field.with_name(there.get(field.name, field.name)) for field in using.stage.tap_schema])


def _kinds(schema: pa.Schema) -> dict[str, pa.DataType]:
    return dict(zip(schema.names, schema.types, strict=True))
