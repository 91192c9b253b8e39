"""What was learned, as JSON: seeds and routes, for state folders and for `Filter.save`."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix
from anabranch.ordering.base import Seed
from anabranch.routing.cells import Cells
from anabranch.routing.plan_log import LoggedPlan, PlanLog
from anabranch.routing.routed import Classifier, RoutePlan

CLASSIFIERS: dict[str, Any] = {"cells": Cells, "tree": TreeRoutes}


def seed_to_json(seed: Seed) -> dict[str, Any]:
    """A seed; drops as rows of 0 and 1."""
    bits = ["".join("1" if b else "0" for b in row) for row in seed.drops]
    return {"order": seed.order, "drops": bits, "costs": [None if np.isnan(c) else c for c in seed.costs]}


def seed_from_json(data: dict[str, Any]) -> Seed:
    """The seed."""
    costs = np.array([np.nan if c is None else c for c in data["costs"]], dtype=float)
    drops: BoolMatrix = np.array([[b == "1" for b in row] for row in data["drops"]], dtype=np.bool_)
    return Seed(tuple(data["order"]), drops.reshape(-1, len(costs)), costs)


def plan_to_json(plan: RoutePlan) -> dict[str, Any]:
    """Routes; the classifier under the name of its kind."""
    kind = next(name for name, made in CLASSIFIERS.items() if isinstance(plan.classifier, made))
    classifier: Any = plan.classifier
    return {
        "kind": kind,
        "classifier": classifier.to_dict(),
        "orders": plan.orders,
        "origin": plan.origin,
        "promised_saving": plan.promised_saving,
    }


def plan_from_json(data: dict[str, Any]) -> RoutePlan:
    """The routes."""
    classifier: Classifier = CLASSIFIERS[data["kind"]].from_dict(data["classifier"])
    orders = tuple(tuple(order) for order in data["orders"])
    return RoutePlan(classifier, orders, data["origin"], data["promised_saving"])


def log_to_json(log: PlanLog) -> list[dict[str, Any]]:
    """Logged plans, oldest first."""
    return [
        {"time": e.time, "rows": e.rows.tolist(), "rates": e.rates.tolist(), "plan": plan_to_json(e.plan)}
        for e in log.entries
    ]


def log_from_json(data: list[dict[str, Any]]) -> PlanLog:
    """The log."""
    return PlanLog(
        tuple(LoggedPlan(e["time"], np.array(e["rows"]), np.array(e["rates"]), plan_from_json(e["plan"])) for e in data)
    )
