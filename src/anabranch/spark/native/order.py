"""The adaptive loop for native predicates: decides by a pilot sample, and again between micro-batches.

Where there are no micro-batches to ride on, pilots are repeated, so seldom that they take half a percent of the time.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from anabranch.config import OrderingConfig
from anabranch.events import Event, PilotDecided
from anabranch.model.arrays import BoolMatrix, Order
from anabranch.model.predicates import NativePredicate
from anabranch.ordering import Observation as Profile
from anabranch.ordering import Seed, expected_cost, make
from anabranch.ordering.decisions import NewOrder
from anabranch.ordering.precedence import Precedence
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.sampled_rows import JudgedSample
from anabranch.spark.connect import is_connect
from anabranch.spark.learned.candidate_attributes import looked_at
from anabranch.spark.learned.saved import Fit, NativeState
from anabranch.spark.names import column, unused_name
from anabranch.spark.native import catalyst
from anabranch.spark.native.pilot_order import native_policy, pilot_order
from anabranch.spark.native.route_expression import routed
from anabranch.spark.native.routes import NativeRoutes, from_json

PROFILED_ROWS_PER_BATCH = 500
PARTITION_BITS = 33  # of Spark's row numbers: the place of a row in its partition
FIRST_SHARE = 0.01
BATCH_MEMORY = 0.5
MOST_PENDING = 16
PILOTS_SHARE = 0.005
USUAL_PILOT_SECONDS = 0.5


class NativeOrder:
    """The order of one run of native predicates.

    Parameters
    ----------
    predicates
        Native predicates, as written.
    precedence
        Constraints among them.
    policy, config
        How to order them.
    attributes
        Columns that routes may be told apart by, and their types.
    """

    def __init__(
        self,
        predicates: Sequence[NativePredicate],
        precedence: Precedence,
        policy: str,
        config: OrderingConfig,
        attributes: Mapping[str, DataType],
    ) -> None:
        self.predicates, self.precedence, self._name = predicates, precedence, policy
        self._policy = make(native_policy(policy), len(predicates), config=config, precedence=precedence)
        self.attributes = attributes
        self.fit = fit_of(predicates, attributes)
        self._routes = NativeRoutes(predicates, precedence, policy)
        self._config = config
        self._costs = np.full(len(predicates), np.nan)
        self._dropped = np.zeros(len(predicates), dtype=np.int64)
        self._pending: deque[Observation] = deque(maxlen=MOST_PENDING)
        self._lock = threading.RLock()  # streams and threads may share a filter
        self._piloted = False
        self._rests_until = 0.0
        self._batch_rows = 0.0
        self.sample_rows = 0
        self.why = "as written"

    @property
    def order(self) -> Order:
        """Positions of the predicates, first to last."""
        return self._policy.order

    def names(self) -> tuple[str, ...]:
        """Names of the predicates in the current order."""
        return tuple(self.predicates[i].name for i in self.order)

    def decide(self, df: DataFrame, *, again: bool) -> list[Event]:
        """Choose an order by a pilot sample, where that pays; until there was one, every input is a new chance.

        Later inputs may have other data: with `again`, another pilot is made after a rest.
        """
        with self._lock:
            return list(self._decisions(df, again))

    def _decisions(self, df: DataFrame, again: bool) -> Iterator[Event]:
        if self._piloted and not (again and time.monotonic() >= self._rests_until):
            return
        if self._policy.name == "fixed":
            self.why = "fixed as written"
            return
        began = time.monotonic()
        before, why, reason = self.names(), self.why, None
        found = self._pilot(df)
        if not isinstance(found, str):
            self._adopt(found)
            look = self._routes.find if self.plan is None else self._routes.learn
            reason = look(found)
            self._piloted = True
            self._rest(time.monotonic() - began)
        elif self._as_written() and not self._piloted:
            self.why = f"as written; {found}"
        if self.why != why:
            yield PilotDecided(0, self._name, before, self.names(), self.sample_rows, self.why)
        if reason is not None:
            self.why = reason
            yield self._routes.changed(0, reason, self.names())

    def apply(self, df: DataFrame, batch_id: int | None = None, *, terms: Sequence[Column] | None = None) -> DataFrame:
        """Filter by the AND-chain in the current order; in a micro-batch, a profile rides on the same pass.

        The `terms` stand for the predicates on rows that may have errors.
        """
        terms = terms or [p.column for p in self.predicates]
        watched = df if batch_id is None or not self._adaptive() else self._observed(df, batch_id, terms)
        plan = self.plan
        if plan is None:
            return catalyst.conjunction(watched, [terms[i] for i in self.order])
        plain = [terms[i] for i in self.order if self.predicates[i].trivial]
        return watched.where(reduce(and_, [*plain, routed(watched, plan.classifier, plan.orders, terms)]))

    @property
    def plan(self) -> RoutePlan | None:
        """The routes; none where there is one order."""
        return self._routes.plan

    def learn(self) -> list[Event]:
        """Take in the profiles of micro-batches, once Spark has reported that their passes are finished."""
        with self._lock:
            finished = [each for each in self._pending if _is_complete(each)]
            for each in finished:
                self._pending.remove(each)
            return [event for each in finished if (seen := _metrics(each)) for event in self._learned(seen)]

    def _learned(self, seen: Mapping[str, Any]) -> Iterator[Event]:
        rows = json.loads(seen["profiles"])
        self._batch_rows = max(float(seen["rows"]), BATCH_MEMORY * self._batch_rows)
        width = len(self.predicates)
        drops = np.array([[not r[f"p{i}"] for i in range(width)] for r in rows], dtype=np.bool_).reshape(-1, width)
        before = self.names()
        self._count(drops)
        for decision in self._observe(drops):
            why = decision.why.format(*(p.name for p in self.predicates))
            self.why = f"profile of {len(rows)} rows of the last micro-batch: {why}"
            yield PilotDecided(int(seen["rows"]), self._name, before, self.names(), len(rows), self.why)
        reason = None
        if len(drops):
            attributes = from_json(rows, self.attributes, seen["zone"])
            reason = self._routes.learn(JudgedSample(attributes, drops, self._costs))
        if reason is not None:
            self.why = reason
            yield self._routes.changed(int(seen["rows"]), reason, self.names())

    def _observe(self, drops: BoolMatrix) -> list[NewOrder]:
        """Let the policy decide by the rows of a profile."""
        if not len(drops):
            return []
        empty = np.zeros(len(self.predicates), dtype=np.int64)
        decided = self._policy.observe(Profile(drops[drops.any(axis=1)], empty, empty, self._costs))
        return [decision for decision in decided if isinstance(decision, NewOrder)]

    def state(self) -> NativeState:
        """What is known, for the report and for the next run."""
        with self._lock:
            return NativeState(
                fit=self.fit,
                seed=Seed(self.order, self._policy.profiles(), self._costs),
                piloted=self._piloted,
                why=self.why,
                sample_rows=self.sample_rows,
                dropped=tuple(self._dropped.tolist()),
                plan=self.plan,
                shares=self._routes.shares,
            )

    def resume(self, state: NativeState) -> None:
        """Go on with what an earlier run has learned on such an input."""
        with self._lock:
            self._use(state.seed)
            self._costs, self._piloted, self.why = state.seed.costs, state.piloted, state.why
            self.sample_rows, self._dropped = state.sample_rows, np.array(state.dropped, dtype=np.int64)
            self._routes.resume(state.plan, state.shares)
            self._rest(USUAL_PILOT_SECONDS)

    def _pilot(self, df: DataFrame) -> JudgedSample | str:
        if df.isStreaming:
            return "a stream cannot be sampled ahead"
        return catalyst.pilot(df, self.predicates, tuple(self.attributes))

    @property
    def _share(self) -> float:
        """Of the rows of the next micro-batch, those to profile: as if it were about as large as the last ones."""
        return min(1.0, PROFILED_ROWS_PER_BATCH / self._batch_rows) if self._batch_rows else FIRST_SHARE

    def _as_written(self) -> bool:
        return self.order == tuple(range(len(self.predicates)))

    def _adaptive(self) -> bool:
        ordered = self._policy.name != "fixed" and len(self.predicates) > 1
        return ordered and not any(p.has_python or p.hidden for p in self.predicates)

    def _observed(self, df: DataFrame, batch_id: int, terms: Sequence[Column]) -> DataFrame:
        """The batch, with a profile of some of its rows on the way to the driver once it has been read.

        Which rows is drawn, not hashed: equal rows must not all be in it. However wrong the guess about the size of the
        batch is, a partition sends about `PROFILED_ROWS_PER_BATCH` at most.
        """
        place = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << PARTITION_BITS) - 1))
        most = math.ceil(PROFILED_ROWS_PER_BATCH / self._share)
        # The place comes first: behind AND it would only be evaluated, and count, on rows that are drawn.
        drawn = (place < most) & (F.rand(self._config.seed + batch_id) < self._share)
        guarded = catalyst.guarded(self.predicates, terms)
        bits = F.struct(
            *(self._passed(i, term).alias(f"p{i}") for i, term in enumerate(guarded)),
            *(
                looked_at(column(df, name), kind).alias(f"a{i}")
                for i, (name, kind) in enumerate(self.attributes.items())
            ),
        )
        profile = unused_name(df, "__anabranch")
        observation = Observation()
        # As text: Spark 4.0 hands a list over as an object of Java.
        profiles = F.to_json(F.collect_list(profile)).alias("profiles")
        tried = df.withColumn(profile, F.when(drawn, bits))
        zone = F.max(F.current_timezone()).alias("zone")
        watched = tried.observe(observation, F.count(F.lit(1)).alias("rows"), profiles, zone).drop(profile)
        self._pending.append(observation)
        return watched

    def _passed(self, i: int, term: Column) -> Column:
        """Whether a row passes; a volatile predicate must not be called for profiling alone, and is taken to pass."""
        return F.lit(True) if self.predicates[i].kind == "volatile" else F.coalesce(term, F.lit(False))

    def _adopt(self, found: JudgedSample) -> None:
        """Adopt the order that the policy would reach on the sample, if it is clearly cheaper than the present one."""
        self._costs = found.costs
        self._count(found.drops)
        dropped, passed = found.drops[found.drops.any(axis=1)], int((~found.drops.any(axis=1)).sum())
        proposal = pilot_order(self._policy.name, found.drops, found.costs, self.precedence)
        before = "as written" if self._as_written() else "as before"
        present, wished = (expected_cost(o, dropped, found.costs, passed=passed) for o in (self.order, proposal))
        gain = present / wished if wished else 1.0
        if wished < self._config.thrash_avoidance * present:
            self._use(Seed(proposal, dropped, found.costs))
            self.why = f"pilot of {len(found.drops)} rows: {gain:.1f} times cheaper than {before}"
        elif not self._piloted:
            self.why = f"{before}; a pilot of {len(found.drops)} rows promises {gain:.2f} times at best"

    def _rest(self, pilot_seconds: float) -> None:
        self._rests_until = time.monotonic() + pilot_seconds / PILOTS_SHARE

    def _use(self, seed: Seed) -> None:
        width = len(self.predicates)
        self._policy = make(self._policy.name, width, config=self._config, precedence=self.precedence, seed=seed)

    def _count(self, drops: BoolMatrix) -> None:
        self.sample_rows += len(drops)
        self._dropped += drops.sum(axis=0)


def _is_complete(observation: Observation) -> bool:
    """Whether the pass that is observed has ended."""
    if is_connect(observation):
        return bool(observation.get)
    return bool(observation._jo.future().isCompleted())  # type: ignore[union-attr]


def _metrics(observation: Observation) -> dict[str, Any]:
    """What was observed; nothing where Spark has seen that no row is wanted, and made no pass at all."""
    if is_connect(observation):
        return observation.get
    from py4j.protocol import Py4JError

    try:
        return observation.get
    except Py4JError:
        return {}


def fit_of(predicates: Sequence[NativePredicate], attributes: Mapping[str, DataType]) -> Fit:
    """What an order of these predicates on this input depends on."""
    kinds = tuple((name, kind.simpleString()) for name, kind in attributes.items())
    return tuple(p.findings for p in predicates), kinds
