"""Runs a mesh through the Self-Routing Fabric and an Eddy with Content-Learns, and counts what each tuple takes.

>>> from anabranch.reproduce.querymesh.streams import skewed
>>> stream = skewed(2000, seed=1)
>>> ran = through_fabric(Mesh.of_one(tuple(range(10)), cost=0.0), stream.arrays, stream.outcomes)
>>> len(ran.calls), bool((ran.passed == stream.outcomes.all(axis=1)).all())
(2000, True)
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.mesh.config import MeshConfig
from anabranch.mesh.fabric import Fabric
from anabranch.mesh.mesh import Mesh
from anabranch.model.arrays import BoolMatrix, Counts, Floats, Mask, Rows
from anabranch.reproduce.content.running import CALL_SECONDS
from anabranch.routing.content_learns import ContentLearns, Kind
from anabranch.routing.eddy import Eddy
from anabranch.routing.partitioning import Column
from anabranch.routing.sbr import Seen

WINDOW = MeshConfig.table_3().window_tuples


@dataclass(frozen=True)
class Ran:
    """What a run took.

    Parameters
    ----------
    calls
        Operator calls per input tuple.
    passed
        The tuples that found partners in all joins.
    deciding_seconds
        CPU time of classification, or of an Eddy's statistics and decisions.
    routing_seconds
        CPU time of handing tuples on, without the operators themselves, or of choosing orders.
    """

    calls: Counts
    passed: Mask
    deciding_seconds: float
    routing_seconds: float

    @property
    def total(self) -> int:
        """Operator calls."""
        return int(self.calls.sum())

    @property
    def overhead(self) -> float:
        """Seconds of all but the operators."""
        return self.deciding_seconds + self.routing_seconds

    @property
    def seconds(self) -> float:
        """Operators at a cost per call, and the measured overhead."""
        return self.total * CALL_SECONDS + self.overhead


def through_fabric(mesh: Mesh, arrays: Mapping[str, Any], outcomes: BoolMatrix) -> Ran:
    """Send a stream through the routes of a mesh, one classification window after the other."""
    clock, calls = time.process_time, np.zeros(len(outcomes), dtype=np.int64)
    passed, classifying, working, whole = np.zeros(len(outcomes), dtype=np.bool_), 0.0, 0.0, 0.0

    def evaluate(operator: int, rows: Rows) -> Mask:
        nonlocal working
        began = clock()
        calls[rows] += 1
        passes: Mask = outcomes[rows, operator]
        working += clock() - began
        return passes

    fabric = Fabric(outcomes.shape[1], evaluate, routes=mesh.routes)
    needed = {name: arrays[name] for name in mesh.tree.attributes()}
    for start in range(0, len(outcomes), WINDOW):
        began = clock()
        rows = np.arange(start, min(start + WINDOW, len(outcomes)))
        window = {name: array.slice(start, WINDOW) for name, array in needed.items()}
        routes = mesh.tree.classify(window, len(rows))
        classified = clock()
        fabric.admit(rows, routes)
        passed[fabric.drain()] = True
        classifying += classified - began
        whole += clock() - classified
    return Ran(calls, passed, classifying, whole - working)


class _Recording(ContentLearns):
    """Keeps what each tuple took."""

    def __init__(self, kinds: Sequence[Kind], operators: int, seed: int) -> None:
        super().__init__(kinds, operators, seed=seed)
        self.spent: list[Floats] = []

    def observe(self, seen: Seen) -> None:
        self.spent.append(seen.spent)
        super().observe(seen)


def through_eddy(
    columns: Sequence[Column], kinds: Sequence[Kind], outcomes: BoolMatrix, *, batch_rows: int, seed: int
) -> Ran:
    """Send a stream through an Eddy that routes by content and learns how on the way."""
    router = _Recording(kinds, outcomes.shape[1], seed)
    tally = Eddy(router, batch_rows=batch_rows, clock=time.process_time).run(outcomes, columns)
    calls = np.concatenate(router.spent).astype(np.int64)
    return Ran(calls, tally.remaining > 0, tally.learning_seconds, tally.routing_seconds)


def least(runs: Sequence[Ran]) -> Ran:
    """The run with the least overhead of several that are alike; what else runs on the machine disturbs it least."""
    return min(runs, key=lambda ran: ran.overhead)


def same_answers(found: dict[str, Ran]) -> dict[str, Ran]:
    """The runs, after a look at whether all have the same results."""
    first, *others = (ran.passed for ran in found.values())
    if not all(np.array_equal(first, other) for other in others):
        raise AssertionError("the systems disagree on the answer")
    return found
