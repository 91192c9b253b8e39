"""The lattice: examples 1 to 4 of the paper, equation 1, and what every move keeps."""

from __future__ import annotations

from itertools import pairwise
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.mesh.partitions import (
    Partition,
    all_partitions,
    bell,
    canonical,
    from_labels,
    neighbour_count,
    neighbours,
    parse,
    random_neighbour,
    random_partition,
    splits,
    stirling,
    text,
)

EXAMPLE_2 = "1234 1/234 2/134 3/124 4/123 12/34 13/24 14/23 12/3/4 1/23/4 1/2/34 13/2/4 14/2/3 24/1/3 1/2/3/4"

partitions = st.lists(st.integers(0, 4), min_size=1, max_size=7).map(from_labels)


def test_example_2_lists_the_fifteen_nodes() -> None:
    found = [text(p) for p in all_partitions(4)]
    assert len(found) == 15
    assert set(found) == {text(parse(written)) for written in EXAMPLE_2.split()}


def test_example_1_merges_two_subsets() -> None:
    letters = {letter: number for number, letter in enumerate("xyzwstv")}
    before, after = (canonical([letters[x] for x in s] for s in w.split("/")) for w in ("xy/zw/stv", "xy/zwstv"))
    assert after in neighbours(before)


def test_example_3_splits_three_ways_and_the_merge_is_a_neighbour_too() -> None:
    assert {text(p) for p in splits(parse("1/234"))} == {"1/23/4", "1/24/3", "1/2/34"}
    assert {text(p) for p in neighbours(parse("1/234"))} == {"1/23/4", "1/24/3", "1/2/34", "1234"}


def test_example_4_walks_from_neighbour_to_neighbour() -> None:
    walk = [parse(written) for written in ("1/234", "1/23/4", "1/2/3/4", "12/3/4", "123/4")]
    assert all(there in neighbours(here) for here, there in pairwise(walk))


@pytest.mark.parametrize("n", range(1, 9))
def test_equation_1_counts_the_configurations(n: int) -> None:
    every = list(all_partitions(n))
    assert len(set(every)) == len(every) == bell(n)
    for k in range(1, n + 1):
        assert sum(len(p) == k for p in every) == stirling(n, k)
    printed = sum(
        sum((-1) ** (k - j) * comb(k, j) * j**n for j in range(1, k + 1)) / factorial(k) for k in range(1, n + 1)
    )
    assert printed == pytest.approx(bell(n))


def test_bell_numbers() -> None:
    assert [bell(n) for n in range(11)] == [1, 1, 2, 5, 15, 52, 203, 877, 4140, 21147, 115975]


@given(partitions)
def test_neighbours_are_counted_distinct_and_mutual(partition: Partition) -> None:
    found = neighbours(partition)
    assert len(found) == len(set(found)) == neighbour_count(partition)
    assert all(abs(len(p) - len(partition)) == 1 for p in found)
    assert all(partition in neighbours(p) for p in found)


@given(partitions)
def test_text_form_is_read_back(partition: Partition) -> None:
    assert parse(text(partition)) == partition


def test_text_form_of_many_tuples() -> None:
    partition = random_partition(14, np.random.default_rng(3))
    assert "," in text(partition)
    assert parse(text(partition)) == partition


@given(partitions, st.integers(0, 1000))
def test_a_random_neighbour_is_a_neighbour(partition: Partition, seed: int) -> None:
    there = random_neighbour(partition, np.random.default_rng(seed))
    assert there in neighbours(partition) or there == partition == ((0,),)


def test_random_neighbours_reach_every_neighbour() -> None:
    rng, here = np.random.default_rng(0), parse("1/2345")
    assert {random_neighbour(here, rng) for _ in range(2000)} == set(neighbours(here))
