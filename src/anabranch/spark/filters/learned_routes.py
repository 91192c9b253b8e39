"""The routes of every stage: plans in use and on trial, how often the driver switched them, and the plan log."""

from __future__ import annotations

from typing import Any

from anabranch.routing.plan_log import PlanLog
from anabranch.routing.route_plan import RoutePlan
from anabranch.spark.filters.task_record import Kinds, Part, TaskRecord
from anabranch.spark.learned.saved import log_from_json, log_to_json, plan_from_json, plan_to_json


class LearnedRoutes:
    """Plans by stage; a plan serves inputs that have the columns it looks at, with the same types."""

    def __init__(self) -> None:
        self._plans: dict[Part, tuple[Kinds, RoutePlan]] = {}
        self._trials: dict[Part, RoutePlan] = {}
        self._switched: dict[tuple[Part, Kinds], tuple[int, str]] = {}
        self._logs: dict[tuple[Part, Kinds], PlanLog] = {}

    def enter(self, record: TaskRecord) -> None:
        """Take in the plan of a task, unless the driver has switched to another one since the task began."""
        self._trials.pop(record.part, None)
        if record.trial is not None:
            self._trials[record.part] = record.trial
        if record.plan_version < self.switched(record.part, record.kinds)[0]:
            return
        held = self.plan(record.part, record.kinds)
        if record.plan is None:
            if record.given_up is not None and held is not None and held.tests() == record.given_up.tests():
                del self._plans[record.part]
        elif held is None or held.tests() == record.plan.tests():  # not by turns: the tuner watches one classifier
            self.use(record.part, record.kinds, record.plan)

    def plan(self, part: Part, kinds: Kinds) -> RoutePlan | None:
        """The plan in use, if it fits an input of these kinds."""
        found = self._plans.get(part)
        return found[1] if found and self.misfit(part, kinds) is None else None

    def plans(self) -> dict[Part, RoutePlan]:
        """The plan of every stage that has one, in use or on trial."""
        return self._trials | {part: plan for part, (_, plan) in self._plans.items()}

    def misfit(self, part: Part, kinds: Kinds) -> tuple[str, str] | None:
        """A column that the plan looks at, and its type, which an input of these kinds does not have."""
        learned, plan = self._plans.get(part, ((), None))
        wanted = [] if plan is None else [(name, dict(learned)[name]) for name in plan.classifier.attributes]
        return next((w for w in wanted if w not in kinds), None)

    def use(self, part: Part, kinds: Kinds, plan: RoutePlan) -> None:
        """Start the next run with this plan."""
        self._plans[part] = kinds, plan

    def switch(self, part: Part, kinds: Kinds, plan: RoutePlan | None, reason: str) -> None:
        """Use another plan, or one order for all, in tasks that start from now on."""
        self._switched[part, kinds] = self.switched(part, kinds)[0] + 1, reason
        if plan is None:
            self._plans.pop(part, None)
        else:
            self.use(part, kinds, plan)

    def switched(self, part: Part, kinds: Kinds) -> tuple[int, str]:
        """How many times the driver switched the plan, and why the last time."""
        return self._switched.get((part, kinds), (0, ""))

    def log(self, part: Part, kinds: Kinds) -> PlanLog:
        """Plans found so far, with the statistics they were found for."""
        return self._logs.setdefault((part, kinds), PlanLog())

    def to_json(self) -> dict[str, Any]:
        """As plain values, for a state folder or a saved file."""
        return {
            "plans": [[part, kinds, plan_to_json(plan)] for part, (kinds, plan) in self._plans.items()],
            "log": [[part, kinds, log_to_json(log)] for (part, kinds), log in self._logs.items()],
        }

    def restore(self, data: dict[str, Any]) -> None:
        """Start anew with what `to_json` gave."""
        self._plans = {
            tuple(part): (_kinds(kinds), plan_from_json(plan, len(part))) for part, kinds, plan in data["plans"]
        }
        self._logs = {(tuple(part), _kinds(kinds)): log_from_json(log, len(part)) for part, kinds, log in data["log"]}
        self._switched.clear()
        self._trials.clear()


def _kinds(data: list[Any]) -> Kinds:
    return tuple((name, kind) for name, kind in data)
