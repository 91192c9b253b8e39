"""The keeper of a join's rows: it follows the arrivals, and says after each batch which rows need not be kept.

The join itself, its windows and what becomes of the rows that go are not its business: `kmon.py` has them beside each
other in memory, `operators/constrained_join.py` in the cells of a query.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, chapter 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from anabranch.constraints import components
from anabranch.constraints.config import ConstraintConfig
from anabranch.constraints.constraint_set import ConstraintSet, Given
from anabranch.constraints.elimination import Elimination
from anabranch.constraints.join_graph import JoinGraph, Link
from anabranch.constraints.kept_rows import NO, KeptRows
from anabranch.constraints.key_observer import KeyObserver
from anabranch.constraints.no_keeper import NoKeeper
from anabranch.model.arrays import Counts, Mask

CLUSTERS_AT_LEAST = 4096
ENTRY_BYTES = 24


class News(Protocol):
    """What has arrived with a batch; the rows that are kept of it are at the end of those of their streams."""

    def count(self, stream: int) -> int:
        """How many tuples of a stream, those included that are not kept."""

    def clock(self, stream: int) -> int:
        """The clock of a stream at the end of the batch."""

    def values(self, stream: int, column: int) -> tuple[Counts, Counts]:
        """The values of a column in the order of arrival, and the clock of the stream at each."""

    def waits_since(self, link: Link) -> Counts:
        """For the rows that are kept of the batch, the clock of the link's partner when they arrived."""

    def duplicates(self, stream: int, column: int) -> tuple[int, Sequence[Sequence[object]]]:
        """How many tuples have the value of a row that is there as well, and two such rows."""


class Keeper:
    """Decides for the rows of a join.

    Parameters
    ----------
    graph
        Streams and edges; or a `KeyObserver`, whose graph follows the keys that it sees.
    kept
        The rows, by stream.
    config
        How constraints are found and used.
    given
        Values of k that are known.
    answered_yes_goes
        Whether rows of roots that are in Yes may go.
    """

    def __init__(
        self,
        graph: JoinGraph | KeyObserver,
        kept: Sequence[KeptRows],
        config: ConstraintConfig,
        given: Given | None = None,
        *,
        answered_yes_goes: bool = True,
    ) -> None:
        self.keys = graph if isinstance(graph, KeyObserver) else None
        self.graph = graph.graph() if isinstance(graph, KeyObserver) else graph
        self.no_keeper = NoKeeper(config, self.graph.streams)
        self.late = [0] * self.graph.streams
        self._kept, self._config, self._given = kept, config, given
        self._yes_goes = answered_yes_goes
        self._prepare()

    @property
    def nbytes(self) -> int:
        """Bytes of what is known of rows, and of constraints."""
        return sum(each.nbytes for each in self._kept) + ENTRY_BYTES * self.constraints.entries

    def missing(self, shares: Sequence[float]) -> float:
        """About how many results were lost, from the rows that were kept as samples: such a share of each stream."""
        return sum(late * (1 - share) / share for late, share in zip(self.late, shares, strict=True) if share)

    def expire(self) -> None:
        """Rows that have left are in No."""
        for kept in self._kept:
            gone = kept.expired()
            kept.status[gone] = NO
            kept.reason[gone] = 0

    def pass_time(self) -> None:
        """Rows have left, and with them those whose only partners they were."""
        self.expire()
        components.exclude(self.graph, self._kept)

    def blame(self, reasons: Iterable[int]) -> None:
        """Rows that were let go are needed: the constraints that did it do not hold."""
        for number in reasons:
            if number > 0:
                self.constraints.numbered(number).adherence.stop()
                self._elimination.open(number)

    def take(self, news: News) -> list[Mask]:
        """Conclude from what is new; returns which rows are not needed any more, by stream."""
        self._follow(news)
        gone = self._reduce(news)
        for kept in self._kept:
            kept.settle()
        return gone

    def hopeless(self, stream: int, since: Counts, now: int) -> list[tuple[Link, int, Mask]]:
        """Which new rows of a stream, that came at these clocks, have to have their partners already.

        These need not be kept if they have none: by link, with the number of the constraint that says so.
        """
        if self._keeps_no[stream]:
            return []
        found = []
        for link in self.graph.links_of(stream):
            if link in self.constraints.rids:
                constraint, rids = self.constraints.rids[link]
                over = rids.over(since, now)
                if over.any():
                    found.append((link, constraint.number, over))
        return found

    def tidy(self) -> None:
        """Tables of clusters do not outgrow the rows while their k is not known."""
        for edge, (constraint, table) in self.constraints.ca.items():
            parent, child = self._kept[edge.parent], self._kept[edge.child]
            if not constraint.adherence.usable and len(table) > 2 * (len(parent) + len(child)) + CLUSTERS_AT_LEAST:
                table.keep(np.concatenate((parent.codes(edge.parent_column), child.codes(edge.child_column))))

    def _prepare(self) -> None:
        """Constraints of the graph as it is now."""
        self.constraints = ConstraintSet(self.graph, self._config, self._given)
        self._elimination = Elimination(self.graph, self._kept, self.constraints, answered_yes_goes=self._yes_goes)
        self._keeps_no = [True] * self.graph.streams

    def observe_keys(self, news: News) -> None:
        """New rows may have the keys of others; the graph follows."""
        if self.keys is None:
            return
        for stream, column in self.keys.columns:
            duplicates, rows = news.duplicates(stream, column)
            self.keys.observe(stream, column, news.count(stream), duplicates, rows)
        self.follow_keys(news)

    def follow_keys(self, news: News) -> None:
        """If keys have come or gone, the graph is another one, and nothing that was concluded from it holds."""
        graph = self.graph if self.keys is None else self.keys.graph()
        if graph is self.graph or graph == self.graph:
            return
        self.graph = graph
        for stream, kept in enumerate(self._kept):
            kept.reset(len(self.graph.links_of(stream)), 0)
        for link in self.graph.links:
            self._kept[link.stream].waits_since[:, link.place] = news.clock(link.partner)
            components.relink(link, self._kept)
        self._prepare()
        self.expire()

    def _follow(self, news: News) -> None:
        """Let rows find their partners, and constraints see the arrivals."""
        for link in self.graph.links:
            timed = self._config.unit == "time"
            found = components.link(link, self._kept, news.waits_since(link), timed=timed)
            self.late[link.stream] += found.late
            if link in self.constraints.rids:
                constraint, _ = self.constraints.rids[link]
                worst = float(found.distances.max()) if len(found.distances) else 0.0
                if constraint.adherence.observe(worst, news.count(link.partner)):
                    self._elimination.open(constraint.number)
        for edge, (constraint, clustered) in self.constraints.ca.items():
            if self.constraints.closes(edge):
                clustered.rest()
            elif clustered.arrive(*news.values(edge.parent, edge.parent_column)):
                self._elimination.open(constraint.number)
        for edge, (constraint, ordered) in self.constraints.oap.items():
            if self.constraints.closes(edge):
                ordered.rest()
            elif ordered.arrive(*news.values(edge.parent, edge.parent_column)):
                self._elimination.open(constraint.number)
        for edge, (_, ordered) in self.constraints.oac.items():
            if self.constraints.ends_waits(edge):
                ordered.rest()
            else:
                ordered.arrive(*news.values(edge.child, edge.child_column))

    def _reduce(self, news: News) -> list[Mask]:
        """Bring components up to date, and see what is not needed."""
        clocks = [news.clock(stream) for stream in range(self.graph.streams)]
        components.exclude(self.graph, self._kept)
        self._elimination.end_waits(clocks)
        components.exclude(self.graph, self._kept)
        components.confirm(self.graph, self._kept)
        self._elimination.close(clocks)
        finished = self._elimination.finished()
        self._keeps_no = self.no_keeper.decide(self.graph, self.constraints, self._kept)
        unasked = self._elimination.unasked(self._keeps_no)
        return [done | no for done, no in zip(finished, unasked, strict=True)]
