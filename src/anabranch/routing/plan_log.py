"""Plan logging: which plan was found under which statistics, so that a plan is looked up when they come back.

An entry holds the time, the drop rates of every filter on every route of the plan, and the plan. A new sample of rows
is compared with each entry by that plan's own classes; if all rates agree within what chance explains, the plan is
used again without a search.

>>> import pyarrow as pa
>>> from anabranch.routing.value_classes import ValueClasses, ValueSplit
>>> zone = pa.array(["north", "south"] * 100)
>>> north = np.array([True, False] * 100)
>>> plan = RoutePlan(ValueClasses((ValueSplit("zone", ("north",)),), np.array([1, 0])), ((0, 1), (1, 0)), "content")
>>> log = PlanLog()
>>> log.note(1.0, {"zone": zone}, np.column_stack([north, ~north]), plan)
>>> log.recall({"zone": zone}, np.column_stack([north, ~north])) is plan
True
>>> log.recall({"zone": zone}, np.column_stack([~north, north])) is None
True

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 8.2 (plan logging).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.model.attributes import AttributeArrays
from anabranch.routing.route_plan import RoutePlan

MOST_ENTRIES = 64
TOLERANCE = 0.05
DEVIATIONS = 3.0


@dataclass(frozen=True, eq=False)
class LoggedPlan:
    """A plan, the time at which it was found, and rows and drop rates (routes x filters) it was found for."""

    time: float
    rows: Floats
    rates: Floats
    plan: RoutePlan


class PlanLog:
    """The latest plans with their statistics."""

    def __init__(self, entries: tuple[LoggedPlan, ...] = ()) -> None:
        self._entries: deque[LoggedPlan] = deque(entries, maxlen=MOST_ENTRIES)

    @property
    def entries(self) -> tuple[LoggedPlan, ...]:
        """All of them, oldest first; another thread may add to the log meanwhile."""
        return tuple(self._entries)

    def note(self, time: float, columns: AttributeArrays, drops: BoolMatrix, plan: RoutePlan) -> None:
        """Log a plan with the sample that it was found on."""
        self._entries.append(LoggedPlan(time, *_statistics(columns, drops, plan), plan))

    def recall(self, columns: AttributeArrays, drops: BoolMatrix) -> RoutePlan | None:
        """The latest plan whose statistics the sample shows again."""
        for entry in reversed(self.entries):
            if set(entry.plan.classifier.attributes) <= set(columns) and drops.shape[1] == entry.rates.shape[1]:
                rows, rates = _statistics(columns, drops, entry.plan)
                if _agree(entry, rows, rates):
                    return entry.plan
        return None


def _statistics(columns: AttributeArrays, drops: BoolMatrix, plan: RoutePlan) -> tuple[Floats, Floats]:
    codes = plan.classifier.classify(columns)
    routes = len(plan.orders)
    rows = np.bincount(codes, minlength=routes).astype(float)
    dropped = np.array([np.bincount(codes, weights=drops[:, f], minlength=routes) for f in range(drops.shape[1])])
    rates: Floats = dropped.T / np.maximum(rows, 1)[:, None]
    return rows, rates


def _agree(entry: LoggedPlan, rows: Floats, rates: Floats) -> bool:
    seen = (rows > 0) & (entry.rows > 0)
    if not (seen.any() and np.array_equal(rows > 0, entry.rows > 0)):
        return False
    pooled = (rates + entry.rates) / 2
    chance = np.sqrt(pooled * (1 - pooled) * (1 / np.maximum(rows, 1) + 1 / np.maximum(entry.rows, 1))[:, None])
    apart = np.abs(rates - entry.rates) > TOLERANCE + DEVIATIONS * chance
    return not bool(apart[seen].any())
