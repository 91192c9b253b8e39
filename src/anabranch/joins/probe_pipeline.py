"""The probe pipeline of one input of a join: new rows look for partners in all other windows, in an order that adapts.

Two phases, a chunk of rows at a time. *Drop probing* asks of one window after the other whether there is a partner at
all; a row stops at the first window without one. That is a pipeline of filters, and it runs through the same
`FilterPipeline`, with the same policies. *Output generation* goes on from there: of the rows that are left all partners
are listed, once per window, and then combined. Nothing is probed twice, and what is found on the way is not stored.

Rows are numbers until the end: the caller gathers the columns of combinations.

Notes
-----
r_i -> a row of the root; the operators of its pipeline -> filters, one per other window; a logical filter along a path
-> `ProbeTree.path`, for which the combinations along the path are listed while drop probing.

Differs from the paper
----------------------
The paper works tuple by tuple. A path is judged by the partners listed on it: what a filter costs is what it adds to
the path (`ordering/greedy.py` ranks a filter together with those before it on its path).

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from anabranch.joins.graph import ProbeTree
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask, Rows, ranges
from anabranch.ordering.decisions import Decision
from anabranch.ordering.pipeline import FilterPipeline, Verdict


@dataclass(frozen=True)
class Check:
    """What rows of two inputs have to agree on besides a code: classes of columns, or a comparison by its number."""

    one: int
    other: int
    key: Key = ()
    comparison: int | None = None


@dataclass(frozen=True)
class JoinRules:
    """What is joined.

    Parameters
    ----------
    classes
        The inputs that have a column in each class of equal columns.
    exact
        Classes whose codes are the values; equal codes of others may belong to different values.
    comparisons
        Pairs of inputs between which there is a further condition.
    """

    classes: tuple[frozenset[int], ...]
    exact: frozenset[int]
    comparisons: tuple[tuple[int, int], ...] = ()

    def checks(self, tree: ProbeTree, other: int, bound: Sequence[int]) -> list[Check]:
        """What has to be looked at when a row of another input joins rows of those that are bound."""
        key, parent = tree.keys[other], tree.parents[other]
        found = []
        if parent in bound:
            compared = key if len(key) > 1 else tuple(number for number in key if number not in self.exact)
            found += [Check(parent, other, compared)] if compared else []
        for number, members in enumerate(self.classes):
            partners = [each for each in bound if each in members]
            if other in members and number not in key and partners:
                found.append(Check(partners[0], other, (number,)))
        for place, pair in enumerate(self.comparisons):
            found += [Check(one, other, comparison=place) for one in bound if pair in ((one, other), (other, one))]
        return found


@dataclass(frozen=True)
class Combinations:
    """Numbers of rows by input, with the interval and the weight of each combination."""

    rows: dict[int, Rows]
    start: Counts
    end: Counts
    weight: Counts


@dataclass(frozen=True)
class FanOut:
    """For how many rows all partners in a window were listed, and how many there were."""

    asked: int = 0
    found: int = 0


@dataclass
class ProbeSteps:
    """What probing a window took so far.

    Parameters
    ----------
    asked, passed
        Rows, or combinations on the way, that looked for a partner, and those that found one.
    listed, found
        Those of which all partners were listed, and how many these were.
    steps
        Probes, partners listed and comparisons.
    """

    asked: int = 0
    passed: int = 0
    listed: int = 0
    found: int = 0
    steps: int = 0

    def since(self, before: ProbeSteps) -> ProbeSteps:
        """What has come since then."""
        return ProbeSteps(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(self)))

    def __add__(self, other: ProbeSteps) -> ProbeSteps:
        return ProbeSteps(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def reach(self) -> float:
        """Partners of what asks, on average."""
        return self.passed / max(self.asked, 1) * (self.found / self.listed if self.listed else 1.0)


Holds = Callable[[Check, Rows, Rows], Mask]


class Window(Protocol):
    """What can be probed: see `WindowStore`."""

    @property
    def start(self) -> Counts:
        """Since when each row is there."""

    @property
    def end(self) -> Counts:
        """From when on each row is not there any more."""

    @property
    def weight(self) -> Counts:
        """How often each row is there."""

    @property
    def all_once(self) -> bool:
        """Whether every row is there once."""

    def codes_of(self, key: Key, rows: Rows) -> Counts:
        """The codes of rows by a key."""

    def first_match(self, key: Key, codes: Counts, begin: Counts, end: Counts) -> Rows:
        """For each code a row that has it and meets the interval, -1 if there is none."""

    def matches(
        self, key: Key, codes: Counts, begin: Counts, end: Counts, first: Rows | None = None
    ) -> tuple[Rows, Rows]:
        """All such rows: places of codes, ascending, and rows."""


class ProbePipeline:
    """Drop probing and output generation for one input.

    Parameters
    ----------
    tree
        How its rows reach the other windows.
    stores
        All windows, by input.
    rules
        What is joined.
    holds
        Judges rows of two inputs by a check.
    filters
        The loop that orders the probes.

    Attributes
    ----------
    steps
        What probing each window took so far.
    watched
        Windows of which the codes that ask are kept in `codes`, until they are taken.
    """

    def __init__(
        self,
        tree: ProbeTree,
        stores: Sequence[Window],
        rules: JoinRules,
        holds: Holds,
        filters: FilterPipeline,
    ) -> None:
        self.tree, self.stores, self.rules, self.holds, self.filters = tree, stores, rules, holds, filters
        self._fan_outs = {other: FanOut() for other in tree.others}
        self._decisions: list[Decision] = []
        self.steps = {other: ProbeSteps() for other in tree.others}
        self.watched: frozenset[int] = frozenset()
        self.codes: dict[int, Counts] = {}
        only = len(tree.others) == 1
        self.listing = {each for each in tree.others if only or each in tree.inner or self._compared(each)}

    def _compared(self, other: int) -> bool:
        before = (self.tree.root, *self.tree.path(other)[:-1])
        return any(each.comparison is not None for each in self.rules.checks(self.tree, other, before))

    @property
    def order(self) -> tuple[int, ...]:
        """The other inputs, in the order in which they are probed."""
        return tuple(self.tree.others[f] for f in self.filters.reoptimizer.order)

    def count_fan_out(self, other: int, asked: int, found: int) -> None:
        """Partners were listed."""
        fan_out, took = self._fan_outs[other], self.steps[other]
        took.listed, took.found = took.listed + asked, took.found + found
        self._fan_outs[other] = FanOut(fan_out.asked + asked, fan_out.found + found)

    def take_fan_out(self, other: int) -> FanOut:
        """Hand over what was listed in a window since the last call."""
        taken, self._fan_outs[other] = self._fan_outs[other], FanOut()
        return taken

    def take_decisions(self) -> list[Decision]:
        """Hand over the decisions since the last call."""
        taken, self._decisions = self._decisions, []
        return taken

    def combinations(self, first: int, until: int) -> Iterator[Combinations]:
        """All combinations with the rows of the root from `first` to before `until`."""
        while first < until:
            size, found = self.chunk(first, until)
            if found is not None:
                yield found
            first += size

    def chunk(self, first: int, until: int) -> tuple[int, Combinations | None]:
        """Go on with the rows from `first`: how many of them were taken, and their combinations."""
        size = self.filters.chunk_rows(until - first)
        chunk, order = _Chunk(self, first), self.order
        outcome = self.filters.process(size, chunk.evaluate)
        self._decisions += outcome.decisions
        return size, chunk.combined(outcome.survivors, order) if len(outcome.survivors) else None

    def met(self, row: int) -> tuple[list[tuple[int, Rows]], int]:
        """Which rows one row of the root meets in each window, and how many combinations it makes.

        Windows come in the order in which they are probed, up to the first without a partner. Nothing is counted.
        """
        beside = ProbePipeline(self.tree, self.stores, self.rules, self.holds, self.filters)
        beside.listing = set(self.tree.others)
        chunk, one = _Chunk(beside, row), np.zeros(1, np.int64)
        found: list[tuple[int, Rows]] = []
        for other in self.order:
            passed = bool(chunk.evaluate(self.tree.others.index(other), one).passed[0])
            found.append((other, chunk.partners(other)))
            if not passed:
                return found, 0
        return found, len(chunk.combined(one, self.order).start)


@dataclass(frozen=True)
class _Partners:
    """The partners in one window, listed by the row or partner from which they were reached."""

    first: Rows
    count: Rows
    parents: Rows
    rows: Rows
    start: Counts
    end: Counts


class _Chunk:
    """Rows of the root on their way."""

    def __init__(self, pipeline: ProbePipeline, first: int) -> None:
        self._pipeline, self._first = pipeline, first
        self._partners: dict[int, _Partners] = {}
        self._firsts: dict[int, Rows] = {}

    def evaluate(self, f: int, rows: Rows) -> Verdict:
        """Which rows have a partner, along the path to it."""
        tree = self._pipeline.tree
        other = tree.others[f]
        asked, owner = self._reached(tree.parents[other], rows)
        if other in self._pipeline.listing:
            partners = self._list(other, asked, None)
            found = partners.count[asked] > 0
        else:
            codes, begin, end = self._probes(other, asked)
            matches = self._pipeline.stores[other].first_match(tree.keys[other], codes, begin, end)
            self._firsts[other] = firsts = np.full(self._size(tree.parents[other], asked), -1, np.int64)
            firsts[asked] = matches
            found = matches >= 0
            self._pipeline.steps[other].steps += len(asked)
        took = self._pipeline.steps[other]
        took.asked, took.passed = took.asked + len(asked), took.passed + int(np.count_nonzero(found))
        passed = np.zeros(len(rows), np.bool_)
        passed[found if owner is None else owner[found]] = True
        return Verdict(passed)

    def partners(self, other: int) -> Rows:
        """What was listed in a window, each row once."""
        return np.unique(self._partners[other].rows)

    def combined(self, survivors: Rows, order: Sequence[int]) -> Combinations:
        """The combinations of rows that are left with their partners in all windows."""
        pipeline, tree = self._pipeline, self._pipeline.tree
        bound = {tree.root: survivors}
        start, end = self._interval(tree.root, survivors)
        for other in order:
            parent = bound[tree.parents[other]]
            if other not in self._partners:
                asked = _each_once(parent)
                partners = self._list(other, asked, self._firsts.get(other))
                pipeline.count_fan_out(other, len(asked), len(partners.rows))
            else:
                partners = self._partners[other]
                pipeline.count_fan_out(other, len(parent), int(partners.count[parent].sum()))
            run, entries = ranges(partners.first[parent], partners.count[parent])
            start = np.maximum(start[run], partners.start[entries])
            end = np.minimum(end[run], partners.end[entries])
            keep = start < end
            pipeline.steps[other].steps += len(run)
            path = (tree.root, *tree.path(other)[:-1])
            more = [each for each in pipeline.rules.checks(tree, other, list(bound)) if each.one not in path]
            for check in more:
                left = np.flatnonzero(keep)
                rows = self._rows(check.one, bound[check.one][run[left]])
                keep[left] = pipeline.holds(check, rows, self._rows(other, entries[left], partners))
            if not keep.all():
                kept = np.flatnonzero(keep)
                run, entries, start, end = run[kept], entries[kept], start[kept], end[kept]
            bound = {each: numbers[run] for each, numbers in bound.items()} | {other: entries}
            self._partners[other] = partners
        found = {each: self._rows(each, numbers) for each, numbers in bound.items()}
        weight = np.ones(len(start), np.int64)
        for each, numbers in found.items():
            if not pipeline.stores[each].all_once:
                weight *= pipeline.stores[each].weight[numbers]
        return Combinations(found, start, end, weight)

    def _reached(self, node: int, rows: Rows) -> tuple[Rows, Rows | None]:
        """What was reached at an input from rows of the root, and the place in `rows` of each, if they differ."""
        owner = None
        if node == self._pipeline.tree.root:
            return rows, owner
        for step in self._pipeline.tree.path(node):
            partners = self._partners[step]
            run, rows = ranges(partners.first[rows], partners.count[rows])
            owner = run if owner is None else owner[run]
        return rows, owner

    def _list(self, other: int, asked: Rows, firsts: Rows | None) -> _Partners:
        """List the partners in a window of what was reached at the one before it."""
        pipeline, tree = self._pipeline, self._pipeline.tree
        parent, store = tree.parents[other], pipeline.stores[other]
        codes, begin, end = self._probes(other, asked)
        known = None if firsts is None else firsts[asked]
        places, rows = store.matches(tree.keys[other], codes, begin, end, known)
        start, end = np.maximum(begin[places], store.start[rows]), np.minimum(end[places], store.end[rows])
        keep = start < end
        path = (tree.root, *tree.path(other)[:-1])
        pipeline.steps[other].steps += len(asked) + len(rows)
        for check in pipeline.rules.checks(tree, other, path):
            left = np.flatnonzero(keep)
            pipeline.steps[other].steps += len(left)
            above = self._above(check.one, parent, asked[places[left]])
            keep[left] = pipeline.holds(check, above, rows[left])
        if not keep.all():
            kept = np.flatnonzero(keep)
            places, rows, start, end = places[kept], rows[kept], start[kept], end[kept]
        counts = np.bincount(places, minlength=len(asked))
        size = self._size(parent, asked)
        first, count = np.zeros(size, np.int64), np.zeros(size, np.int64)
        first[asked], count[asked] = np.cumsum(counts) - counts, counts
        partners = _Partners(first, count, asked[places], rows, start, end)
        self._partners[other] = partners
        return partners

    def _probes(self, other: int, asked: Rows) -> tuple[Counts, Counts, Counts]:
        """The codes and intervals with which a window is probed."""
        tree = self._pipeline.tree
        parent, key = tree.parents[other], tree.keys[other]
        store, rows = self._pipeline.stores[parent], self._rows(parent, asked)
        begin, end = self._interval(parent, asked)
        codes = store.codes_of(key, rows)
        if other in self._pipeline.watched:
            self._pipeline.codes[other] = codes
        return codes, begin, end

    def _interval(self, node: int, reached: Rows) -> tuple[Counts, Counts]:
        if node == self._pipeline.tree.root:
            store, rows = self._pipeline.stores[node], self._first + reached
            return store.start[rows], store.end[rows]
        return self._partners[node].start[reached], self._partners[node].end[reached]

    def _rows(self, node: int, reached: Rows, partners: _Partners | None = None) -> Rows:
        """Numbers of rows of what was reached at an input."""
        if node == self._pipeline.tree.root:
            return self._first + reached
        return (partners or self._partners[node]).rows[reached]

    def _above(self, one: int, node: int, reached: Rows) -> Rows:
        """Rows of an input on the path to another one, for what was reached there."""
        tree = self._pipeline.tree
        while node != one:
            reached, node = self._partners[node].parents[reached], tree.parents[node]
        return self._rows(one, reached)

    def _size(self, node: int, asked: Rows) -> int:
        """How many numbers there are at most for what was reached at an input."""
        if node != self._pipeline.tree.root:
            return len(self._partners[node].rows)
        return int(asked.max(initial=-1)) + 1


def _each_once(numbers: Rows) -> Rows:
    """The numbers that occur, ascending."""
    there = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
    there[numbers] = True
    return np.flatnonzero(there)
