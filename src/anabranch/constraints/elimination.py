"""Which rows go at the end of a batch: those in vain, those that are finished, those in No that nobody asks for.

- Rows *wait in vain* for a partner that RIDS or OAC says will not come: they are in No.
- A row is *closed* for a parent if no row of it will join any more: by CA, by OAP, or since its only parent of a
  one-one edge was found or will not come. Closed for all parents, a row in No is not asked for, and a row in Yes or
  Unknown is finished when no row of the parents that may still be answered points to it (theorem 6.7.1).
- A row of the only root is finished when it is in Yes: all its partners have arrived (theorem 6.3.5).

Differs from the paper
----------------------
- Theorem 6.7.1 asks that the parents of a row are the roots. With one root it is enough that no row that may still
  be answered points to the row: then its parents are finished, or in No. So rows further down go, too.
- The Yes rows of a root stay if deletions are told and a row window is among the windows: only they know the result.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 6.3.1, 6.6.1 and 6.7.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.constraints.components import OBSERVED_KEY, pointing
from anabranch.constraints.constraint_set import ConstraintSet
from anabranch.constraints.join_graph import Edge, JoinGraph, Link
from anabranch.constraints.kept_rows import NO, NOT_FOUND, OVERDUE, UNKNOWN, YES, KeptRows
from anabranch.constraints.ordered import NO_BOUND
from anabranch.model.arrays import Counts, Mask


class Elimination:
    """Decides for a graph and its constraints.

    Parameters
    ----------
    graph
        The join graph.
    kept
        Rows, by stream.
    constraints
        What holds now.
    answered_yes_goes
        Whether rows of roots that are in Yes may go.
    """

    def __init__(
        self, graph: JoinGraph, kept: Sequence[KeptRows], constraints: ConstraintSet, *, answered_yes_goes: bool
    ) -> None:
        self._graph, self._kept, self._constraints = graph, kept, constraints
        self._yes_goes = answered_yes_goes
        self._forward = {link.edge: link for link in graph.links if link.forward}
        self._bit = {edge: 1 << place for place, edge in enumerate(graph.directed)}
        self._key = 0 if all(edge.declared for edge in graph.directed) else OBSERVED_KEY

    def end_waits(self, clocks: Sequence[int]) -> None:
        """Rows that wait in vain go to No; `clocks` are those of the streams. Those of the sample wait on."""
        for link, (constraint, rids) in self._constraints.rids.items():
            own = self._kept[link.stream]
            if rids.adherence.usable:
                over = rids.over(own.waits_since[:, link.place], clocks[link.partner])
                self._give_up(link, over, constraint.number)
        for edge, (constraint, oac) in self._constraints.oac.items():
            bound = oac.bound(clocks[edge.child])
            if bound > NO_BOUND:
                below = np.asarray(self._kept[edge.parent].codes(edge.parent_column) < bound)
                self._give_up(self._forward[edge], below, constraint.number)

    def close(self, clocks: Sequence[int]) -> None:
        """Note for which parents no more rows will join a row."""
        for edge, (constraint, ca) in self._constraints.ca.items():
            over = ca.over(clocks[edge.parent])
            if not len(over):
                continue
            self._close(edge, np.isin(self._codes(edge), over), constraint.number)
            waiting = self._kept[edge.parent].codes(edge.parent_column)
            unknown = self._kept[edge.parent].status == UNKNOWN
            ca.forget(np.setdiff1d(over, waiting[unknown]), clocks[edge.parent])
        for edge, (constraint, oap) in self._constraints.oap.items():
            bound = oap.bound(clocks[edge.parent])
            if bound > NO_BOUND:
                self._close(edge, np.asarray(self._codes(edge) < bound), constraint.number)
        for link in self._graph.links:
            if not link.forward:
                found = self._kept[link.stream].partner[:, link.place] != NOT_FOUND
                self._close(link.edge, found, 0 if link.edge.declared else OBSERVED_KEY)

    def open(self, number: int) -> None:
        """A constraint does not hold any more: what it has closed is open again."""
        for own in self._kept:
            own.closed[own.closed_by == number] = 0
            own.closed_by[own.closed_by == number] = 0

    def finished(self) -> list[Mask]:
        """Rows that will be in no further result, parents first."""
        gone = [np.zeros(len(own), np.bool_) for own in self._kept]
        for stream in reversed(self._graph.children_first):
            own = self._kept[stream]
            if stream in self._graph.roots:
                if self._graph.covered_by_one and self._yes_goes:
                    gone[stream] = own.status == YES
                    own.reason[gone[stream]] = self._key
                continue
            closed = self._closed(stream)
            gone[stream] |= closed & (own.status == NO)
            if self._graph.covered_by_one or self._graph.parents_are_cover(stream):
                done = closed & (own.status != NO) & ~self._needed(stream, gone)
                own.reason[done] = np.where(own.closed_by[done] != 0, own.closed_by[done], self._key)
                gone[stream] |= done
                self._follow(stream, done, gone)
        return gone

    def unasked(self, keeps_no: Sequence[bool]) -> list[Mask]:
        """Rows in No that nobody asks for: of roots, and of streams whose No is not kept."""
        return [
            (own.status == NO) & (stream in self._graph.roots or not keeps_no[stream])
            for stream, own in enumerate(self._kept)
        ]

    def _give_up(self, link: Link, over: Mask, number: int) -> None:
        own = self._kept[link.stream]
        waiting = over & (own.partner[:, link.place] == NOT_FOUND) & (own.status != NO)
        kept = waiting & (own.sampled != 0)
        own.sampled[kept] = OVERDUE
        given_up = waiting & ~kept
        own.status[given_up] = NO
        own.reason[given_up] = number
        if not link.forward:
            self._close(link.edge, given_up, number)

    def _close(self, edge: Edge, rows: Mask, number: int) -> None:
        own, bit = self._kept[edge.child], self._bit[edge]
        new = rows & (own.closed & bit == 0)
        own.closed[new] |= bit
        if number:
            own.closed_by[new] = number

    def _closed(self, stream: int) -> Mask:
        bits = sum(self._bit[edge] for edge in self._graph.directed if edge.child == stream)
        return np.asarray(self._kept[stream].closed & bits == bits)

    def _needed(self, stream: int, gone: Sequence[Mask]) -> Mask:
        """Rows to which a row points that may still be answered."""
        needed = np.zeros(len(self._kept[stream]), np.bool_)
        for edge in self._graph.directed:
            if edge.child == stream:
                parent = self._kept[edge.parent]
                answered = edge.parent in self._graph.roots and self._yes_goes
                asks = (parent.status == UNKNOWN) | ((parent.status == YES) & (not answered))
                asks &= ~gone[edge.parent]
                _, at = pointing(parent, self._kept[stream], self._forward[edge], asks)
                needed[at] = True
        return needed

    def _follow(self, stream: int, done: Mask, gone: Sequence[Mask]) -> None:
        """Answered rows of roots that point to finished rows are finished."""
        for edge in self._graph.directed:
            if edge.child == stream and edge.parent in self._graph.roots and done.any():
                parent = self._kept[edge.parent]
                rows, at = pointing(parent, self._kept[stream], self._forward[edge], parent.status == YES)
                rows, at = rows[done[at]], at[done[at]]
                gone[edge.parent][rows] = True
                parent.reason[rows] = self._kept[stream].reason[at]

    def _codes(self, edge: Edge) -> Counts:
        return self._kept[edge.child].codes(edge.child_column)
