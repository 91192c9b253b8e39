"""A layer of the network: the rows of one cell meet the operators that hold the cell's state.

The process that runs it, a host (`cell_host.py`), keeps the states that it has seen. One that is behind reads what it
has missed from the log, and a state that took part in a tick that was never committed is not the prefix of any log and
starts anew.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from anabranch.constraints.constraint_report import ConstraintReport
from anabranch.joins.join_trace import JoinTrace, JoinTracer
from anabranch.joins.probe_report import ProbeReport
from anabranch.operators.base import Operator, Tick
from anabranch.operators.held_states import HeldStates, usual_bytes
from anabranch.operators.segments import INPUT, CellState, LogFile, Segment, next_segment
from anabranch.operators.tapped import Tap, TappedOperator
from anabranch.ordering.base import Seed
from anabranch.planning.query_templates import MEMBER
from anabranch.spark.continuous.exchange import Arrived, Parcel, cell_of

NODE = "_node"
_held: HeldStates[CellState] = HeldStates()


class AnswerWriter(Protocol):
    """Writes the answers of a task."""

    def write(self, tasks: Sequence[Any], table: pa.Table) -> None:
        """Take rows that answer some queries."""

    def close(self) -> Sequence[str]:
        """The end; returns the files that were written."""


class Answers(Protocol):
    """Where the answers of a tick are written."""

    def begin(self) -> AnswerWriter:
        """Begin to write those of a task."""


@dataclass(frozen=True)
class CellReport:
    """What an operator did in one cell in one tick; `base_rows` and `base_bytes` are without its taps.

    Of its bytes in memory, `fixed_bytes` cannot go to disk, and of an operator that keeps to a limit all others can;
    `file_bytes` are there. `peak_bytes` is the most in memory in the tick.

    The files of answers that its task has written are in the report of the task's first operator.
    """

    log: tuple[Segment, ...]
    rows_in: int
    rows_out: int
    held_rows: int
    held_bytes: int
    seconds: float
    segments_read: int
    written: tuple[str, ...] = ()
    base_rows: int = 0
    base_bytes: int = 0
    file_bytes: int = 0
    fixed_bytes: int = 0
    goes_to_disk: bool = False
    peak_bytes: int = 0
    probes: tuple[ProbeReport, ...] = ()
    constraints: ConstraintReport | None = None
    traces: tuple[JoinTrace, ...] = ()


Reports = dict[tuple[str, int], CellReport]
"""By node and cell."""


class ReportBook:
    """Reports of the tasks of a tick; a repeated task replaces its report."""

    def __init__(self) -> None:
        self.reports: Reports = {}

    def enter(self, messages: Iterable[Reports]) -> None:
        """Take more reports in."""
        for reports in messages:
            self.reports.update(reports)


@dataclass(frozen=True)
class TapTask:
    """What is wanted of an operator, and where it goes.

    Parameters
    ----------
    tap
        What is wanted.
    schema
        Of what comes out.
    answers
        The queries that are answered by it as it is.
    instants
        The parcel with the instants that are asked for, if some are.
    output
        The number of the output on its way to other operators, and its slots, if some read it.
    """

    tap: Tap
    schema: pa.Schema
    answers: tuple[Any, ...] = ()
    instants: int | None = None
    output: tuple[int, tuple[tuple[str, str], ...]] | None = None


@dataclass(frozen=True)
class MembersState:
    """What an operator for queries that differ in constants holds for some of them, by their numbers, in its logs.

    It knows nothing of `fresh` ones, which begin.
    """

    members: tuple[int, ...]
    fresh: tuple[int, ...]
    logs: Mapping[int, tuple[Segment, ...]]


@dataclass(frozen=True)
class NodeTask:
    """One operator of the network, as a worker runs it.

    Parameters
    ----------
    node
        Its identity: which state is its own.
    make
        Starts the operator.
    taps
        What is wanted of it.
    columns
        Per input the columns that the operator wants.
    schema
        Of the table in which all inputs are logged.
    inputs
        Per input where its rows are found in the exchange.
    tick
        The step in time, with the origin of this operator.
    logs
        The state of every cell so far.
    only
        The cell in which all of its rows meet, if they do: it does not run in others.
    names
        Its columns, in an order in which all queries that share it have them.
    seeds
        What a join has learned in other workers, by input.
    trace
        The share of new rows of a join that are traced.
    limits
        The bytes of memory that it may take, by cell, where they are limited.
    folded
        Of an operator for queries that differ in constants what is wanted of its own state, and then of others that
        are united with it.
    """

    node: str
    make: Callable[..., Operator]
    taps: Mapping[str, TapTask]
    columns: tuple[tuple[str, ...], ...]
    schema: pa.Schema
    inputs: tuple[tuple[Parcel, ...], ...]
    tick: Tick
    logs: Mapping[int, tuple[Segment, ...]]
    only: int | None = None
    names: tuple[str, ...] = ()
    seeds: tuple[tuple[int, Seed], ...] = ()
    trace: float = 0.0
    limits: Mapping[int, int] = dataclasses.field(default_factory=dict)
    folded: tuple[MembersState, ...] = ()

    @property
    def held_as(self) -> tuple[Hashable, ...]:
        """What tells its states from others that a worker holds."""
        return (self.node, self.names, tuple(sorted(self.taps)))

    @property
    def starts(self) -> Callable[[], TappedOperator]:
        """Starts the operator, with its taps; a state that is held refers to nothing else of the task."""
        return partial(TappedOperator, self.make, {key: each.tap for key, each in self.taps.items()})

    def rows(self, arrived: Arrived) -> pa.Table:
        """The rows of all inputs in one table, with the number of the input."""
        parts = [
            self._input(number, arrived.rows(parcel))
            for number, parcels in enumerate(self.inputs)
            for parcel in parcels
        ]
        return pa.concat_tables([self.schema.empty_table(), *(part for part in parts if part.num_rows)])

    def _input(self, number: int, rows: pa.Table) -> pa.Table:
        columns = []
        for field in self.schema:
            if field.name == INPUT:
                columns.append(pa.array([number], field.type).take(pa.array([0] * len(rows), pa.int32())))
            elif field.name in rows.schema.names:
                columns.append(rows[field.name].cast(field.type))
            else:
                columns.append(pa.nulls(len(rows), field.type))
        return pa.table(columns, schema=self.schema)

    def step(self, arrived: Arrived) -> Tick:
        """The step in time, with the instants that it asks for."""
        times = {key: arrived.times(tap.instants) for key, tap in self.taps.items() if tap.instants is not None}
        own = [times.pop(key) for key, tap in self.taps.items() if key in times and tap.tap.make is None]
        return replace(self.tick, instants=own[0] if own else self.tick.instants, taps=times)


@dataclass(frozen=True)
class CellTask:
    """What a layer does with the rows of each cell.

    Parameters
    ----------
    owner
        What tells this engine from others in the same worker.
    nodes
        The operators.
    folder
        Where segments are.
    attempt
        Part of the names of what is written.
    answers
        Where answers go.
    state_bytes
        What a host may hold of the states of all cells that it has seen.
    schema
        Of what leaves the task: the output of those operators that others read, told apart by `NODE`.
    cache_bytes
        What the caches of each join may take in a cell.
    """

    owner: str
    nodes: tuple[NodeTask, ...]
    folder: str
    attempt: str
    answers: Answers
    state_bytes: int | None = None
    schema: pa.Schema | None = None
    cache_bytes: int = 0

    def run(self, table: pa.Table, report: Callable[[Reports], None]) -> Iterator[pa.RecordBatch]:
        """Advance the cell by a tick and report it; the last batch comes when all is written."""
        cell, arrived = cell_of(table), Arrived(table)
        log = LogFile(Path(self.folder), f"{self.attempt}-{cell}-{uuid.uuid4().hex[:8]}.log")
        answers, reports = self.answers.begin(), Reports()
        waiting: pa.RecordBatch | None = None
        for node in self.nodes:
            if node.only not in (None, cell):
                continue
            for tap, part in self._advance(cell, node, arrived, answers, log, reports):
                if self.schema is None or tap.output is None:
                    continue
                for batch in _packed(part, *tap.output, self.schema).to_batches():
                    if waiting is not None:
                        yield waiting
                    waiting = batch
        log.close()
        written = tuple(answers.close())
        if reports:
            first = next(iter(reports))
            report(reports | {first: replace(reports[first], written=written)})
        if waiting is not None:
            yield waiting

    def _advance(
        self, cell: int, node: NodeTask, arrived: Arrived, answers: AnswerWriter, file: LogFile, reports: Reports
    ) -> Iterator[tuple[TapTask, pa.Table]]:
        """What the operator says, in parts; then its inputs are logged."""
        began = time.perf_counter()
        key, log = (self.owner, cell, *node.held_as), node.logs.get(cell, ())
        rows, tick = node.rows(arrived), node.step(arrived)
        # Taken out while it changes: a task that fails half-way leaves nothing behind.
        held = _held.take(key)
        state = held or CellState(node.starts, node.columns, node.schema, node.names)
        state.limit_memory(node.limits.get(cell))
        wanted = {each for part in node.folded[:1] for each in part.members if each not in part.fresh}
        read = state.catch_up(log, file.folder, tick, wanted)
        if node.folded:
            own, *others = node.folded
            state.keep(MEMBER, own.members)
            for other in others:
                read += state.unite(other.logs.get(cell, ()), MEMBER, other.members, file.folder, tick)
        if held is None:
            state.operator.learn(dict(node.seeds))
        state.operator.limit_caches(self.cache_bytes)
        state.operator.trace(JoinTracer(node.trace, (cell, tick.until % 2**32)) if node.trace else None)
        said = 0
        for name, part in state.advance(rows, tick):
            tap = node.taps[name]
            made = part.select(tap.schema.names).cast(tap.schema)
            answers.write(tap.answers, made)
            said += made.num_rows
            yield tap, made
        new = next_segment(state, log, rows, tick, file)
        state.logged(new)
        operator = state.operator
        most = usual_bytes() if self.state_bytes is None else self.state_bytes
        _held.put(key, state, operator.held_bytes, most)
        reports[node.node, cell] = CellReport(
            tuple(new),
            rows.num_rows,
            said,
            operator.held_rows,
            operator.held_bytes,
            time.perf_counter() - began,
            read,
            base_rows=operator.base_rows,
            base_bytes=operator.base_bytes,
            file_bytes=operator.file_bytes,
            fixed_bytes=operator.fixed_bytes,
            goes_to_disk=operator.goes_to_disk,
            peak_bytes=operator.take_peak(),
            probes=operator.take_probes(),
            constraints=operator.take_constraints(),
            traces=operator.take_traces(),
        )


def _packed(part: pa.Table, number: int, output: Sequence[tuple[str, str]], schema: pa.Schema) -> pa.Table:
    slots = {slot: part[name] for name, slot in output}
    columns = []
    for field in schema:
        if field.name == NODE:
            columns.append(pa.array([number] * part.num_rows, field.type))
        else:
            columns.append(slots[field.name] if field.name in slots else pa.nulls(part.num_rows, field.type))
    return pa.table(columns, schema=schema)
