"""Query Mesh: several routes for one query, and a small decision tree that sends every tuple along its own.

This package has the search for routes in a sample, which takes place on the driver: training tuples, the lattice of
configurations and its searches, the cost model, the decision tree (`optimize` turns sampled rows into a `Mesh`), the
choice between a mesh and content-based routes (`plan_search`), and tuning after drift (`self_tuning`). `Fabric` is the
paper's executor. A mesh that is found becomes a `RoutePlan`, which `routing` runs in the workers.

>>> import numpy as np
>>> uniform = np.random.default_rng(0).random((200, 2)) < (0.2, 0.6)
>>> optimize(Sample({"u": np.arange(200.0)}, uniform, np.array([1e-5, 1e-5]))).routes
((1, 0),)
"""

from __future__ import annotations

from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.cost_model import CostModel, best_order, mesh_cost
from anabranch.mesh.fabric import Fabric, Ruster
from anabranch.mesh.mesh import Mesh
from anabranch.mesh.optimize import optimize
from anabranch.mesh.tokens import token, uncertain_route
from anabranch.mesh.training import Sample, TrainingSet, condense

__all__ = [
    "CostModel",
    "DecisionTree",
    "Fabric",
    "Mesh",
    "MeshConfig",
    "Ruster",
    "Sample",
    "TrainingSet",
    "best_order",
    "condense",
    "mesh_cost",
    "optimize",
    "token",
    "uncertain_route",
]
