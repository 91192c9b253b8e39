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
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Budget:
    """A limit, and whose it is.

    Parameters
    ----------
    limit
        Bytes for all operators in all cells.
    queries
        Those that have to keep to it together.
    query
        The one that it was named for; none if it is that of an engine.
    """

    limit: int
    queries: Collection[str]
    query: str | None = None


class MemoryLimits:
    """Divides budgets, and notices when they are exceeded. An operator that belongs to several keeps to all of them."""

    def __init__(self) -> None:
        self._exceeded: set[str | None] = set()

    def divided(
        self,
        budgets: Sequence[Budget],
        nodes: Mapping[str, Collection[str]],
        cells: Mapping[str, Collection[int]],
        reports: Reports,
    ) -> dict[str, dict[int, int]]:
        """Bytes for the joins of a tick, by node and cell.

        Parameters
        ----------
        budgets
            What has to be kept to.
        nodes
            The operators of each query.
        cells
            Where each of them runs.
        reports
            What each has said last.
        """
        found: dict[str, dict[int, int]] = {}
        for budget in budgets:
            own = {node: cells[node] for name in budget.queries for node in nodes[name]}
            for (node, cell), share in _divided(budget.limit, own, reports).items():
                given = found.setdefault(node, {})
                given[cell] = min(share, given.get(cell, share))
        return found

    def exceeded(
        self, budgets: Sequence[Budget], nodes: Mapping[str, Collection[str]], reports: Reports
    ) -> list[MemoryExceeded]:
        """Events of the budgets that operators have begun to exceed."""
        by_node: Counter[str] = Counter()
        for (node, _), report in reports.items():
            by_node[node] += report.peak_bytes
        events = []
        for budget in budgets:
            held = {query: sum(by_node[node] for node in set(nodes[query])) for query in budget.queries}
            total = sum(by_node[node] for node in {node for query in budget.queries for node in nodes[query]})
            if total <= budget.limit:
                self._exceeded.discard(budget.query)
            elif budget.query not in self._exceeded:
                self._exceeded.add(budget.query)
                most = max(held, key=lambda query: held[query])
                events.append(MemoryExceeded(most, total, budget.limit, alone=budget.query is not None))
        return events


def _divided(limit: int, cells: Mapping[str, Collection[int]], reports: Reports) -> dict[tuple[str, int], int]:
    fixed, needs = 0, dict[tuple[str, int], int | None]()
    for node, own in cells.items():
        for cell in own:
            report = reports.get((node, cell))
            fixed += 0 if report is None else report.fixed_bytes
            if report is None:
                needs[node, cell] = None
            elif report.goes_to_disk:
                needs[node, cell] = report.held_bytes - report.fixed_bytes + report.file_bytes
    return shares(limit, fixed, needs)
