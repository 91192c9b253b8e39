"""The lattice of configurations: every way to divide the training tuples into subsets with a route each.

Two configurations are neighbours if one becomes the other by splitting a subset in two or by merging two subsets.

>>> text(parse("2/134"))
'134/2'
>>> sorted(text(p) for p in neighbours(parse("1/234")))
['1/2/34', '1/23/4', '1/24/3', '1234']
>>> bell(4), len(list(all_partitions(4)))
(15, 15)

Notes
-----
n -> the number of training tuples, which are 0, 1, ... here and 1, 2, ... in the text form; B_n of equation 1 ->
`bell`; S(n, k) -> `stirling`; NEIGHBORS of figure 6 -> `neighbours`.

Differs from the paper
----------------------
- The binomial coefficient of equation 1 is printed over n; Stirling's number needs it over k.
- Example 3 lists the splits of 1/234 only; its merge, 1234, is a neighbour too.
- A subset of m tuples has 2^(m-1) - 1 splits, so the neighbours of large ones are drawn, not listed. Almost all of them
  are splits into halves, and a fair draw would hardly ever merge, or move a single tuple: `random_neighbour` draws the
  kind of the move first.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import comb, factorial

import numpy as np

Subset = tuple[int, ...]
Partition = tuple[Subset, ...]


def canonical(subsets: Iterable[Iterable[int]]) -> Partition:
    """Members ascending, subsets by their first member."""
    return tuple(sorted(tuple(sorted(s)) for s in subsets if s))


def from_labels(labels: Iterable[object]) -> Partition:
    """The tuples with equal labels together."""
    groups: dict[object, list[int]] = {}
    for number, label in enumerate(labels):
        groups.setdefault(label, []).append(number)
    return canonical(groups.values())


def text(partition: Partition) -> str:
    """As in figure 4, ``12/34``; members are told apart by commas once they have two digits."""
    between = "," if any(t > 8 for subset in partition for t in subset) else ""
    return "/".join(between.join(str(t + 1) for t in subset) for subset in partition)


def parse(written: str) -> Partition:
    """Read the text form, in whatever sequence it is written.

    >>> parse("10,2/1")
    ((0,), (1, 9))
    """
    subsets = written.split("/")
    digits = "," not in written
    return canonical([int(t) - 1 for t in (s if digits else s.split(","))] for s in subsets)


def stirling(n: int, k: int) -> int:
    """Ways to divide n tuples into exactly k subsets."""
    signed: list[int] = [(-1) ** (k - j) * comb(k, j) * j**n for j in range(k + 1)]
    return sum(signed) // factorial(k)


def bell(n: int) -> int:
    """Number of configurations of n tuples."""
    return sum(stirling(n, k) for k in range(n + 1))


def all_partitions(n: int) -> Iterator[Partition]:
    """Every configuration of n tuples once; the last tuple joins each subset in turn, or stays alone."""
    if n == 0:
        yield ()
        return
    for smaller in all_partitions(n - 1):
        for i, subset in enumerate(smaller):
            yield (*smaller[:i], (*subset, n - 1), *smaller[i + 1 :])
        yield (*smaller, (n - 1,))


def splits(partition: Partition) -> Iterator[Partition]:
    """Neighbours with one subset more."""
    for i, (first, *others) in enumerate(partition):
        rest = (*partition[:i], *partition[i + 1 :])
        for size in range(len(others)):
            for staying in combinations(others, size):
                leaving = [t for t in others if t not in staying]
                yield canonical((*rest, (first, *staying), leaving))


def merges(partition: Partition) -> Iterator[Partition]:
    """Neighbours with one subset less."""
    for one, other in combinations(partition, 2):
        yield canonical((*(s for s in partition if s not in (one, other)), one + other))


def neighbours(partition: Partition) -> list[Partition]:
    """All configurations one split or one merge away."""
    return [*splits(partition), *merges(partition)]


def neighbour_count(partition: Partition) -> int:
    """How many neighbours there are."""
    return sum((1 << (len(s) - 1)) - 1 for s in partition) + comb(len(partition), 2)


def random_neighbour(partition: Partition, rng: np.random.Generator) -> Partition:
    """One neighbour: a split or a merge, as a coin says; the only configuration of one tuple is its own neighbour."""
    divisible = [i for i, s in enumerate(partition) if len(s) > 1]
    if not divisible and len(partition) < 2:
        return partition
    if divisible and (len(partition) < 2 or rng.random() < 0.5):
        return _random_split(partition, divisible[int(rng.integers(len(divisible)))], rng)
    one = int(rng.integers(len(partition)))
    other = (one + 1 + int(rng.integers(len(partition) - 1))) % len(partition)
    kept = (s for i, s in enumerate(partition) if i not in (one, other))
    return canonical((*kept, partition[one] + partition[other]))


def random_partition(n: int, rng: np.random.Generator) -> Partition:
    """Some configuration: first how many subsets at most, then one of them for each tuple."""
    return from_labels(rng.integers(rng.integers(1, n + 1), size=n).tolist())


def _random_split(partition: Partition, i: int, rng: np.random.Generator) -> Partition:
    """One member leaves its subset, or each one that a coin picks."""
    members = partition[i]
    leaves = np.zeros(len(members), dtype=np.bool_)
    if rng.random() < 0.5:
        leaves = rng.random(len(members)) < 0.5
    if leaves.all() or not leaves.any():
        leaves[:] = False
        leaves[rng.integers(len(members))] = True
    leaving = [t for t, gone in zip(members, leaves, strict=True) if gone]
    staying = [t for t, gone in zip(members, leaves, strict=True) if not gone]
    return canonical((*partition[:i], *partition[i + 1 :], staying, leaving))
