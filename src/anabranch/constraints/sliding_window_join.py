"""SWJ: the join of sliding windows that keeps all rows which filters let pass; the baseline of k-Mon.

A row that arrives is joined with the rows of all other windows that are there at that moment. Nothing is made of
constraints: this module says what the answer is, and `kmon.py` which rows it can be had without.

>>> from anabranch.constraints.join_graph import Edge
>>> from anabranch.constraints.windows import Rows
>>> join = SlidingWindowJoin(JoinGraph(2, (Edge(0, 1, 0, 0),)), (Rows(2), Rows(2)), (2, 2))
>>> batch = Arrivals.of([(0, 0, (6, 1)), (1, 0, (6, 20)), (0, 0, (7, 2)), (0, 0, (6, 3))], (2, 2))
>>> join.advance(batch).inserted.tolist()
[[1, 1], [3, 1]]

Row windows count tuples that filters drop (example 6.1.5): the numbers of rows tell when they leave, and no places are
held for them.

Notes
-----
A result is a row of numbers, one per stream: those of its rows in their streams, counted from 1. It is inserted by the
arrival of its last row and deleted when its first row leaves.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.1.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.constraints.arrivals import Arrivals
from anabranch.constraints.join_graph import JoinGraph
from anabranch.constraints.synopsis import Synopsis
from anabranch.constraints.windows import FAR, Window
from anabranch.model.arrays import Counts, Mask


@dataclass(frozen=True)
class Results:
    """Results as numbers of rows, a column per stream; `at` are the arrivals by which they were inserted.

    `rescued` counts the inserted ones that have a row which was set aside, `blamed` says by what (`Synopsis.reason`).
    """

    inserted: Counts
    at: Counts
    deleted: Counts
    rescued: int = 0
    blamed: frozenset[int] = frozenset()


class SlidingWindowJoin:
    """Windows, and the join of what arrives with them.

    Parameters
    ----------
    graph
        What is joined by what.
    windows
        One per stream.
    columns
        How many attributes each stream has.
    relation
        Whether deletions are told, too.
    """

    def __init__(
        self, graph: JoinGraph, windows: Sequence[Window], columns: Sequence[int], *, relation: bool = False
    ) -> None:
        self.graph = graph
        self.relation = relation
        self.synopses = [
            Synopsis(window, width, graph.columns_of(stream), 0)
            for stream, (window, width) in enumerate(zip(windows, columns, strict=True))
        ]

    @property
    def held(self) -> int:
        """Rows in memory."""
        return sum(map(len, self.synopses))

    def advance(self, batch: Arrivals) -> Results:
        """Take a batch; returns what it changes."""
        for synopsis, new in zip(self.synopses, batch.streams, strict=True):
            before = synopsis.arrived
            synopsis.append(new, new.passes)
            synopsis.expire(before, new.sigma, batch)
        found = joined(self.graph, [self.synopses], batch, relation=self.relation)
        for synopsis in self.synopses:
            synopsis.drop(synopsis.expired())
        return found


def joined(
    graph: JoinGraph, places: Sequence[Sequence[Synopsis]], batch: Arrivals, *, relation: bool = False
) -> Results:
    """The results that a batch inserts and deletes, with rows from all places that keep some; the first is memory."""
    found, times, reasons = [], [], []
    for stream in range(graph.streams):
        memory = places[0][stream]
        first = batch.sigma[0] if len(batch.sigma) else FAR
        new = np.flatnonzero((memory.store.start >= first) & memory.passes)
        at = memory.store.start[new]
        numbers, owner, reason = _expanded(graph, stream, memory, new, places, at, at)
        found.append(numbers)
        times.append(at[owner])
        reasons.append(reason[reason != 0])
    inserted, at = np.concatenate(found), np.concatenate(times)
    order = np.argsort(at, kind="stable")
    deleted = _deleted(graph, places) if relation else inserted[:0]
    rescued = np.concatenate(reasons)
    return Results(inserted[order], at[order], deleted, len(rescued), frozenset(rescued.tolist()))


def _deleted(graph: JoinGraph, places: Sequence[Sequence[Synopsis]]) -> Counts:
    """Results that lose their first row; of rows that leave together, the one of the first stream tells."""
    found = []
    for stream in range(graph.streams):
        for synopses in places:
            kept = synopses[stream]
            gone = np.flatnonzero(kept.expired() & kept.passes)
            at = kept.store.end[gone]
            numbers, owner, _ = _expanded(graph, stream, kept, gone, places, at - 1, at)
            found.append(numbers[_tells(numbers, at[owner], stream, places)])
    return np.concatenate(found)


def _tells(numbers: Counts, at: Counts, stream: int, places: Sequence[Sequence[Synopsis]]) -> Mask:
    """Whether no row of an earlier stream leaves at the same moment."""
    tells = np.ones(len(numbers), np.bool_)
    for other in range(stream):
        for synopses in places:
            rows = synopses[other].located(numbers[:, other])
            tells &= (rows < 0) | (synopses[other].store.end[rows] != at) if len(synopses[other]) else True
    return tells


def _expanded(
    graph: JoinGraph,
    stream: int,
    kept: Synopsis,
    rows: Counts,
    places: Sequence[Sequence[Synopsis]],
    begin: Counts,
    end: Counts,
) -> tuple[Counts, Counts, Counts]:
    """Some rows of a stream joined with all others: numbers of rows, whose result it is, why one of them was aside."""
    owner = np.arange(len(rows))
    aside = np.zeros(len(rows), np.int64)
    columns = {stream: kept.columns[rows]}
    numbers = np.zeros((len(rows), graph.streams), np.int64)
    numbers[:, stream] = kept.sequence[rows]
    for known, mine, other, its in graph.path(stream):
        if not len(owner):
            break
        codes = np.ascontiguousarray(columns[known][:, mine])
        met = [each[other].matches(its, codes, begin[owner], end[owner]) for each in places]
        place = np.concatenate([each for each, _ in met])
        numbers, aside, owner = numbers[place], aside[place], owner[place]
        columns = {each: values[place] for each, values in columns.items()}
        columns[other] = np.concatenate([p[other].columns[row] for p, (_, row) in zip(places, met, strict=True)])
        numbers[:, other] = np.concatenate([p[other].sequence[row] for p, (_, row) in zip(places, met, strict=True)])
        for each, (_, row) in zip(places[1:], met[1:], strict=True):
            aside[len(met[0][0]) :] = each[other].reason[row]
    return numbers[: len(owner)], owner, aside
