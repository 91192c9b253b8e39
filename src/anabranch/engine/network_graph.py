"""The network as a graph for people: streams and relations, filters, operators and the queries that they serve.

Operators that several queries share are one node. An edge says that rows go from one node to another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from anabranch.expressions import Scalar
from anabranch.model.names import without_number
from anabranch.spark.continuous.flows import View
from anabranch.spark.continuous.programs import CellStep, FilterStep, Program
from anabranch.spark.continuous.summaries import stream_of


@dataclass(frozen=True)
class GraphNode:
    """A node: its kind is `stream`, `relation`, `filter`, `look-up`, `operator` or `query`."""

    id: str
    kind: str
    title: str


@dataclass(frozen=True)
class NetworkGraph:
    """Nodes, and edges between the ids of nodes."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[str, str], ...]


def network_graph(programs: Mapping[str, Program], nodes: Mapping[str, Mapping[int, str]]) -> NetworkGraph:
    """The graph of some queries.

    Parameters
    ----------
    programs
        By the names of queries.
    nodes
        The nodes of the network that serve the stages of each query.
    """
    found: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str], None] = {}
    for query, program in programs.items():
        for one, other in _edges(query, program, nodes.get(query, {})):
            for node in (one, other):
                found.setdefault(node.id, node)
            edges[one.id, other.id] = None
    return NetworkGraph(tuple(found.values()), tuple(edges))


def _edges(query: str, program: Program, nodes: Mapping[int, str]) -> list[tuple[GraphNode, GraphNode]]:
    """The edges of one query."""
    made: dict[str, GraphNode] = {}
    for given in program.inputs:
        name = stream_of(given.name) if given.is_stream else given.name
        kind = "stream" if given.is_stream else "relation"
        made[given.view] = GraphNode(f"{kind}:{name}", kind, name)
    found = []
    for place, step in enumerate(program.steps):
        if isinstance(step, CellStep):
            id_ = nodes.get(step.stage.number, f"{query}/{step.stage.number}")
            node = GraphNode(f"operator:{id_}", "operator", step.stage.title)
        elif isinstance(step, FilterStep):
            title = " and ".join(_plain(each) for each in step.conditions)
            node = GraphNode(f"filter:{query}/{place}", "filter", title)
        else:
            node = GraphNode(f"look-up:{query}/{place}", "look-up", "index look-up")
        found += [(source, node) for source in _sources(made, step.reads)]
        made[step.view] = node
    answer = GraphNode(f"query:{query}", "query", query)
    return found + [(source, answer) for source in _sources(made, program.answer.views)]


def _sources(made: Mapping[str, GraphNode], views: Collection[View]) -> list[GraphNode]:
    """The nodes that make some views, in the order of the program."""
    names = {view.name for view in views}
    return list(dict.fromkeys(node for name, node in made.items() if name in names))


def _plain(condition: Scalar) -> str:
    """A condition with the names that its user knows."""
    names = {name: Scalar.reading(without_number(name)) for name in condition.columns}
    return condition.substituted(names).sql.replace("`", "")
