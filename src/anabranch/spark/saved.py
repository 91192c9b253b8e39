"""What was learned, as JSON: seeds, routes and native orders, for state folders and for `Filter.save`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix
from anabranch.ordering.base import Seed
from anabranch.routing.cells import Cells
from anabranch.routing.plan_log import LoggedPlan, PlanLog
from anabranch.routing.routed import Classifier, RoutePlan, RouteState

Fit = tuple[tuple[tuple[str | bool, ...], ...], tuple[tuple[str, str], ...]]
"""What was found about predicates on an input, and the attributes with their types: an order holds where they hold."""

CLASSIFIERS: dict[str, Any] = {"cells": Cells, "tree": TreeRoutes}


@dataclass(frozen=True)
class NativeState:
    """What is known of a run of native predicates.

    Parameters
    ----------
    fit
        The input that it was learned on.
    seed
        Order, profiles and costs.
    piloted, why
        Whether a pilot has measured the costs, and what the order is due to.
    sample_rows, dropped
        Rows sampled so far, and how many of them each predicate drops.
    plan, shares
        Routes, if there are any, and the rows of the sample that take them.
    """

    fit: Fit
    seed: Seed
    piloted: bool
    why: str
    sample_rows: int
    dropped: tuple[int, ...]
    plan: RoutePlan | None
    shares: tuple[int, ...]

    def sampled(self, i: int) -> tuple[int, int, float] | None:
        """Rows of the sample, rows that a predicate passes among them, and its seconds per row."""
        if not self.sample_rows:
            return None
        return self.sample_rows, self.sample_rows - self.dropped[i], float(self.seed.costs[i])

    def routes(self) -> list[RouteState]:
        """The routes with the rows of the sample that take them; none where there is one order."""
        return [] if self.plan is None else route_states(self.plan, self.shares)


def route_states(plan: RoutePlan, shares: tuple[int, ...]) -> list[RouteState]:
    """The routes that rows of a sample take."""
    tests = map(plan.classifier.tests, range(len(plan.orders)))
    ways = zip(tests, plan.orders, shares, strict=True)
    return [RouteState(test, order, rows, 0.0) for test, order, rows in ways if rows]


def native_to_json(state: NativeState) -> dict[str, Any]:
    """A native order."""
    plan = None if state.plan is None else plan_to_json(state.plan)
    return vars(state) | {"seed": seed_to_json(state.seed), "plan": plan}


def native_from_json(data: dict[str, Any]) -> NativeState:
    """The native order."""
    findings, kinds = data["fit"]
    read = {
        "fit": (tuple(map(tuple, findings)), tuple(map(tuple, kinds))),
        "seed": seed_from_json(data["seed"]),
        "dropped": tuple(data["dropped"]),
        "plan": None if data["plan"] is None else plan_from_json(data["plan"]),
        "shares": tuple(data["shares"]),
    }
    return NativeState(**data | read)


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
