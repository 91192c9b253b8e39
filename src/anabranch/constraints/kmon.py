"""k-Mon: a join of sliding windows that keeps the rows which the data needs, and no more.

The answer is that of SWJ over what is kept. After every batch the components of rows are brought up to date, k of every
constraint is followed, and rows go that cannot be in a further result. What goes for certain is forgotten. What a
constraint, or a key that was only observed, says will not be needed is forgotten with `discard`; with `exact` it is set
aside and still found, so that no result is ever missing.

Example 6.3.1:

>>> from anabranch.constraints.join_graph import Edge
>>> from anabranch.constraints.windows import Unbounded
>>> graph = JoinGraph(3, (Edge(0, 1, 0, 0), Edge(0, 2, 1, 0)))
>>> join = KMonJoin(graph, [Unbounded()] * 3, (2, 2, 2), filters=(None, None, lambda rows: rows[:, 1] < 8))
>>> _ = join.advance(Arrivals.of([(1, 0, (6, 20)), (1, 0, (4, 15)), (2, 0, (7, 9)), (2, 0, (5, 3))], (2, 2, 2)))
>>> join.rows(2, "yes"), join.rows(2, "no")
([(5, 3)], [(7, 9)])
>>> join.advance(Arrivals.of([(0, 1, (6, 5)), (0, 1, (8, 7))], (2, 2, 2), first=4)).inserted.tolist()
[[1, 1, 2]]
>>> join.rows(0, "unknown"), join.held
([], 4)

Notes
-----
Executor -> `advance`, Profiler -> `ConstraintSet` and `Adherence`, Re-optimizer -> `Keeper` with `Elimination` and
`NoKeeper`.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, chapter 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from anabranch.constraints.arrivals import Arrivals, Filter
from anabranch.constraints.components import OBSERVED_KEY
from anabranch.constraints.config import ConstraintConfig
from anabranch.constraints.constraint_set import ConstraintSet, Given
from anabranch.constraints.join_graph import JoinGraph, Link
from anabranch.constraints.keeper import Keeper
from anabranch.constraints.kept_rows import NO, UNKNOWN, YES
from anabranch.constraints.key_observer import KeyObserver
from anabranch.constraints.sliding_window_join import Results, joined
from anabranch.constraints.synopsis import Synopsis
from anabranch.constraints.windows import Window
from anabranch.model.arrays import Counts, Mask

Component = Literal["unknown", "yes", "no"]
STATUS: dict[Component, int] = {"unknown": UNKNOWN, "yes": YES, "no": NO}


class KMonJoin:
    """A join that follows the constraints of its streams.

    Parameters
    ----------
    graph
        Streams and edges; or a `KeyObserver`, whose graph follows the keys that it sees.
    windows
        One per stream.
    columns
        How many attributes each stream has.
    config
        How constraints are found and used.
    filters
        One per stream, or `None`.
    given
        Values of k that are known.
    relation
        Whether deletions are told, too.
    """

    def __init__(
        self,
        graph: JoinGraph | KeyObserver,
        windows: Sequence[Window],
        columns: Sequence[int],
        config: ConstraintConfig | None = None,
        *,
        filters: Sequence[Filter | None] = (),
        given: Given | None = None,
        relation: bool = False,
    ) -> None:
        self.config = config or ConstraintConfig()
        first = graph.graph() if isinstance(graph, KeyObserver) else graph
        self._relation = relation
        self._filters = tuple(filters) or (None,) * first.streams
        joined_by = [first.columns_of(stream) for stream in range(first.streams)]
        shapes = list(zip(windows, columns, joined_by, strict=True))
        links = [len(first.links_of(stream)) for stream in range(first.streams)]
        self.synopses = [Synopsis(*shape, count) for shape, count in zip(shapes, links, strict=True)]
        self.aside = [Synopsis(*shape, count) for shape, count in zip(shapes, links, strict=True)]
        self._rng = np.random.default_rng(self.config.seed)
        self.rescued = 0
        yes_goes = not relation or all(window.timed for window in windows)
        self._keeper = Keeper(graph, self.synopses, self.config, given, answered_yes_goes=yes_goes)

    @property
    def graph(self) -> JoinGraph:
        """Streams and edges, as they are now."""
        return self._keeper.graph

    @property
    def constraints(self) -> ConstraintSet:
        """What is known of the streams."""
        return self._keeper.constraints

    @property
    def held(self) -> int:
        """Rows in memory."""
        return sum(map(len, self.synopses))

    @property
    def set_aside(self) -> int:
        """Rows that are kept aside."""
        return sum(map(len, self.aside))

    @property
    def estimated_missing(self) -> float:
        """With `discard`: about how many results are missing, from the rows that were kept as a sample."""
        shares = [self.config.sample_share] * self.graph.streams
        return self._keeper.missing(shares) if self.config.mode == "discard" else 0.0

    def rows(self, stream: int, component: Component) -> list[tuple[int, ...]]:
        """The rows of a component, in the order of arrival."""
        kept = self.synopses[stream]
        return [tuple(row) for row in kept.columns[kept.status == STATUS[component]].tolist()]

    def advance(self, batch: Arrivals) -> Results:
        """Take a batch; returns what it changes."""
        batch = batch.filtered(self._filters)
        before = [kept.arrived for kept in self.synopses]
        self._take(batch, before)
        exact = self.config.mode == "exact"
        places = [self.synopses, self.aside] if exact else [self.synopses]
        results = joined(self.graph, places, batch, relation=self._relation)
        self._keeper.expire()
        if self.config.mode != "off" and len(batch.sigma):
            self._follow(results, BatchNews(self, batch, before))
        self._forget_expired()
        return results

    def _take(self, batch: Arrivals, before: Sequence[int]) -> None:
        follows = self.config.mode != "off"
        for stream, (kept, new) in enumerate(zip(self.synopses, batch.streams, strict=True)):
            sampled = self._rng.random(len(new)) < self.config.sample_share
            stays = new.passes | (follows and stream not in self.graph.roots)
            kept.append(new, stays, sampled)
            kept.expire(before[stream], new.sigma, batch)
            self.aside[stream].expire(before[stream], new.sigma, batch)
        if len(batch.sigma):
            arrived = [len(new) for new in batch.streams]
            dropped = [int(np.count_nonzero(~new.passes)) for new in batch.streams]
            self._keeper.no_keeper.arrive(arrived, dropped, int(batch.time[0]), int(batch.time[-1]))

    def _forget_expired(self) -> None:
        for kept in (*self.synopses, *self.aside):
            kept.drop(kept.expired())

    def _follow(self, results: Results, news: BatchNews) -> None:
        """Bring what is known up to date, and let go what is not needed."""
        self.rescued += results.rescued
        if self.config.stop_on_rescue:
            self._keeper.blame(results.blamed)
        graph = self.graph
        self._keeper.observe_keys(news)
        gone = self._keeper.take(news)
        if self.graph is not graph:
            for stream, aside in enumerate(self.aside):
                aside.reset(len(self.graph.links_of(stream)), 0)
                aside.reason[:] = OBSERVED_KEY
        for stream, rows in enumerate(gone):
            self._let_go(stream, rows)
        self._keeper.tidy()

    def _let_go(self, stream: int, gone: Mask) -> None:
        kept = self.synopses[stream]
        if self.config.mode == "exact":
            aside = gone & kept.passes & (kept.reason != 0) & ~kept.expired()
            if aside.any():
                self.aside[stream].take(kept, aside)
        kept.drop(gone)


class BatchNews:
    """A batch, as the keeper sees it."""

    def __init__(self, join: KMonJoin, batch: Arrivals, before: Sequence[int]) -> None:
        self._join, self._batch, self._before = join, batch, before
        self._timed = join.config.unit == "time"

    def count(self, stream: int) -> int:
        """How many tuples of a stream."""
        return len(self._batch.streams[stream])

    def clock(self, stream: int) -> int:
        """The clock of a stream at the end of the batch."""
        return int(self._batch.time[-1]) if self._timed else self._join.synopses[stream].arrived

    def values(self, stream: int, column: int) -> tuple[Counts, Counts]:
        """Values that arrived in a column, and the clock of the stream at each."""
        new, before = self._batch.streams[stream], self._before[stream]
        return new.columns[:, column], new.time if self._timed else np.arange(before + 1, before + 1 + len(new))

    def waits_since(self, link: Link) -> Counts:
        """The clock of the link's partner when the rows that are kept arrived."""
        own = self._join.synopses[link.stream]
        if self._timed:
            return own.time[own.fresh :]
        arrivals = self._batch.streams[link.partner].sigma
        return self._before[link.partner] + np.searchsorted(arrivals, own.store.start[own.fresh :])

    def duplicates(self, stream: int, column: int) -> tuple[int, Sequence[Sequence[object]]]:
        """How many tuples have the value of a row that is there as well, and two such rows."""
        kept = self._join.synopses[stream]
        new = np.arange(kept.fresh, len(kept))
        codes, at = kept.codes(column)[new], kept.store.start[new]
        found: tuple[tuple[int, ...], ...] = ()
        duplicates = 0
        for held in (kept, self._join.aside[stream]):
            places, rows = held.store.matches((column,), codes, at, at)
            duplicates += len(places)
            if len(places) and not found:
                found = (tuple(held.columns[rows[0]]), tuple(kept.columns[new[places[0]]]))
        return duplicates, found
