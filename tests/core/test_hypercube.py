"""Shares of hypercubes: worked examples, and the best of all shares on random joins."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import pytest

from anabranch.planning.hypercube import rows_sent, shares

CHAIN = [{0}, {0, 1}, {1}]
STAR = [{0, 1, 2}, {0}, {1}, {2}]
TRIANGLE = [{0, 1}, {1, 2}, {2, 0}]


@pytest.mark.parametrize(
    ("inputs", "rates", "cells", "sizes", "sent"),
    [
        ([{0}, {0}], [1, 1], 4, (4,), 2),
        ([{0}, {0}, {0}], [1, 7, 2], 6, (6,), 10),
        (CHAIN, [1, 1, 1], 2, (2, 1), 4),
        (CHAIN, [1, 1, 1], 4, (2, 2), 5),
        (CHAIN, [1, 1, 5], 2, (1, 2), 8),
        (CHAIN, [1, 1, 5], 4, (1, 4), 10),
        (CHAIN, [5, 1, 1], 4, (4, 1), 10),
        (CHAIN, [1, 5, 1], 4, (2, 2), 9),
        (STAR, [1, 1, 1, 1], 8, (2, 2, 2), 13),
        (STAR, [1, 1, 1, 1], 4, (2, 2, 1), 9),
        (STAR, [1, 5, 1, 1], 8, (8, 1, 1), 22),
        (TRIANGLE, [1, 1, 1], 8, (2, 2, 2), 6),
        (TRIANGLE, [1, 1, 1], 4, (2, 2, 1), 5),
        (TRIANGLE, [1, 1, 5], 8, (4, 1, 2), 11),
        ([{0}, {1}], [1, 1], 4, (2, 2), 4),
        ([{0}, {1}], [1, 16], 4, (1, 4), 20),
    ],
)
def test_worked_examples(
    inputs: list[set[int]], rates: list[int], cells: int, sizes: tuple[int, ...], sent: int
) -> None:
    assert shares(inputs, rates, cells) == sizes
    assert rows_sent(inputs, rates, sizes) == sent


def test_columns_that_travel_together_need_one_dimension() -> None:
    assert shares([{0, 1}, {0, 1}], [1, 1], 4) == (4, 1)
    assert shares([{0, 1, 2}, {0, 1}, {2}], [1, 1, 1], 4) == (2, 1, 2)


def test_no_other_shares_send_fewer_rows() -> None:
    rng = random.Random(5)
    for _ in range(200):
        dimensions, cells = rng.randrange(1, 5), rng.choice((1, 2, 3, 4, 6, 8, 12))
        inputs = [
            set(rng.sample(range(dimensions), rng.randrange(1, dimensions + 1))) for _ in range(rng.randrange(2, 6))
        ]
        inputs[0] |= {dimensions - 1}
        rates = [rng.choice((0, 1, 1, 2, 5, 40)) for _ in inputs]
        sizes = shares(inputs, rates, cells)
        all_sizes = (each for each in product(range(1, cells + 1), repeat=dimensions) if prod(each) == cells)
        assert prod(sizes) == cells
        assert rows_sent(inputs, rates, sizes) == min(rows_sent(inputs, rates, each) for each in all_sizes)
