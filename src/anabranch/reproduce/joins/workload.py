"""The synthetic streams of section 5.8: multiplicities, rates, windows of rows, and pairwise selectivities.

>>> feed = chain(multiplicity=5, values=100, cycles=3)             # R(A), S(A, B), T(B): 1, 1 and 5 rows per value
>>> [len(each["B"] if "B" in each else each["A"]) for each in feed.columns], feed.windows
([300, 300, 1500], [100, 100, 500])
>>> feed = selective((10, 1, 1, 1), [0.005] * 6, rows=13_000, window=200)
>>> np.bincount(feed.owner).tolist()
[10000, 1000, 1000, 1000]

Differs from the paper: its generator is only named, and window sizes are not given. Values of the three-way query come
in the order of a domain, again and again, and windows hold the domain once, so that every row has its partners. For
Table 5.2 rows have values that all streams know, values that two streams know, and values of their own, in shares
that give the pairwise selectivities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import Counts
from anabranch.operators.base import END, FOREVER, START, WEIGHT, Tick
from anabranch.operators.comparisons import Comparison
from anabranch.operators.join import KeyClass

CHAIN: tuple[KeyClass, ...] = (((0, "A0"), (1, "A1")), ((1, "B1"), (2, "B2")))
COMMON_VALUES, PAIR_VALUES, COMMON_SHARE = 100, 4, 0.9
SEED = 20_260_523
Batch = tuple[list[pa.Table], Tick]


def star(inputs: int) -> tuple[KeyClass, ...]:
    """All streams by one attribute."""
    return (tuple((number, f"A{number}") for number in range(inputs)),)


@dataclass(frozen=True)
class Feed:
    """Rows that arrive: whose each is, the attributes of each stream, and how many rows each window holds."""

    keys: tuple[KeyClass, ...]
    owner: Counts
    columns: Sequence[Mapping[str, Counts]]
    windows: Sequence[int]

    @property
    def inputs(self) -> int:
        """How many streams."""
        return len(self.columns)

    def batches(self, size: int) -> Iterator[Batch]:
        """The rows, so many at a time; time is the number of rows that came before."""
        tables = [self._table(number) for number in range(self.inputs)]
        for first in range(0, len(self.owner), size):
            counts = np.bincount(self.owner[:first], minlength=self.inputs)
            until = np.bincount(self.owner[: first + size], minlength=self.inputs)
            parts = [each.slice(a, b - a) for each, a, b in zip(tables, counts, until, strict=True)]
            yield parts, Tick(first, first + size)

    def _table(self, number: int) -> pa.Table:
        start = np.flatnonzero(self.owner == number)
        end = np.full(len(start), FOREVER)
        end[: -self.windows[number]] = start[self.windows[number] :]
        named = {f"{name}{number}": values for name, values in self.columns[number].items()}
        return pa.table(named | {START: start, END: end, WEIGHT: np.ones(len(start), np.int64)})


def chain(
    multiplicity: int = 5, values: int = 1_000, cycles: int = 4, *, partners: float = 1.0, churn: int = 1
) -> Feed:
    """R(A), S(A, B) and T(B), where a value comes once in R and S and several times in T.

    Parameters
    ----------
    multiplicity
        Of values in T, and how much faster it is.
    values, cycles
        Size of the domain, and how often it comes in T.
    partners
        Rows of R and S together that a row of T joins with: above 1 each row of R comes that often, below 1 that
        share of the values is in R.
    churn
        How often the domain comes in R and S meanwhile.
    """
    rng = np.random.default_rng(SEED)
    sizes = [round(values * max(partners, 1.0)), values, values * multiplicity]
    domain = np.arange(values, dtype=np.int64)
    known = domain if partners >= 1 else np.where(rng.random(values) < partners, domain, -1 - domain)
    r, s, t = (_spread(each, size) for each, size in zip((known, domain, domain), sizes, strict=True))
    r, s, t = np.tile(r, cycles * churn), np.tile(s, cycles * churn), np.tile(t, cycles)
    return _merged(CHAIN, [{"A": r}, {"A": s, "B": s}, {"B": t}], sizes)


def alike(inputs: int, values: int, cycles: int, many: int = 5) -> Feed:
    """Streams by one attribute: the first half of them has each value once, the others have it several times."""
    sizes = [values * (1 if number < inputs // 2 else many) for number in range(inputs)]
    columns = [{"A": np.tile(_spread(np.arange(values, dtype=np.int64), size), cycles)} for size in sizes]
    return _merged(star(inputs), columns, sizes)


def selective(
    rates: Sequence[int], selectivities: Sequence[float], rows: int, window: int, *, scale: float = 1.0
) -> Feed:
    """Streams by one attribute with given rates and pairwise selectivities, in the order of Table 5.2.

    `scale` is how many times larger the windows are than those for which the selectivities are meant: values are
    so many times more, and rows have as many partners.
    """
    rng = np.random.default_rng(SEED)
    pairs = dict(zip(combinations(range(len(rates)), 2), selectivities, strict=True))
    common = COMMON_SHARE * min(selectivities)
    columns = []
    for number, rate in enumerate(rates):
        count = rows * rate // sum(rates)
        columns.append({"A": _drawn(number, count, pairs, common, round(scale), rng)})
    return _merged(star(len(rates)), columns, [window] * len(rates))


def thetas(per_key: int, rows: int) -> tuple[Feed, tuple[Comparison, ...]]:
    """Three streams by one attribute, where rows of the last two are compared, and few pairs of them agree.

    The window of the second holds so many rows per key, all of which have to be compared.
    """
    rng, keys = np.random.default_rng(SEED), 10
    counts = [6 * rows // 10, 2 * rows // 10, 2 * rows // 10]
    columns = [{"A": rng.integers(0, keys, count), "N": rng.integers(0, 1_000, count)} for count in counts]
    columns[2]["N"] = columns[2]["N"] + 960
    feed = _merged(star(3), columns, [20 * keys, per_key * keys, 20 * keys])
    return feed, (Comparison(((1, "N1"), (2, "N2")), ">"),)


def burst(values: int, calm: int, stormy: int, multiplicity: int, faster: int) -> tuple[Feed, int]:
    """The three-way query while R comes so many times faster after a while; and the row with which that begins."""
    before, after = chain(multiplicity, values, calm), chain(multiplicity, values, stormy)
    hurried = np.repeat(after.columns[0]["A"], faster)
    later = _merged(CHAIN, [{"A": hurried}, *after.columns[1:]], before.windows)
    columns = [
        {name: np.concatenate((one[name], other[name])) for name in one}
        for one, other in zip(before.columns, later.columns, strict=True)
    ]
    owner = np.concatenate((before.owner, later.owner))
    return Feed(CHAIN, owner, columns, before.windows), len(before.owner)


def _drawn(
    number: int, count: int, pairs: Mapping[tuple[int, int], float], common: float, scale: int, rng: np.random.Generator
) -> Counts:
    """Values of one stream: of all, of the pairs in which it is, or its own."""
    blocks = [(0, COMMON_VALUES, common)]
    for place, (pair, selectivity) in enumerate(pairs.items(), start=1):
        if number in pair:
            blocks.append((place, PAIR_VALUES, selectivity - common))
    shares = [sqrt(size * share) for _, size, share in blocks]
    which = rng.choice(len(blocks) + 1, count, p=[*shares, 1 - sum(shares)])
    own = -1 - np.arange(count) * len(pairs) - number
    for place, (block, size, _) in enumerate(blocks):
        inside = np.flatnonzero(which == place)
        own[inside] = (block << 32) + rng.integers(0, size * scale, len(inside))
    return own


def _spread(values: Counts, size: int) -> Counts:
    """So many of the values, in their order, each equally often."""
    return values[np.arange(size) * len(values) // size]


def _merged(keys: tuple[KeyClass, ...], columns: Sequence[Mapping[str, Counts]], windows: Sequence[int]) -> Feed:
    """Streams that come evenly, each as fast as it is long."""
    sizes = [len(next(iter(each.values()))) for each in columns]
    times = np.concatenate([(np.arange(size) + 0.5) / size for size in sizes])
    owner = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(times, kind="stable")]
    return Feed(keys, owner, columns, windows)
