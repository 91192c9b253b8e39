"""The adaptive loop with routes: each class of rows has a pipeline of its own, and classes are found while rows run.

Rows first go through one pipeline, as without routes. The rows it profiles are shown to a `ClassLearner`; once that
proposes routes, a trial sends every other chunk through them, and they stay only if rows really take less time. From
then on a row is classified, and joins the others of its route; each route is a `FilterPipeline`, so its order follows
the rows of its class: A-Greedy per class. When the routes' own orders no longer save anything, the rows go through one
pipeline again.

>>> import pyarrow as pa
>>> from anabranch.ordering import make
>>> from anabranch.ordering.pipeline import Verdict
>>> rng = np.random.default_rng(0)
>>> zone = rng.integers(0, 2, 40_000)
>>> passes = [(rng.random(40_000) < 0.05) ^ (zone == 1), (rng.random(40_000) < 0.05) ^ (zone == 0)]
>>> clock, at = [0.0], 0
>>> def judge(f, rows):
...     clock[0] += 2e-5 * len(rows)
...     return Verdict(passes[f][at + rows])
>>> pipeline = RoutedPipeline(lambda seed: make("auto", 2, seed=seed), clock=lambda: clock[0])
>>> while at < 40_000:
...     size = pipeline.chunk_rows(40_000 - at)
...     outcome = pipeline.process(size, judge, {"zone": pa.array(zone[at : at + size])})
...     at += size
>>> [(route.tests, route.order) for route in pipeline.take_routes() if route.tests]
[(('zone in (1)',), (1, 0)), (('zone in (0)',), (0, 1))]

`route_search` proposes routes, `trial` judges them, `route_pipelines` runs them, `route_upkeep` says when they are of
no more use, and `accounting` counts what they cost. This module decides which way the next chunk goes.

Notes
-----
The trial is the measured processing rate of section 4.1; the pipeline for everything keeps W, the pipelines of the
routes keep S.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 4.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import BoolMatrix, Floats, Rows
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.base import Reoptimizer, Seed
from anabranch.ordering.greedy import row_costs
from anabranch.ordering.pipeline import (
    CHUNK_SECONDS,
    FIRST_CHUNK_ROWS,
    FIRST_PAID_ROWS,
    Evaluate,
    FilterPipeline,
    Outcome,
    Pace,
    Tally,
)
from anabranch.ordering.profile_price import ProfilePrice
from anabranch.routing.accounting import Expenses, RouteCounts, call_seconds
from anabranch.routing.route_pipelines import RoutePipelines
from anabranch.routing.route_plan import NewRoutes, RoutePlan, RouteState, shown_orders
from anabranch.routing.route_search import RouteSearch
from anabranch.routing.sampled_rows import SampledRows
from anabranch.routing.trial import Trial

TRIAL_ROWS = 300
TRIAL_SECONDS = 0.015
TRIAL_PROBABILITY = 0.1

MakePolicy = Callable[[Seed | None], Reoptimizer]


class RoutedPipeline:
    """Runs chunks of rows by class.

    Parameters
    ----------
    make_policy
        Makes an ordering policy from a seed; called for the whole and for every route.
    plan
        Routes learned elsewhere; used without a trial.
    version
        Of the plan: grows when the driver tunes it.
    learning
        Whether to look for routes.
    unprofiled, seed, clock, price, chunk_seconds
        As for `FilterPipeline`.
    """

    def __init__(
        self,
        make_policy: MakePolicy,
        *,
        plan: RoutePlan | None = None,
        version: int = 0,
        learning: bool = True,
        start: Seed | None = None,
        unprofiled: frozenset[int] = frozenset(),
        seed: int = 0,
        clock: Callable[[], float] = time.perf_counter,
        price: ProfilePrice | None = None,
        chunk_seconds: float = CHUNK_SECONDS,
    ) -> None:
        self._price, self._chunk_seconds = price, chunk_seconds
        self._make, self._unprofiled, self._seed, self._clock = make_policy, unprofiled, seed, clock
        self._main = self._pipeline(start)
        self._pace, self._counts = (
            Pace(chunk_seconds, FIRST_CHUNK_ROWS if price is None else FIRST_PAID_ROWS),
            RouteCounts(),
        )
        self._filter_seconds, self._batch_rows = 0.0, 0
        policy = self._main.reoptimizer
        self._search = (
            RouteSearch(policy.filters, policy.precedence, clock) if learning and policy.filters > 1 else None
        )
        self._routes: RoutePipelines | None = None
        self._trial: Trial | None = None
        self._given_up: RoutePlan | None = None
        self.rows_done = 0
        self.reason = ""
        self.version = version
        if plan is not None:
            self._adopt(plan, ())

    @property
    def reoptimizer(self) -> Reoptimizer:
        """The policy of the pipeline for everything."""
        return self._main.reoptimizer

    @property
    def plan(self) -> RoutePlan | None:
        """The routes in use, with their present orders."""
        return None if self._routes is None or self._trial is not None else self._routes.plan

    @property
    def on_trial(self) -> RoutePlan | None:
        """The routes that are tried out, with the verdict still to come."""
        return self._routes.found if self._routes is not None and self._trial is not None else None

    def ways(self) -> list[RouteState]:
        """The ways that rows take now, as people should see them."""
        plan = self.plan
        return [RouteState((), self.reoptimizer.order, 0, 0.0)] if plan is None else shown_orders(plan)

    def chunk_rows(self, available: int) -> int:
        """How many of the available rows to process before the next decision."""
        self._batch_rows = max(self._batch_rows, available)
        if self._trial is not None:
            return min(available, max(TRIAL_ROWS, self._pace.rows_within(TRIAL_SECONDS)))
        return self._pace.chunk_rows(available)

    def process(self, rows: int, evaluate: Evaluate, columns: AttributeArrays) -> Outcome:
        """Run one chunk; `columns` holds the attributes of its rows."""
        began, before = self._clock(), Expenses.of(self._pipelines())
        by_route = self._routes is not None and (self._trial is None or self._trial.routed_turn())
        on_trial, led, effort = self._trial is not None, self.plan is not None, self._effort()
        if self._routes is not None and by_route:
            outcome = self._routes.process(columns, partial(self._along_route, evaluate, columns))
        else:
            outcome = self._through(self._main, rows, evaluate, columns)
            self._counts.add(rows, self._clock() - began)
        seconds = self._clock() - began
        self.rows_done += rows
        self._pace.note(rows, seconds)
        if (self._effort() > effort).any():
            self._pace.look_closely()
        spent = Expenses.of(self._pipelines()).since(before)
        self._filter_seconds += spent.filters
        self._pay(rows, seconds, spent, by_route=by_route)
        decided = () if by_route and on_trial else outcome.decisions
        new_routes = self._reconsider()
        if led != (self.plan is not None):
            decided = ()  # of policies that lead no rows any more
        return replace(outcome, decisions=(*new_routes, *decided))

    def new_routes(self) -> NewRoutes:
        """The ways that rows take now, and why, as a decision."""
        return NewRoutes(tuple(self.ways()), self.reoptimizer.order, self.reason)

    def take_tally(self) -> Tally:
        """Hand over the counts since the last call, of all routes together."""
        total = self._main.take_tally()
        for p in self._routes.pipelines if self._routes else ():
            total.add(p.take_tally())
        return total

    def take_routes(self) -> tuple[RouteState, ...]:
        """Hand over rows and seconds of every way that rows took since the last call; the way for all has no tests."""
        return self._counts.take(self.reoptimizer.order, self._routes.take_states() if self._routes else ())

    def take_sample(self) -> SampledRows:
        """Hand over the rows sampled since the last call."""
        return self._search.take_sample() if self._search else self.sample()

    def take_profiles(self) -> BoolMatrix:
        """Hand over the full profile tuples of the pipeline for everything since the last call."""
        return self._main.take_profiles()

    def take_given_up(self) -> RoutePlan | None:
        """Hand over the routes that were found useless since the last call."""
        taken, self._given_up = self._given_up, None
        return taken

    def sample(self) -> SampledRows:
        """The sampled rows that routes are looked for in."""
        return self._search.sample() if self._search else SampledRows.empty(self.reoptimizer.filters)

    def costs(self) -> Floats:
        """Seconds per row and filter, as measured where most rows go."""
        alone = self._main.times.per_tuple()
        if self._routes is None:
            return alone
        busiest = self._routes.busiest().times.per_tuple()
        return np.where(np.isnan(busiest), alone, busiest)

    def switch(self, plan: RoutePlan | None, version: int, reason: str) -> None:
        """Send the next rows by another plan, or by one order; between chunks no row is on its way."""
        self.version, self._trial = version, None
        self._retire()
        if plan is not None:
            self._adopt(plan, self._samples_by_route(plan))
        self.reason = reason

    def _pipelines(self) -> list[FilterPipeline]:
        return [self._main, *(self._routes.pipelines if self._routes else ())]

    def _effort(self) -> Floats:
        return np.array([p.reoptimizer.profile_probability for p in self._pipelines()])

    def _along_route(
        self, evaluate: Evaluate, columns: AttributeArrays, pipeline: FilterPipeline, ruster: Rows
    ) -> Outcome:
        return self._through(pipeline, len(ruster), lambda f, rows: evaluate(f, ruster[rows]), columns, ruster)

    def _through(
        self,
        pipeline: FilterPipeline,
        rows: int,
        evaluate: Evaluate,
        columns: AttributeArrays,
        ruster: Rows | None = None,
    ) -> Outcome:
        pipeline.least_probability = TRIAL_PROBABILITY if self._trial else 0.0
        pipeline.sampled = None if self._search is None else partial(self._remember, self._search, columns, ruster)
        return pipeline.process(rows, evaluate)

    def _remember(
        self, search: RouteSearch, columns: AttributeArrays, ruster: Rows | None, rows: Rows, drops: BoolMatrix
    ) -> None:
        """Keep sampled rows for the search, and price them both ways while routes are on trial."""
        picked = pa.array(rows if ruster is None else ruster[rows])
        attributes = {name: array.take(picked) for name, array in columns.items()}
        search.add(attributes, drops)
        if self._trial is not None and self._routes is not None:
            costs = np.nan_to_num(self.costs())
            routed, codes = self._routes.price(attributes, drops, costs)
            self._trial.compare(row_costs(self.reoptimizer.order, drops, costs), routed, codes)

    def _pay(self, rows: int, seconds: float, spent: Expenses, *, by_route: bool) -> None:
        """Enter what a chunk took into the budget of the search and, while there is one, into the trial."""
        if self._search is not None:
            self._search.earn(seconds)
        if self._search is None or self._trial is None or not rows:
            return
        around = seconds - spent.filters - spent.profiling - spent.deciding
        self._search.spend(around + spent.profiling)
        calling = float(spent.calls @ call_seconds(self._pipelines()))
        usual = max(rows, min(self._pace.rows_within(CHUNK_SECONDS), self._batch_rows))
        self._trial.around(by_route).append((around + calling) / usual)

    def _reconsider(self) -> tuple[NewRoutes, ...]:
        """Judge a trial that is over, give up routes that are of no use, or look for routes."""
        if self._trial is not None:
            if not self._trial.over():
                return ()
            self._judge(self._trial)
        elif self._routes is not None:
            if not self._routes.upkeep.useless():
                return ()
            self._merge(self._routes)
        elif not self._try_new_routes():
            return ()
        return (self.new_routes(),)

    def _try_new_routes(self) -> bool:
        """Look for routes, and begin a trial of those that are found."""
        if self._search is None:
            return False
        plan = self._search.propose(self.costs(), self._filter_seconds / max(self.rows_done, 1))
        if plan is None:
            return False
        self._adopt(plan, self._samples_by_route(plan))
        self._trial = Trial(np.zeros(len(plan.orders), dtype=np.int64))
        return True

    def _judge(self, trial: Trial) -> None:
        """Keep the routes if rows took less time by them."""
        self._trial, gain = None, trial.gain()
        if trial.worthwhile():
            self.reason = f"one order took {gain:.2f} times as long as routes"
        else:
            self._retire()
            self.reason = f"one order took only {gain:.2f} times as long as routes"

    def _merge(self, routes: RoutePipelines) -> None:
        """Go back to one pipeline, with the order that most rows took."""
        self._given_up = routes.plan
        nothing = np.zeros((0, self.reoptimizer.filters), dtype=np.bool_)
        self._retire()
        old = self._main
        self._main = self._pipeline(Seed(routes.busiest().reoptimizer.order, nothing, old.times.per_tuple()))
        self._main.tally = old.tally
        if self._search is not None:
            self._search.forget()
        self.reason = "routes save nothing any more"

    def _retire(self) -> None:
        """Give the routes up, and keep their counts."""
        if self._routes is not None:
            for p in self._routes.pipelines:
                self._main.tally.add(p.take_tally())
            self._counts.retire(self._routes.take_states())
        self._routes = None

    def _adopt(self, plan: RoutePlan, samples: Sequence[BoolMatrix]) -> None:
        """Give every route a pipeline that starts with its order and, where there are some, sampled rows."""
        nothing, costs = np.zeros((0, self.reoptimizer.filters), dtype=np.bool_), self.costs()
        seeds = [Seed(order, samples[i] if i < len(samples) else nothing, costs) for i, order in enumerate(plan.orders)]
        self._routes = RoutePipelines(plan, [self._pipeline(seed) for seed in seeds], self._clock)
        self._given_up = None
        self.reason = f"{plan.origin} routes promise to save {100 * plan.promised_saving:.0f} %"

    def _samples_by_route(self, plan: RoutePlan) -> Sequence[BoolMatrix]:
        """Dropped rows of the sample, by route: what each route's policy starts with."""
        sample = self.sample()
        if not len(sample):
            return ()
        codes = plan.classifier.classify(sample.attributes)
        dropped = sample.drops.any(axis=1)
        return [sample.drops[(codes == route) & dropped] for route in range(len(plan.orders))]

    def _pipeline(self, seed: Seed | None) -> FilterPipeline:
        return FilterPipeline(
            self._make(seed),
            unprofiled=self._unprofiled,
            costs=None if seed is None else seed.costs,
            seed=self._seed,
            clock=self._clock,
            price=self._price,
            chunk_seconds=self._chunk_seconds,
        )
