"""Placement: the cells to which the rows of a join go, and what is done about hot keys.

Cells are a hypercube (`hypercube.py`). Along a dimension, rows with the same key have the same place, so a key that
has a large part of all rows fills one place. Such a *hot key* is spread: of the input that has most of its rows, each
goes to some place along the dimension, by the code of the whole row; the rows that other inputs have of it go to all of
them. Any combination still meets in exactly one cell: where the row of the spread input is.

>>> inputs = [Distribution(routes=(("k",),), rows=("k", "v")), Distribution(routes=(("k_1",),), rows=("k_1", "w"))]
>>> found = Measured((1000, 400), {(0, 0): {77: 500, 78: 20}, (1, 0): {77: 8}})
>>> placement = chosen(inputs, 4, found)
>>> placement.sizes, placement.hot
((4,), (HotKey(dimension=0, code=77, spread=0),))
>>> placement.along(inputs[0], 0)
(Along(size=4, columns=('k',), rows=('k', 'v'), spread=(77,), copied=()),)
>>> placement.along(inputs[1], 1)
(Along(size=4, columns=('k_1',), rows=('k_1', 'w'), spread=(), copied=(77,)),)

References
----------
F. Afrati, N. Stasinopoulos, J. Ullman, A. Vassilakopoulos, *SharesSkew: An Algorithm to Handle Skew for Joins in
MapReduce*, Information Systems 77, 2018. Y. Xu, P. Kostamaa, X. Zhou, L. Chen, *Handling Data Skew in Parallel Joins in
Shared-Nothing Systems*, SIGMOD 2008: one side of a hot key is spread, the other copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.model.names import without_number
from anabranch.planning.distribution import Distribution
from anabranch.planning.hypercube import shares

SMALLEST_PART = 0.01
"""An input that has brought less than this part of all rows so far counts as if it had brought so many."""
HOT_PART = 0.5
"""A key is hot if it has more than this part of the rows that a place has with even keys."""
FEWEST_HOT_ROWS = 50
"""A key with fewer rows than this is not called hot: it may be chance."""


@dataclass(frozen=True)
class Measured:
    """What inputs of a join have brought.

    Parameters
    ----------
    rows
        Per input.
    keys
        By input and dimension, the codes with the most rows, and how many these are.
    """

    rows: tuple[int, ...]
    keys: Mapping[tuple[int, int], Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, order=True)
class HotKey:
    """A key with many rows: along which dimension, its code, and the input whose rows of it are spread."""

    dimension: int
    code: int
    spread: int


@dataclass(frozen=True)
class Along:
    """How rows of an input find their place along a dimension of so many places.

    Parameters
    ----------
    size
        How many places there are.
    columns
        Their code chooses the place; without, rows go to all places.
    rows
        The code of these chooses it for the keys that are spread.
    spread, copied
        Codes of hot keys: those whose rows are spread, and those whose rows go to all places.
    """

    size: int
    columns: tuple[str, ...] | None
    rows: tuple[str, ...] = ()
    spread: tuple[int, ...] = ()
    copied: tuple[int, ...] = ()


@dataclass(frozen=True)
class Placement:
    """Where the rows of all inputs of a join go.

    Parameters
    ----------
    sizes
        The number of places along each dimension.
    hot
        Keys that are spread.
    rows
        What inputs had brought when it was chosen, if that was measured.
    """

    sizes: tuple[int, ...]
    hot: tuple[HotKey, ...] = ()
    rows: tuple[int, ...] = ()

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Placement:
        """What was written as JSON."""
        hot = tuple(HotKey(**each) for each in saved["hot"])
        return cls(tuple(saved["sizes"]), hot, tuple(saved["rows"]))

    def along(self, distribution: Distribution, number: int) -> tuple[Along, ...]:
        """How the rows of an input find their place along each dimension."""
        found = []
        for dimension, (size, columns) in enumerate(zip(self.sizes, distribution.routes, strict=True)):
            hot = [each for each in self.hot if each.dimension == dimension and columns]
            spread = tuple(each.code for each in hot if each.spread == number)
            copied = tuple(each.code for each in hot if each.spread != number)
            found.append(Along(size, columns, distribution.rows, spread, copied))
        return tuple(found)

    def in_words(self, distributions: Sequence[Distribution], inputs: Sequence[str]) -> str:
        """Where rows go, and why.

        >>> Placement((2, 2), (), (900, 100)).in_words(
        ...     [Distribution(routes=(("k_1",), None)), Distribution(routes=(("j_2",), ("x_3",)))], ["a", "b"])
        '2 x 2 cells by k, x, which sends the fewest rows for: a 900, b 100'
        """
        titles = [next(each.routes[place] for each in distributions if each.routes[place]) for place in self._used]
        by = ", ".join(without_number((title or ("",))[0]) for title in titles)
        text = f"{' x '.join(str(self.sizes[place]) for place in self._used) or 1} cells{f' by {by}' if by else ''}"
        if not self.rows:
            return f"{text}, which sends the fewest rows if inputs are equally fast"
        counts = ", ".join(f"{name} {rows:,}" for name, rows in zip(inputs, self.rows, strict=True))
        text = f"{text}, which sends the fewest rows for: {counts}"
        spread = sorted({inputs[each.spread] for each in self.hot})
        keys = f"{len(self.hot)} hot key{'s' if len(self.hot) > 1 else ''}"
        return f"{text}; {keys} spread by rows of {', '.join(spread)}" if spread else text

    @property
    def _used(self) -> list[int]:
        return [place for place, size in enumerate(self.sizes) if size > 1]


NOWHERE = Placement(())
"""Of operators whose rows all meet in one cell."""


def chosen(distributions: Sequence[Distribution], cells: int, measured: Measured | None = None) -> Placement:
    """The placement that sends the fewest rows, with hot keys spread; without measures, for inputs that are alike."""
    has = [{place for place, columns in enumerate(each.routes) if columns} for each in distributions]
    if measured is None:
        return Placement(shares(has, [1] * len(has), cells))
    least = SMALLEST_PART * sum(measured.rows)
    sizes = shares(has, [max(rows, least) for rows in measured.rows], cells)
    return Placement(sizes, _hot_keys(distributions, sizes, measured), measured.rows)


def _hot_keys(distributions: Sequence[Distribution], sizes: Sequence[int], measured: Measured) -> tuple[HotKey, ...]:
    found = []
    for dimension, size in enumerate(sizes):
        own = [i for i, each in enumerate(distributions) if each.routes[dimension] and size > 1]
        keys = {i: measured.keys.get((i, dimension), {}) for i in own}
        hot = {code for i in own for code, rows in keys[i].items() if _is_hot(rows, measured.rows[i], size)}
        for code in hot if len(own) > 1 else ():
            most = max(own, key=lambda i: keys[i].get(code, 0))
            if distributions[most].rows:
                found.append(HotKey(dimension, code, most))
    return tuple(sorted(found))


def _is_hot(rows: int, of: int, size: int) -> bool:
    return rows >= FEWEST_HOT_ROWS and rows > HOT_PART * of / size
