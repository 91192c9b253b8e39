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

Notes
-----
The trial is the measured processing rate of section 4.1; the pipeline for everything keeps W, the pipelines of the
routes keep S. A route with its rows in a chunk is a ruster of Query Mesh, its order the r-token.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 4.
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from anabranch.model.arrays import BoolMatrix, Counts, Floats, Order, Rows
from anabranch.ordering.allowance import Allowance
from anabranch.ordering.base import Reoptimizer, Seed
from anabranch.ordering.greedy import row_costs
from anabranch.ordering.pipeline import CHUNK_SECONDS, Evaluate, Failure, FilterPipeline, Outcome, Pace, Tally
from anabranch.routing.cells import Codes, Columns
from anabranch.routing.class_learner import ClassLearner
from anabranch.routing.trial import ONE_CLASS, Trial

TRIAL_ROWS = 300
TRIAL_SECONDS = 0.015
TRIAL_PROBABILITY = 0.1
WORTHWHILE = 0.98
CHUNKS_BETWEEN_CHECKS = 4
CHECKS_BEFORE_MERGE = 3
FEWEST_PROFILES = 30
LOOKING_SHARE = 0.005
FIRST_LOOK_SECONDS = 0.01
ROWS_AHEAD = 100_000

MakePolicy = Callable[[Seed | None], Reoptimizer]


class Classifier(Protocol):
    """Tells the route of a row by its attributes; route 0 is for rows like none that it knows."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes it looks at."""

    @property
    def routes(self) -> int:
        """Number of routes."""

    def classify(self, columns: Columns) -> Codes:
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


@dataclass
class _Routes:
    """A plan in use: a pipeline per route, and what went through it since it was last asked."""

    plan: RoutePlan
    names: list[str]
    pipelines: list[FilterPipeline]
    rows: list[int]
    seconds: list[float]
    checked: list[int]
    chunks: int = 0
    idle: int = 0

    def take_states(self) -> list[RouteState]:
        found = [
            RouteState(self.plan.classifier.tests(i), p.reoptimizer.order, self.rows[i], self.seconds[i])
            for i, p in enumerate(self.pipelines)
        ]
        self.rows, self.seconds = [0] * len(found), [0.0] * len(found)
        return found


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
    unprofiled, seed, clock
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
    ) -> None:
        self._make, self._unprofiled, self._seed, self._clock = make_policy, unprofiled, seed, clock
        self._main = self._pipeline(start)
        self._pace = Pace()
        self._looking, self._look_seconds = Allowance(share=LOOKING_SHARE), FIRST_LOOK_SECONDS
        self._filter_seconds, self._batch_rows = 0.0, 0
        policy = self._main.reoptimizer
        self._learner = ClassLearner(policy.filters, policy.precedence) if learning and policy.filters > 1 else None
        self._routes: _Routes | None = None
        self._trial: Trial | None = None
        self._alone_rows, self._alone_seconds = 0, 0.0
        self._retired: list[RouteState] = []
        self.rows_done = 0
        self.reason = ""
        self.version = version
        self._given_up: RoutePlan | None = None
        if plan is not None:
            self._adopt(plan, ())

    @property
    def reoptimizer(self) -> Reoptimizer:
        """The policy of the pipeline for everything."""
        return self._main.reoptimizer

    @property
    def plan(self) -> RoutePlan | None:
        """The routes in use, with their present orders."""
        if self._routes is None or self._trial is not None:
            return None
        orders = tuple(p.reoptimizer.order for p in self._routes.pipelines)
        old = self._routes.plan
        return RoutePlan(old.classifier, orders, old.origin, old.promised_saving)

    @property
    def on_trial(self) -> RoutePlan | None:
        """The routes that are tried out, with the verdict still to come."""
        return self._routes.plan if self._routes is not None and self._trial is not None else None

    def chunk_rows(self, available: int) -> int:
        """How many of the available rows to process before the next decision."""
        self._batch_rows = max(self._batch_rows, available)
        if self._trial is not None:
            return min(available, max(TRIAL_ROWS, self._pace.rows_within(TRIAL_SECONDS)))
        return self._pace.chunk_rows(available)

    def process(self, rows: int, evaluate: Evaluate, columns: Columns) -> Outcome:
        """Run one chunk; `columns` holds the attributes of its rows."""
        began = self._clock()
        before, calls = self._spent(), self._calls()
        by_route = self._routes is not None and (self._trial is None or self._trial.routed_turn())
        if self._routes is not None and by_route:
            outcome, raised = self._by_route(self._routes, rows, evaluate, columns)
        else:
            outcome, raised = self._through(self._main, rows, evaluate, columns)
            self._alone_rows += rows
            self._alone_seconds += self._clock() - began
        seconds = self._clock() - began
        self.rows_done += rows
        self._pace.note(rows, seconds)
        if raised:
            self._pace.look_closely()
        filters, profiling, deciding = (self._spent() - before).tolist()
        self._filter_seconds += filters
        self._looking.earn(seconds)
        if self._trial is not None and rows:
            around = seconds - filters - profiling - deciding
            self._pay_for_looking(around + profiling)
            calling = float((self._calls() - calls) @ self._call_seconds())
            usual = max(rows, min(self._pace.rows_within(CHUNK_SECONDS), self._batch_rows))
            self._trial.around(by_route).append((around + calling) / usual)
        self._reconsider()
        return outcome

    def _pay_for_looking(self, seconds: float) -> None:
        self._look_seconds += seconds
        self._looking.spend(seconds)

    def _pipelines(self) -> list[FilterPipeline]:
        return [self._main, *(self._routes.pipelines if self._routes else ())]

    def _spent(self) -> Floats:
        """Seconds so far of the filters for rows of their own, of profiling and of decisions."""
        tallies = [p.tally for p in self._pipelines()]
        profiling = sum(t.profiling_seconds for t in tallies)
        filters = sum(float(t.seconds.sum()) for t in tallies) - profiling
        return np.array([filters, profiling, sum(t.deciding_seconds for t in tallies)])

    def _calls(self) -> Counts:
        """How often each filter was called so far."""
        counts: Counts = np.array([p.times.calls for p in self._pipelines()]).sum(axis=0)
        return counts

    def _call_seconds(self) -> Floats:
        """What calling each filter costs, however few rows it is called on."""
        shortest = np.min([p.times.shortest for p in self._pipelines()], axis=0)
        return np.where(np.isfinite(shortest), shortest, 0.0)

    def take_tally(self) -> Tally:
        """Hand over the counts since the last call, of all routes together."""
        total = self._main.take_tally()
        for p in self._routes.pipelines if self._routes else ():
            total.add(p.take_tally())
        return total

    def costs(self) -> Floats:
        """Seconds per row and filter, as measured where most rows go."""
        alone = self._main.times.per_tuple()
        if self._routes is None:
            return alone
        busiest = max(self._routes.pipelines, key=lambda p: p.rows_done).times.per_tuple()
        return np.where(np.isnan(busiest), alone, busiest)

    def sample(self) -> tuple[dict[str, pa.Array], BoolMatrix]:
        """The sampled rows that routes are looked for in."""
        return self._learner.sample() if self._learner else ({}, self.reoptimizer.profiles()[:0])

    def take_sample(self) -> tuple[dict[str, pa.Array], BoolMatrix]:
        """Hand over the rows sampled since the last call."""
        return self._learner.take_sample() if self._learner else self.sample()

    def take_profiles(self) -> BoolMatrix:
        """Hand over the full profile tuples of the pipeline for everything since the last call."""
        return self._main.take_profiles()

    def take_given_up(self) -> RoutePlan | None:
        """Hand over the routes that were found useless since the last call."""
        taken, self._given_up = self._given_up, None
        return taken

    def switch(self, plan: RoutePlan | None, version: int, reason: str) -> None:
        """Send the next rows by another plan, or by one order; between chunks no row is on its way."""
        self.version, self._trial = version, None
        self._retire()
        if plan is not None:
            self._adopt(plan, self._samples_by_route(plan))
        self.reason = reason

    def take_routes(self) -> tuple[RouteState, ...]:
        """Hand over rows and seconds of every way that rows took since the last call; the way for all has no tests."""
        alone = RouteState((), self.reoptimizer.order, self._alone_rows, self._alone_seconds)
        found = [alone, *self._retired, *(self._routes.take_states() if self._routes else ())]
        self._alone_rows, self._alone_seconds, self._retired = 0, 0.0, []
        return tuple(state for state in found if state.rows)

    def policies(self) -> dict[str, tuple[Order, str]]:
        """Order and mode of every route in use, by its tests; a single order for all has no tests."""
        return {name: (p.order, p.mode) for name, p in self._named().items()}

    def policy_of(self, route: str) -> Reoptimizer:
        """The policy of the route with these tests."""
        return self._named()[route]

    def _named(self) -> dict[str, Reoptimizer]:
        if self._routes is None or self._trial is not None:
            return {"": self.reoptimizer}
        return {n: p.reoptimizer for n, p in zip(self._routes.names, self._routes.pipelines, strict=True)}

    def _by_route(self, routes: _Routes, rows: int, evaluate: Evaluate, columns: Columns) -> tuple[Outcome, bool]:
        """One ruster per route that occurs in the chunk."""
        codes = routes.plan.classifier.classify(columns)
        survivors: list[Rows] = []
        failures: list[Failure] = []
        raised = False
        for route, pipeline in enumerate(routes.pipelines):
            ruster = np.flatnonzero(codes == route)
            if not len(ruster):
                continue
            began = self._clock()
            outcome, more = self._through(pipeline, len(ruster), _within(evaluate, ruster), columns, ruster)
            routes.rows[route] += len(ruster)
            routes.seconds[route] += self._clock() - began
            raised |= more
            survivors.append(ruster[outcome.survivors])
            failures += [Failure(int(ruster[f.row]), f.filter, f.message) for f in outcome.failures]
        kept = np.sort(np.concatenate(survivors)) if survivors else np.zeros(0, dtype=np.int64)
        return Outcome(kept, tuple(sorted(failures, key=lambda f: f.row))), raised

    def _through(
        self, pipeline: FilterPipeline, rows: int, evaluate: Evaluate, columns: Columns, ruster: Rows | None = None
    ) -> tuple[Outcome, bool]:
        before = pipeline.reoptimizer.profile_probability
        pipeline.least_probability = TRIAL_PROBABILITY if self._trial else 0.0
        pipeline.sampled = None if self._learner is None else partial(self._remember, columns, ruster)
        outcome = pipeline.process(rows, evaluate)
        return outcome, pipeline.reoptimizer.profile_probability > before

    def _remember(self, columns: Columns, ruster: Rows | None, rows: Rows, drops: BoolMatrix) -> None:
        assert self._learner is not None
        picked = pa.array(rows if ruster is None else ruster[rows])
        attributes = {name: array.take(picked) for name, array in columns.items()}
        self._learner.add(attributes, drops)
        if self._trial is not None and self._routes is not None:
            self._compare(self._trial, self._routes, attributes, drops)

    def _compare(self, trial: Trial, routes: _Routes, attributes: Columns, drops: BoolMatrix) -> None:
        """Price rows on which all filters were tried by the single order and by their routes."""
        costs = np.nan_to_num(self.costs())
        routed, codes = np.zeros(len(drops)), routes.plan.classifier.classify(attributes)
        for route, pipeline in enumerate(routes.pipelines):
            chosen = codes == route
            routed[chosen] = row_costs(pipeline.reoptimizer.order, drops[chosen], costs)
        trial.single = np.append(trial.single, row_costs(self.reoptimizer.order, drops, costs))
        trial.routed = np.append(trial.routed, routed)
        trial.seen += np.bincount(codes, minlength=len(trial.seen))

    def _reconsider(self) -> None:
        if self._trial is not None:
            if self._trial.over():
                self._judge(self._trial)
        elif self._routes is not None:
            self._merge_idle(self._routes)
        elif self._learner is not None and self._learner.due() and self._may_look():
            began, self._look_seconds = self._clock(), 0.0
            found = self._learner.propose(self.costs())
            self._pay_for_looking(self._clock() - began)
            if found is not None:
                plan = RoutePlan(found.cells, found.orders, "content", found.saving)
                self._adopt(plan, self._samples_by_route(plan))
                self._trial = Trial(np.zeros(len(plan.orders), dtype=np.int64))

    def _may_look(self) -> bool:
        """Whether the filters' time pays for a look like the last one, if some more rows come as they do now."""
        ahead = ROWS_AHEAD * self._filter_seconds / max(self.rows_done, 1)
        return self._looking.covers(self._look_seconds - LOOKING_SHARE * ahead)

    def _judge(self, trial: Trial) -> None:
        """Keep the routes if rows took less time by them."""
        self._trial = None
        gain = trial.gain()
        if gain * WORTHWHILE > 1 or (trial.one_class() and gain > WORTHWHILE):
            self.reason = f"one order took {gain:.2f} times as long as routes"
        else:
            self._retire()
            self.reason = f"one order took only {gain:.2f} times as long as routes"

    def _merge_idle(self, routes: _Routes) -> None:
        """Fall back to one pipeline once the routes' own orders no longer save anything over the most used one."""
        routes.chunks += 1
        if routes.chunks % CHUNKS_BETWEEN_CHECKS:
            return
        recent = [p.rows_done - before for p, before in zip(routes.pipelines, routes.checked, strict=True)]
        if max(recent) > ONE_CLASS * sum(recent):
            return  # rows of one class tell nothing about the use of routes
        routes.checked = [p.rows_done for p in routes.pipelines]
        routes.idle = routes.idle + 1 if self._benefit(routes, recent) < 1 - WORTHWHILE else 0
        if routes.idle >= CHECKS_BEFORE_MERGE:
            self._given_up = self.plan
            busiest = max(routes.pipelines, key=lambda p: p.rows_done)
            nothing = np.zeros((0, self.reoptimizer.filters), dtype=np.bool_)
            self._retire()
            old = self._main
            self._main = self._pipeline(Seed(busiest.reoptimizer.order, nothing, old.times.per_tuple()))
            self._main.tally = old.tally
            if self._learner is not None:
                self._learner.forget()
            self.reason = "routes save nothing any more"

    def _benefit(self, routes: _Routes, recent: list[int]) -> float:
        """Share of the cost that the routes save over the most used order, by the rows they profiled last."""
        common = routes.pipelines[int(np.argmax(recent))].reoptimizer.order
        own = shared = 0.0
        for p, rows in zip(routes.pipelines, recent, strict=True):
            drops, costs = p.reoptimizer.profiles(), np.nan_to_num(p.times.per_tuple())
            if rows and (len(drops) < FEWEST_PROFILES or p.reoptimizer.mode == "learning"):
                return 1.0
            if rows:
                own += rows * float(row_costs(p.reoptimizer.order, drops, costs).mean())
                shared += rows * float(row_costs(common, drops, costs).mean())
        return 1 - own / shared if shared else 0.0

    def _retire(self) -> None:
        """Give the routes up, and keep their counts."""
        if self._routes is not None:
            for p in self._routes.pipelines:
                self._main.tally.add(p.take_tally())
            self._retired += self._routes.take_states()
        self._routes = None

    def _adopt(self, plan: RoutePlan, samples: tuple[BoolMatrix, ...]) -> None:
        nothing = np.zeros((0, self.reoptimizer.filters), dtype=np.bool_)
        costs = self.costs()
        seeds = [Seed(order, samples[i] if i < len(samples) else nothing, costs) for i, order in enumerate(plan.orders)]
        count = len(plan.orders)
        names = [" | ".join(plan.classifier.shown([i])) or "all other rows" for i in range(count)]
        pipelines = [self._pipeline(s) for s in seeds]
        self._routes = _Routes(plan, names, pipelines, [0] * count, [0.0] * count, checked=[0] * count)
        self._given_up = None
        self.reason = f"{plan.origin} routes promise to save {100 * plan.promised_saving:.0f} %"

    def _samples_by_route(self, plan: RoutePlan) -> tuple[BoolMatrix, ...]:
        """Dropped rows of the sample, by route: what each route's policy starts with."""
        columns, drops = self.sample()
        if not len(drops):
            return ()
        codes = plan.classifier.classify(columns)
        dropped = drops.any(axis=1)
        return tuple(drops[(codes == i) & dropped] for i in range(len(plan.orders)))

    def _pipeline(self, seed: Seed | None) -> FilterPipeline:
        return FilterPipeline(
            self._make(seed),
            unprofiled=self._unprofiled,
            costs=None if seed is None else seed.costs,
            seed=self._seed,
            clock=self._clock,
        )


def _within(evaluate: Evaluate, ruster: Rows) -> Evaluate:
    return lambda f, rows: evaluate(f, ruster[rows])
