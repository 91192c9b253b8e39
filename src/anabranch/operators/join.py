"""The join of any number of windows: new elements of each one look for partners in all the others.

An element that comes to one input probes the windows of the others in the order of its input's *probe pipeline*
(`joins/probe_pipeline.py`), which adapts to what it finds. Inputs are served one after the other: new elements meet old
and new ones of the inputs before, and only old ones of the inputs behind, so that every combination is found once, by
its last element.

>>> join = MultiJoin(2, keys=(((0, "city"), (1, "town")),))
>>> here = pa.table({"city": ["Oslo"], "_key0": [7], "_start": [1], "_end": [9], "_weight": [1]})
>>> there = pa.table({"town": ["Oslo", "Rome"], "_key0": [7, 8], "_start": [5, 5], "_end": [20, 20], "_weight": [2, 1]})
>>> join.advance([here, there], Tick(0, 6)).to_pylist()
[{'city': 'Oslo', 'town': 'Oslo', '_start': 5, '_end': 9, '_weight': 2}]

Notes
-----
An element carries both ends of its interval, so that a result has the intersection of its parts' intervals at once:
what expires is never joined a second time.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 1.3, chapter 5: MJoins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.joins.adaptive_caches import AdaptiveCaches
from anabranch.joins.cache_states import CacheConfig
from anabranch.joins.graph import tree_of
from anabranch.joins.join_trace import JoinTrace, JoinTracer
from anabranch.joins.probe_pipeline import Check, Combinations, JoinRules, ProbePipeline
from anabranch.joins.probe_report import ProbeReport, take_report
from anabranch.operators.base import EVER, Operator, Port, Tick
from anabranch.operators.cold_windows import FULL, ColdWindows
from anabranch.operators.comparisons import Comparison
from anabranch.operators.elements import Flags, Rows, bare, elements, same, stacked
from anabranch.operators.join_ranges import JoinRanges
from anabranch.operators.join_window import JoinWindow
from anabranch.operators.payload import are_codes
from anabranch.ordering import Seed, make
from anabranch.ordering.pipeline import FilterPipeline

KeyClass = tuple[tuple[int, str], ...]
EXPECTED_GROWTH = 3
"""What new elements take in windows, with indexes, as a multiple of their tables."""
CACHING = CacheConfig(interval=400)
"""Of chunks: profiling ten of them then takes little of the time."""


class MultiJoin(Operator):
    """Combinations of elements, one per input, that agree on all keys and for which all comparisons hold.

    Parameters
    ----------
    inputs
        Number of inputs, two or more.
    keys
        Classes of equal columns, as in `logical_plan.Join`. The table of an input carries, for each class j in
        which it has a column, codes in `_key{j}`, unless all columns of the class are whole numbers. Rows whose keys
        are NULL are not given.
    comparisons
        Further conditions between two inputs.
    policy
        How the probes of an input are ordered: a name in `ordering.POLICIES`.
    leading
        If given, inputs in the order in which they are probed from all others, as far as paths allow; what is not
        among them comes after.
    columns
        Those that come out; all, if not given.
    clock
        Seconds by which probes are timed: by default those that this thread computes, however busy the machine is.
    cache_bytes
        What caches of partial results may take; with 0 there are none.
    caching
        How they are chosen.
    ranges
        Inputs that are windows over time, and for which lengths of them the join is wanted.
    """

    goes_to_disk = True

    def __init__(
        self,
        inputs: int,
        keys: tuple[KeyClass, ...] = (),
        comparisons: tuple[Comparison, ...] = (),
        policy: str = "auto",
        leading: tuple[int, ...] = (),
        columns: tuple[str, ...] | None = None,
        clock: Callable[[], float] = time.thread_time,
        cache_bytes: int = 0,
        caching: CacheConfig = CACHING,
        ranges: JoinRanges | None = None,
    ) -> None:
        self.inputs = inputs
        self._ranges = ranges or JoinRanges((), ((),))
        self._cache_bytes, self._caching = cache_bytes, caching
        self.caches: AdaptiveCaches | None = None
        self.keys = keys
        self.policy = policy
        self._output = columns
        self._clock = clock
        self._seeds: Mapping[int, Seed] = {}
        self._tracer: JoinTracer | None = None
        self._comparisons = comparisons
        self._columns = [dict(members) for members in keys]
        self._trees = [tree_of(each, inputs, self._columns) for each in range(inputs)]
        self._orders: dict[int, tuple[int, ...]] = {}
        self._windows: list[JoinWindow] = []
        self._cold: ColdWindows | None = None
        self._limit: int | None = None
        self.pipelines: list[ProbePipeline] = []
        if leading:
            order = dict.fromkeys((*leading, *range(inputs)))
            self.pin({number: [each for each in order if each != number] for number in range(inputs)})

    def pin(self, orders: Mapping[int, Sequence[int]]) -> None:
        """Probe in these orders from now on, by input, as far as paths allow."""
        for number, order in orders.items():
            tree = self._trees[number]
            wish = [tree.others.index(other) for other in order]
            self._orders[number] = tree.precedence.legal(wish)
        for number, pipeline in enumerate(self.pipelines):
            pipeline.filters = self._filters(number)

    def limit_caches(self, cache_bytes: int) -> None:
        """From now on caches may take so much; with 0, or where orders are fixed, there are none."""
        self._cache_bytes = 0 if self.policy == "fixed" else cache_bytes
        if self.caches is not None and self._cache_bytes:
            self.caches.limit = self._cache_bytes
        elif self.pipelines and (self.caches is not None or self._cache_bytes):
            self._begin_caches()

    def limit_memory(self, limit: int | None) -> None:
        """Windows take so many bytes from now on; the oldest rows go to disk."""
        self._limit = limit
        if self._cold is not None:
            self._cold.limit = limit

    def learn(self, seeds: Mapping[int, Seed]) -> None:
        """Begin with what was learned elsewhere, by input, where no row has been probed yet."""
        self._seeds = seeds
        for number, pipeline in enumerate(self.pipelines):
            if not pipeline.filters.rows_done:
                pipeline.filters = self._filters(number)

    def take_probes(self) -> tuple[ProbeReport, ...]:
        """What each input has probed since the last call."""
        return tuple(take_report(each, self.caches) for each in self.pipelines)

    def trace(self, tracer: JoinTracer | None) -> None:
        """Look at some of the rows that come, or at none."""
        self._tracer = tracer

    def take_traces(self) -> tuple[JoinTrace, ...]:
        """The rows that were looked at since `trace` was called."""
        return () if self._tracer is None else tuple(self._tracer.traces)

    def advance(self, inputs: Sequence[pa.Table], tick: Tick) -> pa.Table:
        """The combinations of new elements with all others, over the longest windows."""
        return stacked(list(self.in_parts(inputs, tick)))

    def in_parts(self, inputs: Sequence[pa.Table], tick: Tick) -> Iterator[pa.Table]:
        """The same, some new elements after the other where memory is limited."""
        for found in self._served(inputs, tick):
            yield self._gathered(found)
        self._tidy(tick)

    def ports(self, inputs: Sequence[pa.Table], tick: Tick) -> Mapping[Port | None, pa.Table]:
        """The same, over windows of each wanted length."""
        parts: dict[Port, list[pa.Table]] = {port: [] for port in self._ranges.wanted}
        for found in self._served(inputs, tick):
            stores = [window.store for window in self._windows]
            for port, tables in parts.items():
                tables.append(self._gathered(self._ranges.part(found, port, stores)))
        self._tidy(tick)
        return {port or None: stacked(tables) for port, tables in parts.items()}

    def _served(self, inputs: Sequence[pa.Table], tick: Tick) -> Iterator[list[Combinations]]:
        """The combinations of new elements: of all at once, or of as many as the memory lets."""
        self._begin([table.schema for table in inputs])
        cold = self._cold
        if cold is None or not cold.needed_for(EXPECTED_GROWTH * sum(table.nbytes for table in inputs)):
            yield self._combinations(inputs)
            return
        self.caches = None  # they give way first, and would not know what is on disk
        for window, table in zip(self._windows, inputs, strict=True):
            window.append(table.slice(0, 0))  # all columns are known before the first probe
        yield []
        for number, table in enumerate(inputs):
            for part in cold.parts(number, self._ranges.ended(number, table), tick.start):
                first, until = self._windows[number].append(part)
                yield list(self.pipelines[number].combinations(first, until))
                if self._tracer is not None:
                    self._tracer.look(self.pipelines[number], self._rows_of, first, until)

    def _combinations(self, inputs: Sequence[pa.Table]) -> list[Combinations]:
        self._begin([table.schema for table in inputs])
        for window, table in zip(self._windows, inputs, strict=True):
            window.append(table.slice(0, 0))  # all columns are known before the first probe
        found: list[Combinations] = []
        for number, table in enumerate(inputs):
            first, until = self._windows[number].append(self._ranges.ended(number, table))
            if self.caches is None:
                found += self.pipelines[number].combinations(first, until)
            else:
                self.caches.update(number, first, until)
                found += self.caches.combinations(number, first, until)
            if self._tracer is not None:
                self._tracer.look(self.pipelines[number], self._rows_of, first, until)
        return found

    def absorb(self, inputs: Sequence[pa.Table], tick: Tick) -> None:
        """Keep the new elements without joining them."""
        self._begin([table.schema for table in inputs])
        for number, table in enumerate(inputs):
            self._take_in(number, table, tick.start)
        self._tidy(tick)

    def _take_in(self, number: int, table: pa.Table, now: int) -> None:
        """Keep elements of an input."""
        ended, window, cold = self._ranges.ended(number, table), self._windows[number], self._cold
        if cold is None or not cold.needed_for(EXPECTED_GROWTH * table.nbytes):
            first, until = window.append(ended)
            if self.caches is not None:
                self.caches.update(number, first, until)
            return
        self.caches = None
        window.append(ended.slice(0, 0))
        for part in cold.slices(ended, now):
            cold.take_back(number, part)
            window.append(part)

    def snapshot(self) -> list[pa.Table]:
        """The elements of each input."""
        if self._cold is None:
            return [window.table() for window in self._windows]
        return [self._cold.whole(number) for number in range(len(self._windows))]

    def restore(self, tables: Sequence[pa.Table]) -> None:
        """Take over elements."""
        if tables:
            self._begin([table.schema for table in tables])
        for number, table in enumerate(tables):
            self._take_in(number, table, EVER)
        if self.pipelines:
            self._begin_caches()

    @property
    def steps(self) -> int:
        """Probes, partners listed, comparisons, and combinations put into caches so far."""
        plain = sum(each.steps for pipeline in self.pipelines for each in pipeline.steps.values())
        return plain + (self.caches.steps if self.caches else 0)

    @property
    def held_rows(self) -> int:
        """Elements of all inputs, in memory and on disk."""
        return sum(map(len, self._windows)) + (len(self._cold) if self._cold is not None else 0)

    @property
    def held_bytes(self) -> int:
        """Bytes of all inputs in memory, with their indexes, and of caches."""
        filters = self._cold.nbytes if self._cold is not None else 0
        return filters + sum(window.nbytes for window in self._windows) + (self.caches.nbytes if self.caches else 0)

    @property
    def file_bytes(self) -> int:
        """Bytes on disk."""
        return self._cold.file_bytes if self._cold is not None else 0

    def take_peak(self) -> int:
        """The most bytes in memory since the last call."""
        return max(self.held_bytes, self._cold.take_peak() if self._cold is not None else 0)

    def _begin(self, schemas: Sequence[pa.Schema]) -> None:
        """Once the types of all columns are known."""
        if self._windows:
            return
        kinds = [[schemas[number].field(name).type for number, name in members] for members in self.keys]
        exact = frozenset(number for number, each in enumerate(kinds) if are_codes(each))
        for number in range(self.inputs):
            columns = {each: members[number] for each, members in enumerate(self._columns) if number in members}
            probed = {tree.keys[number] for tree in self._trees if tree.root != number}
            self._windows.append(JoinWindow(columns, exact, probed))
        self._cold = ColdWindows(self._trees, self._windows)
        self._cold.limit = self._limit
        classes = tuple(frozenset(members) for members in self._columns)
        rules = JoinRules(classes, exact, tuple(each.inputs for each in self._comparisons))
        stores = [window.store for window in self._windows]
        self.pipelines = [
            ProbePipeline(tree, stores, rules, self._holds, self._filters(number))
            for number, tree in enumerate(self._trees)
        ]
        self._begin_caches()

    def _begin_caches(self) -> None:
        """Start without any: they are never logged, and fill again."""
        self.caches = None
        cold = self._cold is not None and len(self._cold) > 0
        if self._cache_bytes > 0 and self.inputs > 2 and not cold:
            stores, rules = [window.store for window in self._windows], self.pipelines[0].rules
            self.caches = AdaptiveCaches(self.pipelines, stores, rules, self._holds, self._cache_bytes, self._caching)

    def _filters(self, number: int) -> FilterPipeline:
        tree, order = self._trees[number], self._orders.get(number)
        policy, seed = self.policy, self._seeds.get(number)
        if order is not None:
            policy, seed = "fixed", Seed(order, np.zeros((0, len(order)), np.bool_), np.full(len(order), np.nan))
        policy_of = make(policy, len(tree.others), precedence=tree.precedence, seed=seed)
        return FilterPipeline(policy_of, costs=seed.costs if seed else None, clock=self._clock)

    def _holds(self, check: Check, one: Rows, other: Rows) -> Flags:
        """Whether rows of two inputs agree."""
        if check.comparison is not None:
            comparison = self._comparisons[check.comparison]
            sides = {check.one: one, check.other: other}
            columns = [self._values(number, sides[number], name) for number, name in comparison.sides]
            return comparison.holds(*columns)
        alike = np.ones(len(one), np.bool_)
        for number in check.key:
            stores = self._windows[check.one].store, self._windows[check.other].store
            alike &= stores[0].codes((number,))[one] == stores[1].codes((number,))[other]
            if number not in self.pipelines[0].rules.exact:
                names = self._columns[number]
                left = self._values(check.one, one, names[check.one])
                alike &= same(left, self._values(check.other, other, names[check.other]))
        return alike

    def _values(self, number: int, rows: Rows, name: str) -> pa.ChunkedArray:
        return self._windows[number].payload.take(rows, [name]).column(name)

    def _rows_of(self, number: int, rows: Rows) -> list[dict[str, Any]]:
        return list(self._windows[number].payload.take(rows).to_pylist())

    def _gathered(self, found: Sequence[Combinations]) -> pa.Table:
        """The columns of combinations, which were numbers so far."""
        none = np.empty(0, np.int64)
        names, columns = [], []
        for number, window in enumerate(self._windows):
            wanted = window.payload.names
            if self._output is not None:
                wanted = [name for name in wanted if name in self._output]
            if wanted:
                rows = np.concatenate([none, *(each.rows[number] for each in found)])
                part = window.payload.take(rows, wanted)
                names += wanted
                columns += part.columns
        start, end, weight = (
            np.concatenate([none, *(getattr(each, name) for each in found)]) for name in ("start", "end", "weight")
        )
        joined = pa.table(columns, names=names) if names else bare(len(start))
        return elements(joined, start, end, weight)

    def _tidy(self, tick: Tick) -> None:
        for number, window in enumerate(self._windows):
            settled, gone = window.tidy(tick.until)
            if self.caches is not None:
                self.caches.tidied(number, settled, gone)
        if self.caches is not None:
            self.caches.end_tick(tick.until)
        if self._cold is not None:
            self._cold.expire(tick.until)
            if self._limit is not None and self.held_bytes > FULL * self._limit:
                self.caches = None
                self._cold.make_room(tick.until)


def join_of_ranges(
    inputs: int,
    keys: tuple[KeyClass, ...],
    comparisons: tuple[Comparison, ...],
    policy: str,
    leading: tuple[int, ...],
    ranged: tuple[int, ...],
    wanted: tuple[Port, ...],
) -> MultiJoin:
    """A join of which some inputs are windows over time, for the lengths that are wanted."""
    return MultiJoin(inputs, keys, comparisons, policy, leading, ranges=JoinRanges(ranged, wanted))
