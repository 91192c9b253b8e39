"""A kill in the middle of a change of plan: a join has its new order, or half of its caches, when its process ends."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.classic.dataframe import DataFrame

import chaos
from anabranch.joins.adaptive_caches import AdaptiveCaches
from anabranch.spark.continuous.hosted_task import HostedTask
from spark.test_every_file_operation import Kind, World, outlived

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(3600)

FOUR = {
    "four": """Select l.a, r.a As b, m.k As c, n.a As d
               From lefts [Range 4 Seconds] As l, rights [Rows 9] As r,
                    lefts [Range 2 Seconds] As m, rights [Rows 5] As n
               Where l.k = r.k And r.a = m.a And m.k = n.k"""
}
JOINS = Kind(at_least=0, at_least_by_workers=2, queries=FOUR)
WHERE = {"order": (chaos.ChaosOrder, "_reordered"), "caches": (AdaptiveCaches, "_segment")}
"""What is called between the first and the last step of a change."""


@dataclass(frozen=True)
class DyingInChanges:
    """A task whose joins change their plans all the time, and that is killed in the middle of one change of a kind."""

    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    change: str
    said: str
    at: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the task makes of its rows."""
        owner, name = WHERE[self.change]
        usual = getattr(owner, name)

        def deadly(*arguments: Any) -> Any:
            found = usual(*arguments)
            if found:
                self._count()
            return found

        with chaos.chaotic_joins(random.Random(7)), pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, deadly)
            yield from self.task(batches)

    def _count(self) -> None:
        file = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, b"x")
        number = os.lseek(file, 0, os.SEEK_CUR)
        os.close(file)
        if number == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class ChangingWorld(World):
    """A world of joins that change their plans."""

    change: str = "order"

    def __post_init__(self) -> None:
        for module in (chaos, sys.modules[__name__]):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        super().__post_init__()

    @contextmanager
    def _conditions(self, case: Path, worker_dies_at: int) -> Iterator[None]:
        said = self.folder / "changes"
        said.unlink(missing_ok=True)
        self.by_workers = lambda: [self.change] * (said.stat().st_size if said.exists() else 0)
        with pytest.MonkeyPatch.context() as patch:
            usual = DataFrame.mapInArrow

            def mapped(df: DataFrame, task: Any, *rest: Any, **more: Any) -> Any:
                task = task.inside() if isinstance(task, HostedTask) else task
                return usual(df, DyingInChanges(task, self.change, str(said), worker_dies_at), *rest, **more)

            patch.setattr(DataFrame, "mapInArrow", mapped)
            yield


@pytest.mark.full(reason="every kill takes an engine of its own, and one that goes on")
@pytest.mark.parametrize("change", WHERE)
def test_a_kill_in_the_middle_of_a_change_neither_loses_nor_doubles_answers(
    change: str, spark: SparkSession, tmp_path: Path
) -> None:
    world = ChangingWorld(spark, tmp_path, JOINS, change)
    killed = list(takewhile(bool, (outlived(world, worker_at=at) for at in range(1, 6))))
    assert len(killed) >= JOINS.at_least_by_workers
