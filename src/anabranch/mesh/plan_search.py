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
from dataclasses import replace

import numpy as np

from anabranch.mesh.config import MeshConfig
from anabranch.mesh.optimize import optimize
from anabranch.mesh.overheads import measured, seconds_around
from anabranch.mesh.training import Sample
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import Floats, Order
from anabranch.ordering.greedy import greedy_order, row_costs
from anabranch.ordering.precedence import Precedence
from anabranch.routing.class_learner import ClassLearner
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.thresholds import NET_SAVING, SECOND_METHOD_SAVING


def find(
    ways: Sequence[str],
    sample: JudgedSample,
    precedence: Precedence | None = None,
    config: MeshConfig | None = None,
) -> RoutePlan | None:
    """The routes that a sample suggests, none where one order is as good; a later way has to be clearly better.

    What they promise to save is judged on rows that they were not learned from, the same ones for every way, and is net
    of what telling rows apart by their classifier and handling their routes costs on this machine. `config` is that of
    the mesh.
    """
    if not np.isfinite(sample.costs).all() or sample.drops.shape[1] < 2:
        return None
    precedence = precedence or Precedence.none(sample.drops.shape[1])
    alone = float(row_costs(best_order(sample, precedence), sample.drops, sample.costs).mean())
    best: RoutePlan | None = None
    for way in ways:
        found = _mesh(sample, precedence, config or MeshConfig()) if way == "mesh" else _content(sample, precedence)
        if found is None:
            continue
        around = seconds_around(found, sample.attributes, float(sample.costs.sum()))
        net = found.promised_saving - around / alone
        if net > (NET_SAVING if best is None else best.promised_saving + SECOND_METHOD_SAVING):
            best = replace(found, promised_saving=net)
    return best


def best_order(sample: JudgedSample, precedence: Precedence) -> Order:
    """The order for all rows of a sample."""
    return greedy_order(sample.drops[sample.drops.any(axis=1)], sample.costs, precedence)


def costs_by_route(plan: RoutePlan, sample: JudgedSample) -> Floats:
    """What the filters take for every row by the order of every route."""
    return np.stack([row_costs(order, sample.drops, sample.costs) for order in plan.orders], axis=1)


def paid(plan: RoutePlan, sample: JudgedSample) -> Floats:
    """What every row costs by a plan: the filters in the order of its route, and what routes cost by themselves."""
    routes = plan.classifier.classify(sample.attributes)
    spent: Floats = costs_by_route(plan, sample)[np.arange(len(sample)), routes]
    return spent + seconds_around(plan, sample.attributes, float(sample.costs.sum()))


def _content(sample: JudgedSample, precedence: Precedence) -> RoutePlan | None:
    learner = ClassLearner(sample.drops.shape[1], precedence)
    learner.add(sample.attributes, sample.drops)
    found = learner.propose(sample.costs)
    return None if found is None else RoutePlan(found.classes, found.orders, "content", found.saving)


def _mesh(sample: JudgedSample, precedence: Precedence, config: MeshConfig) -> RoutePlan | None:
    filters, row_seconds = sample.drops.shape[1], float(sample.costs.sum())
    config = measured(config, sample.attributes, filters=filters, row_seconds=row_seconds)
    training = Sample.from_arrow(sample.attributes, sample.drops, sample.costs)
    mesh = optimize(training, config, precedence, config.seed)
    return None if len(set(mesh.routes)) < 2 else RoutePlan(TreeRoutes(mesh.tree), mesh.routes, "mesh", mesh.saving)
