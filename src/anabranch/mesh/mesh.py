"""A mesh: the classifier and the routes, with what they promise; it travels as plain data.

>>> mesh = Mesh.of_one((1, 0), cost=2.0)
>>> mesh.routes, mesh.gain, Mesh.from_dict(mesh.to_dict()) == mesh
(((1, 0),), 0.0, True)

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.errors import DataError
from anabranch.mesh.classifier import DecisionTree
from anabranch.model.arrays import Order

VERSION = 1


@dataclass(frozen=True)
class Mesh:
    """A classifier, and the order of each route; costs are in seconds per tuple.

    Parameters
    ----------
    tree
        Sends tuples to routes 0, 1, ...; empty if there is one route.
    routes
        The order of the filters on each route, the most frequent route first.
    shares
        Fraction of the sample that the tree sends along each route.
    cost
        Equation 2 for the sample.
    single_order, single_cost
        The best order for all tuples together, and its cost.
    saving
        Share of the single order's cost that the filters of meshes learned from half the sample save on the other half.
    """

    tree: DecisionTree
    routes: tuple[Order, ...]
    shares: tuple[float, ...]
    cost: float
    single_order: Order
    single_cost: float
    saving: float = 0.0

    @classmethod
    def of_one(cls, order: Order, *, cost: float) -> Mesh:
        """A single order, as a mesh."""
        return cls(DecisionTree(), (order,), (1.0,), cost, order, cost)

    @property
    def gain(self) -> float:
        """Share of the single order's cost that the mesh saves on the sample that it was learned from."""
        return 1.0 - self.cost / self.single_cost if self.single_cost > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return {
            "version": VERSION,
            "tree": self.tree.to_dict(),
            "routes": [list(order) for order in self.routes],
            "shares": list(self.shares),
            "cost": self.cost,
            "single_order": list(self.single_order),
            "single_cost": self.single_cost,
            "saving": self.saving,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Mesh:
        """What `to_dict` wrote."""
        if data.get("version") != VERSION:
            raise DataError(
                f"a stored mesh has version {data.get('version')!r}, this release reads {VERSION}",
                hint="delete it, and it is learned again",
            )
        return cls(
            DecisionTree.from_dict(data["tree"]),
            tuple(tuple(order) for order in data["routes"]),
            tuple(data["shares"]),
            data["cost"],
            tuple(data["single_order"]),
            data["single_cost"],
            data["saving"],
        )
