"""Queries of PSoup: conjunctions of boolean factors, and the BEGIN-END clause of their windows.

>>> query = Query((Factor(0, ">", 3), Factor(1, "=", 7)))
>>> query.holds([4, 7]), query.holds([3, 7])
(True, False)
>>> Window.sliding(10).bounds(now=25), Window.landmark(5).bounds(now=25), Window.snapshot(5, 9).bounds(now=25)
((15, 25), (5, 25), (5, 9))

Notes
-----
R.a RELOP c -> `Factor`; R.a RELOP S.b + c -> `JoinFactor`; standing query clause (SQC) -> `Query`, `JoinQuery`;
BEGIN-END clause -> `Window`; NOW -> the number of tuples so far.

Differs from the paper: windows are logical, in tuples, as in its experiments; section 1.1 has them by the clock.

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, sections 1.1 and 3.1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Relop = Literal["<", "<=", "=", ">=", ">"]

COMPARISONS: dict[Relop, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
MIRRORED: dict[Relop, Relop] = {"<": ">", "<=": ">=", "=": "=", ">=": "<=", ">": "<"}


@dataclass(frozen=True)
class Factor:
    """A comparison of an attribute, by its place, with a constant."""

    attribute: int
    relop: Relop
    constant: int


@dataclass(frozen=True)
class Query:
    """A conjunction of factors over one stream."""

    factors: tuple[Factor, ...]

    def holds(self, row: Sequence[int]) -> bool:
        """Whether a tuple satisfies all factors, tested one by one; the definition."""
        return all(COMPARISONS[each.relop](row[each.attribute], each.constant) for each in self.factors)


@dataclass(frozen=True)
class JoinFactor:
    """``R.left RELOP S.right + constant``."""

    left: int
    relop: Relop
    right: int
    constant: int = 0

    def holds(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Whether a pair satisfies it."""
        return bool(COMPARISONS[self.relop](left[self.left], right[self.right] + self.constant))

    def substituted(self, left: Sequence[int]) -> Factor:
        """What is left of it for S once a tuple of R is known.

        >>> JoinFactor(0, ">", 1).substituted([4])
        Factor(attribute=1, relop='<', constant=4)
        """
        return Factor(self.right, MIRRORED[self.relop], left[self.left] - self.constant)

    def substituted_right(self, right: Sequence[int]) -> Factor:
        """What is left of it for R once a tuple of S is known."""
        return Factor(self.left, self.relop, right[self.right] + self.constant)


@dataclass(frozen=True)
class JoinQuery:
    """Factors over R alone, over S alone, and one over both."""

    left: Query
    right: Query
    join: JoinFactor

    def holds(self, left: Sequence[int], right: Sequence[int]) -> bool:
        """Whether a pair satisfies all factors; the definition."""
        return self.left.holds(left) and self.right.holds(right) and self.join.holds(left, right)


@dataclass(frozen=True)
class Window:
    """The ends of a window, from `begin` on and before `end`; each is a constant, or counted back from NOW."""

    begin: int
    end: int
    begin_moves: bool
    end_moves: bool

    @classmethod
    def sliding(cls, size: int) -> Window:
        """The latest tuples."""
        return cls(size, 0, begin_moves=True, end_moves=True)

    @classmethod
    def landmark(cls, begin: int) -> Window:
        """All tuples from one on."""
        return cls(begin, 0, begin_moves=False, end_moves=True)

    @classmethod
    def snapshot(cls, begin: int, end: int) -> Window:
        """The tuples between two."""
        return cls(begin, end, begin_moves=False, end_moves=False)

    def bounds(self, now: int) -> tuple[int, int]:
        """The input window at a time."""
        begin = max(now - self.begin, 0) if self.begin_moves else self.begin
        return begin, min(now - self.end, now) if self.end_moves else min(self.end, now)
