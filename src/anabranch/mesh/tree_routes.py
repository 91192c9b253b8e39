"""A mesh as a plan of routes: the decision tree tells the route of a row, and each route starts with its order.

>>> import pyarrow as pa
>>> from anabranch.mesh.nodes import Among, Branch, Leaf
>>> tree = TreeRoutes(DecisionTree(Branch(Among("zone", ("north",)), Leaf(1), Leaf(0))))
>>> tree.classify({"zone": pa.array(["south", "north"])}).tolist(), tree.tests(1)
([0, 1], ("zone in ('north')",))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from anabranch.mesh.classifier import DecisionTree
from anabranch.model.arrays import Counts


@dataclass(frozen=True)
class TreeRoutes:
    """A decision tree with the face of a classifier of routes."""

    tree: DecisionTree

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes it looks at."""
        return self.tree.attributes()

    @property
    def routes(self) -> int:
        """Number of routes."""
        return max(label for label, _ in self.tree.paths()) + 1

    def classify(self, columns: Mapping[str, pa.Array]) -> Counts:
        """The route of every row."""
        return self.tree.classify(columns)

    def tests(self, route: int) -> tuple[str, ...]:
        """When a row takes a route, one text per leaf."""
        return tuple(" and ".join(path) for label, path in self.tree.paths() if label == route)

    def shown(self, routes: Sequence[int]) -> tuple[str, ...]:
        """The same for several routes together, without tests that do not matter for them.

        >>> from anabranch.mesh.nodes import Among, Branch, Leaf
        >>> south = Branch(Among("zone", ("south",)), Leaf(2), Leaf(0))
        >>> TreeRoutes(DecisionTree(Branch(Among("zone", ("north",)), Leaf(1), south))).shown([1, 2])
        ("zone in ('north', 'south')",)
        """
        merged = self.tree.relabelled(dict.fromkeys(routes, routes[0]))
        return TreeRoutes(merged).tests(routes[0])

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return self.tree.to_dict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TreeRoutes:
        """From what `to_dict` gave."""
        return cls(DecisionTree.from_dict(data))
