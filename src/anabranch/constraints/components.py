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

from anabranch.constraints.join_graph import JoinGraph, Link
from anabranch.constraints.kept_rows import NO, NOT_FOUND, OVERDUE, UNKNOWN, YES, KeptRows
from anabranch.constraints.referential import join_distances
from anabranch.model.arrays import Counts, Mask
from anabranch.model.arrays import Rows as RowNumbers

OBSERVED_KEY = -1


class Linked(NamedTuple):
    """Rows of a link that found their partners: how far these were, and how many were kept only as a sample."""

    distances: Counts
    late: int


def link(link: Link, kept: Sequence[KeptRows], waits_since: Counts, *, timed: bool) -> Linked:
    """Let rows find their only partners along a link; `waits_since` is the partner's clock when each new row came."""
    own, other = kept[link.stream], kept[link.partner]
    if not len(own):
        return Linked(np.empty(0, np.int64), 0)
    own.waits_since[own.fresh :, link.place] = waits_since
    rows, partners = _found(link, own, other)
    if not len(rows):
        return Linked(np.empty(0, np.int64), 0)
    own.partner[rows, link.place] = other.sequence[partners]
    clock = other.time[partners] if timed else other.sequence[partners]
    distances = join_distances(clock, own.waits_since[rows, link.place])
    return Linked(distances, int(np.count_nonzero(own.sampled[rows] == OVERDUE)))


def relink(link: Link, kept: Sequence[KeptRows]) -> None:
    """Let all rows find their partners: the graph has changed."""
    own, other = kept[link.stream], kept[link.partner]
    found = other.any_with(link.partner_column, own.codes(link.column), own, np.arange(len(own)))
    own.partner[found >= 0, link.place] = other.sequence[found[found >= 0]]


def exclude(graph: JoinGraph, kept: Sequence[KeptRows]) -> None:
    """Figure 6.6: rows whose partner is in No are in No, and so on from partner to partner."""
    changed = True
    while changed:
        changed = False
        for link in graph.links:
            own, other = kept[link.stream], kept[link.partner]
            if not (other.status == NO).any():
                continue
            rows, at = pointing(own, other, link, own.status != NO)
            no = other.status[at] == NO
            rows, at = rows[no], at[no]
            changed |= bool(len(rows))
            key = 0 if link.edge.declared else OBSERVED_KEY
            own.status[rows] = NO
            own.reason[rows] = np.where(other.reason[at] != 0, other.reason[at], key)


def confirm(graph: JoinGraph, kept: Sequence[KeptRows]) -> None:
    """Figure 6.5: rows of which all partners are in Yes are in Yes, children first."""
    for stream in graph.children_first:
        own = kept[stream]
        yes = own.status == UNKNOWN
        for link in graph.links_of(stream):
            if link.forward:
                rows, at = pointing(own, kept[link.partner], link, yes)
                good = np.zeros(len(own), np.bool_)
                good[rows] = kept[link.partner].status[at] == YES
                yes &= good
        own.status[yes] = YES


def pointing(own: KeptRows, other: KeptRows, link: Link, which: Mask) -> tuple[RowNumbers, RowNumbers]:
    """Rows that have found their partner, of some, and where that is."""
    rows = np.flatnonzero(which & (own.partner[:, link.place] != NOT_FOUND))
    if not len(rows):
        return rows, rows
    at = other.located(own.partner[rows, link.place])
    there = at >= 0
    return rows[there], at[there]


def _found(link: Link, own: KeptRows, other: KeptRows) -> tuple[RowNumbers, RowNumbers]:
    """Rows and their partners: new rows look everywhere, and new partners among the old rows that wait."""
    new = own.fresh + np.flatnonzero(own.status[own.fresh :] != NO)
    at = other.any_with(link.partner_column, own.codes(link.column)[new], own, new)
    there = at >= 0
    new, at = new[there], at[there]
    fresh = np.arange(other.fresh, len(other))
    if not len(fresh) or not own.fresh:
        return new, at
    places, rows = own.all_with(link.column, other.codes(link.partner_column)[fresh], other, fresh)
    old = (rows < own.fresh) & (own.partner[rows, link.place] == NOT_FOUND) & (own.status[rows] != NO)
    if not old.any():
        return new, at
    rows, first = np.unique(rows[old], return_index=True)  # a key that is none: the first one counts
    return np.concatenate((new, rows)), np.concatenate((at, fresh[places[old][first]]))
