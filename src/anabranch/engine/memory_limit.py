"""A limit of memory, divided: what each join may take in each cell, so that all operators together stay below it.

What cannot go to disk (groups, windows of rows) is taken off first. Of the rest every join gets what it needs, if that
is no more than its fair share; what such joins leave is divided among the others.

>>> shares(100, fixed=10, needs={"a": 6, "b": 60, "c": 80})
{'a': 6, 'b': 42, 'c': 42}

If all have what they need, what is left is divided, so that they can grow. Of some the needs are not known yet.

>>> shares(100, fixed=10, needs={"a": 5, "b": 25}), shares(100, fixed=10, needs={"a": 10, "b": None})
({'a': 35, 'b': 55}, {'a': 10, 'b': 80})

Where others take nearly all of it, joins get a part of it all the same: without any memory they would stand still.

>>> shares(100, fixed=120, needs={"a": 50})
{'a': 25}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeVar

from anabranch.events import MemoryExceeded
from anabranch.spark.continuous.cell_task import Reports

Part = TypeVar("Part", bound=Hashable)
LEAST_PART = 4
"""Joins get one in so many bytes of the limit, whatever others take."""


def shares(limit: int, fixed: int, needs: Mapping[Part, int | None]) -> dict[Part, int]:
    """Bytes for each part: max-min fair.

    Parameters
    ----------
    limit
        Bytes for all.
    fixed
        Bytes that others take whatever is done.
    needs
        What each part would take; None if nobody knows.
    """
    left, given = max(limit // LEAST_PART, limit - fixed), dict.fromkeys(needs, 0)
    known = sorted(needs, key=lambda part: float("inf") if (need := needs[part]) is None else need)
    for place, part in enumerate(known):
        need, fair = needs[part], left // (len(known) - place)
        given[part] = fair if need is None else min(need, fair)
        left -= given[part]
    return {part: got + left // len(given) for part, got in given.items()}


class MemoryLimit:
    """The limit of an engine, and what is known of its operators.

    Parameters
    ----------
    limit
        Bytes for all operators in all cells; None if there is none.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self._exceeded = False

    def divided(self, cells: Mapping[str, Collection[int]], reports: Reports) -> dict[str, dict[int, int]]:
        """Bytes for the joins of a tick, by node and cell, given the cells of all nodes and their last reports."""
        if self.limit is None:
            return {}
        fixed, needs = 0, dict[tuple[str, int], int | None]()
        for node, own in cells.items():
            for cell in own:
                report = reports.get((node, cell))
                fixed += 0 if report is None else report.fixed_bytes
                if report is None:
                    needs[node, cell] = None
                elif report.goes_to_disk:
                    needs[node, cell] = report.held_bytes - report.fixed_bytes + report.file_bytes
        found: dict[str, dict[int, int]] = {}
        for (node, cell), share in shares(self.limit, fixed, needs).items():
            found.setdefault(node, {})[cell] = share
        return found

    def exceeded(self, nodes: Mapping[str, Sequence[str]], reports: Reports) -> list[MemoryExceeded]:
        """An event if operators have begun to take more than the limit; `nodes` are those of each query."""
        if self.limit is None:
            return []
        by_node: Counter[str] = Counter()
        for (node, _), report in reports.items():
            by_node[node] += report.peak_bytes
        held = {query: sum(by_node[node] for node in own) for query, own in nodes.items()}
        total = sum(by_node[node] for node in {node for own in nodes.values() for node in own})
        before, self._exceeded = self._exceeded, total > self.limit
        if before or not self._exceeded:
            return []
        return [MemoryExceeded(max(held, key=lambda query: held[query]), total, self.limit)]
