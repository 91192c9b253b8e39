"""Several queries at once without Spark: registered, paused and dropped between ticks, with one operator where equal.

Which operators are equal is decided by the engine's compiler (`local_compiler.py`), which of them go on together by
its network (`engine/network.py`); states, logs and operators are the engine's, as in `local.py`. What comes from Spark
there is done here by Arrow and DuckDB.

`Chaos` takes decisions that may change how something is computed, never what: a legal order for every join, whether
queries share, and which states are lost from memory, at every chunk of rows that an operator gets.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.engine.fold_nodes import Foldable, FoldGroup, is_folded, join_folds
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.network import forget_nodes, join_nodes, new_nodes, sharing
from anabranch.logical_plan import Query, scans
from anabranch.operators.base import EVER, TIME, WEIGHT, Tick
from anabranch.operators.segments import LONGEST_LOG, CellState
from anabranch.planning.query_templates import MEMBER, QueryTemplate, query_template
from anabranch.planning.reading import read
from anabranch.planning.stages import Stage
from anabranch.spark.continuous.cell_task import MembersState
from anabranch.spark.continuous.programs import CellStep
from cql.comparing import bound
from cql.local import TYPES, Cells, LocalFlows, relation_of, table_of
from cql.local_compiler import operators
from cql.oracle import normalised
from cql.placing import random_place
from cql.streams import Case, Row, Stream

Sharing = Literal["on", "off", "random"]
Status = Literal["running", "paused", "dropped"]
_SQL = {kind: name for name, kind in TYPES.items()}


@dataclass
class Chaos:
    """Random decisions.

    Parameters
    ----------
    rng
        Takes them.
    sharing
        Whether a query shares its operators with others.
    evictions
        How often a state is lost before it is used.
    switches
        Whether joins get another order at every chunk.
    """

    rng: random.Random
    sharing: Sharing = "random"
    evictions: float = 0.3
    switches: bool = True

    def shares(self) -> bool:
        """Whether the next query shares."""
        return self.sharing == "on" or (self.sharing == "random" and self.rng.random() < 0.6)

    def loses(self) -> bool:
        """Whether a state is lost."""
        return self.rng.random() < self.evictions


@dataclass(frozen=True)
class Template:
    """What a query has in common with others that differ in constants: what it is, its operators; its own constants."""

    of: QueryTemplate
    steps: Mapping[int, CellStep]
    values: tuple[Any, ...]


@dataclass
class Running:
    """A query of the network.

    Parameters
    ----------
    case
        Its text, and the streams that it reads.
    query
        Bound.
    steps
        Its operators.
    since
        It sees rows from this time on.
    answer
        What it has said so far: the bag of (row..., time, weight).
    """

    case: Case
    query: Query
    steps: Mapping[int, CellStep]
    since: int
    status: Status = "running"
    answer: Counter[Row] = field(default_factory=Counter)
    position: int = EVER
    template: Template | None = None


@dataclass
class NetworkCells(Cells):
    """States of the operators of a network; their logs are in its manifest."""

    manifest: Manifest = field(default_factory=lambda: Manifest(1))
    nodes: Mapping[int, str] = field(default_factory=dict)
    steps: Mapping[int, CellStep] = field(default_factory=dict)
    uses: Mapping[str, dict[str, Stage]] = field(default_factory=dict)
    chaos: Chaos = field(default_factory=lambda: Chaos(random.Random(0)))
    folded: Mapping[str, tuple[MembersState, ...]] = field(default_factory=dict)

    def wanted(self, node: str) -> Collection[int]:
        """Those that have begun."""
        own = self.folded[node][0] if node in self.folded else MembersState((), (), {})
        return set(own.members) - set(own.fresh)

    def fold(self, state: CellState, cell: int, node: str, tick: Tick) -> None:
        """As a worker does."""
        if node in self.folded:
            assert self.folder is not None
            own, *others = self.folded[node]
            state.keep(MEMBER, own.members)
            for other in others:
                state.unite(other.logs.get(cell, ()), MEMBER, other.members, self.folder, tick)

    def node(self, stage: Stage) -> str:
        """The node of the query that is at work."""
        return self.nodes[stage.number]

    def names(self, stage: Stage) -> tuple[str, ...]:
        """What the query that is at work calls the columns of the node."""
        return self.steps[stage.number].names

    def taps(self, stage: Stage) -> dict[str, Stage]:
        """What all queries want of the node."""
        return self.uses[self.node(stage)]

    def tap(self, stage: Stage) -> str:
        """What the query that is at work wants of it."""
        return self.steps[stage.number].tap

    def advance(
        self, stage: Stage, cell: int, columns: Sequence[Sequence[str]], table: pa.Table, tick: Tick
    ) -> dict[str, pa.Table]:
        """Advance a cell of a node, and write its log."""
        node = self.node(stage)
        if self.chaos.loses():
            self.states = {key: state for key, state in self.states.items() if key[:2] != (node, cell)}
        self.logs = {(node, cell): list(self.manifest.nodes.get(node, {}).get(cell, ()))}
        out = super().advance(stage, cell, columns, table, tick)
        self.manifest.nodes.setdefault(node, {})[cell] = tuple(self.logs[node, cell])
        return out


@dataclass
class NetworkFlows(LocalFlows):
    """A tick of queries that are equally far: an operator that several of them use runs once."""

    outputs: dict[str, tuple[Stage, dict[str, pa.Table]]] = field(default_factory=dict)

    def stage(self, stage: Stage, flows: Sequence[pa.Table]) -> pa.Table:
        """What the operator has said in this tick, under the names of the query that asks."""
        node = self.cells.node(stage)
        if node not in self.outputs:
            self.outputs[node] = stage, self.emitted(stage, flows)
        ran, emitted = self.outputs[node]
        return stage.named(emitted[self.cells.tap(stage)], dict(zip(stage.made.names, ran.made.names, strict=True)))


class LocalNetwork:
    """Runs queries over the streams of a case.

    Parameters
    ----------
    case
        Streams, relations, how rows arrive; its query does not matter.
    folder
        For logs.
    chaos
        Takes decisions.
    few_codes
        Whether different rows often have the same hash code.
    """

    def __init__(
        self, case: Case, folder: Path, chaos: Chaos, few_codes: bool = False, longest_log: int = LONGEST_LOG
    ) -> None:
        self._case = case
        self._chaos = chaos
        self._streams = {stream.name: stream for stream in case.streams}
        self._relations = {relation.name: relation_of(relation) for relation in case.relations}
        self._manifest = Manifest(case.cuts.cells)
        switches = chaos.rng if chaos.switches else None
        self._cells = NetworkCells(
            case.cuts.cells,
            few_codes,
            folder,
            longest_log,
            switches,
            manifest=self._manifest,
            chaos=chaos,
            place=random_place(chaos.rng),
        )
        self._arrived: dict[str, list[Row]] = {name: [] for name in self._streams}
        self.queries: dict[str, Running] = {}
        self.shared = 0
        """How often an operator served another query than the first in a tick."""
        self.folded = 0
        """The same of operators for queries that differ in constants."""

    # -- what a user does

    def register(self, name: str, text: str) -> None:
        """Register a query and let it run: it sees rows from now on, or all if there were none before."""
        case = replace(self._case, query=text)
        query = bound(case)
        since = max((self._closed(stream) for stream in scans(query.plan, "stream")), default=EVER)
        steps = operators(case, query)
        found = {number: step.signature for number, step in steps.items()}
        owner = "" if self._chaos.shares() else name
        nodes, number = new_nodes(found, self._manifest, owner), self._manifest.new_number()
        self._manifest.queries[name] = QueryState(name, position=since, since=since, nodes=nodes, number=number)
        self.queries[name] = Running(
            case, query, steps, since, position=since, template=self._template(case, query, owner)
        )

    def _template(self, case: Case, query: Query, owner: str) -> Template | None:
        """What it has in common with those that differ in constants, if it shares."""
        if len(query.streams) != 1 or owner or not operators(case, query):
            return None
        (stream,) = query.streams
        found = query_template(query, {name: TYPES[kind] for name, kind in self._streams[stream].columns})
        if found is None:
            return None
        template, values = found
        columns = (*((field.name, _SQL[field.type]) for field in template.schema), (MEMBER, "int"))
        made = replace(case, streams=(*case.streams, Stream(template.matches, columns, ())))
        return Template(template, operators(made, template.query), values)

    def drop(self, name: str) -> None:
        """Remove a query; what it has said stays here."""
        self.queries[name].status = "dropped"
        del self._manifest.queries[name]
        forget_nodes(self._manifest)

    def pause(self, name: str) -> None:
        """Let a query stand still."""
        self.queries[name].status = "paused"

    def resume(self, name: str) -> None:
        """Let it go on."""
        self.queries[name].status = "running"

    def restart(self) -> None:
        """All memory is lost; manifest and logs stay."""
        self._cells.restart()

    # -- ticks

    def arrive(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Take rows of streams, and let all queries that run advance as far as time is complete."""
        for name, some in rows.items():
            self._arrived[name] += some
        self._advance({name: self._complete(scans(each.query.plan, "stream")) for name, each in self._running()})

    def end(self) -> None:
        """Nothing more comes: time is complete up to the last row of a query's streams."""
        until = {}
        for name, each in self._running():
            times = [row[1] for stream in scans(each.query.plan, "stream") for row in self._arrived[stream]]
            until[name] = max(times) + 1 if times else None
        self._advance(until)

    def _running(self) -> list[tuple[str, Running]]:
        return [(name, each) for name, each in self.queries.items() if each.status == "running"]

    def _closed(self, stream: str) -> int:
        newest = max((row[1] for row in self._arrived[stream]), default=None)
        return EVER if newest is None else newest - self._streams[stream].skew

    def _complete(self, streams: Sequence[str]) -> int | None:
        closed = [self._closed(name) for name in streams]
        return None if EVER in closed or not closed else min(closed)

    def _advance(self, until: Mapping[str, int | None]) -> None:
        groups: dict[tuple[int, int, int, str], list[str]] = defaultdict(list)
        for name, end in until.items():
            state = self._manifest.queries[name]
            if end is None or end <= state.position:
                continue
            for stream in scans(self.queries[name].query.plan, "stream"):
                firsts = [row[1] for row in self._arrived[stream] if state.position <= row[1] < end]
                if firsts and stream not in state.origins:
                    state.origins[stream] = min(firsts)
            groups[state.since, state.position, end, repr(sorted(state.origins.items()))].append(name)
        self._advance_folds(groups)
        for (since, position, end, _), names in groups.items():
            taps = {
                name: {number: step.tap for number, step in each.steps.items()} for name, each in self.queries.items()
            }
            join_nodes(self._manifest, names, taps)
            self.shared += sum(
                len(set(users) & set(names)) - 1
                for users in sharing(self._manifest).values()
                if set(users) & set(names)
            )
            self._tick(names, since, Tick(position, end))

    def _advance_folds(self, groups: dict[tuple[int, int, int, str], list[str]]) -> None:
        """Let queries that differ in constants go on as one, and take them out of the others."""
        running = [
            each.template.of.matches for each in self.queries.values() if each.status != "dropped" and each.template
        ]
        until, wanted = {}, {}
        for (_, _, end, _), names in groups.items():
            for name in list(names):
                state, found = self._manifest.queries[name], self.queries[name].template
                begins = state.position == state.since and found is not None and running.count(found.of.matches) > 1
                if found is not None and (is_folded(state) or begins):
                    names.remove(name)
                    signatures = {number: step.signature for number, step in found.steps.items()}
                    until[name], wanted[name] = end, Foldable(found.of.matches, signatures)
        for key in [key for key, names in groups.items() if not names]:
            del groups[key]
        for group in join_folds(self._manifest, until, wanted):
            self.folded += len(group.names) - 1
            self._fold_tick(group)

    def _fold_tick(self, group: FoldGroup) -> None:
        states = {name: self._manifest.queries[name] for name in group.names}
        found = self.queries[group.names[0]].template
        assert found is not None
        values = {name: each.template.values for name, each in self.queries.items() if each.template is not None}
        index = found.of.index([(state.number, state.since, values[name]) for name, state in states.items()])
        since = min(state.since for state in states.values())
        rows = [row for row in self._arrived[found.of.stream] if row[1] >= since]
        tick = Tick(group.position, group.until)

        def matches(some: list[Row]) -> pa.Table:
            return index.found(table_of(self._streams[found.of.stream], some).select(found.of.read))

        name = found.of.matches
        due = {name: matches([row for row in rows if tick.start <= row[1] < tick.until])}
        origins = [time for state in states.values() for time in state.origins.values()]
        self._cells.uses = {group.nodes[n]: {step.tap: step.stage} for n, step in found.steps.items()}
        self._cells.nodes, self._cells.steps = group.nodes, found.steps
        numbers = {each: state.number for each, state in states.items()}
        self._cells.folded = {
            node: tuple(
                MembersState(
                    tuple(numbers[each] for each in held.names),
                    tuple(numbers[each] for each in held.fresh),
                    held.logs[stage],
                )
                for held in group.held
            )
            for stage, node in group.nodes.items()
        }
        origin = {name: min(origins)} if origins else {}
        kept, begins = {name: matches(rows)}, tick.start == since
        said = read(found.of.query, NetworkFlows(tick, origin, due, kept, {}, {}, self._cells, begins))
        self._cells.folded = {}
        for each, state in states.items():
            query = self.queries[each]
            own = said.filter(pc.equal(said[MEMBER], state.number)).select([*query.query.plan.columns, TIME, WEIGHT])
            query.answer += Counter(normalised(row.values()) for row in own.to_pylist())
            state.position = query.position = tick.until

    def _tick(self, names: Collection[str], since: int, tick: Tick) -> None:
        known = {name: [row for row in rows if row[1] >= since] for name, rows in self._arrived.items()}
        due = {
            name: table_of(self._streams[name], [row for row in rows if tick.start <= row[1] < tick.until])
            for name, rows in known.items()
        }
        history = {name: table_of(self._streams[name], rows) for name, rows in known.items()}
        sequenced = {name: stream.sequenced for name, stream in self._streams.items()}
        outputs: dict[str, tuple[Stage, dict[str, pa.Table]]] = {}
        uses: dict[str, dict[str, Stage]] = defaultdict(dict)
        for name in names:
            for number, node in self._manifest.queries[name].nodes.items():
                step = self.queries[name].steps[number]
                uses[node].setdefault(step.tap, step.stage)
        self._cells.uses, self._cells.placements = uses, self._manifest.placements
        for name in names:
            state, query = self._manifest.queries[name], self.queries[name]
            self._cells.nodes, self._cells.steps = state.nodes, query.steps
            begins = tick.start == since
            given = (tick, state.origins, due, history, self._relations, sequenced, self._cells, begins)
            flows = NetworkFlows(*given, outputs=outputs)
            said = read(query.query, flows).select([*query.query.plan.columns, TIME, WEIGHT])
            query.answer += Counter(normalised(row.values()) for row in said.to_pylist())
        for name in names:
            self._manifest.queries[name].position = self.queries[name].position = tick.until
