"""All constraints of a join graph, numbered from 1: which there are, how they follow the arrivals, which are in use.

| kind | of | lets go |
|---|---|---|
| RIDS(k) | a link | rows that wait for their partner for longer than k; No of the child |
| CA(k) | an edge, on the parent's column | rows of the child whose value will not come again |
| OAP(k) | an edge, on the parent's column | rows of the child below what can still come |
| OAC(k) | an edge, on the child's column | rows that wait for a partner below what can still come; No of the child |

>>> graph = JoinGraph(2, (Edge(0, 1, 0, 0),))
>>> found = ConstraintSet(graph, ConstraintConfig(kinds=frozenset({"rids", "ca"})), {("ca", 0, 1): 5})
>>> [(each.kind, each.number, each.adherence.used) for each in found.all]
[('rids', 1, inf), ('ca', 2, 5.0)]

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, table 6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.constraints.adherence import Adherence
from anabranch.constraints.clustered import ClusteredArrival
from anabranch.constraints.config import ConstraintConfig, Kind
from anabranch.constraints.join_graph import Edge, JoinGraph, Link
from anabranch.constraints.ordered import OrderedArrival
from anabranch.constraints.referential import ReferentialIntegrity

Given = Mapping[tuple[Kind, int, int], float]
"""Values of k that are known: kind, the stream whose rows point, the stream that they point to."""


@dataclass(frozen=True)
class Constraint:
    """One of them: its number and kind, between which streams, and its k."""

    number: int
    kind: Kind
    stream: int
    partner: int
    adherence: Adherence


class ConstraintSet:
    """The constraints that a graph can have, by link and by edge."""

    def __init__(self, graph: JoinGraph, config: ConstraintConfig, given: Given | None = None) -> None:
        self._config, self._given = config, given or {}
        self.all: list[Constraint] = []
        self.rids: dict[Link, tuple[Constraint, ReferentialIntegrity]] = {}
        self.ca: dict[Edge, tuple[Constraint, ClusteredArrival]] = {}
        self.oap: dict[Edge, tuple[Constraint, OrderedArrival]] = {}
        self.oac: dict[Edge, tuple[Constraint, OrderedArrival]] = {}
        for link in graph.links:
            if "rids" in config.kinds:
                new = self._new("rids", link.stream, link.partner)
                self.rids[link] = new, ReferentialIntegrity(new.adherence, config.unit)
        for edge in graph.directed:
            self._of_edge(edge)

    def numbered(self, number: int) -> Constraint:
        """The constraint of a number."""
        return self.all[number - 1]

    @property
    def entries(self) -> int:
        """Values that are kept to follow the arrivals."""
        ordered = [*self.oap.values(), *self.oac.values()]
        return sum(len(table) for _, table in self.ca.values()) + sum(len(table) for _, table in ordered)

    def wait_ends(self, edge: Edge) -> bool:
        """Whether rows of the parent do not wait for ever although No of the child is not kept."""
        by_time = any(link.forward and link.edge is edge and c.adherence.usable for link, (c, _) in self.rids.items())
        return by_time or (edge in self.oac and self.oac[edge][0].adherence.usable)

    def closes(self, edge: Edge) -> bool:
        """Whether rows of the child are closed for the parent without CA and OAP, which then need not be followed.

        Along a one-one edge they know their only parent, or wait for it no longer than RIDS says.
        """
        if self._config.selection == "all" or not edge.one_one:
            return False
        return any(not link.forward and link.edge is edge and c.adherence.usable for link, (c, _) in self.rids.items())

    def ends_waits(self, edge: Edge) -> bool:
        """Whether rows of the parent wait no longer than RIDS says; then OAC need not be followed."""
        if self._config.selection == "all":
            return False
        return any(link.forward and link.edge is edge and c.adherence.usable for link, (c, _) in self.rids.items())

    def _of_edge(self, edge: Edge) -> None:
        config = self._config
        if "ca" in config.kinds:
            new = self._new("ca", edge.parent, edge.child)
            self.ca[edge] = new, ClusteredArrival(new.adherence, config.unit, config.sample_share, config.seed)
        if "oap" in config.kinds:
            new = self._new("oap", edge.parent, edge.child)
            self.oap[edge] = new, OrderedArrival(new.adherence, config.unit)
        if "oac" in config.kinds:
            new = self._new("oac", edge.parent, edge.child)
            self.oac[edge] = new, OrderedArrival(new.adherence, config.unit)

    def _new(self, kind: Kind, stream: int, partner: int) -> Constraint:
        config, known = self._config, self._given.get((kind, stream, partner))
        adherence = Adherence(config.window_arrivals, config.slack, config.threshold, known)
        self.all.append(Constraint(len(self.all) + 1, kind, stream, partner, adherence))
        return self.all[-1]
