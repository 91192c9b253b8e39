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
Executor -> `advance`, Profiler -> `ConstraintSet` and `Adherence`, Re-optimizer -> `Elimination` and `NoKeeper`.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, chapter 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from anabranch.constraints import components
from anabranch.constraints.arrivals import Arrivals, Filter
from anabranch.constraints.config import ConstraintConfig
from anabranch.constraints.constraint_set import ConstraintSet, Given
from anabranch.constraints.elimination import Elimination
from anabranch.constraints.join_graph import JoinGraph
from anabranch.constraints.key_observer import KeyObserver
from anabranch.constraints.no_keeper import NoKeeper
from anabranch.constraints.sliding_window_join import Results, joined
from anabranch.constraints.synopsis import NO, UNKNOWN, YES, Synopsis
from anabranch.constraints.windows import Window
from anabranch.model.arrays import Counts, Mask

Component = Literal["unknown", "yes", "no"]
STATUS: dict[Component, int] = {"unknown": UNKNOWN, "yes": YES, "no": NO}
CLUSTERS_AT_LEAST = 4096


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
        self.keys = graph if isinstance(graph, KeyObserver) else None
        self.graph = graph.graph() if isinstance(graph, KeyObserver) else graph
        self._given, self._relation = given, relation
        self._filters = tuple(filters) or (None,) * self.graph.streams
        joined_by = [self.graph.columns_of(stream) for stream in range(self.graph.streams)]
        links = len(self.graph.links)
        shapes = list(zip(windows, columns, joined_by, strict=True))
        self.synopses = [Synopsis(*shape, links) for shape in shapes]
        self.aside = [Synopsis(*shape, links) for shape in shapes]
        self._rng = np.random.default_rng(self.config.seed)
        self._no_keeper = NoKeeper(self.config, self.graph.streams)
        self.rescued = 0
        self._late = 0
        self._prepare()

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
        share = self.config.sample_share
        return self._late * (1 - share) / share if share and self.config.mode == "discard" else 0.0

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
        self._expire()
        if self.config.mode != "off" and len(batch.sigma):
            self._blame(results)
            self._observe_keys(batch)
            self._follow(batch, before)
            self._reduce(batch)
        self._forget_expired()
        return results

    def _prepare(self) -> None:
        """Constraints of the graph as it is now."""
        self.constraints = ConstraintSet(self.graph, self.config, self._given)
        timed = all(kept.window.timed for kept in self.synopses)
        self._elimination = Elimination(
            self.graph, self.synopses, self.constraints, answered_yes_goes=not self._relation or timed
        )
        self._keeps_no = self._no_keeper.decide(self.graph, self.constraints, self.synopses)

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
            self._no_keeper.arrive(arrived, dropped, int(batch.time[0]), int(batch.time[-1]))

    def _expire(self) -> None:
        for kept in self.synopses:
            gone = kept.expired()
            kept.status[gone] = NO
            kept.reason[gone] = 0

    def _forget_expired(self) -> None:
        for kept in (*self.synopses, *self.aside):
            kept.drop(kept.expired())

    def _blame(self, results: Results) -> None:
        """A row that was set aside is found: the constraint that did it does not hold."""
        self.rescued += results.rescued
        if self.config.stop_on_rescue:
            for number in results.blamed:
                if number > 0:
                    self.constraints.numbered(number).adherence.stop()
                    self._elimination.open(number)

    def _observe_keys(self, batch: Arrivals) -> None:
        if self.keys is None:
            return
        for stream, column in self.keys.columns:
            self._look_for_duplicates(stream, column, batch)
        graph = self.keys.graph()
        if graph != self.graph:
            self.graph = graph
            self._start_again(batch)

    def _look_for_duplicates(self, stream: int, column: int, batch: Arrivals) -> None:
        assert self.keys is not None
        kept = self.synopses[stream]
        new = np.flatnonzero(kept.store.start >= batch.sigma[0])
        codes, at = np.ascontiguousarray(kept.columns[new, column]), kept.store.start[new]
        rows: tuple[tuple[int, ...], ...] = ()
        duplicates = 0
        for held in (kept, self.aside[stream]):
            places, found = held.store.matches((column,), codes, at, at)
            duplicates += len(places)
            if len(places) and not rows:
                rows = (tuple(held.columns[found[0]]), tuple(kept.columns[new[places[0]]]))
        self.keys.observe(stream, column, len(batch.streams[stream]), duplicates, rows)

    def _start_again(self, batch: Arrivals) -> None:
        """The graph has changed: nothing that was concluded from it holds."""
        for stream, kept in enumerate(self.synopses):
            kept.reset(len(self.graph.links), 0)
            self.aside[stream].reset(len(self.graph.links), 0)
            self.aside[stream].reason[:] = components.OBSERVED_KEY
        for link in self.graph.links:
            clock = self._clock(link.partner, batch)
            self.synopses[link.stream].waits_since[:, link.number] = clock
            components.relink(link, self.synopses)
        self._prepare()
        self._expire()

    def _follow(self, batch: Arrivals, before: Sequence[int]) -> None:
        """Let rows find their partners, and constraints see the arrivals."""
        unit = self.config.unit
        for link in self.graph.links:
            found = components.link(link, self.synopses, batch, before[link.partner], unit)
            self._late += found.late
            if link in self.constraints.rids:
                constraint, _ = self.constraints.rids[link]
                worst = float(found.distances.max()) if len(found.distances) else 0.0
                if constraint.adherence.observe(worst, len(batch.streams[link.partner])):
                    self._elimination.open(constraint.number)
        for edge, (constraint, clustered) in self.constraints.ca.items():
            if clustered.arrive(*self._arrived(edge.parent, edge.parent_column, batch, before)):
                self._elimination.open(constraint.number)
        for edge, (constraint, ordered) in self.constraints.oap.items():
            if ordered.arrive(*self._arrived(edge.parent, edge.parent_column, batch, before)):
                self._elimination.open(constraint.number)
        for edge, (_, ordered) in self.constraints.oac.items():
            ordered.arrive(*self._arrived(edge.child, edge.child_column, batch, before))

    def _arrived(self, stream: int, column: int, batch: Arrivals, before: Sequence[int]) -> tuple[Counts, Counts]:
        """Values that arrived in a column, and the clock of the stream at each."""
        new = batch.streams[stream]
        numbers = np.arange(before[stream] + 1, before[stream] + 1 + len(new))
        return new.columns[:, column], new.time if self.config.unit == "time" else numbers

    def _reduce(self, batch: Arrivals) -> None:
        """Bring components up to date, and let go what is not needed."""
        clocks = [self._clock(stream, batch) for stream in range(self.graph.streams)]
        components.exclude(self.graph, self.synopses)
        self._elimination.end_waits(clocks)
        components.exclude(self.graph, self.synopses)
        components.confirm(self.graph, self.synopses)
        self._elimination.close(clocks)
        finished = self._elimination.finished()
        self._keeps_no = self._no_keeper.decide(self.graph, self.constraints, self.synopses)
        unasked = self._elimination.unasked(self._keeps_no)
        for stream, (done, no) in enumerate(zip(finished, unasked, strict=True)):
            self._let_go(stream, done | no)
        self._tidy()

    def _let_go(self, stream: int, gone: Mask) -> None:
        kept = self.synopses[stream]
        if self.config.mode == "exact":
            aside = gone & kept.passes & (kept.reason != 0) & ~kept.expired()
            if aside.any():
                self.aside[stream].take(kept, aside)
        kept.drop(gone)

    def _tidy(self) -> None:
        """Tables of clusters do not outgrow the rows while their k is not known."""
        for edge, (constraint, table) in self.constraints.ca.items():
            parent, child = self.synopses[edge.parent], self.synopses[edge.child]
            if not constraint.adherence.usable and len(table) > 2 * (len(parent) + len(child)) + CLUSTERS_AT_LEAST:
                codes = parent.columns[:, edge.parent_column], child.columns[:, edge.child_column]
                table.keep(np.concatenate(codes))

    def _clock(self, stream: int, batch: Arrivals) -> int:
        return int(batch.time[-1]) if self.config.unit == "time" else self.synopses[stream].arrived
