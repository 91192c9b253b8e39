"""Self-tuning of routes in use: has the data drifted, what is to be tuned, and does a tuned plan pay.

Three kinds of signals are watched on sampled rows, each by a drift detector: whether a row took a route that is not the
cheapest for it (the classifier's error), what its route costs, and which filters drop it. The error alone says that the
classifier is to be learned anew; costs or selectivities alone, that the routes are to be ordered anew; both, that the
mesh is to be searched for again. Whatever comes of it replaces the plan only if it pays on rows that it was not learned
from.

>>> import pyarrow as pa
>>> from anabranch.mesh.nodes import Among, Branch, Leaf
>>> rng = np.random.default_rng(3)
>>> def rows(flipped):
...     zone = rng.integers(0, 2, 600)
...     drops = np.column_stack([zone == flipped, zone != flipped]) ^ (rng.random((600, 2)) < 0.05)
...     return JudgedSample({"zone": pa.array(zone)}, drops, np.array([1e-5, 1e-5]))
>>> plan = RoutePlan(TreeRoutes(DecisionTree(Branch(Among("zone", (0,)), Leaf(0), Leaf(1)))), ((0, 1), (1, 0)), "mesh")
>>> tuning = SelfTuning(plan, 2)
>>> tuning.watch(rows(flipped=0)) is None
True
>>> need = tuning.watch(rows(flipped=1))
>>> need
'both'
>>> found = tune(need, plan, rows(flipped=1))
>>> [(found.plan.classifier.tests(r), found.plan.orders[r]) for r in range(2)]
[(('zone > 0.5',), (0, 1)), (('zone <= 0.5',), (1, 0))]

Differs from the paper
----------------------
The paper names the signals and leaves detector and thresholds open. Here the detector is ADWIN, and the decision is
made on rows on which every filter was tried.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 5.
A. Bifet, R. Gavalda, *Learning from Time-Changing Data with Adaptive Windowing*, SDM 2007.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal

import numpy as np

from anabranch.errors import MissingExtra
from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.plan_search import best_order, costs_by_route, find, paid
from anabranch.mesh.training import Sample
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import Counts, Floats
from anabranch.ordering.greedy import row_costs
from anabranch.ordering.precedence import Precedence
from anabranch.routing.held_out import halves
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.thresholds import TUNING_DEVIATIONS, TUNING_SAVING

Need = Literal["classifier", "routes", "both"]

FEWEST_ROWS = 60
WRONG_ROUTE = 1.05


@dataclass(frozen=True)
class Tuned:
    """Another plan (none: one order for all), and why."""

    plan: RoutePlan | None
    reason: str


class SelfTuning:
    """The drift detectors of one plan.

    Parameters
    ----------
    plan
        The routes in use.
    filters
        Number of filters.
    """

    def __init__(self, plan: RoutePlan, filters: int) -> None:
        self.plan = plan
        self._error, self._cost = _detector(), _detector()
        self._selectivities = [_detector() for _ in range(filters)]

    def watch(self, sample: JudgedSample) -> Need | None:
        """Take in sampled rows in their order; what they say is to be tuned."""
        by_route = costs_by_route(self.plan, sample)
        own = by_route[np.arange(len(sample)), self.plan.classifier.classify(sample.attributes)]
        wrong = _drifted(self._error, own > WRONG_ROUTE * by_route.min(axis=1))
        moved = _drifted(self._cost, own / max(float(sample.costs.sum()), 1e-12))
        for detector, drops in zip(self._selectivities, sample.drops.T, strict=True):
            moved |= _drifted(detector, drops)
        return "both" if wrong and moved else "classifier" if wrong else "routes" if moved else None


def tune(
    need: Need,
    plan: RoutePlan,
    sample: JudgedSample,
    precedence: Precedence | None = None,
    ways: Sequence[str] = (),
    config: MeshConfig | None = None,
) -> Tuned | None:
    """Another plan, or one order for all, if that pays on rows it was not learned from; none to leave it as it is.

    `ways` and `config` are those of `plan_search.find`; without ways, the one that the plan came from. Every plan is
    charged with what its classifier and its routes cost by themselves.
    """
    precedence = precedence or Precedence.none(sample.drops.shape[1])
    if len(sample) < 2 * FEWEST_ROWS or not np.isfinite(sample.costs).all():
        return None
    tuned, single, now = [], [], []
    for learn, check in ((sample.take(known), sample.take(unseen)) for known, unseen in halves(len(sample))):
        candidate = _candidate(need, plan, learn, precedence, ways, config)
        now.append(paid(plan, check))
        single.append(row_costs(best_order(learn, precedence), check.drops, check.costs))
        tuned.append(single[-1] if candidate is None else paid(candidate, check))
    spent, alone, wished = map(np.concatenate, (now, single, tuned))
    if _pays(spent, wished) and wished.mean() < (1 - TUNING_SAVING) * alone.mean():
        found = _candidate(need, plan, sample, precedence, ways, config)
        saving = 1 - float(wished.sum() / spent.sum())
        if found is not None:
            return Tuned(found, f"drift: {_named(need)} tuned, saves {100 * saving:.0f} %")
    if alone.mean() <= spent.mean():
        return Tuned(None, "drift: routes save nothing any more")
    return None


def again(
    known: RoutePlan, plan: RoutePlan | None, sample: JudgedSample, precedence: Precedence | None = None
) -> Tuned | None:
    """A plan that was in use before instead of the present one (none: one order for all), if that pays on the rows."""
    precedence = precedence or Precedence.none(sample.drops.shape[1])
    if not np.isfinite(sample.costs).all():
        return None
    alone = row_costs(best_order(sample, precedence), sample.drops, sample.costs)
    spent, wished = alone if plan is None else paid(plan, sample), paid(known, sample)
    if not _pays(spent, wished) or wished.mean() >= (1 - TUNING_SAVING) * alone.mean():
        return None
    saving = 1 - float(wished.sum() / spent.sum())
    return Tuned(known, f"a plan seen before fits again, saves {100 * saving:.0f} %")


def _candidate(
    need: Need,
    plan: RoutePlan,
    sample: JudgedSample,
    precedence: Precedence,
    ways: Sequence[str],
    config: MeshConfig | None,
) -> RoutePlan | None:
    if need == "routes":
        codes = plan.classifier.classify(sample.attributes)
        fits = [sample.take(np.flatnonzero(codes == route)) for route in range(len(plan.orders))]
        orders = [best_order(f, precedence) if len(f) else plan.orders[route] for route, f in enumerate(fits)]
        return replace(plan, orders=tuple(orders))
    if need == "classifier":
        labels: Counts = costs_by_route(plan, sample).argmin(axis=1)
        columns = Sample.from_arrow(sample.attributes, sample.drops, sample.costs).columns
        tree = DecisionTree.learn(columns, labels, leaf_rows=len(labels) // 50)
        return replace(plan, classifier=TreeRoutes(tree)) if tree.attributes() else None
    return find(ways or (plan.origin,), sample, precedence, config)


def _pays(before: Floats, after: Floats) -> bool:
    saved = before - after
    noise = float(saved.std()) / np.sqrt(len(saved))
    return bool(saved.mean() > max(TUNING_SAVING * before.mean(), TUNING_DEVIATIONS * noise))


def _drifted(detector: Any, values: np.ndarray[Any, Any]) -> bool:
    found = False
    for value in values.tolist():
        detector.update(float(value))
        found |= detector.drift_detected
    return found


def _named(need: Need) -> str:
    return {"classifier": "classifier", "routes": "orders of the routes", "both": "classifier and routes"}[need]


def _detector() -> Any:
    try:
        return import_module("river.drift").ADWIN()
    except ImportError:
        raise MissingExtra("river", "mesh", needed_for="the self-tuning of routes") from None
