"""When to look for routes in sampled rows: as often as the filters' own time pays for it."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.time_budget import TimeBudget
from anabranch.routing.class_learner import ClassLearner
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import SampledRows

LOOKING_SHARE = 0.005
FIRST_LOOK_SECONDS = 0.01
ROWS_AHEAD = 100_000


class RouteSearch:
    """A class learner with a time budget: looks, and trials that follow them, take half a percent of the time."""

    def __init__(self, filters: int, precedence: Precedence, clock: Callable[[], float]) -> None:
        self._learner = ClassLearner(filters, precedence)
        self._budget = TimeBudget(share=LOOKING_SHARE)
        self._last_seconds = FIRST_LOOK_SECONDS
        self._clock = clock

    def add(self, attributes: AttributeArrays, drops: BoolMatrix) -> None:
        """Take in sampled rows on which all filters were tried."""
        self._learner.add(attributes, drops)

    def earn(self, seconds: float) -> None:
        """A chunk took so long."""
        self._budget.earn(seconds)

    def spend(self, seconds: float) -> None:
        """The last look, or the trial of what it found, took so long."""
        self._last_seconds += seconds
        self._budget.spend(seconds)

    def propose(self, costs: Floats, filter_seconds: float) -> RoutePlan | None:
        """Routes that promise to save time, if a look is due and paid for; rows take the filters so long each."""
        if not (self._learner.due() and self._may_look(filter_seconds)):
            return None
        began, self._last_seconds = self._clock(), 0.0
        found = self._learner.propose(costs)
        self.spend(self._clock() - began)
        return None if found is None else RoutePlan(found.classes, found.orders, "content", found.saving)

    def sample(self) -> SampledRows:
        """The sampled rows that are held."""
        return self._learner.sample()

    def take_sample(self) -> SampledRows:
        """Hand over the rows sampled since the last call."""
        return self._learner.take_sample()

    def forget(self) -> None:
        """Drop the sampled rows: the data has changed."""
        self._learner.forget()

    def _may_look(self, filter_seconds: float) -> bool:
        """Whether the filters' time pays for a look like the last one, if some more rows come as they do now."""
        return self._budget.covers(self._last_seconds - LOOKING_SHARE * ROWS_AHEAD * filter_seconds)
