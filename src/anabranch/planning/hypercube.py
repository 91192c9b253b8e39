"""Hypercube: cells of a join in as many dimensions as it has classes of equal columns, each with a share of them.

A row goes to the place that the values of its columns have along each dimension; along a dimension for which it has no
column, to all places. So the rows of any combination meet in exactly one cell. Of all ways to give dimensions so many
places that there are as many cells as are wanted, the one is taken by which the fewest rows are sent.

A dimension is not needed if another one has all of its inputs: its places serve them better there.

Notes
-----
R_i of the paper is an input, r_i its rate, X_j a dimension, a_j its share, p the cells. What is sent: the sum over i of
r_i times the product of a_j over all X_j that R_i lacks.

Differs from the paper: shares are whole numbers, so they are found by trying all of them, and not by solving equations.

Examples
--------
A chain R(a), S(a, b), T(b): with equal rates a square; if T is five times as fast, all places go to b.

>>> chain = [{0}, {0, 1}, {1}]
>>> shares(chain, [1, 1, 1], cells=4), rows_sent(chain, [1, 1, 1], (2, 2))
((2, 2), 5)
>>> shares(chain, [1, 1, 5], cells=4), rows_sent(chain, [1, 1, 5], (1, 4)), rows_sent(chain, [1, 1, 5], (2, 2))
((1, 4), 10, 13)

References
----------
F. Afrati, J. Ullman, *Optimizing Joins in a Map-Reduce Environment*, EDBT 2010, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod


def rows_sent(inputs: Sequence[Collection[int]], rates: Sequence[float], sizes: Sequence[int]) -> float:
    """How many rows all cells together get, given the dimensions for which each input has columns."""
    return sum(
        rate * prod(size for dimension, size in enumerate(sizes) if dimension not in has)
        for has, rate in zip(inputs, rates, strict=True)
    )


def shares(inputs: Sequence[Collection[int]], rates: Sequence[float], cells: int) -> tuple[int, ...]:
    """The number of places along each dimension: their product is the number of cells.

    Parameters
    ----------
    inputs
        For each input the dimensions for which it has columns, by number.
    rates
        How many rows each input brings.
    cells
        How many cells there are.

    Of equally good ones, the one with the fewest dimensions, then the one with the largest shares first.
    """
    dimensions = 1 + max((each for has in inputs for each in has), default=-1)
    of = [frozenset(i for i, has in enumerate(inputs) if each in has) for each in range(dimensions)]
    needed = [each for each in range(dimensions) if not _served(each, of)]

    def cost(sizes: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        return rows_sent(inputs, rates, sizes), sum(size > 1 for size in sizes), tuple(-size for size in sizes)

    found = (_at(needed, split, dimensions) for split in splits(cells, len(needed)))
    return min(found, key=cost)


def splits(cells: int, dimensions: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product, in order.

    >>> list(splits(4, 2))
    [(1, 4), (2, 2), (4, 1)]
    """
    if dimensions == 0:
        if cells == 1:
            yield ()
        return
    for size in range(1, cells + 1):
        if cells % size == 0:
            yield from ((size, *rest) for rest in splits(cells // size, dimensions - 1))


def _served(dimension: int, of: Sequence[frozenset[int]]) -> bool:
    """Whether another dimension has all of its inputs, and more, or the same ones and comes first."""
    own = of[dimension]
    return any(own < other or (own == other and place < dimension) for place, other in enumerate(of))


def _at(needed: Sequence[int], split: Sequence[int], dimensions: int) -> tuple[int, ...]:
    sizes = dict(zip(needed, split, strict=True))
    return tuple(sizes.get(dimension, 1) for dimension in range(dimensions))
