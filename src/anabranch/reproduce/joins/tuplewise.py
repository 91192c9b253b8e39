"""Joins as the thesis runs them, tuple by tuple, counted: probes of windows, caches and inner results, and updates.

Every row comes twice, when it enters its window and when it leaves it, and a pipeline probes once for every tuple on
the way. Rows of the same value are alike, so that only numbers of rows per value are needed.

>>> feed = chain(multiplicity=5, values=100, cycles=4)
>>> counted = Tuplewise(feed)
>>> orders = ((1, 2), (0, 2), (1, 0))                              # R: S, T; S: R, T; T: S, R
>>> plain = counted.plain(orders)
>>> plain.probes / plain.values                                    # per value: 8 + 4 r
28.0
>>> cached = counted.cached(orders, [Candidate(2, 0, (1, 0))], lifetime=50)
>>> cached.probes / cached.values, cached.hits                     # 10 + 2 r, and (2 r - 1) / 2 r
(20.0, 0.9)

Notes
-----
An entry of a cache is there for `lifetime` rows after it was asked for last, which is what a directory with fewer slots
than there are values comes to. A cache with support keeps combinations that have a partner there: with one attribute
that is a matter of the value, and takes a probe when an entry is made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from anabranch.joins.cache_candidates import Candidate
from anabranch.joins.cache_cost import Estimate
from anabranch.joins.cache_selection import best_of_all
from anabranch.model.arrays import Counts, Mask, Order
from anabranch.reproduce.joins.workload import Feed, chain

__all__ = ["UPDATE_COST", "Tuplewise", "Work", "chain"]

UPDATE_COST = 0.5
"""Of an update, in probes: it sets a reference, where a probe builds a tuple."""
FOREVER = 2**60
Tree = int | tuple["Tree", "Tree"]


@dataclass(frozen=True)
class Work:
    """What a plan takes in the counted part of a feed: of rows, values (at the rate of the second stream), probes."""

    rows: int
    values: int
    probes: int
    updates: int = 0
    asked: int = 0
    missed: int = 0

    @property
    def per_row(self) -> float:
        """Probes for a row, with updates at their cost."""
        return (self.probes + UPDATE_COST * self.updates) / self.rows

    @property
    def hits(self) -> float:
        """The share of look-ups in caches that find an entry."""
        return (self.asked - self.missed) / max(self.asked, 1)


class Tuplewise:
    """A feed, as rows that enter and leave, with how many partners each has then in every window.

    Parameters
    ----------
    feed
        What is joined; all attributes of a row have the same value.
    skipped
        The part of the rows that is not counted, while windows fill.
    """

    def __init__(self, feed: Feed, skipped: float = 0.5) -> None:
        self.inputs = feed.inputs
        owner, value, sign, at = _events(feed)
        self._owner, self._at = owner, at
        self._sorted = np.lexsort((np.arange(len(owner)), value))
        ordered = value[self._sorted]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        self._partners = [self._before(np.where(owner == number, sign, 0)) for number in range(feed.inputs)]
        self._counted = at >= skipped * len(feed.owner)
        self._rows = int(len(feed.owner) - np.ceil(skipped * len(feed.owner)))
        self._values = int(np.count_nonzero(self._counted & (owner == 1) & (sign > 0)))

    def plain(self, orders: Sequence[Order]) -> Work:
        """Without caches."""
        probes = [self._count(each) for number, order in enumerate(orders) for each in self._entering(number, order)]
        return Work(self._rows, self._values, sum(probes))

    def best_orders(self) -> tuple[Order, ...]:
        """Of each pipeline the order that probes least."""
        found = []
        for number in range(self.inputs):
            others = [each for each in range(self.inputs) if each != number]
            cost = {order: sum(map(self._count, self._entering(number, order))) for order in permutations(others)}
            found.append(min(cost, key=lambda order: cost[order]))
        return tuple(found)

    def cached(self, orders: Sequence[Order], caches: Collection[Candidate], lifetime: int = FOREVER) -> Work:
        """With caches; what pipelines share is kept up once."""
        plain = self.plain(orders)
        probes, asked, missed = plain.probes, 0, 0
        updates: dict[object, int] = {}
        for each in caches:
            saved, looked, misses, created = self._look_ups(orders, each, lifetime)
            probes, asked, missed = probes - saved, asked + looked, missed + misses
            kept = self._upkeep(orders, each, lifetime)
            updates[each.identity] = max(updates.get(each.identity, 0), kept) + created
        return Work(self._rows, self._values, probes, sum(updates.values()), asked, missed)

    def chosen(self, orders: Sequence[Order], candidates: Collection[Candidate]) -> set[Candidate]:
        """The best of all choices of candidates."""
        estimates = {}
        for each in candidates:
            saved, _, _, created = self._look_ups(orders, each, FOREVER)
            kept = self._upkeep(orders, each, FOREVER)
            estimates[each] = Estimate(saved - UPDATE_COST * created, UPDATE_COST * kept)
        return best_of_all(estimates)

    def tree(self, tree: Tree) -> Work:
        """With a tree of joins of two, whose inner results are kept."""
        probes = updates = 0
        for number in range(self.inputs):
            carried = (self._owner == number).astype(np.int64)
            siblings = _siblings(tree, number)
            for place, sibling in enumerate(siblings):
                probes += self._count(carried)
                carried = carried * self._together(sibling)
                updates += self._count(carried) if place < len(siblings) - 1 else 0
        return Work(self._rows, self._values, probes, updates)

    def combinations(self, windows: Collection[int]) -> float:
        """How many there are of some windows at the end, on average over rows of one of them."""
        first, *others = sorted(windows)
        rows = (self._owner == first) & self._counted
        return float(self._together(others)[rows].mean())

    def _entering(self, number: int, order: Sequence[int]) -> list[Counts]:
        """Tuples that come to each operator of a pipeline."""
        found = [(self._owner == number).astype(np.int64)]
        for other in order[:-1]:
            found.append(found[-1] * self._partners[other])
        return found

    def _look_ups(self, orders: Sequence[Order], cache: Candidate, lifetime: int) -> tuple[int, int, int, int]:
        """Probes that a cache saves, look-ups, misses, and combinations put in by misses."""
        carried = self._entering(cache.pipeline, orders[cache.pipeline])[cache.place]
        missed = self._misses(carried > 0, lifetime)
        inside = [np.ones(len(carried), np.int64)]
        for window in cache.windows:
            inside.append(inside[-1] * self._partners[window])
        segment = sum(inside[:-1], np.zeros(len(carried), np.int64))
        looked, saved = self._count(carried), self._count(carried * segment)
        filled = self._count(np.where(missed, segment + len(cache.support), 0))
        return saved - looked - filled, looked, self._count(missed), self._count(np.where(missed, inside[-1], 0))

    def _upkeep(self, orders: Sequence[Order], cache: Candidate, lifetime: int) -> int:
        """Updates of entries that are there: what comes by in the pipelines of its windows, and of its support."""
        asked = self._entering(cache.pipeline, orders[cache.pipeline])[cache.place] > 0
        known = self._known(asked, lifetime)
        kept = {*cache.windows, *cache.support}
        return sum(
            self._count(np.where(known & (self._owner == each), self._together(kept - {each}), 0)) for each in kept
        )

    def _misses(self, asked: Mask, lifetime: int) -> Mask:
        missed: Mask = asked & ~self._known(asked, lifetime)
        return missed

    def _known(self, asked: Mask, lifetime: int) -> Mask:
        """Whether a value was asked for before, and not too long ago."""
        order, at = self._sorted, self._at
        last = np.where(asked, np.arange(len(at)), -1)[order]
        places = np.arange(len(order))
        mark = np.where(last >= 0, places, -1)
        before = np.append(-1, np.maximum.accumulate(mark)[:-1])
        first = np.repeat(self._starts, np.diff(np.append(self._starts, len(order))))
        there = before >= first
        recent = at[order] - at[order[np.maximum(before, 0)]] <= lifetime
        known = np.empty(len(order), np.bool_)
        known[order] = there & recent
        return known

    def _before(self, change: Counts) -> Counts:
        """For each event the sum of earlier changes of its value."""
        ordered = change[self._sorted]
        total = np.cumsum(ordered) - ordered
        total -= np.repeat(total[self._starts], np.diff(np.append(self._starts, len(ordered))))
        found = np.empty(len(ordered), np.int64)
        found[self._sorted] = total
        return found

    def _together(self, windows: Collection[int]) -> Counts:
        product = np.ones(len(self._owner), np.int64)
        for each in windows:
            product = product * self._partners[each]
        return product

    def _count(self, numbers: Counts | Mask) -> int:
        return int(numbers[self._counted].sum())


def _events(feed: Feed) -> tuple[Counts, Counts, Counts, Counts]:
    """Rows that leave and enter: whose, the value, +1 or -1, and after how many rows."""
    parts = []
    for number, columns in enumerate(feed.columns):
        at, values, window = np.flatnonzero(feed.owner == number), next(iter(columns.values())), feed.windows[number]
        parts.append((np.full(len(at), number), values, np.ones(len(at), np.int64), at))
        gone = len(at) - window
        if gone > 0:
            parts.append((np.full(gone, number), values[:gone], np.full(gone, -1), at[window:]))
    owner, value, sign, at = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((sign, at))
    return owner[order], value[order], sign[order], at[order]


def _leaves(tree: Tree) -> tuple[int, ...]:
    return (tree,) if isinstance(tree, int) else (*_leaves(tree[0]), *_leaves(tree[1]))


def _siblings(tree: Tree, number: int) -> list[tuple[int, ...]]:
    """What a row of an input is joined with on the way up, innermost first."""
    if isinstance(tree, int):
        return []
    near, far = tree if number in _leaves(tree[0]) else tree[::-1]
    return [*_siblings(near, number), _leaves(far)]
