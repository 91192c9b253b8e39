"""A probe pipeline with caches: each of them is probed in the place of its segment, as one window.

Windows keep their numbers; caches have numbers behind them. Conditions between a cache and what is bound before it are
tested like those between windows, on the rows that its combinations refer to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anabranch.joins.cache_candidates import Candidate
from anabranch.joins.cached_segment import CachedSegment
from anabranch.joins.graph import ProbeTree
from anabranch.joins.probe_pipeline import Check, Combinations, JoinRules, ProbePipeline, Window
from anabranch.joins.window_store import WindowStore
from anabranch.model.arrays import Mask, Rows
from anabranch.ordering import Seed, make
from anabranch.ordering.pipeline import FilterPipeline


class CachedPipeline:
    """Does what a `ProbePipeline` does, with caches, in the order that the pipeline has now.

    Parameters
    ----------
    base
        The pipeline without caches.
    stores
        All windows.
    segments
        What is looked up, by candidate.

    Attributes
    ----------
    rows
        New rows that came through it.
    """

    def __init__(
        self, base: ProbePipeline, stores: Sequence[WindowStore], segments: Mapping[Candidate, CachedSegment]
    ) -> None:
        self._base, self._stores = base, stores
        self.rows = 0
        self.order = base.order
        self.segments = segments
        self._by_node = {len(stores) + place: each for place, each in enumerate(segments)}
        self._node = {window: node for node, each in self._by_node.items() for window in each.windows}
        tree = self._contracted(base.tree)
        order = dict.fromkeys(self._node.get(window, window) for window in self.order)
        legal = tuple(tree.others.index(each) for each in order)
        seed = Seed(legal, np.zeros((0, len(legal)), np.bool_), np.full(len(legal), np.nan))
        filters = FilterPipeline(make("fixed", len(legal), precedence=tree.precedence, seed=seed))
        windows: list[Window] = [*stores, *segments.values()]
        self._pipeline = ProbePipeline(tree, windows, self._contracted_rules(base.rules), self._holds, filters)

    def chunk(self, first: int, until: int) -> tuple[int, Combinations | None]:
        """Go on with the rows from `first`: how many of them were taken, and their combinations."""
        size, found = self._pipeline.chunk(first, until)
        self.rows += size
        for each in self.segments.values():
            each.end_chunk()
        return size, None if found is None else self._expanded(found)

    @property
    def all_steps(self) -> int:
        """Probes, partners listed and comparisons so far, in windows and caches, with what caches were filled by."""
        windows = sum(each.steps for each in self._pipeline.steps.values())
        return windows + sum(each.steps for each in self.segments.values())

    def steps(self, candidate: Candidate) -> int:
        """What looking a cache up has taken so far, with what it was filled by."""
        node = next(node for node, each in self._by_node.items() if each == candidate)
        return self._pipeline.steps[node].steps + self.segments[candidate].steps

    def _contracted(self, tree: ProbeTree) -> ProbeTree:
        parents, keys = {}, {}
        for window in self.order:
            node = self._node.get(window, window)
            if node not in parents:
                parent = tree.parents[window]
                parents[node], keys[node] = self._node.get(parent, parent), tree.keys[window]
        return ProbeTree(tree.root, parents, keys)

    def _contracted_rules(self, rules: JoinRules) -> JoinRules:
        classes = tuple(frozenset(self._node.get(each, each) for each in members) for members in rules.classes)
        pairs = tuple((self._node.get(one, one), self._node.get(other, other)) for one, other in rules.comparisons)
        return JoinRules(classes, rules.exact, pairs)

    def _holds(self, check: Check, one: Rows, other: Rows) -> Mask:
        base = self._base
        if check.comparison is not None:
            pair = base.rules.comparisons[check.comparison]
            near, far = pair if self._node.get(pair[0], pair[0]) == check.one else pair[::-1]
            rows = self._rows(check.one, near, one), self._rows(check.other, far, other)
            return base.holds(Check(near, far, comparison=check.comparison), *rows)
        alike = np.ones(len(one), np.bool_)
        for number in check.key:
            near, far = self._holder(check.one, number), self._holder(check.other, number)
            rows = self._rows(check.one, near, one), self._rows(check.other, far, other)
            alike &= base.holds(Check(near, far, (number,)), *rows)
        return alike

    def _holder(self, node: int, number: int) -> int:
        each = self._by_node.get(node)
        return node if each is None else self.segments[each].holder(number)

    def _rows(self, node: int, window: int, rows: Rows) -> Rows:
        each = self._by_node.get(node)
        return rows if each is None else self.segments[each].cache.rows(window)[rows]

    def _expanded(self, found: Combinations) -> Combinations:
        """With the rows of windows instead of the combinations in caches."""
        rows, weight = dict(found.rows), found.weight
        for node, each in self._by_node.items():
            places = rows.pop(node)
            for window in each.windows:
                rows[window] = self.segments[each].cache.rows(window)[places]
                if not self._stores[window].all_once:
                    weight = weight * self._stores[window].weight[rows[window]]
        return Combinations(rows, found.start, found.end, weight)
