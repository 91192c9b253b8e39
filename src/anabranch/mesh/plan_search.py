"""Where routes come from: a search over a sample of rows on which every filter was tried.

>>> import numpy as np, pyarrow as pa
>>> rng = np.random.default_rng(1)
>>> north = rng.random(400) < 0.5
>>> drops = np.column_stack([north ^ (rng.random(400) < 0.05), ~north ^ (rng.random(400) < 0.05)])
>>> sample = JudgedSample({"north": pa.array(north)}, drops, np.array([1e-5, 1e-5]))
>>> found = find(("content", "mesh"), sample)
>>> found.origin, found.classifier.attributes
('content', ('north',))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.mesh.config import MeshConfig
from anabranch.mesh.optimize import optimize
from anabranch.mesh.overheads import measured
from anabranch.mesh.training import Sample
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix, Floats, Rows
from anabranch.ordering.greedy import row_costs
from anabranch.ordering.precedence import Precedence
from anabranch.routing.class_learner import ClassLearner
from anabranch.routing.routed import RoutePlan

SIMPLER_IS_BETTER = 0.02
SMALLEST_SAVING = 0.02


@dataclass(frozen=True)
class JudgedSample:
    """Sampled rows: their attributes, which filters drop them, and the seconds per row of each filter."""

    attributes: dict[str, pa.Array]
    drops: BoolMatrix
    costs: Floats

    def __len__(self) -> int:
        return len(self.drops)

    def take(self, rows: Rows) -> JudgedSample:
        """Some of the rows."""
        picked = pa.array(rows)
        return JudgedSample({n: a.take(picked) for n, a in self.attributes.items()}, self.drops[rows], self.costs)


def find(ways: Sequence[str], sample: JudgedSample, precedence: Precedence | None = None) -> RoutePlan | None:
    """The routes that a sample suggests, none where one order is as good; a later way has to be clearly better.

    What they promise to save is net of what telling rows apart and handling several routes costs on this machine.
    """
    if not np.isfinite(sample.costs).all() or sample.drops.shape[1] < 2:
        return None
    config = measured(MeshConfig(), sample.attributes, float(sample.costs.sum()))
    best: RoutePlan | None = None
    for way in ways:
        found = (_mesh if way == "mesh" else _content)(sample, precedence, config)
        if found and (best is None or found.promised_saving > best.promised_saving + SIMPLER_IS_BETTER):
            best = found
    return best


def _content(sample: JudgedSample, precedence: Precedence | None, config: MeshConfig) -> RoutePlan | None:
    learner = ClassLearner(sample.drops.shape[1], precedence)
    learner.add(sample.attributes, sample.drops)
    found = learner.propose(sample.costs)
    if found is None:
        return None
    tests, routes = len(found.cells.attributes), len(found.orders)
    overhead = tests * config.classification_seconds + (routes - 1) * config.overhead_seconds
    saving = found.saving - overhead / float(row_costs(found.orders[0], sample.drops, sample.costs).mean())
    return RoutePlan(found.cells, found.orders, "content", saving) if saving > SMALLEST_SAVING else None


def _mesh(sample: JudgedSample, precedence: Precedence | None, config: MeshConfig) -> RoutePlan | None:
    mesh = optimize(Sample.from_arrow(sample.attributes, sample.drops, sample.costs), config, precedence)
    return None if len(mesh.routes) < 2 else RoutePlan(TreeRoutes(mesh.tree), mesh.routes, "mesh", mesh.gain)
