"""The task of a layer as Spark runs it: rows go to the host of their cell, and what it makes of them comes back."""

from __future__ import annotations

import os
import pickle
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from anabranch.errors import ResourceError
from anabranch.side_process import connected, place_of
from anabranch.spark.continuous.cell_host import (
    BATCH,
    ERROR,
    MESSAGE,
    MODULE,
    ROWS,
    TASK,
    packed,
    receive,
    send,
    unpacked,
)
from anabranch.spark.continuous.exchange import cell_of
from anabranch.spark.mailbox import Address

FAMILY = uuid.uuid4().hex
"""Tells the hosts of this driver from those of others."""
TRIES = 3

_lines: dict[tuple[int, Path], socket.socket] = {}


@dataclass(frozen=True)
class HostedTask:
    """Passes the rows of a cell on.

    Parameters
    ----------
    task
        A `CellTask`, pickled: the worker itself has no use for it.
    reports
        Where reports go.
    family
        Whose hosts are asked; None runs the task in the worker.
    """

    task: bytes
    reports: Address
    family: str | None = FAMILY

    def inside(self) -> HostedTask:
        """The same, run by the worker itself."""
        return replace(self, family=None)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the cell makes of its rows."""
        found = list(batches)
        if not found:
            return
        table = pa.Table.from_batches(found)
        if self.family is None:
            yield from pickle.loads(self.task).run(table, self.reports.send)
            return
        place = host_of(self.family, cell_of(table))
        for attempt in range(TRIES):
            begun = False
            try:
                for batch in self._hosted(place, table):
                    begun = True
                    yield batch
                return
            except ConnectionError as error:
                if begun or attempt + 1 == TRIES:  # what has gone on to Spark cannot be taken back
                    raise ResourceError(
                        "the process that holds the state of a cell has ended in the middle of a tick",
                        hint="it may have used more memory than there is: lower state_bytes, or use more cells",
                    ) from error

    def _hosted(self, place: Path, table: pa.Table) -> Iterator[pa.RecordBatch]:
        own = (os.getpid(), place)
        with ExitStack() as unfinished:  # a line that somebody has stopped listening to is not used again
            line = _lines.pop(own, None) or _connected(place)
            unfinished.enter_context(line)
            send(line, TASK, self.task)
            send(line, ROWS, packed(table))
            while (frame := receive(line))[0] in (BATCH, MESSAGE):
                kind, data = frame
                if kind == BATCH:
                    yield from unpacked(data).to_batches()
                else:
                    self.reports.send(pickle.loads(data))
            unfinished.pop_all()
            _lines[own] = line
        if frame[0] == ERROR:
            raise pickle.loads(frame[1])


def host_of(family: str, cell: int) -> Path:
    """The socket of the host that holds the states of a cell: a machine has as many hosts as cores."""
    return place_of("cells", f"{family}-{cell % (os.cpu_count() or 1)}")


def start_hosts(family: str) -> None:
    """Start the hosts of this machine, unless they run."""
    for number in range(os.cpu_count() or 1):
        place = host_of(family, number)
        _lines[os.getpid(), place] = _connected(place)


def _connected(place: Path) -> socket.socket:
    try:
        return connected(place, MODULE, str(place), str(os.getppid()))
    except OSError as error:
        raise ResourceError(
            f"no process could be started to hold the state of cells: {error}",
            hint="workers need to be able to start processes, and to write to the folder of temporary files",
        ) from error
