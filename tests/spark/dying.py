"""Deaths at a chosen file operation, without the end of the Java machine: of an engine's driver, or of a worker.

A driver that is dead does nothing any more with files: the operation at which it dies, and all that its threads would
do later, do not happen. Workers are killed for real. See `killed_engine.py` for drivers that are.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.classic.dataframe import DataFrame

from anabranch import storage
from anabranch.operators import segments
from anabranch.spark.continuous.hosted_task import HostedTask

NEVER = 1_000_000
WIDTH = 64
"""Bytes of a line about an operation of a worker."""


CHANGES = frozenset({"create", "rename", "link", "remove", "make", "lock"})
"""Operations after which files are others. Whoever is killed before another one leaves the same as before the next."""


class Killed(Exception):
    """The process has ended here; whoever catches this cannot do anything with files, either."""


class Driver:
    """Counts the file operations of a driver that change something, and kills it before one of them.

    Parameters
    ----------
    folder
        Of the checkpoint.
    at
        The number of the operation, counted from 1.
    """

    def __init__(self, folder: Path, at: int = NEVER) -> None:
        self._folder = folder
        self._at = at
        self._lock = threading.Lock()
        self.seen: list[str] = []

    @property
    def dead(self) -> bool:
        """Whether it has been killed."""
        return len(self.seen) >= self._at

    def __call__(self, operation: storage.Operation, path: Path) -> None:
        with self._lock:
            if self.dead:
                raise Killed
            if operation not in CHANGES:
                return
            self.seen.append(_label(operation, path, self._folder))
            if len(self.seen) == self._at:
                _tear(operation, path)
                raise Killed(self.seen[-1])


def _label(operation: str, path: Path, folder: Path) -> str:
    """What is done with what kind of file."""
    within = path.relative_to(folder).parts if path.is_relative_to(folder) else ("outside",)
    kind = within[0].split("-")[0] if within else "checkpoint"
    return f"{operation} {'new file' if kind.startswith('.') else kind}"


def _tear(operation: str, path: Path) -> None:
    """What takes the system several steps may end between them: of a folder that is deleted a part is gone."""
    if operation == "remove" and path.is_dir():
        for file in [each for each in path.rglob("*") if each.is_file()][:1]:
            file.unlink()


@dataclass(frozen=True)
class Watched:
    """A task that says in a file what its worker does with files, and is killed before one operation of all workers."""

    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    folder: str
    said: str
    at: int
    longest_log: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the task makes of its rows."""
        usual, segments.LONGEST_LOG = segments.LONGEST_LOG, self.longest_log
        try:
            with storage.watching(self._count):
                yield from self.task(batches)
        finally:
            segments.LONGEST_LOG = usual

    def _count(self, operation: storage.Operation, path: Path) -> None:
        if operation not in CHANGES:
            return
        line = _label(operation, path, Path(self.folder)).ljust(WIDTH - 1)[: WIDTH - 1] + "\n"
        file = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, line.encode())
        number = os.lseek(file, 0, os.SEEK_CUR) // WIDTH
        os.close(file)
        if number == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def watched_workers(
    folder: Path, said: Path, at: int = NEVER, longest_log: int = 64
) -> Iterator[Callable[[], list[str]]]:
    """While all tasks are `Watched`; gives a way to ask what workers have done."""
    with pytest.MonkeyPatch.context() as patch:
        usual = DataFrame.mapInArrow

        def mapped(df: DataFrame, task: Any, *rest: Any, **more: Any) -> Any:
            task = task.inside() if isinstance(task, HostedTask) else task  # a host would not be watched
            return usual(df, Watched(task, str(folder), str(said), at, longest_log), *rest, **more)

        patch.setattr(DataFrame, "mapInArrow", mapped)
        yield lambda: [line.strip() for line in said.read_text().splitlines()] if said.exists() else []
