"""Plans of queries: operators as frozen values, so that equal subtrees are equal values.

The paper encodes an operator with its whole subtree, parameters and attributes, to tell whether two packets do the same
work (section 4). Here that encoding is the plan itself.

>>> ordered = Sort(FileScan("big1"), UNIQUE1)
>>> ordered == Sort(FileScan("big1"), UNIQUE1), ordered == Sort(FileScan("big1", 0, 10), UNIQUE1)
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

UNIQUE1, UNIQUE2, TEN, HUNDRED = range(4)
COLUMNS = 4
Function = Literal["min", "sum", "count"]


@dataclass(frozen=True)
class FileScan:
    """All pages of a table; rows with `low <= unique2 < high` go on, all of them without bounds."""

    table: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class IndexScan:
    """The pages of a table that hold `low <= unique2 < high`, in that order: the index is clustered."""

    table: str
    low: int
    high: int


@dataclass(frozen=True)
class Sort:
    """Rows in the order of a column, through a temporary file."""

    child: Plan
    column: int


@dataclass(frozen=True)
class MergeJoin:
    """Pairs of rows with equal values; both inputs are sorted by them."""

    left: Plan
    right: Plan
    left_column: int
    right_column: int


@dataclass(frozen=True)
class Aggregate:
    """A value per group, of rows that are sorted by group; one value if there is no group."""

    child: Plan
    function: Function
    column: int
    group: int | None = None


Plan: TypeAlias = FileScan | IndexScan | Sort | MergeJoin | Aggregate


def children(plan: Plan) -> tuple[Plan, ...]:
    """The inputs of an operator."""
    match plan:
        case Sort(child) | Aggregate(child):
            return (child,)
        case MergeJoin(left, right):
            return left, right
        case _:
            return ()


def walk(plan: Plan) -> Iterator[Plan]:
    """An operator and all below it."""
    yield plan
    for child in children(plan):
        yield from walk(child)
