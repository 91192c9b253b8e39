"""The synthetic streams of section 6.5: parents five times as fast as children, and a k to which they keep.

>>> feed = referential(k=3, tuples=700, seed=1)
>>> [len(each) for each in feed.columns], worst_join_distance(feed, link=0)
([500, 100, 100], 3)
>>> [len(each) for each in clustered(k=0, tuples=1100, seed=1).columns]
[500, 500, 100]

Differs from the paper: its generator is only named. Rates follow from the prose (windows of parents are full after
70,000 and 110,000 tuples): five parents for each child. k is spread evenly over [0, k], as is said there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anabranch.constraints.adherence import Adherence
from anabranch.constraints.arrivals import Filter
from anabranch.constraints.clustered import ClusteredArrival
from anabranch.constraints.join_graph import Edge, JoinGraph
from anabranch.constraints.ordered import OrderedArrival
from anabranch.model.arrays import Counts, Floats, Mask

GRAPH_A = JoinGraph(3, (Edge(0, 1, 0, 0), Edge(0, 2, 1, 0)))
GRAPH_B = JoinGraph(3, (Edge(0, 2, 0, 0), Edge(1, 2, 0, 0)))
GRAPH_C = JoinGraph(2, (Edge(0, 1, 0, 0),))
"""Figure 6.9: S1 -> S2, S3; S1, S2 -> S3; S1 -> S2."""

FASTER = 5
HALF = 0.5
Times = NDArray[np.floating[Any]] | Counts
Level = Callable[[Floats], Floats]
"""k as a function of progress, from 0 to 1."""


@dataclass(frozen=True)
class Feed:
    """A join and the tuples that arrive: which stream each is of, and the attributes of each stream's tuples."""

    graph: JoinGraph
    owner: Counts
    columns: Sequence[Counts]
    filters: Sequence[Filter | None]

    @property
    def widths(self) -> list[int]:
        """How many attributes the streams have."""
        return [each.shape[1] for each in self.columns]


def passes(rows: Counts) -> Mask:
    """The filter of children: their last attribute is 1 if they pass."""
    return np.asarray(rows[:, -1] == 1)


def constant(k: float) -> Level:
    """The same k all the time."""
    return lambda progress: np.full(len(progress), float(k))


def referential(k: float, tuples: int, seed: int, level: Level | None = None) -> Feed:
    """Graph (a), with join distances evenly in [0, k] on both edges."""
    rng, children = np.random.default_rng(seed), tuples // 7
    at = np.arange(FASTER * children) / FASTER + 0.1
    ks = (level or constant(k))(at / children)
    keys = [np.floor(at) + np.floor(rng.random(len(at)) * (ks + 1)) for _ in range(2)]
    ids = np.arange(children)
    parents = np.stack(keys, axis=1)
    return _merged(GRAPH_A, [at, ids, ids + 0.05], [parents, _children(ids, rng), _children(ids, rng)])


def clustered(k: float, tuples: int, seed: int, level: Level | None = None) -> Feed:
    """Graph (b), with tuples of a value within [0, k] of its first one, on both parents; children come first."""
    rng, children = np.random.default_rng(seed), tuples // 11
    ids = np.arange(children)
    times, columns = [], []
    for _ in range(2):
        times.append(_spread(ids, (level or constant(k))(ids / children) / FASTER, FASTER, rng))
        columns.append(np.repeat(ids, FASTER)[:, np.newaxis])
    return _merged(GRAPH_B, [*times, ids - 0.5], [*columns, _children(ids, rng)])


def children_ordered(k: float, tuples: int, seed: int) -> Feed:
    """Graph (c), with children up to k late; parents arrive at any time within k of the child's turn."""
    rng, children = np.random.default_rng(seed), tuples // 6
    ids = np.arange(children)
    late = ids + rng.random(children) * rng.random(children) * k
    parents = np.repeat(ids, FASTER)
    return _merged(
        GRAPH_C, [parents + rng.random(len(parents)) * k, late], [parents[:, np.newaxis], _children(ids, rng)]
    )


def dangling(k: float, share: float, tuples: int, seed: int) -> Feed:
    """Graph (a): S1.A in clusters, S3.B up to k late, and a share of S1 without a partner in S3."""
    rng, children = np.random.default_rng(seed), tuples // 7
    ids = np.arange(children)
    parents = np.repeat(ids, FASTER)
    without = rng.random(len(parents)) < share
    keys = np.stack([parents, 2 * parents + without], axis=1)
    late = ids + rng.random(children) * rng.random(children) * k
    return _merged(GRAPH_A, [parents, ids - 0.5, late], [keys, _children(ids, rng), _children(2 * ids, rng)])


def clustered_and_referential(
    clusters: float, k: float, tuples: int, seed: int, faster: int = 2, share: float = 0.1
) -> Feed:
    """Graph (c): the first parent of a child comes up to k before it, the others soon after the first."""
    rng, children = np.random.default_rng(seed), tuples // (faster + 1)
    ids = np.arange(children)
    first = ids - np.floor(rng.random(children) * (k + 1)) + 0.5
    times = _spread(first, np.full(children, clusters / faster), faster, rng)
    return _merged(GRAPH_C, [times, ids], [np.repeat(ids, faster)[:, np.newaxis], _children(ids, rng, share)])


def worst_join_distance(feed: Feed, link: int) -> int:
    """The k of RIDS that holds: of the edge with this number."""
    edge = feed.graph.edges[link]
    arrived = np.cumsum(feed.owner == edge.child)[feed.owner == edge.parent]
    keys = feed.columns[edge.child][:, edge.child_column]
    order = np.argsort(keys)
    wanted = feed.columns[edge.parent][:, edge.parent_column]
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = keys[order][place] == wanted
    return int(np.maximum(order[place[found]] + 1 - arrived[found], 0).max())


def worst_clustering(feed: Feed, stream: int) -> int:
    """The k of CA that holds on the first attribute of a stream."""
    table = ClusteredArrival(Adherence(), "tuples")
    values = feed.columns[stream][:, 0]
    table.arrive(values, np.arange(1, len(values) + 1))
    return int(table.adherence.worst)


def worst_scrambling(feed: Feed, stream: int) -> int:
    """The k of OA that holds on the first attribute of a stream."""
    table = OrderedArrival(Adherence(), "tuples")
    values = feed.columns[stream][:, 0]
    table.arrive(values, np.arange(1, len(values) + 1))
    return int(table.adherence.worst)


def _children(ids: Counts, rng: np.random.Generator, share: float = HALF) -> Counts:
    return np.stack([ids, rng.random(len(ids)) < share], axis=1).astype(np.int64)


def _spread(first: Times, longest: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Times of so many tuples each: one at the first, one at the last moment, the others between."""
    offsets = rng.random((len(first), count))
    offsets[:, 0] = 0
    offsets[:, -1] = 1
    span = rng.random(len(first)) * longest
    return np.asarray(first[:, np.newaxis] + offsets * span[:, np.newaxis]).ravel()


def _merged(graph: JoinGraph, times: Sequence[Times], columns: Sequence[Times]) -> Feed:
    """In the order of time; filters are on streams that have parents."""
    orders = [np.argsort(each, kind="stable") for each in times]
    sizes = [len(each) for each in times]
    owner = np.repeat(np.arange(len(times)), sizes)[np.argsort(np.concatenate(times), kind="stable")]
    ordered = [np.asarray(each[order], np.int64) for each, order in zip(columns, orders, strict=True)]
    filters = [passes if graph.parents(stream) else None for stream in range(graph.streams)]
    return Feed(graph, owner, ordered, filters)
