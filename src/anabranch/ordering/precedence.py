"""Which filters must come before which: a kept column before its readers, guards before a strict term, barriers.

>>> reads_score = Precedence(3, frozenset({(0, 2)}))
>>> reads_score.legal([2, 1, 0])
(1, 0, 2)
>>> reads_score.ready(2, placed=[1])
False
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from anabranch.errors import InternalError


@dataclass(frozen=True)
class Precedence:
    """A partial order over filters: each `(before, after)` edge holds in every legal order."""

    filters: int
    edges: frozenset[tuple[int, int]]

    @classmethod
    def none(cls, filters: int) -> Precedence:
        """No constraint: every permutation is legal."""
        return cls(filters, frozenset())

    def __bool__(self) -> bool:
        return bool(self.edges)

    @cached_property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """For every filter, all filters that must precede it, directly or not."""
        above: list[set[int]] = [{a for a, b in self.edges if b == f} for f in range(self.filters)]
        for _ in range(self.filters):
            for f in range(self.filters):
                above[f] |= {g for a in above[f] for g in above[a]}
        if any(f in above[f] for f in range(self.filters)):
            raise InternalError(f"precedence has a cycle: {sorted(self.edges)}")
        return tuple(frozenset(a) for a in above)

    def ready(self, f: int, placed: Collection[int]) -> bool:
        """Whether all that must precede `f` has been placed."""
        return self.ancestors[f] <= set(placed)

    def legal(self, wish: Iterable[int]) -> tuple[int, ...]:
        """The legal order nearest to the wish: each filter as early as wished, but behind its ancestors."""
        left, placed = list(wish), list[int]()
        while left:
            f = next(f for f in left if self.ready(f, placed))
            left.remove(f)
            placed.append(f)
        return tuple(placed)

    def allows(self, order: Iterable[int]) -> bool:
        """Whether an order respects every edge."""
        order = tuple(order)
        return self.legal(order) == order
