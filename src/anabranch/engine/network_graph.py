"""The network as a graph for people: streams and relations, filters, operators and the queries that they serve.

Operators that several queries share are one node. An edge says that rows go from one node to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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
    """The edges of one query; what a text reads is found by the names of views in it."""
    views: dict[str, GraphNode] = {}
    for given in program.inputs:
        name = stream_of(given.name) if given.is_stream else given.name
        kind = "stream" if given.is_stream else "relation"
        views[given.view] = GraphNode(f"{kind}:{name}", kind, name)
    found = []
    for place, step in enumerate(program.steps):
        if isinstance(step, CellStep):
            id_ = nodes.get(step.stage.number, f"{query}/{step.stage.number}")
            made = GraphNode(f"operator:{id_}", "operator", step.stage.title)
            text = " ".join(repr(wanted.select) for wants in step.inputs for wanted in wants)
        elif isinstance(step, FilterStep):
            title = " and ".join(each.sql for each in step.conditions)
            made = GraphNode(f"filter:{query}/{place}", "filter", _plain(title))
            text = step.text
        else:
            made = GraphNode(f"look-up:{query}/{place}", "look-up", "index look-up")
            text = f"{step.text} {step.table}"
        found += [(source, made) for source in _read(views, text)]
        views[step.view] = made
    answer = GraphNode(f"query:{query}", "query", query)
    found += [(source, answer) for source in _read(views, program.answer.text)]
    return found


def _read(views: Mapping[str, GraphNode], text: str) -> list[GraphNode]:
    """Nodes whose views a text names."""
    return list(dict.fromkeys(node for view, node in views.items() if view in text))


def _plain(sql: str) -> str:
    """Without quotes, and the numbers that make names unique."""
    return re.sub(r"`(\w+?)_\d+`", r"\1", sql)
