"""When a search ends: after k iterations, on a plateau, when the time is up or the memory is full.

>>> stop = Stop(MeshConfig(iterations=9, plateau=2), iterations=9)
>>> costs = iter([5.0, 4.0, 4.0, 4.0, 1.0])
>>> while not stop.reached(memoised=0):
...     stop.note(next(costs))
>>> stop.iteration, stop.best
(4, 4.0)

Notes
-----
The stop conditions of section 4.7: k -> `iterations`, plateaued -> `plateau`, bounded by time -> `seconds` on the given
clock, by memory -> `memory_subsets`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from anabranch.errors import QueryError
from anabranch.mesh.config import MeshConfig

Clock = Callable[[], float]


class Stop:
    """Counts iterations and watches the limits.

    Parameters
    ----------
    config
        The limits.
    iterations
        What k is for this search.
    clock
        Seconds on any monotonic clock; needed if `config.seconds` is set.
    """

    def __init__(self, config: MeshConfig, *, iterations: int, clock: Clock | None = None) -> None:
        if config.seconds is not None and clock is None:
            raise QueryError("a search bounded by seconds needs a clock", hint="pass clock=time.monotonic")
        self.config = config
        self.iterations = iterations
        self.iteration = 0
        self.best = inf
        self._improved = 0
        self._clock = clock
        self._began = clock() if clock else 0.0

    def note(self, cost: float) -> None:
        """An iteration ended with this cost."""
        self.iteration += 1
        if cost < self.best:
            self.best, self._improved = cost, self.iteration

    def reached(self, memoised: int) -> bool:
        """Whether the search should end; `memoised` subsets have a known route."""
        plateau = self.config.plateau
        stale = plateau is not None and self.iteration - self._improved >= plateau
        return stale or self.iteration >= self.iterations or self.exhausted(memoised)

    def exhausted(self, memoised: int) -> bool:
        """Whether time or memory is used up, which ends an iteration early too."""
        if self.config.memory_subsets is not None and memoised >= self.config.memory_subsets:
            return True
        if self.config.seconds is None or self._clock is None:
            return False
        return self._clock() - self._began >= self.config.seconds
