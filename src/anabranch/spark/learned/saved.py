"""What was learned, as JSON: seeds, routes and native orders, for the state file of a filter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix, Order
from anabranch.ordering.base import Seed
from anabranch.routing.plan_log import LoggedPlan, PlanLog
from anabranch.routing.route_plan import Classifier, RoutePlan, RouteState, shown
from anabranch.routing.value_classes import ValueClasses

Fit = tuple[tuple[tuple[str | bool, ...], ...], tuple[tuple[str, str], ...]]
"""What was found about predicates on an input, and the attributes with their types: an order holds where they hold."""

CLASSIFIERS: dict[str, Any] = {"values": ValueClasses, "tree": TreeRoutes}


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
    """The routes that rows of a sample take, as people should see them."""
    ways = enumerate(zip(plan.orders, shares, strict=True))
    return shown(plan, {route: RouteState((), order, rows, 0.0) for route, (order, rows) in ways if rows})


def native_to_json(state: NativeState) -> dict[str, Any]:
    """A native order."""
    plan = None if state.plan is None else plan_to_json(state.plan)
    return vars(state) | {"seed": seed_to_json(state.seed), "plan": plan}


def native_from_json(data: dict[str, Any], filters: int) -> NativeState:
    """The native order of so many predicates."""
    findings, kinds = data["fit"]
    read = {
        "fit": (tuple(map(tuple, findings)), tuple(map(tuple, kinds))),
        "seed": seed_from_json(data["seed"], filters),
        "dropped": tuple(data["dropped"]),
        "plan": None if data["plan"] is None else plan_from_json(data["plan"]),
        "shares": tuple(data["shares"]),
    }
    return NativeState(**data | read)


def seed_to_json(seed: Seed) -> dict[str, Any]:
    """A seed; drops as rows of 0 and 1."""
    bits = ["".join("1" if b else "0" for b in row) for row in seed.drops]
    return {"order": seed.order, "drops": bits, "costs": [None if np.isnan(c) else c for c in seed.costs]}


def seed_from_json(data: dict[str, Any], filters: int) -> Seed:
    """The seed of so many filters.

    >>> seed_from_json({"order": [1], "drops": [], "costs": [1e-6, None]}, filters=2)
    Traceback (most recent call last):
    ...
    ValueError: an order of 2 filters has each of them once, unlike (1,)
    """
    costs = np.array([np.nan if c is None else c for c in data["costs"]], dtype=float)
    drops: BoolMatrix = np.array([[b == "1" for b in row] for row in data["drops"]], dtype=np.bool_)
    if len(costs) != filters:
        raise ValueError(f"{filters} filters have as many costs, not {len(costs)}")
    return Seed(_order(data["order"], filters), drops.reshape(-1, filters), costs)


def _order(places: Iterable[int], filters: int) -> Order:
    """A filter that is missing in an order would let all rows pass."""
    order = tuple(places)
    if sorted(order) != list(range(filters)):
        raise ValueError(f"an order of {filters} filters has each of them once, unlike {order}")
    return order


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


def plan_from_json(data: dict[str, Any], filters: int | None = None) -> RoutePlan:
    """The routes of so many filters; those of native predicates have orders of some of them only."""
    classifier: Classifier = CLASSIFIERS[data["kind"]].from_dict(data["classifier"])
    orders = tuple(tuple(order) if filters is None else _order(order, filters) for order in data["orders"])
    if len(orders) < classifier.routes:
        raise ValueError(f"{classifier.routes} routes have as many orders, not {len(orders)}")
    return RoutePlan(classifier, orders, data["origin"], data["promised_saving"])


def log_to_json(log: PlanLog) -> list[dict[str, Any]]:
    """Logged plans, oldest first."""
    return [
        {"time": e.time, "rows": e.rows.tolist(), "rates": e.rates.tolist(), "plan": plan_to_json(e.plan)}
        for e in log.entries
    ]


def log_from_json(data: list[dict[str, Any]], filters: int) -> PlanLog:
    """The log of plans for so many filters."""
    return PlanLog(
        tuple(
            LoggedPlan(e["time"], np.array(e["rows"]), np.array(e["rates"]), plan_from_json(e["plan"], filters))
            for e in data
        )
    )
