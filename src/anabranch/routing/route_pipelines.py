"""A plan in use: a pipeline per route, and the rows of a chunk sent along the route of each.

Notes
-----
The rows of a chunk that take one route are a ruster of Query Mesh, the order of the route is its r-token.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from anabranch.model.arrays import BoolMatrix, Floats, Rows
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.decisions import Decision, NewEffort, NewOrder
from anabranch.ordering.greedy import row_costs
from anabranch.ordering.pipeline import Failure, FilterPipeline, Outcome
from anabranch.routing.route_plan import RoutePlan, RouteState
from anabranch.routing.route_upkeep import RouteUpkeep
from anabranch.routing.value_classes import Codes


class RoutePipelines:
    """The routes of a plan, each with its pipeline, and the rows and seconds of each since they were last taken."""

    def __init__(self, plan: RoutePlan, pipelines: Sequence[FilterPipeline], clock: Callable[[], float]) -> None:
        self._plan, self.pipelines, self._clock = plan, pipelines, clock
        routes = range(len(pipelines))
        self.names = [" | ".join(plan.classifier.shown([route])) or "all other rows" for route in routes]
        self._rows, self._seconds = [0] * len(pipelines), [0.0] * len(pipelines)
        self.upkeep = RouteUpkeep(pipelines)

    @property
    def plan(self) -> RoutePlan:
        """The plan, with the present orders."""
        return replace(self._plan, orders=tuple(p.reoptimizer.order for p in self.pipelines))

    @property
    def found(self) -> RoutePlan:
        """The plan, with the orders it was found with."""
        return self._plan

    def busiest(self) -> FilterPipeline:
        """The pipeline that most rows took."""
        return max(self.pipelines, key=lambda p: p.rows_done)

    def process(self, columns: AttributeArrays, run: Callable[[FilterPipeline, Rows], Outcome]) -> Outcome:
        """Run the rows of a chunk with these attributes, route by route."""
        codes = self._plan.classifier.classify(columns)
        survivors: list[Rows] = []
        failures: list[Failure] = []
        decisions: list[Decision] = []
        for route, pipeline in enumerate(self.pipelines):
            ruster = np.flatnonzero(codes == route)
            if not len(ruster):
                continue
            began = self._clock()
            outcome = run(pipeline, ruster)
            self._rows[route] += len(ruster)
            self._seconds[route] += self._clock() - began
            survivors.append(ruster[outcome.survivors])
            failures += [Failure(int(ruster[f.row]), f.filter, f.message) for f in outcome.failures]
            decisions += [_on_route(decision, self.names[route]) for decision in outcome.decisions]
        kept = np.sort(np.concatenate(survivors)) if survivors else np.zeros(0, dtype=np.int64)
        return Outcome(kept, tuple(sorted(failures, key=lambda f: f.row)), tuple(decisions))

    def price(self, attributes: AttributeArrays, drops: BoolMatrix, costs: Floats) -> tuple[Floats, Codes]:
        """What sampled rows cost by the present orders, in seconds, and the route of each."""
        paid, codes = np.zeros(len(drops)), self._plan.classifier.classify(attributes)
        for route, pipeline in enumerate(self.pipelines):
            chosen = codes == route
            paid[chosen] = row_costs(pipeline.reoptimizer.order, drops[chosen], costs)
        return paid, codes

    def take_states(self) -> list[RouteState]:
        """Hand over rows and seconds of every route since the last call."""
        found = [
            RouteState(self._plan.classifier.tests(i), p.reoptimizer.order, self._rows[i], self._seconds[i])
            for i, p in enumerate(self.pipelines)
        ]
        self._rows, self._seconds = [0] * len(found), [0.0] * len(found)
        return found


def _on_route(decision: Decision, route: str) -> Decision:
    return replace(decision, route=route) if isinstance(decision, (NewOrder, NewEffort)) else decision
