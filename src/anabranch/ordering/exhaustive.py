"""Exhaustive: the cheapest of all legal orders for the tuples of the profile window.

What a set of filters leaves over does not depend on their order, so the cheapest order of each set follows from those
of the sets with one filter less: 2^n sets instead of n! orders.

>>> drops = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 1, 1], [0, 1, 0]], dtype=bool)
>>> optimal_order(drops, np.array([1.0, 1.1, 1.0]), Precedence.none(3))
(0, 1, 2)
>>> optimal_order(drops, np.array([1.0, 9.0, 1.0]), Precedence(3, frozenset({(2, 0)})))
(2, 0, 1)

Notes
-----
The pipelined cost of equation 4.5 -> what is minimised; sets of filters are bit masks, ``alive[S]`` counts the tuples
that no filter of S drops, ``best[S]`` is the least cost of sending all tuples through S.

Differs from the paper
----------------------
The paper's *Optimal* tries all orders offline. This one also serves as a policy: each time `config.minimum_profiles`
tuples are new it solves the window, and adopts the result if its cost is below alpha times the present order's.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 4.3.3 and 4.7.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.errors import QueryError
from anabranch.model.arrays import BoolMatrix, Counts, Floats, Order
from anabranch.ordering.base import Observation, Seed
from anabranch.ordering.decisions import Decision
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.windowed import Windowed
from anabranch.stats.processing_times import usable_costs

MOST_FILTERS = 16


class Exhaustive(Windowed):
    """Keeps the optimal order of the profile window, for few filters."""

    name = "exhaustive"

    def __init__(
        self,
        filters: int,
        *,
        config: OrderingConfig | None = None,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
    ) -> None:
        _check_size(filters)
        super().__init__(filters, config=config, precedence=precedence, seed=seed)

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """Update the window; once enough is new, adopt the optimum if it is cheaper by more than alpha."""
        self._slide(seen)
        if not self._due():
            return ()
        return self._adopt_if_cheaper(optimal_order(self.window.rows(), seen.costs, self.precedence), seen.costs)


def optimal_order(rows: BoolMatrix, costs: Floats, precedence: Precedence) -> Order:
    """The legal order with the least expected cost for a sample of full profile tuples."""
    filters = precedence.filters
    _check_size(filters)
    alive, costs = _alive(rows), usable_costs(costs)
    best = np.full(1 << filters, np.inf)
    best[0] = 0.0
    for layer in _lattice(precedence):
        total = best.take(layer.before) + alive.take(layer.before) * costs.take(layer.last)
        best[layer.sets] = total.min(axis=1) + layer.barred
    order: list[int] = []
    left = (1 << filters) - 1
    while left:
        before = {f: left ^ 1 << f for f in range(filters) if left >> f & 1}
        last = min(before, key=lambda f: best[before[f]] + alive[before[f]] * costs[f])
        order.append(last)
        left = before[last]
    return tuple(reversed(order))


@dataclass(frozen=True)
class _Layer:
    """All sets of one size; for each, its members as the last filter, and what is then before it."""

    sets: Counts
    last: Counts
    before: Counts
    barred: Floats


@lru_cache(maxsize=4)
def _lattice(precedence: Precedence) -> tuple[_Layer, ...]:
    """The layers of sets with 1, 2, ..., n filters; a set that lacks an ancestor of a member costs infinity."""
    filters = precedence.filters
    members = (np.arange(1 << filters)[:, np.newaxis] >> np.arange(filters)) & 1
    sizes = members.sum(axis=1)
    needed = np.array([sum(1 << a for a in above) for above in precedence.ancestors], dtype=np.int64)
    lacking = np.count_nonzero((needed & ~np.arange(1 << filters)[:, np.newaxis]) * members, axis=1)
    layers = []
    for size in range(1, filters + 1):
        sets = np.flatnonzero(sizes == size)
        last = members[sets].nonzero()[1].reshape(-1, size)
        before = sets[:, np.newaxis] ^ (1 << last)
        layers.append(_Layer(sets, last, before, barred=np.where(lacking[sets] > 0, np.inf, 0.0)))
    return tuple(layers)


def _alive(rows: BoolMatrix) -> Floats:
    """For each set of filters, how many tuples none of them drops: sums over the subsets of the complement."""
    filters = rows.shape[1]
    patterns = rows @ (1 << np.arange(filters))
    counts = np.bincount(patterns, minlength=1 << filters).astype(np.float64)
    for f in range(filters):
        halves = counts.reshape(-1, 2, 1 << f)
        halves[:, 1] += halves[:, 0]
    return counts[::-1]


def _check_size(filters: int) -> None:
    if filters > MOST_FILTERS:
        raise QueryError(
            f"the exhaustive search handles at most {MOST_FILTERS} filters, not {filters}",
            hint="use the policy 'agreedy', whose order costs at most four times the optimum",
        )
