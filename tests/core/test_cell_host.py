"""Hosts of cells: what a worker passes on comes back, states stay while workers come and go, and kills lose nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from anabranch.errors import DataError, ResourceError
from anabranch.side_process import connected
from anabranch.spark.continuous import hosted_task
from anabranch.spark.continuous.cell_host import MODULE
from anabranch.spark.continuous.exchange import CELL
from anabranch.spark.continuous.hosted_task import HostedTask, host_of

PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Counting:
    """A task that says how many rows its process has seen, and in which process."""

    fails: str = ""
    dies: Path | None = None
    """It ends its process if this file is not there, and makes it."""

    def run(self, table: pa.Table, report: Callable[[Any], None]) -> Iterator[pa.RecordBatch]:
        import builtins  # what stays in the process, wherever the class comes from

        if self.fails == "first":
            raise DataError("no such row", hint="look again")
        seen = getattr(builtins, "_rows_seen", 0) + table.num_rows
        builtins._rows_seen = seen  # type: ignore[attr-defined]
        if self.fails == "later":
            yield pa.RecordBatch.from_pydict({"seen": [seen]})
        if self.dies is not None and not self.dies.exists():
            self.dies.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        report({"process": os.getpid()})
        yield pa.RecordBatch.from_pydict({"seen": [seen]})


class Reports(list[Any]):
    """What was reported."""

    def send(self, message: Any) -> None:
        self.append(message)


def rows(count: int, cell: int = 0) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({CELL: [cell] * count})])


@pytest.fixture
def task() -> Iterator[HostedTask]:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    made = HostedTask(pickled(Counting()), Reports(), uuid.uuid4().hex)  # type: ignore[arg-type]
    yield made
    for process in processes(made):
        end(process)
    hang_up()


def processes(task: HostedTask) -> list[int]:
    """Those that have reported."""
    reports: Any = task.reports
    return [each["process"] for each in reports]


def hang_up() -> None:
    for line in hosted_task._lines.values():
        line.close()
    hosted_task._lines.clear()


def pickled(task: Counting) -> bytes:
    return bytes(cloudpickle.dumps(task))  # type: ignore[no-untyped-call]


def end(process: int) -> None:
    if process == os.getpid():
        return
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def seen(task: HostedTask, count: int, cell: int = 0) -> list[int]:
    return [value for batch in task(rows(count, cell)) for value in batch["seen"].to_pylist()]


def test_a_state_stays_in_its_host_whoever_asks(task: HostedTask) -> None:
    assert seen(task, 3) == [3]
    hang_up()  # as another worker, which has no line to it yet
    assert seen(task, 4) == [7]
    assert seen(task, 5, cell=os.cpu_count() or 1) == [12], "cells share hosts"
    first, *others = processes(task)
    assert others == [first, first]
    assert first != os.getpid()
    assert seen(task.inside(), 1) == [1], "and the worker has none"


def test_nothing_comes_of_nothing(task: HostedTask) -> None:
    assert list(task(iter([]))) == []


def test_an_error_is_raised_where_the_task_is_and_the_host_goes_on(task: HostedTask) -> None:
    with pytest.raises(DataError, match="no such row"):
        seen(replace(task, task=pickled(Counting(fails="first"))), 1)
    assert seen(task, 2) == [2]


def test_a_host_that_is_killed_is_started_again(task: HostedTask, tmp_path: Path) -> None:
    assert seen(task, 3) == [3]
    end(processes(task)[0])
    assert seen(task, 1) == [1], "a new one, which knows nothing"
    assert seen(replace(task, task=pickled(Counting(dies=tmp_path / "died"))), 4) == [4], "killed within the task"


def test_what_has_gone_on_to_spark_is_not_taken_back(task: HostedTask, tmp_path: Path) -> None:
    dying = replace(task, task=pickled(Counting(fails="later", dies=tmp_path / "died")))
    with pytest.raises(ResourceError, match="has ended in the middle"):
        seen(dying, 1)
    assert seen(dying, 1) == [1, 1], "Spark tries again, with a new host"


def test_a_host_ends_with_its_parent() -> None:
    place = host_of(uuid.uuid4().hex, 0)
    with subprocess.Popen(["sleep", str(PATIENCE_SECONDS)]) as parent:
        line = connected(place, MODULE, str(place), str(parent.pid))
        parent.kill()
    with line:
        line.settimeout(PATIENCE_SECONDS)
        assert line.recv(1) == b"", "it has closed the line"
    assert not place.exists()


def test_a_process_that_starts_a_host_ends_without_a_warning(tmp_path: Path) -> None:
    start = f"side_process.start({MODULE!r}, {str(tmp_path / 'host')!r}, str(os.getpid()))"
    program = [sys.executable, "-W", "always", "-c", f"import os; from anabranch import side_process; {start}"]
    paths = os.pathsep.join(path for path in sys.path if path)
    ended = subprocess.run(program, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": paths})
    assert "ResourceWarning" not in ended.stderr
