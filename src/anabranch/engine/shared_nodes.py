"""What is shared by whom, and what that saves: the state that there would be once more for every other query.

Queries that share an operator may want different things of it (`operators/tapped.py`). Saved is what the operator
itself holds, not what its taps do.

>>> from anabranch.engine.manifest import QueryState
>>> manifest = Manifest(cells=1)
>>> for name in ("a", "b", "c"):
...     manifest.queries[name] = QueryState("", nodes={1: "f00d.0"})
>>> report = CellReport((), 9, 9, 8, 800, 0.0, 0, base_rows=5, base_bytes=500)
>>> [found] = shared_nodes(manifest, {("a", 1): "groups, istream"}, {("f00d.0", 0): report})
>>> found.title, found.queries, found.saved_rows, found.saved_bytes
('groups', ('a', 'b', 'c'), 10, 1000)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.engine.fold_nodes import FOLDED
from anabranch.engine.manifest import Manifest
from anabranch.engine.network import sharing
from anabranch.spark.continuous.cell_task import CellReport, Reports


@dataclass(frozen=True)
class SharedNode:
    """An operator that several queries use.

    Parameters
    ----------
    node
        Its identity.
    title
        What it does.
    queries
        Those that use it.
    rows, bytes
        What it holds, once for all.
    """

    node: str
    title: str
    queries: tuple[str, ...]
    rows: int
    bytes: int

    @property
    def saved_rows(self) -> int:
        """Rows of state that queries would hold besides if each had its own; over shorter windows, at most."""
        return self.rows * (len(self.queries) - 1)

    @property
    def saved_bytes(self) -> int:
        """Bytes of them."""
        return self.bytes * (len(self.queries) - 1)

    def in_words(self, query: str) -> str:
        """For one of the queries.

        >>> SharedNode("f00d.0", "groups", ("a", "b", "c"), 5, 500).in_words("b")
        'groups f00d.0 is shared with a, c: 10 rows and 1,000 bytes of state less'
        """
        others = ", ".join(name for name in self.queries if name != query)
        saved = f"{self.saved_rows:,} rows and {self.saved_bytes:,} bytes of state less"
        return f"{self.title} {self.node} is shared with {others}: {saved}"


def shared_nodes(manifest: Manifest, titles: Mapping[tuple[str, int], str], reports: Reports) -> list[SharedNode]:
    """The operators that several queries use."""
    held: dict[str, list[CellReport]] = defaultdict(list)
    for (node, _), report in reports.items():
        held[node].append(report)
    found = []
    for node, names in sorted(sharing(manifest).items()):
        if node.startswith(FOLDED):
            continue  # what it holds of one query is nothing to another
        stage = next(stage for stage, used in manifest.queries[names[0]].nodes.items() if used == node)
        title = titles.get((names[0], stage), "operator").split(", ")[0]
        rows, size = (sum(getattr(each, name) for each in held[node]) for name in ("base_rows", "base_bytes"))
        found.append(SharedNode(node, title, tuple(names), rows, size))
    return found
