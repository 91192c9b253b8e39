"""An Eddy over known outcomes: sends batches of tuples through operators by any router, and counts what that takes.

What each operator makes of each tuple is given as a matrix, so all routers see the same data and every count is exact.
Filters make 0 or 1 tuples of a tuple, joins any number.

>>> from anabranch.routing.content_knows import ContentKnows
>>> from anabranch.routing.sbr import SourceBased
>>> kinds = np.arange(1000) % 2
>>> passes = np.stack([kinds == 1, kinds == 0], axis=1)             # each operator drops one of two kinds
>>> Eddy(ContentKnows([[0, 1], [1, 0]])).run(passes, [kinds]).calls
1000
>>> 1450 < Eddy(SourceBased(2)).run(passes, [kinds]).calls < 1550
True

Notes
-----
A routing call is one tuple sent to one operator: so it is the number of evaluations, too. The chosen operator's
classifier is the one that the call used.

Differs from the paper
----------------------
Tuples are routed in batches of `batch_rows`: all calls of a batch use the statistics that were known at its start.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 6.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anabranch.model.arrays import Counts, Floats, Order, Rows
from anabranch.routing.partitioning import Column
from anabranch.routing.sbr import Orders, Seen

BATCH_ROWS = 25


class Router(Protocol):
    """What the Eddy asks for routes. `classifiers` holds an attribute per operator, -1 for none."""

    name: str
    classifiers: NDArray[np.int64]

    def orders(self, columns: Sequence[Column], rows: int) -> Orders:
        """An order of the operators for each row of a batch."""

    def observe(self, seen: Seen) -> None:
        """Take in what became of that batch."""


@dataclass
class EddyRun:
    """What a run took.

    Parameters
    ----------
    evaluations
        Tuples that each operator processed; their sum is the number of routing `calls`.
    right, wrong, without
        Routing calls by the classifier that they used.
    dropped, calls_until_dropped
        Input tuples of which nothing was left, and the routing calls that they took.
    units
        Units of cost of all evaluations.
    routing_seconds, learning_seconds
        Time spent on choosing orders, and on statistics and decisions; 0 without a clock.
    survivors
        What is left of each input tuple.
    """

    evaluations: Counts
    tuples: int = 0
    right: int = 0
    wrong: int = 0
    without: int = 0
    dropped: int = 0
    calls_until_dropped: int = 0
    units: float = 0.0
    routing_seconds: float = 0.0
    learning_seconds: float = 0.0
    survivors: list[Counts] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """Routing calls."""
        return int(self.evaluations.sum())

    @property
    def remaining(self) -> Counts:
        """How many tuples are left of each input tuple."""
        return np.concatenate(self.survivors) if self.survivors else np.zeros(0, dtype=np.int64)

    @property
    def calls_per_drop(self) -> float:
        """Routing calls until a tuple is dropped, on average."""
        return self.calls_until_dropped / max(self.dropped, 1)


class Eddy:
    """Runs a router over a stream.

    Parameters
    ----------
    costs
        Units of cost of one evaluation, per operator; 1 if not given.
    batch_rows
        Tuples that are routed at once; the fewer, the closer to a tuple at a time.
    truth
        The attribute that is known to be each operator's classifier, -1 for none; for the count of wrong ones.
    clock
        A clock in seconds, to time the router with; not timed if not given.
    """

    def __init__(
        self,
        router: Router,
        *,
        costs: Floats | None = None,
        batch_rows: int = BATCH_ROWS,
        truth: ArrayLike | None = None,
        clock: Callable[[], float] = float,
    ) -> None:
        self.router, self.costs, self.batch_rows, self.clock = router, costs, batch_rows, clock
        self.truth = router.classifiers if truth is None else np.asarray(truth, dtype=np.int64)

    def run(self, outcomes: ArrayLike, columns: Sequence[Column]) -> EddyRun:
        """Send a stream through: what operators make of each tuple, and the tuples' attributes."""
        matrix = np.asarray(outcomes).astype(np.int64)
        tally = EddyRun(np.zeros(matrix.shape[1], dtype=np.int64))
        for start in range(0, len(matrix), self.batch_rows):
            part = slice(start, start + self.batch_rows)
            self._batch(matrix[part], [column[part] for column in columns], tally)
        return tally

    def _batch(self, block: Counts, columns: Sequence[Column], tally: EddyRun) -> None:
        began = self.clock()
        orders = self.router.orders(columns, len(block))
        chosen = self.clock()
        entering, left = trace(block, orders)
        rows, operators = np.nonzero(entering)
        spent = entering.sum(axis=1) if self.costs is None else entering @ self.costs
        times = entering[rows, operators]
        seen = Seen(
            rows,
            operators,
            block[rows, operators].astype(np.float64),
            spent.astype(np.float64),
            None if times.max(initial=1) == 1 else times.astype(np.float64),
        )
        self._count(entering, left, float(spent.sum()), tally)
        processed = self.clock()
        self.router.observe(seen)
        tally.routing_seconds += chosen - began
        tally.learning_seconds += self.clock() - processed

    def _count(self, entering: Counts, left: Counts, spent: float, tally: EddyRun) -> None:
        evaluations, used = entering.sum(axis=0), self.router.classifiers
        gone = left == 0
        tally.evaluations += evaluations
        tally.tuples += len(left)
        tally.right += int(evaluations[(used >= 0) & (used == self.truth)].sum())
        tally.wrong += int(evaluations[(used >= 0) & (used != self.truth)].sum())
        tally.without += int(evaluations[used < 0].sum())
        tally.dropped += int(np.count_nonzero(gone))
        tally.calls_until_dropped += int(entering[gone].sum())
        tally.units += spent
        tally.survivors.append(left)


def trace(outcomes: Counts, orders: Orders) -> tuple[Counts, Counts]:
    """Tuples of each row that enter each operator, and that are left in the end, if rows take these orders.

    >>> entering, left = trace(np.array([[0, 1], [2, 3]]), np.array([[1, 0], [0, 1]]))
    >>> entering.tolist(), left.tolist()
    ([[1, 1], [1, 2]], [0, 6])
    """
    after = np.cumprod(np.take_along_axis(outcomes, orders, axis=1), axis=1)
    before = np.ones_like(after)
    before[:, 1:] = after[:, :-1]
    entering = np.empty_like(before)
    np.put_along_axis(entering, orders, before, axis=1)
    return entering, after[:, -1]


def grouped(orders: Orders) -> list[tuple[Order, Rows]]:
    """The rows that take each order: what a runtime sends along together.

    >>> [(order, rows.tolist()) for order, rows in grouped(np.array([[1, 0], [0, 1], [1, 0]]))]
    [((0, 1), [1]), ((1, 0), [0, 2])]
    """
    found, group = np.unique(orders, axis=0, return_inverse=True)
    group = group.reshape(-1)
    return [(tuple(int(o) for o in order), np.flatnonzero(group == i)) for i, order in enumerate(found)]
