"""The routes of a filter's Python predicates: known from earlier tasks, found by a pilot sample, tuned after drift."""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.sql import DataFrame

from anabranch.errors import QueryError
from anabranch.mesh.plan_search import find
from anabranch.ordering import Precedence
from anabranch.routing import policies
from anabranch.routing.route_plan import RoutePlan
from anabranch.spark.filters import pilot
from anabranch.spark.filters.filter_settings import FilterSettings
from anabranch.spark.filters.filter_task import FilterTask
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.filters.task_record import Kinds, Part
from anabranch.spark.learned.tuner import Tuner


class RouteTuning:
    """Says with which routes tasks begin.

    Parameters
    ----------
    settings
        Of the filter.
    ledger
        Keeps plans, samples, and the log of plans.
    """

    def __init__(self, settings: FilterSettings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._tuners: dict[tuple[Part, Kinds], Tuner] = {}
        self._loaded: dict[Part, list[tuple[str, ...]]] = {}

    def known_plan(self, part: Part, kinds: Kinds, precedence: Precedence) -> RoutePlan | None:
        """The routes that tasks found, or that tuning has made of them since; those of another input do not count."""
        if not kinds or self._settings.policy not in policies.ROUTING:
            return None
        held = self._ledger.plans().get(part)
        saved = held is not None and held.tests() == self._loaded.get(part)
        misfit = self._ledger.misfit(part, kinds) if saved else None
        if misfit is not None:
            found = dict(kinds).get(misfit[0], "not among the attributes")
            raise QueryError(
                f"the saved routes look at column {misfit[0]!r} of type {misfit[1]}, which is {found} in this input",
                hint="load routes that were learned on such data, or start without",
            )
        self._tune(part, kinds, precedence)
        return self._ledger.plan(part, kinds)

    def with_pilot(self, df: DataFrame, task: FilterTask) -> FilterTask:
        """Find the mesh by a pilot sample, where nothing is known yet and a sample can be taken."""
        if task.start.plan is not None or df.isStreaming or not task.input.attributes or len(task.evaluators) < 2:
            return task
        mesh = self._settings.mesh
        sample = pilot.judge_sample(df, task, pilot.PILOT_ROWS if mesh is None else mesh.sample_tuples)
        log = self._ledger.log(task.part, task.input.kinds)
        plan = log.recall(sample.attributes, sample.drops)
        if plan is None:
            plan = find((self._settings.policy,), sample, task.ordering.precedence, mesh)
            if plan is None:
                return task
            log.note(time.time(), sample.attributes, sample.drops, plan)
        self._ledger.remember_plan(task.part, task.input.kinds, plan)
        return replace(task, start=replace(task.start, plan=plan))

    def loaded(self) -> None:
        """The ledger has loaded plans that another filter has saved: an input has to fit them."""
        self.clear()  # tuners add to the log of plans that was there before
        self._loaded = {part: plan.tests() for part, plan in self._ledger.plans().items()}

    def clear(self) -> None:
        """Forget what is being tuned."""
        self._tuners.clear()

    def _tune(self, part: Part, kinds: Kinds, precedence: Precedence) -> None:
        """Offer what tasks sampled to the tuner, and switch to the plan that it has found meanwhile."""
        tuner = self._tuners.get((part, kinds))
        if tuner is None:
            log = self._ledger.log(part, kinds)
            tuner = Tuner(self._settings.policy, precedence, log, self._settings.mesh)
            self._tuners[part, kinds] = tuner
        found = tuner.take(self._ledger.plan(part, kinds))
        if found is not None:
            self._ledger.switch_plan(part, kinds, found.plan, found.reason)
        sample = self._ledger.take_sample(part, kinds)
        if sample is not None:
            tuner.offer(self._ledger.plan(part, kinds), sample)
