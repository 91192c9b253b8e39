"""Content-Learns over batches of rows: the paper's router decides the order of every row, the filters run on groups.

>>> import pyarrow as pa
>>> from anabranch.ordering.pipeline import Verdict
>>> rng = np.random.default_rng(0)
>>> zone = rng.integers(0, 2, 40_000)
>>> passes = [(rng.random(40_000) < 0.05) ^ (zone == 1), (rng.random(40_000) < 0.05) ^ (zone == 0)]
>>> clock, at = [0.0], 0
>>> def judge(f, rows):
...     clock[0] += 2e-5 * len(rows)
...     return Verdict(passes[f][at + rows])
>>> config = OrderingConfig.for_policy("content-learns")
>>> pipeline = ContentLearnsPipeline(2, config, Precedence.none(2), clock=lambda: clock[0])
>>> while at < 40_000:
...     size = pipeline.chunk_rows(40_000 - at)
...     outcome = pipeline.process(size, judge, {"zone": pa.array(zone[at : at + size])})
...     at += size
>>> pipeline.reason.partition(":")[0], int(pipeline.take_tally().calls.sum()) < 1.3 * 40_000
('{1} is routed by zone', True)

Notes
-----
P -> `OrderingConfig.profile_probability`; |R| -> `OrderingConfig.minimum_profiles`; with `cost_aware`, the order of a
row is by (selectivity - 1) / cost. The rest is in `content_learns.py`.

Differs from the paper
----------------------
- A chunk of rows is routed at once, and ends where the router has a decision to make.
- Where constraints forbid the order that the router wishes, rows take the nearest one that they allow.
- The processing rate is that of rows through the filters they entered, with what routing took. A trial has the costs
  of the filters that were measured before it: what else runs on the machine must not decide it.
- Integers may be classifiers by hash and by range.

References
----------
P. Bizarro, S. Babu, D. DeWitt, J. Widom, *Content-Based Routing: Different Plans for Different Data*, section 4.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.model.attributes import AttributeArrays, is_discrete, numbers
from anabranch.ordering.base import Reoptimizer, Seed
from anabranch.ordering.fixed import Fixed
from anabranch.ordering.pipeline import FIRST_CHUNK_ROWS, Evaluate, Outcome, Pace, Tally
from anabranch.ordering.precedence import Precedence
from anabranch.routing.content_learns import NONE, ContentLearns, Kind, LearningConfig, Profiled, TrialEnded
from anabranch.routing.counted_calls import CountedCalls
from anabranch.routing.partitioning import Column
from anabranch.routing.route_plan import NewRoutes, RoutePlan, RouteState
from anabranch.routing.row_orders import legal_orders, run
from anabranch.routing.sampled_rows import SampledRows
from anabranch.routing.sbr import Orders, Seen, urgency
from anabranch.stats.processing_times import ProcessingTimes, usable_costs

MOST_WAYS = 6
MOST_TEXTS = 1000
SMALLEST_RATE = 1e-9


class ContentLearnsPipeline:
    """Runs chunks of rows by the orders of a `ContentLearns` router.

    Parameters
    ----------
    filters, config, precedence
        How many filters there are, how to profile them, and which must come before which.
    start
        Order and costs from before; the router itself begins anew.
    seed
        Seed of the choice of rows to profile.
    clock
        A monotonic clock in seconds; tests pass their own.
    """

    name = "content-learns"

    def __init__(
        self,
        filters: int,
        config: OrderingConfig,
        precedence: Precedence,
        *,
        start: Seed | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._config, self._precedence, self._seed, self._clock = config, precedence, seed, clock
        self._whole = Fixed(filters, config=config, precedence=precedence, seed=start)
        self._times = ProcessingTimes(filters, prior=None if start is None else start.costs)
        self._tally = Tally.empty(filters)
        self._priced: Floats | None = None
        self._pace = Pace()
        self._router: ContentLearns | None = None
        self._attributes: list[tuple[str, Kind]] = []
        self._texts: dict[str, dict[bytes, int]] = {}
        self._in_use = [NONE] * filters
        self._taken: Orders = np.array([self._whole.order], dtype=np.int64)
        self._rows, self._seconds = 0, 0.0
        self.rows_done, self.reason, self.version = 0, "", 0

    @property
    def reoptimizer(self) -> Reoptimizer:
        """Holds the order of rows whose content tells nothing."""
        return self._whole

    @property
    def plan(self) -> RoutePlan | None:
        """None: the router of each worker learns for itself."""
        return None

    @property
    def on_trial(self) -> RoutePlan | None:
        """None, like `plan`."""
        return None

    def chunk_rows(self, available: int) -> int:
        """How many of the available rows to process before the next decision."""
        wanted = self._pace.chunk_rows(available)
        due = np.inf if self._router is None else self._router.tuples_until_decision()
        return int(min(wanted, max(due, FIRST_CHUNK_ROWS)))

    def process(self, rows: int, evaluate: Evaluate, columns: AttributeArrays) -> Outcome:
        """Run one chunk; `columns` holds the attributes of its rows."""
        began, before, reason = self._clock(), float(self._tally.seconds.sum()), self.reason
        router = self._router or self._begin(columns)
        numbered = _Numbers(columns, self._attributes, self._texts)
        orders = legal_orders(router.orders(numbered, rows), self._precedence)
        routing = (self._clock() - began) / max(rows, 1)
        calls = CountedCalls(evaluate, self._tally, self._times, self._clock)
        survivors, entered, passed = run(orders, calls)
        if self._priced is None:
            self._priced = usable_costs(self._times.per_tuple())
        at, operators = np.nonzero(entered)
        spent = entered @ self._priced + routing
        router.observe(Seen(at, operators, passed[at, operators].astype(np.float64), spent))
        self._follow(router, orders)
        seconds = self._clock() - began
        filters = float(self._tally.seconds.sum()) - before
        self._tally.rows += rows
        self._tally.deciding_seconds += seconds - filters
        self._rows, self._seconds, self.rows_done = self._rows + rows, self._seconds + seconds, self.rows_done + rows
        self._pace.note(rows, seconds)
        decided = (self.new_routes(),) if self.reason != reason else ()
        return replace(calls.outcome(survivors), decisions=decided)

    def switch(self, plan: RoutePlan | None, version: int, reason: str) -> None:
        """Plans from elsewhere are not used."""
        self.version = version

    def new_routes(self) -> NewRoutes:
        """The orders that most rows of the last chunk took, with their share, and the last change of a classifier."""
        return NewRoutes(tuple(self._ways()), self._whole.order, self.reason)

    def _ways(self) -> list[RouteState]:
        orders, counts = np.unique(self._taken, axis=0, return_counts=True)
        most = np.argsort(-counts, kind="stable")[:MOST_WAYS]
        whole = counts.sum()
        return [RouteState((f"{counts[i] / whole:.0%} of rows",), _order(orders[i]), int(counts[i]), 0.0) for i in most]

    def costs(self) -> Floats:
        """Seconds per row and filter."""
        return self._times.per_tuple()

    def take_tally(self) -> Tally:
        """Hand over the counts since the last call."""
        taken, self._tally = self._tally, Tally.empty(self._whole.filters)
        return taken

    def take_routes(self) -> tuple[RouteState, ...]:
        """Hand over rows and seconds since the last call; a row's order has no tests."""
        taken = RouteState((), self._whole.order, self._rows, self._seconds)
        self._rows, self._seconds = 0, 0.0
        return (taken,) if taken.rows else ()

    def take_profiles(self) -> BoolMatrix:
        """None: a profiled row is tried on one filter only."""
        return self._whole.profiles()

    def take_sample(self) -> SampledRows:
        """None, like `take_profiles`."""
        return SampledRows.empty(self._whole.filters)

    def take_given_up(self) -> RoutePlan | None:
        """None, like `plan`."""
        return None

    def _begin(self, columns: AttributeArrays) -> ContentLearns:
        self._attributes = [(name, kind) for name, array in columns.items() for kind in kinds_of(array.type)]
        config = LearningConfig(
            profile_probability=self._config.profile_probability, sample_tuples=self._config.minimum_profiles
        )
        self._router = ContentLearns(
            [kind for _, kind in self._attributes],
            self._whole.filters,
            config=config,
            seed=self._seed,
            tell=self._note,
        )
        return self._router

    def _follow(self, router: ContentLearns, orders: Orders) -> None:
        """Order by what is known now."""
        costs = self._times.per_tuple()
        if self._config.cost_aware and np.isfinite(costs).all():
            router.costs = usable_costs(costs)
        overall = np.argsort(urgency(router.overall, router.costs), kind="stable")
        self._whole.order = self._precedence.legal(overall.tolist())
        if len(orders):
            self._taken = orders

    def _note(self, ended: Profiled | TrialEnded) -> None:
        """An operator is profiled again and again: only another classifier than before is worth telling."""
        if isinstance(ended, TrialEnded) and ended.kept:
            faster = ended.rate_with / max(ended.rate_without, SMALLEST_RATE)
            self._use(ended.operator, ended.classifier, f"{faster:.2f} times as many rows per second as without")
        elif isinstance(ended, TrialEnded) or ended.classifier == NONE:
            self._use(ended.operator, NONE, "no attribute saves time")
        if isinstance(ended, TrialEnded) or ended.classifier == NONE:
            self._priced = None  # the next operator is profiled, and then tried, at the costs of that time

    def _use(self, operator: int, classifier: int, why: str) -> None:
        if self._in_use[operator] == classifier:
            return
        self._in_use[operator] = classifier
        way = "is routed alike for all rows" if classifier == NONE else f"is routed by {self._attribute(classifier)}"
        self.reason = f"{{{operator}}} {way}: {why}"

    def _attribute(self, classifier: int) -> str:
        """A name as part of a text in which filters are still numbers in braces."""
        return self._attributes[classifier][0].replace("{", "{{").replace("}", "}}")


def kinds_of(kind: pa.DataType) -> tuple[Kind, ...]:
    """How values of a type may be partitioned.

    >>> kinds_of(pa.string()), kinds_of(pa.int16()), kinds_of(pa.timestamp("us"))
    (('discrete',), ('discrete', 'continuous'), ('continuous',))
    """
    if is_discrete(kind):
        return ("discrete",)
    return ("discrete", "continuous") if pa.types.is_integer(kind) else ("continuous",)


def as_numbers(array: pa.Array, known: dict[bytes, int]) -> Floats:
    """Values as the router looks at them: numbers as they are, texts by their place among the known, NaN for NULL.

    New texts become known. A small domain has neighbouring numbers, which the router's hash keeps apart; where there
    are too many to remember, further ones are hashed here.

    >>> as_numbers(pa.array(["tcp", None, "udp", "tcp"]), {}).tolist()
    [0.0, nan, 1.0, 0.0]
    """
    if not is_discrete(array.type) or pa.types.is_boolean(array.type):
        return numbers(array)
    encoded = array.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    for text in texts[: max(0, MOST_TEXTS - len(known))]:
        known.setdefault(text, len(known))
    places = np.array([*(known.get(text, zlib.crc32(text)) for text in texts), np.nan], dtype=np.float64)
    found: Floats = places[encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]
    return found


class _Numbers(Sequence[Column]):
    """Attributes as the router's columns, each converted when it is looked at."""

    def __init__(
        self, columns: AttributeArrays, attributes: Sequence[tuple[str, Kind]], texts: dict[str, dict[bytes, int]]
    ) -> None:
        self._columns, self._attributes, self._texts = columns, attributes, texts
        self._found: dict[str, Column] = {}

    def __getitem__(self, at: int) -> Column:  # type: ignore[override]
        name, _ = self._attributes[at]
        if name not in self._found:
            self._found[name] = as_numbers(self._columns[name], self._texts.setdefault(name, {}))
        return self._found[name]

    def __len__(self) -> int:
        return len(self._attributes)


def _order(found: Orders) -> Order:
    return tuple(int(f) for f in found)
