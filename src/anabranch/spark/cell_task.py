"""A stage in a worker: the rows of one cell meet the operator that holds the cell's state.

A worker keeps the states that it has seen. Which worker gets which cell is up to Spark: one that is behind reads what
it has missed from the log, and a state that took part in a tick that was never committed is not the prefix of any log
and starts anew.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cells.base import TIME, Tick
from anabranch.cells.held_states import HeldStates, usual_bytes
from anabranch.cells.segments import INPUT, CellState, Segment, next_segment
from anabranch.planning.stages import Stage
from anabranch.spark.delivery import Address
from anabranch.spark.grid import CELL

MARKER = -1
INSTANT = -2
_held: HeldStates[CellState] = HeldStates()


@dataclass(frozen=True)
class CellReport:
    """What a stage did in one cell in one tick."""

    log: tuple[Segment, ...]
    rows_in: int
    rows_out: int
    held_rows: int
    held_bytes: int
    seconds: float
    segments_read: int


Reports = dict[tuple[str, int, int], CellReport]
"""By query, number of the stage, and cell."""


class ReportBook:
    """Reports of the tasks of a tick; a repeated task replaces its report."""

    def __init__(self) -> None:
        self.reports: Reports = {}

    def enter(self, messages: Iterable[Reports]) -> None:
        """Take more reports in."""
        for reports in messages:
            self.reports.update(reports)


@dataclass(frozen=True)
class CellTask:
    """The function of a stage that Spark runs over each cell.

    Parameters
    ----------
    owner
        What tells this engine's query from others in the same worker.
    query
        Name of the query.
    stage
        The operator and its output.
    columns
        Per input the columns that the operator wants.
    schema
        All columns that arrive, but the cell's number.
    tick
        The step in time, with the origin of this stage.
    logs
        The state of every cell so far.
    folder
        Where segments are.
    attempt
        Part of the names of what is written.
    reports
        Where the report goes.
    state_bytes
        What a worker may hold of the states of all cells that it has seen.
    after
        What is done with the result at once, without a detour over Spark.
    """

    owner: str
    query: str
    stage: Stage
    columns: tuple[tuple[str, ...], ...]
    schema: pa.Schema
    tick: Tick
    logs: Mapping[int, tuple[Segment, ...]]
    folder: str
    attempt: str
    reports: Address
    state_bytes: int | None = None
    after: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Advance the cell by a tick."""
        arrived = list(batches)
        if not arrived:
            return
        table = pa.Table.from_batches(arrived)
        cell = int(table[CELL][0].as_py())
        tick = self._instants(table)
        kept = pc.greater_equal(table[INPUT], 0)
        rows = table.filter(kept).select(self.schema.names).cast(self.schema)
        result = (batch for part in self._advance(cell, rows, tick) for batch in part.to_batches())
        yield from result if self.after is None else self.after(result)

    def _instants(self, table: pa.Table) -> Tick:
        if self.stage.instants:
            times = table.filter(pc.equal(table[INPUT], INSTANT))[TIME]
            return replace(self.tick, instants=np.unique(times.to_numpy()))
        return replace(self.tick, slides=self.stage.slides)

    def _advance(self, cell: int, rows: pa.Table, tick: Tick) -> Iterator[pa.Table]:
        """What the operator says, the last part of it when all is logged."""
        began = time.perf_counter()
        key, log, folder = (self.owner, self.stage.number, cell), self.logs.get(cell, ()), Path(self.folder)
        # Taken out while it changes: a task that fails half-way leaves nothing behind.
        state = _held.take(key) or CellState(self.stage.make, self.columns, self.schema)
        read = state.catch_up(log, folder, tick)
        parts = state.advance(rows, tick)
        last = next(parts)
        said = last.num_rows
        for part in parts:
            yield self._told(last)
            last, said = part, said + part.num_rows
        path = f"{self.query}/{self.stage.number}-{cell}-{self.attempt}-{uuid.uuid4().hex[:8]}.arrow"
        new = next_segment(state, log, rows, tick, path, folder)
        state.logged(new)
        held = state.operator
        _held.put(key, state, held.held_bytes, usual_bytes() if self.state_bytes is None else self.state_bytes)
        seconds = time.perf_counter() - began
        report = CellReport(tuple(new), rows.num_rows, said, held.held_rows, held.held_bytes, seconds, read)
        self.reports.send({(self.query, self.stage.number, cell): report})
        yield self._told(last)

    def _told(self, part: pa.Table) -> pa.Table:
        return part.select(self.stage.output.names).cast(self.stage.output)
