"""Yes, No and Unknown: which rows take part in results, never will, or may yet (figures 6.4 to 6.7), a batch at a time.

A row is in No if a filter drops it, or its only partner in a child is in No; in Yes if all its partners are; else in
Unknown. Expired rows are in No. A batch is linked first: new rows look for their partners, and rows that wait look
among the new ones. Then No goes from children to parents until nothing changes, and Yes from children to parents once.

Along a one-one edge a row also knows its only parent, and is in No with it.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anabranch.constraints.arrivals import Arrivals
from anabranch.constraints.config import Unit
from anabranch.constraints.join_graph import JoinGraph, Link
from anabranch.constraints.referential import join_distances
from anabranch.constraints.synopsis import NO, NOT_FOUND, OVERDUE, UNKNOWN, YES, Synopsis
from anabranch.model.arrays import Counts, Mask
from anabranch.model.arrays import Rows as RowNumbers

OBSERVED_KEY = -1


class Linked(NamedTuple):
    """Rows of a link that found their partners: how far these were, and how many were kept only as a sample."""

    distances: Counts
    late: int


def link(link: Link, synopses: Sequence[Synopsis], batch: Arrivals, before: int, unit: Unit) -> Linked:
    """Let rows find their only partners along a link; `before` tuples of the partner had arrived before the batch."""
    own, other = synopses[link.stream], synopses[link.partner]
    if not len(own):
        return Linked(np.empty(0, np.int64), 0)
    new = own.store.start >= batch.sigma[0]
    _start_waiting(link, own, np.flatnonzero(new), batch, before, unit)
    waiting = (own.partner[:, link.number] == NOT_FOUND) & (own.status != NO)
    rows, partners = _found(link, own, other, np.flatnonzero(waiting & new), np.flatnonzero(waiting & ~new), batch)
    own.partner[rows, link.number] = other.sequence[partners]
    clock = other.sequence[partners] if unit == "tuples" else other.time[partners]
    distances = join_distances(clock, own.waits_since[rows, link.number])
    return Linked(distances, int(np.count_nonzero(own.sampled[rows] == OVERDUE)))


def relink(link: Link, synopses: Sequence[Synopsis]) -> None:
    """Let all rows find their partners: the graph has changed."""
    own, other = synopses[link.stream], synopses[link.partner]
    found = other.any_with(link.partner_column, _codes(own, link.column, np.arange(len(own))))
    own.partner[found >= 0, link.number] = other.sequence[found[found >= 0]]


def exclude(graph: JoinGraph, synopses: Sequence[Synopsis]) -> None:
    """Figure 6.6: rows whose partner is in No are in No, and so on from partner to partner."""
    changed = True
    while changed:
        changed = False
        for link in graph.links:
            own, other = synopses[link.stream], synopses[link.partner]
            rows, at = pointing(own, other, link, own.status != NO)
            no = other.status[at] == NO
            rows, at = rows[no], at[no]
            changed |= bool(len(rows))
            key = 0 if link.edge.declared else OBSERVED_KEY
            own.status[rows] = NO
            own.reason[rows] = np.where(other.reason[at] != 0, other.reason[at], key)


def confirm(graph: JoinGraph, synopses: Sequence[Synopsis]) -> None:
    """Figure 6.5: rows of which all partners are in Yes are in Yes, children first."""
    for stream in graph.children_first:
        own = synopses[stream]
        yes = own.status == UNKNOWN
        for link in graph.links_of(stream):
            if link.forward:
                rows, at = pointing(own, synopses[link.partner], link, yes)
                good = np.zeros(len(own), np.bool_)
                good[rows] = synopses[link.partner].status[at] == YES
                yes &= good
        own.status[yes] = YES


def pointing(own: Synopsis, other: Synopsis, link: Link, which: Mask) -> tuple[RowNumbers, RowNumbers]:
    """Rows that have found their partner, of some, and where that is."""
    rows = np.flatnonzero(which & (own.partner[:, link.number] != NOT_FOUND))
    at = other.located(own.partner[rows, link.number])
    return rows[at >= 0], at[at >= 0]


def _start_waiting(link: Link, own: Synopsis, new: RowNumbers, batch: Arrivals, before: int, unit: Unit) -> None:
    if unit == "time":
        own.waits_since[new, link.number] = own.time[new]
        return
    arrivals = batch.streams[link.partner].sigma
    own.waits_since[new, link.number] = before + np.searchsorted(arrivals, own.store.start[new])


def _found(
    link: Link, own: Synopsis, other: Synopsis, new: RowNumbers, old: RowNumbers, batch: Arrivals
) -> tuple[RowNumbers, RowNumbers]:
    """Rows and their partners: new rows look everywhere, old ones among new partners."""
    at = other.any_with(link.partner_column, _codes(own, link.column, new))
    fresh = np.flatnonzero(other.store.start >= batch.sigma[0])
    keys = _codes(other, link.partner_column, fresh)
    order = np.argsort(keys, kind="stable")
    if not len(keys) or not len(old):
        return new[at >= 0], at[at >= 0]
    codes = _codes(own, link.column, old)
    place = np.minimum(np.searchsorted(keys[order], codes), len(keys) - 1)
    met = keys[order][place] == codes
    rows = np.concatenate((new[at >= 0], old[met]))
    return rows, np.concatenate((at[at >= 0], fresh[order[place[met]]]))


def _codes(kept: Synopsis, column: int, rows: RowNumbers) -> Counts:
    return np.ascontiguousarray(kept.columns[rows, column])
