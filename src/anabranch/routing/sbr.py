"""Source-based routing: the plain Eddy, which sends every tuple of a source the same way.

It keeps the running selectivity of each operator and draws the next operator with a probability inversely proportional
to it. A batch draws its whole order at once: dividing exponential variates by the weights and sorting gives the same
distribution as drawing one operator after the other from those that are left.

>>> router = SourceBased(2, seed=1)
>>> for _ in range(50):
...     _ = router.orders([], rows=1)
...     router.observe(Seen.of(np.array([[1, 0]])))                 # the first lets all pass, the second none
>>> router.overall.round(2)
array([0.96, 0.04])
>>> firsts = [int(router.orders([], rows=1)[0, 0]) for _ in range(100)]
>>> firsts.count(1) > 90
True

Notes
-----
W[l] -> `overall`; alpha -> `alpha`; selectivities are shares, not percentages.

Differs from the paper
----------------------
- A batch is routed at once and the averages are brought up to date afterwards; `fold` gives exactly what the
  tuple-by-tuple formula gives for the tuples of the batch in order.
- Given costs, the probability is proportional to (1 - selectivity) / cost instead.
- The first value of a running selectivity is not given: one half.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, sections 4.1 and
4.2. R. Avnur, J. Hellerstein, *Eddies: Continuously Adaptive Query Processing*, SIGMOD 2000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anabranch.model.arrays import Floats, Rows
from anabranch.routing.partitioning import Column

Orders = NDArray[np.int64]

ALPHA = 0.95
FIRST_SELECTIVITY = 0.5
NEVER_ZERO = 1e-6


@dataclass(frozen=True)
class Seen:
    """What became of the batch that was routed last.

    Parameters
    ----------
    rows, operators, produced
        One entry per evaluation, in order of rows: the row of the batch, the operator, and how many tuples it made of
        it (1 or 0 for a filter).
    spent
        Units of cost per row of the batch, all its evaluations together.
    times
        How many tuples of a row entered the operator, where joins may have multiplied it; 1 where not given.
    """

    rows: Rows
    operators: Rows
    produced: Floats
    spent: Floats
    times: Floats | None = None

    @classmethod
    def of(cls, produced: ArrayLike) -> Seen:
        """Every row went through every operator, at cost 1."""
        matrix = np.asarray(produced, dtype=np.float64)
        rows, operators = np.nonzero(np.ones_like(matrix))
        return cls(rows, operators, matrix.ravel(), np.full(len(matrix), float(matrix.shape[1])))


def fold(average: Floats, groups: Rows, values: Floats, *, alpha: float = ALPHA, times: Floats | None = None) -> Floats:
    """Exponential averages, one per group, after further values: exactly as if they came one by one.

    A value that counts several times (`times`) is taken in that often, in a row.

    >>> fold(np.array([0.5, 0.5]), np.array([0, 1, 0]), np.array([1.0, 0.0, 0.0])).round(5)
    array([0.49875, 0.475  ])
    """
    totals = np.bincount(groups, times, len(average))
    by_group = np.argsort(groups.astype(np.min_scalar_type(len(average))), kind="stable")  # short keys sort faster
    ranks: NDArray[Any] = np.arange(1, len(groups) + 1) if times is None else times[by_group].cumsum()
    before = np.empty_like(ranks)
    before[by_group] = ranks
    later = totals.cumsum()[groups] - before
    if times is None:
        powers = alpha ** np.arange(totals.max(initial=0) + 1)  # few: a power takes longer than a look-up
        return average * powers[totals] + np.bincount(groups, (1.0 - alpha) * powers[later] * values, len(average))
    share = (1.0 - alpha**times) * alpha**later
    return average * alpha**totals + np.bincount(groups, share * values, len(average))


def urgency(selectivity: Floats, costs: Floats | None) -> Floats:
    """What to sort by, smallest first: the selectivity, or (selectivity - 1) / cost."""
    return selectivity if costs is None else (selectivity - 1.0) / costs


class SourceBased:
    """SBR: the same random order for all rows of a batch, selective operators likely to be first.

    Parameters
    ----------
    operators
        How many there are.
    costs
        Units of cost per tuple and operator; without them all are taken as equal.
    alpha
        Weight of the past in the running selectivities.
    seed
        Seed of the draws.
    """

    name = "sbr"

    def __init__(self, operators: int, *, costs: Floats | None = None, alpha: float = ALPHA, seed: int = 0) -> None:
        self.operators, self.costs, self.alpha = operators, costs, alpha
        self.overall: Floats = np.full(operators, FIRST_SELECTIVITY)
        self.classifiers = np.full(operators, -1, dtype=np.int64)
        self._rng = np.random.default_rng(seed)

    def orders(self, columns: Sequence[Column], rows: int) -> Orders:
        """An order of the operators for each row of a batch."""
        drawn = np.argsort(self._rng.exponential(size=self.operators) / self._weights(), kind="stable")
        return np.broadcast_to(drawn, (rows, self.operators))

    def observe(self, seen: Seen) -> None:
        """Bring the running selectivities up to date."""
        self.overall = fold(self.overall, seen.operators, seen.produced, alpha=self.alpha, times=seen.times)

    def _weights(self) -> Floats:
        inverse = 1.0 / np.maximum(self.overall, NEVER_ZERO)
        if self.costs is None:
            return inverse
        return np.maximum(1.0 - self.overall, NEVER_ZERO * inverse) / self.costs
