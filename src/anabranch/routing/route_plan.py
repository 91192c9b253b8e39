"""A plan of several routes: a classifier that tells the route of a row, and the order of the filters on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anabranch.model.arrays import Order
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.decisions import Decision
from anabranch.routing.value_classes import Codes


class Classifier(Protocol):
    """Tells the route of a row by its attributes; route 0 is for rows like none that it knows."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes it looks at."""

    @property
    def routes(self) -> int:
        """Number of routes."""

    def classify(self, columns: AttributeArrays) -> Codes:
        """The route of every row."""

    def tests(self, route: int) -> tuple[str, ...]:
        """When a row takes a route, in words."""

    def shown(self, routes: Sequence[int]) -> tuple[str, ...]:
        """When a row takes one of some routes, in words for people."""


@dataclass(frozen=True)
class RoutePlan:
    """A classifier and the order of each route, as one worker hands it to the next, or one run to the next."""

    classifier: Classifier
    orders: tuple[Order, ...]
    origin: str
    promised_saving: float = 0.0

    def tests(self) -> list[tuple[str, ...]]:
        """What tells one classifier from another: when a row takes each route; the orders may change."""
        return [self.classifier.tests(route) for route in range(len(self.orders))]


@dataclass(frozen=True)
class RouteState:
    """One route as it is now: rows so far, seconds that its filters took for them, order, and tests on attributes."""

    tests: tuple[str, ...]
    order: Order
    rows: int
    seconds: float


@dataclass(frozen=True)
class NewRoutes(Decision):
    """Rows take other ways: routes are on trial, kept or given up.

    Parameters
    ----------
    ways
        The ways that rows take now, as people should see them.
    order
        The one for all rows; where there are several routes, it waits until they are given up.
    why
        For people to read, with filters as in `ordering.why`.
    """

    ways: tuple[RouteState, ...]
    order: Order
    why: str


def shown(plan: RoutePlan, states: Mapping[int, RouteState]) -> list[RouteState]:
    """Some of the routes of a plan as people should see them: those with equal orders are one.

    What has no tests is for all rows: a single order is left.
    """
    alike: dict[Order, list[int]] = {}
    for route, state in states.items():
        alike.setdefault(state.order, []).append(route)
    return [
        RouteState(
            plan.classifier.shown(routes) if len(alike) > 1 else (),
            order,
            sum(states[r].rows for r in routes),
            sum(states[r].seconds for r in routes),
        )
        for order, routes in alike.items()
    ]


def shown_orders(plan: RoutePlan) -> list[RouteState]:
    """All the routes of a plan as people should see them, before rows have taken them; some may lead nowhere."""
    ways = [(route, order) for route, order in enumerate(plan.orders) if plan.classifier.tests(route)]
    return shown(plan, {route: RouteState((), order, 0, 0.0) for route, order in ways})
