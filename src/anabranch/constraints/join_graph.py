"""Directed join graphs: which stream's rows have at most one partner in which other stream.

A *many-one* edge leads from a parent to a child: a parent's row joins at most one row of the child, ever. In a
*one-one* edge both sides are keys. It has one direction for Yes and No, as if it were many-one, and the child's rows
know of their only parent, too.

>>> network = JoinGraph(3, (Edge(0, 1, 0, 0, one_one=True), Edge(1, 2, 0, 0, one_one=True)))
>>> network.roots, network.covered_by_one, network.children_first
((0,), True, (2, 1, 0))
>>> JoinGraph(3, (Edge(0, 2, 0, 0), Edge(1, 2, 0, 0))).roots
(0, 1)

Where neither side is a key, the streams are joined and nothing follows from it:

>>> graph = JoinGraph(2, (Edge(0, 1, 0, 0, many_many=True),))
>>> graph.children(0), graph.covered_by_one
((), False)

Notes
-----
Children(S), Parents(S) -> `children`, `parents`. In a graph without cycles the roots are the only minimal cover
(theorem 6.3.4), so C1 of theorem 6.7.1 asks whether the parents of a stream are the roots. An edge compares one column
with one: several that are equal together are one code.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from anabranch.errors import QueryError


@dataclass(frozen=True)
class Edge:
    """A join of two streams by a column each; `declared` if the user promised the keys, else they are observed."""

    parent: int
    child: int
    parent_column: int
    child_column: int
    one_one: bool = False
    declared: bool = True
    many_many: bool = False


@dataclass(frozen=True)
class Link:
    """How rows of a stream point to their only partner: along an edge, or against a one-one edge.

    `number` is that among all links, `place` that among the links of the stream.
    """

    number: int
    edge: Edge
    forward: bool
    place: int = 0

    @property
    def stream(self) -> int:
        """Whose rows point."""
        return self.edge.parent if self.forward else self.edge.child

    @property
    def partner(self) -> int:
        """Where they point to."""
        return self.edge.child if self.forward else self.edge.parent

    @property
    def column(self) -> int:
        """The column of the rows that point."""
        return self.edge.parent_column if self.forward else self.edge.child_column

    @property
    def partner_column(self) -> int:
        """The column that it is equal to."""
        return self.edge.child_column if self.forward else self.edge.parent_column


@dataclass(frozen=True)
class JoinGraph:
    """Streams, numbered from 0, and the edges between them: a tree."""

    streams: int
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        reached, open_ends = {0}, [0]
        while open_ends:
            here = open_ends.pop()
            new = {other for _, other in self.neighbours(here)} - reached
            reached |= new
            open_ends += new
        if len(reached) < self.streams or len(self.edges) != self.streams - 1:
            raise QueryError(
                "constraints need a join graph without cycles in which every stream is joined",
                hint="leave out comparisons that follow from others, or run with constraints='off'",
            )

    def neighbours(self, stream: int) -> list[tuple[Edge, int]]:
        """Edges of a stream and where they lead, in both directions."""
        found = [(edge, edge.child) for edge in self.edges if edge.parent == stream]
        return found + [(edge, edge.parent) for edge in self.edges if edge.child == stream]

    @cached_property
    def directed(self) -> tuple[Edge, ...]:
        """Edges whose child side is a key."""
        return tuple(edge for edge in self.edges if not edge.many_many)

    def children(self, stream: int) -> tuple[int, ...]:
        """Streams in which rows of this one have at most one partner, along edges."""
        return tuple(edge.child for edge in self.directed if edge.parent == stream)

    def parents(self, stream: int) -> tuple[int, ...]:
        """Streams whose rows have at most one partner here, along edges."""
        return tuple(edge.parent for edge in self.directed if edge.child == stream)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Streams without parents."""
        return tuple(stream for stream in range(self.streams) if not self.parents(stream))

    @cached_property
    def covered_by_one(self) -> bool:
        """Whether every stream is reached from a single root."""
        return len(self.roots) == 1 and len(self.directed) == len(self.edges)

    def parents_are_cover(self, stream: int) -> bool:
        """Condition C1 for a stream: its parents are the minimal cover of the graph."""
        return set(self.parents(stream)) == set(self.roots) and len(self.directed) == len(self.edges)

    @cached_property
    def children_first(self) -> tuple[int, ...]:
        """All streams, each one after its children."""
        found: list[int] = []
        while len(found) < self.streams:
            ready = (s for s in range(self.streams) if s not in found and set(self.children(s)) <= set(found))
            found.append(max(ready))
        return tuple(found)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Along every directed edge, then against those that are one-one."""
        forward = [(edge, True) for edge in self.directed]
        backward = [(edge, False) for edge in self.directed if edge.one_one]
        taken, found = [0] * self.streams, []
        for number, each in enumerate(forward + backward):
            stream = Link(number, *each).stream
            found.append(Link(number, *each, taken[stream]))
            taken[stream] += 1
        return tuple(found)

    @cached_property
    def _links_by_stream(self) -> tuple[tuple[Link, ...], ...]:
        return tuple(tuple(link for link in self.links if link.stream == stream) for stream in range(self.streams))

    def links_of(self, stream: int) -> tuple[Link, ...]:
        """Links whose rows are of this stream."""
        return self._links_by_stream[stream]

    def path(self, start: int) -> list[tuple[int, int, int, int]]:
        """How rows of one stream reach all others: known stream and its column, new stream and its column."""
        found, bound = [], [start]
        for here in bound:
            for edge, other in self.neighbours(here):
                if other not in bound:
                    columns = edge.parent_column, edge.child_column
                    mine, its = columns if edge.parent == here else columns[::-1]
                    found.append((here, mine, other, its))
                    bound.append(other)
        return found

    def columns_of(self, stream: int) -> tuple[int, ...]:
        """Columns by which a stream is joined, ascending."""
        found = {edge.parent_column for edge in self.edges if edge.parent == stream}
        return tuple(sorted(found | {edge.child_column for edge in self.edges if edge.child == stream}))


def directed(streams: int, edges: Iterable[Edge]) -> JoinGraph:
    """A graph in which one-one edges are turned so that one root reaches as many streams as can be.

    >>> directed(3, (Edge(0, 1, 0, 0, one_one=True), Edge(2, 1, 0, 0, one_one=True))).roots
    (0,)
    """
    given = tuple(edges)
    candidates = [_from(JoinGraph(streams, given), root) for root in range(streams)]
    return min(candidates, key=lambda graph: len(graph.roots))


def _from(graph: JoinGraph, root: int) -> JoinGraph:
    edges = {(edge.parent, edge.child): edge for edge in graph.edges}
    turned = []
    for here, mine, other, its in graph.path(root):
        edge = edges.get((here, other)) or edges[other, here]
        if edge.one_one and edge.parent != here:
            edge = replace(edge, parent=here, child=other, parent_column=mine, child_column=its)
        turned.append(edge)
    return JoinGraph(graph.streams, tuple(turned))
