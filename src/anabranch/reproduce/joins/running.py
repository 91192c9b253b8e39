"""Runs join plans over the synthetic streams: steps and processor time of the later part, results, caches."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from anabranch.joins.adaptive_caches import UPDATE_STEPS
from anabranch.joins.cache_candidates import Candidate
from anabranch.joins.cache_cost import BYTES_PER_REFERENCE
from anabranch.joins.cache_states import CacheConfig
from anabranch.operators.base import END, Tick
from anabranch.operators.comparisons import Comparison
from anabranch.operators.elements import ints
from anabranch.operators.join import KeyClass, MultiJoin
from anabranch.operators.xjoin import XJoin
from anabranch.reproduce.joins.workload import Feed

PLENTY, NEVER, MANY = 2**26, 2**60, 100
PROFILED_TICKS = 16
"""Before caches that are asked for begin: by then it is known how large they will be."""
STEP_SECONDS = 1e-7
"""Probes are ordered by counted steps, as if each took so long: the same rows lead to the same orders."""

Segments = Collection[tuple[int, Sequence[int]]]
"""Caches to use: by pipeline, the windows joined in each."""


class Plan(Protocol):
    """A way to join."""

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take rows, return combinations."""

    @property
    def steps(self) -> int:
        """What was done so far."""

    @property
    def kept(self) -> int:
        """Bytes of partial results."""


class Mjoin:
    """M, P and G: the join with probe orders of A-Greedy, and caches.

    Parameters
    ----------
    feed
        What is joined.
    cache_bytes
        For caches; 0 for none.
    most_candidates
        With 0 caches have the prefix invariant; with more others are considered, too.
    forced
        Caches that are used whatever they save; no others are.
    orders
        Probe orders by input, if they are given.
    interval
        Chunks after which caches are considered again.
    comparisons
        Further conditions.

    Attributes
    ----------
    used_by_tick
        Caches in use after each tick: pipelines, and the windows joined in them.
    """

    def __init__(
        self,
        feed: Feed,
        cache_bytes: int = 0,
        most_candidates: int = 0,
        forced: Segments = (),
        orders: Sequence[Sequence[int]] | None = None,
        interval: int = 400,
        comparisons: tuple[Comparison, ...] = (),
    ) -> None:
        config = CacheConfig(interval=interval, most_candidates=most_candidates)
        if forced:
            config = CacheConfig(interval=NEVER, most_candidates=MANY, dropping=False)
        self.join = MultiJoin(
            feed.inputs,
            feed.keys,
            comparisons,
            "agreedy",
            clock=self._clock,
            cache_bytes=cache_bytes,
            caching=config,
        )
        if orders is not None:
            self.join.pin(dict(enumerate(orders)))
        self._forced = forced
        self._ticks = self._asked = self._missed = 0
        self.used_by_tick: list[frozenset[tuple[int, frozenset[int]]]] = []

    def _clock(self) -> float:
        return STEP_SECONDS * self.join.steps

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take rows, return combinations."""
        self._ticks += 1
        if self._forced and self._ticks > PROFILED_TICKS:
            self._force()
        found = self.join.advance(inputs, tick)
        for use in (each for report in self.join.take_probes() for each in report.caches):
            self._asked, self._missed = self._asked + use.probes, self._missed + use.misses
        self.used_by_tick.append(frozenset((each.pipeline, frozenset(each.windows)) for each in self.used))
        return found

    @property
    def hits(self) -> float:
        """The share of look-ups in caches that found an entry."""
        return (self._asked - self._missed) / max(self._asked, 1)

    @property
    def steps(self) -> int:
        """What was done so far."""
        return self.join.steps

    @property
    def kept(self) -> int:
        """Bytes of caches."""
        return self.join.caches.nbytes if self.join.caches else 0

    @property
    def used(self) -> list[Candidate]:
        """Caches in use."""
        return self.join.caches.used if self.join.caches else []

    def _force(self) -> None:
        caches = self.join.caches
        assert caches is not None
        wanted = [(pipeline, frozenset(windows)) for pipeline, windows in self._forced]
        chosen = [each for each in caches.candidates if (each.pipeline, frozenset(each.windows)) in wanted]
        if set(chosen) != set(caches.used):
            caches.use(chosen)


class LeftDeep:
    """X: a left-deep tree, whose first two inputs are joined first."""

    def __init__(self, feed: Feed, order: Sequence[int]) -> None:
        (members,) = feed.keys
        names = dict(members)
        self._order = order
        key: KeyClass = tuple((place, names[number]) for place, number in enumerate(order))
        self._join = XJoin(feed.inputs, (key,))
        self._now = 0

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take rows, return combinations."""
        self._now = tick.until
        return self._join.advance([inputs[number] for number in self._order], tick)

    @property
    def steps(self) -> int:
        """What was done so far, with what was put into inner results."""
        return self._join.steps + int(UPDATE_STEPS) * self._join.inner_rows

    @property
    def kept(self) -> int:
        """Bytes of inner results."""
        return sum(_bytes(table, place, self._now) for place, table in enumerate(self._join.snapshot()[2::2], start=2))


@dataclass
class Bushy:
    """X: two joins of two, and the join of their results."""

    feed: Feed
    left: tuple[int, int]
    right: tuple[int, int]
    _now: int = 0
    _inner_rows: int = 0
    _joins: list[MultiJoin] = field(default_factory=list)

    def __post_init__(self) -> None:
        (members,) = self.feed.keys
        names = dict(members)
        for one, other in (self.left, self.right, (self.left[0], self.right[0])):
            self._joins.append(MultiJoin(2, (((0, names[one]), (1, names[other])),)))

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """Take rows, return combinations."""
        self._now = tick.until
        inner = [
            join.advance([inputs[number] for number in side], tick)
            for join, side in zip(self._joins, (self.left, self.right), strict=False)
        ]
        self._inner_rows += sum(map(len, inner))
        return self._joins[-1].advance(inner, tick)

    @property
    def steps(self) -> int:
        """What was done so far, with what was put into inner results."""
        return sum(join.steps for join in self._joins) + int(UPDATE_STEPS) * self._inner_rows

    @property
    def kept(self) -> int:
        """Bytes of inner results."""
        return sum(_bytes(table, 2, self._now) for table in self._joins[-1].snapshot())


def _bytes(inner: pa.Table, inputs: int, now: int) -> int:
    """Of combinations that are still there: references, and both ends of the interval."""
    return BYTES_PER_REFERENCE * (inputs + 2) * int(np.count_nonzero(ints(inner, END) > now))


@dataclass(frozen=True)
class Run:
    """What a run showed after its first part: rows, steps, seconds of the processor; and all its results."""

    rows: int
    steps: int
    seconds: float
    results: int
    kept: int
    by_batch: Sequence[tuple[int, int, float]]

    @property
    def per_row(self) -> float:
        """Steps."""
        return self.steps / self.rows

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds


def run(plan: Plan, feed: Feed, batch: int, skipped: float = 0.5) -> Run:
    """Run a plan; the first part of the batches is not counted."""
    found: list[tuple[int, int, float]] = []
    results = 0
    for tables, tick in feed.batches(batch):
        steps, begin = plan.steps, time.process_time()
        results += len(plan.advance(tables, tick))
        found.append((sum(map(len, tables)), plan.steps - steps, time.process_time() - begin))
    later = found[int(skipped * len(found)) :]
    rows, counted, seconds = (sum(column) for column in zip(*later, strict=True))
    return Run(int(rows), int(counted), float(seconds), results, plan.kept, found)


def fastest(make: Callable[[], Plan], feed: Feed, batch: int, times: int) -> Run:
    """The quickest of some runs, which differ in nothing but time."""
    return min((run(make(), feed, batch) for _ in range(times)), key=lambda each: each.seconds)
