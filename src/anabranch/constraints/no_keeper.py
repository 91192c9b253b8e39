"""For which streams No is kept: where rows of a parent would otherwise wait for ever, or longer than No would stay.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 6.3.1 and 6.10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anabranch.constraints.adherence import Adherence
from anabranch.constraints.config import ConstraintConfig
from anabranch.constraints.constraint_set import ConstraintSet
from anabranch.constraints.join_graph import Edge, JoinGraph
from anabranch.constraints.kept_rows import NO, KeptRows
from anabranch.constraints.selection import NoComponent, Wait
from anabranch.constraints.windows import Range, Rows


class NoKeeper:
    """Follows how many tuples arrive and how many filters drop, and decides for each stream.

    Spans and rates are per arrival of any stream if k is in tuples, else per unit of time.
    """

    def __init__(self, config: ConstraintConfig, streams: int) -> None:
        self._config = config
        self._arrived = [0] * streams
        self._dropped = [0] * streams
        self._begin: int | None = None
        self._span = 0

    def arrive(self, arrived: Sequence[int], dropped: Sequence[int], first: int, last: int) -> None:
        """So many tuples of each stream arrived between two moments, of which filters dropped some."""
        self._begin = first if self._begin is None else self._begin
        self._span = last - self._begin
        for stream, (all_of, gone) in enumerate(zip(arrived, dropped, strict=True)):
            self._arrived[stream] += all_of
            self._dropped[stream] += gone

    def decide(self, graph: JoinGraph, constraints: ConstraintSet, synopses: Sequence[KeptRows]) -> list[bool]:
        """Whether No is kept, by stream."""
        return [self._keeps(stream, graph, constraints, synopses) for stream in range(graph.streams)]

    def _keeps(self, stream: int, graph: JoinGraph, constraints: ConstraintSet, synopses: Sequence[KeptRows]) -> bool:
        edges = [edge for edge in graph.directed if edge.child == stream]
        if not edges or not self._config.keep_no:
            return False
        if not all(constraints.wait_ends(edge) for edge in edges):
            return True
        if self._config.selection == "all" or not self._arrived[stream]:
            return False
        window = self._window(stream, synopses[stream])
        closing = max(self._closing(edge, constraints) for edge in edges)
        no = NoComponent(self._rate(stream), self._share(stream, synopses[stream]), min(window, closing))
        return no.is_worth_keeping([self._wait(edge, constraints, synopses) for edge in edges])

    def _share(self, stream: int, kept: KeptRows) -> float:
        """Of the tuples of a stream, those in No: dropped by filters, and of the others as many as there are now."""
        dropped = self._dropped[stream] / self._arrived[stream]
        passing = np.count_nonzero(kept.passes)
        no = np.count_nonzero(kept.passes & (kept.status == NO)) / passing if passing else 0.0
        return float(dropped + (1 - dropped) * no)

    def _closing(self, edge: Edge, constraints: ConstraintSet) -> float:
        """For how long rows of the parent may still ask for a row of the child."""
        found = [each[edge][0].adherence for each in (constraints.ca, constraints.oap) if edge in each]
        return min((self._lasts(each, edge.parent) for each in found), default=math.inf)

    def _wait(self, edge: Edge, constraints: ConstraintSet, synopses: Sequence[KeptRows]) -> Wait:
        found = [c.adherence for link, (c, _) in constraints.rids.items() if link.forward and link.edge is edge]
        found += [constraints.oac[edge][0].adherence] if edge in constraints.oac else []
        longest = self._window(edge.parent, synopses[edge.parent])
        lasts = min((self._lasts(each, edge.child) for each in found), default=math.inf)
        return Wait(self._rate(edge.parent), min(lasts, longest))

    def _lasts(self, adherence: Adherence, stream: int) -> float:
        """How long k is, of a stream."""
        if not adherence.usable:
            return math.inf
        return adherence.noticed / self._rate(stream) if self._config.unit == "tuples" else adherence.noticed

    def _rate(self, stream: int) -> float:
        whole = sum(self._arrived) if self._config.unit == "tuples" else self._span
        return max(self._arrived[stream], 1) / max(whole, 1)

    def _window(self, stream: int, kept: KeptRows) -> float:
        if isinstance(kept.window, Rows):
            return kept.window.size / self._rate(stream)
        if not isinstance(kept.window, Range):
            return math.inf
        if self._config.unit == "time":
            return kept.window.span
        return kept.window.span * sum(self._arrived) / max(self._span, 1)
