"""Rows through the Self-Routing Fabric: a mesh tells their routes, and operators pass rusters on to each other.

Each window of rows is classified at once; rows of a route form a ruster with an r-token. Neighbours of a route that
cost nearly the same in both sequences are left uncertain in its token, and the fabric's lottery draws the first.

One window of `WATCHED_WINDOWS` goes by the same routes as pipelines instead: they profile rows, keep the orders of the
routes up to date, and give the sample that uncertain routes and the driver's search for a better mesh are based on. As
long as no mesh is known, all rows go that way.

>>> import pyarrow as pa
>>> from anabranch.mesh.classifier import DecisionTree
>>> from anabranch.mesh.nodes import Among, Branch, Leaf
>>> from anabranch.mesh.tree_routes import TreeRoutes
>>> from anabranch.ordering import make
>>> from anabranch.ordering.pipeline import Verdict
>>> tree = TreeRoutes(DecisionTree(Branch(Among("zone", (0,)), Leaf(0), Leaf(1))))
>>> plan = RoutePlan(tree, ((0, 1), (1, 0)), "mesh", 0.3)
>>> pipeline = FabricPipeline(lambda seed: make("auto", 2, seed=seed), MeshConfig(window_tuples=100), plan=plan)
>>> pipeline.reason
'mesh routes promise to save 30 %; r-tokens <1, 2> <2, 1>'
>>> zone = np.arange(400) % 2
>>> passes = [zone == 1, zone == 0]
>>> for at in range(0, 400, pipeline.chunk_rows(400)):
...     columns = {"zone": pa.array(zone[at : at + 100])}
...     outcome = pipeline.process(100, lambda f, rows: Verdict(passes[f][at + rows]), columns)
>>> pipeline.fabric_calls                            # one for each route, in three windows; the first was watched
6

Notes
-----
W_TC -> `MeshConfig.window_tuples`; the change of the classifier, section 5.3 -> `switch`.

Differs from the paper
----------------------
- Watched windows: the paper's optimizer has its statistics from elsewhere.
- The paper does not say when costs are similar: `MeshConfig.route_tolerance`.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from anabranch.mesh.config import MeshConfig
from anabranch.mesh.fabric import Fabric
from anabranch.mesh.tokens import Token, route, token, uncertain_route, written
from anabranch.model.arrays import BoolMatrix, Counts, Floats, Mask, Order, Rows, all_rows
from anabranch.model.attributes import AttributeArrays
from anabranch.ordering.base import Reoptimizer, Seed
from anabranch.ordering.pipeline import Evaluate, Outcome, Tally
from anabranch.routing.counted_calls import CountedCalls
from anabranch.routing.route_plan import NewRoutes, RoutePlan, RouteState
from anabranch.routing.routed import MakePolicy, RoutedPipeline
from anabranch.routing.sampled_rows import SampledRows
from anabranch.stats.processing_times import ProcessingTimes

WATCHED_WINDOWS = 16
FEWEST_ROWS = 30


class FabricPipeline:
    """Runs windows of rows by the routes of a mesh.

    Parameters
    ----------
    make_policy
        Makes an ordering policy from a seed, for the pipelines of watched windows.
    config
        Window, tolerance and seed.
    plan, version, learning, start, unprofiled, seed, clock
        As for `RoutedPipeline`.
    """

    def __init__(
        self,
        make_policy: MakePolicy,
        config: MeshConfig,
        *,
        plan: RoutePlan | None = None,
        version: int = 0,
        learning: bool = True,
        start: Seed | None = None,
        unprofiled: frozenset[int] = frozenset(),
        seed: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._watched = RoutedPipeline(
            make_policy,
            plan=plan,
            version=version,
            learning=learning,
            start=start,
            unprofiled=unprofiled,
            seed=seed,
            clock=clock,
        )
        filters = self._watched.reoptimizer.filters
        self._config, self._clock = config, clock
        self._fabric = Fabric(filters, self._judge, routes=(), seed=seed)
        self._tally, self._times = Tally.empty(filters), ProcessingTimes(filters)
        self._plan: RoutePlan | None = None
        self._tokens: tuple[Token, ...] = ()
        self._known_routes: tuple[object, ...] = ()
        self._rows: Counts = np.zeros(0, dtype=np.int64)
        self._seconds: Floats = np.zeros(0)
        self._retired: list[RouteState] = []
        self._windows = self._fabric_rows = 0
        self.reason = ""
        self._follow()

    @property
    def reoptimizer(self) -> Reoptimizer:
        """The policy of the pipeline for everything."""
        return self._watched.reoptimizer

    @property
    def plan(self) -> RoutePlan | None:
        """The routes in use, with their present orders."""
        return self._watched.plan

    @property
    def on_trial(self) -> RoutePlan | None:
        """The routes that are tried out, as pipelines."""
        return self._watched.on_trial

    @property
    def version(self) -> int:
        """Of the plan."""
        return self._watched.version

    @property
    def rows_done(self) -> int:
        """Rows so far."""
        return self._watched.rows_done + self._fabric_rows

    @property
    def fabric_calls(self) -> int:
        """How often the fabric has called a filter."""
        return self._fabric.calls

    def chunk_rows(self, available: int) -> int:
        """How many of the available rows to process before the next decision: a window, once there is a mesh."""
        if self._plan is None:
            return self._watched.chunk_rows(available)
        return min(available, self._config.window_tuples)

    def process(self, rows: int, evaluate: Evaluate, columns: AttributeArrays) -> Outcome:
        """Run one chunk; `columns` holds the attributes of its rows."""
        if self._plan is None or self._is_watched():
            outcome = self._watched_chunk(rows, evaluate, columns)
        else:
            outcome = self._window(self._plan, rows, evaluate, columns)
        self._windows += 1
        return outcome

    def switch(self, plan: RoutePlan | None, version: int, reason: str) -> None:
        """Send the next rows by another mesh, or by one order."""
        self._watched.switch(plan, version, reason)
        self._follow()

    def new_routes(self) -> NewRoutes:
        """The ways that rows take now, and why, with the tokens that the fabric has for them."""
        return replace(self._watched.new_routes(), why=self.reason)

    def costs(self) -> Floats:
        """Seconds per row and filter, as measured by the fabric, or else in watched windows."""
        own = self._times.per_tuple()
        return np.where(np.isfinite(own), own, self._watched.costs())

    def take_tally(self) -> Tally:
        """Hand over the counts since the last call."""
        total = self._watched.take_tally()
        total.add(self._tally)
        self._tally = Tally.empty(self.reoptimizer.filters)
        return total

    def take_routes(self) -> tuple[RouteState, ...]:
        """Hand over rows and seconds of every route since the last call."""
        found, self._retired = [*self._retired, *self._states()], []
        self._count_from_zero()
        return (*self._watched.take_routes(), *found)

    def take_profiles(self) -> BoolMatrix:
        """Hand over the full profile tuples of the pipeline for everything since the last call."""
        return self._watched.take_profiles()

    def take_sample(self) -> SampledRows:
        """Hand over the rows sampled since the last call."""
        return self._watched.take_sample()

    def take_given_up(self) -> RoutePlan | None:
        """Hand over the routes that were found useless since the last call."""
        return self._watched.take_given_up()

    def _is_watched(self) -> bool:
        return self._windows % WATCHED_WINDOWS == 0

    def _watched_chunk(self, rows: int, evaluate: Evaluate, columns: AttributeArrays) -> Outcome:
        """Send a chunk through pipelines, and follow what they decide."""
        reason, outcome = self.reason, self._watched.process(rows, evaluate, columns)
        self._follow()
        if self.reason == reason:
            return outcome
        others = [decision for decision in outcome.decisions if not isinstance(decision, NewRoutes)]
        return replace(outcome, decisions=(self.new_routes(), *others))

    def _window(self, plan: RoutePlan, rows: int, evaluate: Evaluate, columns: AttributeArrays) -> Outcome:
        """Send a window through the fabric."""
        began, before = self._clock(), float(self._tally.seconds.sum())
        self._codes = plan.classifier.classify(columns)
        self._calls = CountedCalls(evaluate, self._tally, self._times, self._clock)
        self._fabric.admit(all_rows(rows), self._codes)
        survivors = self._fabric.drain()
        counts = np.bincount(self._codes, minlength=len(self._rows))
        around = self._clock() - began - (float(self._tally.seconds.sum()) - before)
        self._rows += counts
        self._seconds += around * counts / max(rows, 1)
        self._tally.rows += rows
        self._fabric_rows += rows
        return self._calls.outcome(survivors)

    def _judge(self, f: int, rows: Rows) -> Mask:
        passed = self._calls(f, rows)
        here = np.bincount(self._codes[rows], minlength=len(self._seconds))
        self._seconds += self._calls.seconds * here / len(rows)
        return passed

    def _follow(self) -> None:
        """Use the routes of the last watched window from now on, with tokens that are as uncertain as its sample."""
        plan = self._watched.plan
        if plan is None or self._plan is None or self._plan.tests() != plan.tests():
            self._retired += self._states()
            self._plan = plan
            self._count_from_zero()
        self._plan = plan
        if plan is None:
            self._known_routes, self.reason = (), self._watched.reason
            return
        codes, drops = self._sampled(plan)
        judged = [drops[codes == number] for number in range(len(plan.orders))]
        known = (plan.tests(), plan.orders, *(len(each) >= FEWEST_ROWS for each in judged))
        if known == self._known_routes:
            return
        self._known_routes = known
        tokens = tuple(self._token(order, each) for order, each in zip(plan.orders, judged, strict=True))
        if tokens != self._tokens:
            self._tokens = tokens
            self._fabric.switch(map(route, tokens))
        self.reason = f"{self._watched.reason}; r-tokens {' '.join(map(written, tokens))}"

    def _states(self) -> list[RouteState]:
        """What went through the fabric since its counts began."""
        if self._plan is None:
            return []
        found = zip(self._plan.tests(), self._plan.orders, self._rows.tolist(), self._seconds.tolist(), strict=True)
        return [RouteState(*each) for each in found if each[2]]

    def _count_from_zero(self) -> None:
        routes = len(self._plan.orders) if self._plan is not None else 0
        self._rows, self._seconds = np.zeros(routes, dtype=np.int64), np.zeros(routes)

    def _sampled(self, plan: RoutePlan) -> tuple[Counts, BoolMatrix]:
        sample = self._watched.sample()
        codes = plan.classifier.classify(sample.attributes) if len(sample) else np.zeros(0, dtype=np.int64)
        return codes, sample.drops

    def _token(self, order: Order, drops: BoolMatrix) -> Token:
        """A token with alternatives, if there are rows enough to tell by."""
        costs = self.costs()
        if len(drops) < FEWEST_ROWS or not np.isfinite(costs).all():
            return token(order)
        return uncertain_route(order, drops, costs, self.reoptimizer.precedence, self._config.route_tolerance)
