"""Routes of native predicates: found by the pilot sample, and tuned by the profiles of micro-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType

from anabranch.events import RoutesChanged
from anabranch.mesh.plan_search import find
from anabranch.model.predicates import NativePredicate
from anabranch.ordering.precedence import Precedence
from anabranch.routing.policies import ROUTING
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.spark.learned.candidate_attributes import attribute
from anabranch.spark.learned.saved import route_states
from anabranch.spark.learned.tuner import Tuner
from anabranch.spark.schemas import arrow_type


class NativeRoutes:
    """Routes for the predicates that cost something; trivial ones stay in front, where sources can use them.

    Parameters
    ----------
    predicates
        Native predicates, as written.
    precedence
        Constraints among them; where there are any, all rows take one order.
    policy
        Of the filter.
    """

    def __init__(self, predicates: Sequence[NativePredicate], precedence: Precedence, policy: str) -> None:
        self._predicates = predicates
        self._costly = [i for i, p in enumerate(predicates) if not p.trivial]
        self.possible = policy in ROUTING and not precedence and len(self._costly) > 1
        self._policy = policy
        self._tuner = Tuner(policy, Precedence.none(len(self._costly))) if self.possible else None
        self._plan: RoutePlan | None = None
        self.shares: tuple[int, ...] = ()
        self._found_on: JudgedSample | None = None

    @property
    def plan(self) -> RoutePlan | None:
        """The routes in use, with orders over all predicates that cost something."""
        if self._plan is None:
            return None
        orders = tuple(tuple(self._costly[f] for f in order) for order in self._plan.orders)
        return replace(self._plan, orders=orders)

    def find(self, pilot: JudgedSample) -> str | None:
        """Look for routes in a pilot sample; why there are some."""
        if not self.possible:
            return None
        sample = self._of_costly(pilot)
        plan = find(("mesh" if self._policy == "mesh" else "content",), sample)
        if plan is None:
            return None
        self._use(plan, sample)
        self._found_on = sample
        return f"{plan.origin} routes promise to save {100 * plan.promised_saving:.0f} %, by a pilot sample"

    def learn(self, profile: JudgedSample) -> str | None:
        """Take in the profile of a micro-batch; why the routes changed, if they did."""
        if self._tuner is None or not np.isfinite(profile.costs).all():
            return None
        sample = self._of_costly(profile)
        found = self._tuner.take(self._plan)
        if found is not None:
            self._use(found.plan, sample)
        if self._found_on is not None:  # where the next input is another already, its rows alone would show no change
            self._tuner.offer(self._plan, self._found_on)
            self._found_on = None
        self._tuner.offer(self._plan, sample)
        return None if found is None else found.reason

    def resume(self, plan: RoutePlan | None, shares: tuple[int, ...]) -> None:
        """Go on with routes that an earlier run has found for the same predicates."""
        if plan is not None and self.possible and all(sorted(order) == self._costly for order in plan.orders):
            orders = tuple(tuple(self._costly.index(i) for i in order) for order in plan.orders)
            self._plan, self.shares = replace(plan, orders=orders), shares

    def changed(self, rows: int, reason: str, order: tuple[str, ...]) -> RoutesChanged:
        """The event of a change of routes; `order` is the one without routes."""
        plan = self.plan
        lines = tuple(
            f"{' | '.join(state.tests) or 'all rows'}: " + " -> ".join(self._predicates[i].name for i in state.order)
            for state in (() if plan is None else route_states(plan, self.shares))
        )
        return RoutesChanged(rows, self._policy, lines or ("all rows",), reason, order=order)

    def _of_costly(self, sample: JudgedSample) -> JudgedSample:
        return replace(sample, drops=sample.drops[:, self._costly], costs=sample.costs[self._costly])

    def _use(self, plan: RoutePlan | None, sample: JudgedSample) -> None:
        self._plan = plan
        if plan is not None:
            codes = plan.classifier.classify(sample.attributes)
            self.shares = tuple(np.bincount(codes, minlength=len(plan.orders)).tolist())


def from_json(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, DataType], zone: str) -> dict[str, pa.Array]:
    """Attributes of profiled rows, from JSON with keys a0, a1, ...; NULL throughout where a text cannot be read back.

    Instants are in the session's time zone, as they are in batches.

    >>> from pyspark.sql.types import DoubleType
    >>> from_json([{"a0": 1.5}, {}, {"a0": "NaN"}], {"x": DoubleType()}, "UTC")["x"].to_pylist()
    [1.5, None, nan]
    """
    found: dict[str, pa.Array] = {}
    for i, (name, kind) in enumerate(kinds.items()):
        values = [row.get(f"a{i}") for row in rows]
        texts = pa.array([None if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in values])
        try:
            read = texts.cast(arrow_type(kind))
        except pa.ArrowException:
            read = pa.nulls(len(rows), arrow_type(kind))
        found[name] = attribute(read, zone)
    return found
