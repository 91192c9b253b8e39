"""The Self-Routing Fabric: operators pass groups of rows on to each other; there is no router and no plan per route.

Rows with the same route travel together as a ruster, with the route as a stack of operators in its token. An operator
filters what waits for it, takes itself off the stacks, and hands each ruster to the operator on top, or to the output.
All rusters that wait at an operator are evaluated in one call, so many routes cost few calls.

>>> table = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
>>> fabric = Fabric(3, lambda f, rows: table[rows, f], routes=[(2, 1, 0), (0, 1, 2)])
>>> fabric.admit(np.arange(4), np.array([0, 0, 0, 1]))
>>> [(r.token, r.rows.tolist()) for r in fabric.waiting()]
[((1, 2, 3), [3]), ((3, 2, 1), [0, 1, 2])]
>>> fabric.drain().tolist(), fabric.calls
([1, 3], 5)

Notes
-----
OI-array -> `operators`, where 0 is the output queue; op_i -> filter i - 1; r-token -> `Ruster.token`; W_TC -> the rows
of one call of `admit`; pointer re-assignment to a new classifier -> `switch`.

Differs from the paper
----------------------
- Operators are filters, not join probes; the fabric moves row numbers only, and the caller's `evaluate` knows the rows.
- The operator for which most rows wait goes first, since what gathers there meanwhile is evaluated in the same call.
- A ruster is not limited in size: whole arrays are filtered at a time.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anabranch.errors import InternalError
from anabranch.mesh.lottery import Lottery
from anabranch.mesh.tokens import Token, chosen, operators, token
from anabranch.model.arrays import Counts, Mask, Rows

OUTPUT = 0

Evaluate = Callable[[int, Rows], Mask]


@dataclass(frozen=True)
class Ruster:
    """Rows on their way: where they still have to go, the subset they belong to, and what the last draw was among."""

    rows: Rows
    token: Token
    subset: Hashable = None
    drawn_from: frozenset[int] | None = None


class Fabric:
    """Executes routes over row numbers.

    Parameters
    ----------
    filters
        How many filters there are; filter f is operator f + 1.
    evaluate
        ``evaluate(f, rows)`` says for each of the rows whether filter f lets it pass.
    routes
        Routes of the mesh in use: orders of filters, or tokens' shape with sets of filters where uncertain.
    seed
        Seed of the lottery among uncertain operators.
    """

    def __init__(
        self, filters: int, evaluate: Evaluate, *, routes: Iterable[Sequence[int | Iterable[int]]], seed: int = 0
    ) -> None:
        self.operators: list[list[Ruster]] = [[] for _ in range(filters + 1)]
        self.lottery = Lottery(seed)
        self.calls = 0
        self.mesh = -1
        self._evaluate = evaluate
        self._tokens: tuple[Token, ...] = ()
        self.switch(routes)

    def switch(self, routes: Iterable[Sequence[int | Iterable[int]]]) -> None:
        """From now on rows are admitted to the routes of another mesh; rusters on their way keep their tokens."""
        tokens = tuple(token(route) for route in routes)
        everything = list(range(1, len(self.operators)))
        for stack in tokens:
            if sorted(operators(stack)) != everything:
                raise InternalError(f"route {stack} does not visit every operator of {everything} once")
        self._tokens = tokens
        self.mesh += 1

    def admit(self, rows: Rows, routes: Counts) -> None:
        """Form rusters of the rows, given the number of each row's route."""
        for number in np.unique(routes).tolist():
            self._forward(Ruster(rows[routes == number], self._tokens[number], (self.mesh, number)))

    def waiting(self) -> Iterator[Ruster]:
        """The rusters that wait at operators, by operator."""
        return (ruster for queue in self.operators[1:] for ruster in queue)

    def step(self) -> bool:
        """Let the operator with most rows waiting work once; False if nothing waits."""
        sizes = [sum(len(r.rows) for r in queue) for queue in self.operators[1:]]
        if not any(sizes):
            return False
        busiest = 1 + int(np.argmax(sizes))
        queue, self.operators[busiest] = self.operators[busiest], []
        mask = np.asarray(self._evaluate(busiest - 1, np.concatenate([r.rows for r in queue])), dtype=np.bool_)
        self.calls += 1
        ends = np.cumsum([len(r.rows) for r in queue])[:-1]
        for ruster, passes in zip(queue, np.split(mask, ends), strict=True):
            self._popped(ruster, busiest, passes)
        return True

    def drain(self) -> Rows:
        """Work until nothing waits, and hand over the rows that passed everything, ascending."""
        while self.step():
            pass
        results, self.operators[OUTPUT] = self.operators[OUTPUT], []
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *(r.rows for r in results)]))

    def _popped(self, ruster: Ruster, operator: int, passes: Mask) -> None:
        if ruster.drawn_from is not None:
            passed = int(np.count_nonzero(passes))
            self.lottery.feedback(ruster.subset, ruster.drawn_from, operator, len(passes), passed)
        self._forward(replace(ruster, rows=ruster.rows[passes], token=ruster.token[1:], drawn_from=None))

    def _forward(self, ruster: Ruster) -> None:
        """To the output, or to the operator on top; a ruster without rows is discarded with its token."""
        if len(ruster.rows) == 0:
            return
        if not ruster.token:
            self.operators[OUTPUT].append(ruster)
            return
        top = ruster.token[0]
        if not isinstance(top, int):
            drawn = self.lottery.draw(ruster.subset, top)
            ruster = replace(ruster, token=chosen(ruster.token, drawn), drawn_from=top)
            top = drawn
        self.operators[top].append(ruster)
