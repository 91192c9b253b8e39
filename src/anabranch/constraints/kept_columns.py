"""Which columns of a row are kept: those it is joined by and those that are answered; in No what its parents ask for.

>>> from anabranch.constraints.join_graph import Edge
>>> chain = JoinGraph(3, (Edge(0, 1, 1, 0), Edge(1, 2, 1, 0)))
>>> kept_columns(chain, 1, answered=()), kept_columns(chain, 1, answered=(2,)), kept_in_no(chain, 1)
((0, 1), (0, 1, 2), (0,))

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.3.1.
"""

from __future__ import annotations

from collections.abc import Collection

from anabranch.constraints.join_graph import JoinGraph


def kept_columns(graph: JoinGraph, stream: int, answered: Collection[int]) -> tuple[int, ...]:
    """Columns of rows in Yes and Unknown."""
    return tuple(sorted({*graph.columns_of(stream), *answered}))


def kept_in_no(graph: JoinGraph, stream: int) -> tuple[int, ...]:
    """Columns of rows in No: what rows of the parents ask for."""
    return tuple(sorted({edge.child_column for edge in graph.directed if edge.child == stream}))
