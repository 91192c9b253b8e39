"""The adaptive loop over pipelined filters: Executor, Profiler and Re-optimizer of StreaMon, a chunk of tuples at a
time.

The *Executor* runs the current order with selection vectors: each filter sees only the rows that are still alive. The
*Profiler* takes a sample of the dropped rows along, so that the filters behind the one that dropped them are tried on
them too; those rows ride in the same call as the living ones. The *Re-optimizer* (any ordering policy) turns profile
tuples and measured costs into the next order after every chunk.

A filter is anything that `evaluate(filter, rows)` can judge, so Spark batches, numpy experiments and tests run through
the same loop.

>>> import numpy as np
>>> from anabranch.ordering import make
>>> values = np.arange(1000)
>>> tests = [values >= 0, values % 100 == 7]                       # the second drops nearly everything
>>> pipeline = FilterPipeline(make("auto", filters=2))
>>> outcome = pipeline.process(1000, lambda f, rows: Verdict(tests[f][rows]))
>>> len(outcome.survivors), pipeline.reoptimizer.order
(10, (1, 0))

Notes
-----
Thesis chapter 3 (figure 3.1) and section 4.3.1. p = `profile_probability`; a profile tuple = a row of `drops`.

Differs from the paper
----------------------
Decisions are made after a chunk, not after a tuple; chunks start small and grow up to a fixed duration, so that costly
filters are reconsidered as often as cheap ones. Where even that would take more than a share of the filters' time, some
chunks run without profiling and without a decision, unless a drop rate jumps. A row on which a filter fails is neither
passed nor dropped: the others still judge it, and the failure counts only if all of them accept it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, fields, replace

import numpy as np

from anabranch.calls.reply import Bill
from anabranch.model.arrays import BoolMatrix, Counts, Floats, Mask, Order, Rows, all_rows
from anabranch.ordering.base import Observation, Reoptimizer
from anabranch.ordering.decisions import Decision
from anabranch.ordering.profile_price import ProfilePrice
from anabranch.ordering.time_budget import TimeBudget
from anabranch.stats.processing_times import ProcessingTimes

FIRST_CHUNK_ROWS = 64
FIRST_PAID_ROWS = 24
CLOSE_LOOK_ROWS = 256
CHUNK_GROWTH = 2
LONGEST_CHUNK_ROWS = 16_384
CHUNK_SECONDS = 0.25
DECIDING_SHARE = 0.005
FIRST_DECISIONS_SECONDS = 0.005
URGENT_DECISIONS_SECONDS = 0.005
MOST_HANDED_OVER = 1000
BILL_FIELDS = len(fields(Bill))


@dataclass(frozen=True)
class Verdict:
    """A filter's answer on some rows: who passed, and who could not be judged (index into the rows -> message).

    Filters that call models and services tell what that has cost.
    """

    passed: Mask
    failures: dict[int, str] | None = None
    bill: Bill | None = None


Evaluate = Callable[[int, Rows], Verdict]


@dataclass(frozen=True)
class Failure:
    """A row that no filter rejects and on which at least one fails; the first such filter as written."""

    row: int
    filter: int
    message: str


@dataclass(frozen=True)
class Outcome:
    """What became of a chunk: rows that passed every filter, rows that could not be decided, and decisions made."""

    survivors: Rows
    failures: tuple[Failure, ...] = ()
    decisions: tuple[Decision, ...] = ()


@dataclass
class Tally:
    """Counts and times since the last `take_tally`; `calls` counts all rows that a filter ran on, profiled ones too.

    `bills` has a row per filter: the fields of `Bill`, for filters that call models and services.
    """

    seen: Counts
    passed: Counts
    errors: Counts
    calls: Counts
    seconds: Floats
    rows: int = 0
    profiling_seconds: float = 0.0
    deciding_seconds: float = 0.0
    written_drops: Floats = field(default_factory=lambda: np.zeros(0))
    bills: Floats = field(default_factory=lambda: np.zeros((0, BILL_FIELDS)))

    @classmethod
    def empty(cls, filters: int) -> Tally:
        """All zero."""
        seen, passed, errors, calls = (np.zeros(filters, dtype=np.int64) for _ in range(4))
        zero, bills = np.zeros(filters), np.zeros((filters, BILL_FIELDS))
        return cls(seen, passed, errors, calls, seconds=zero, written_drops=zero.copy(), bills=bills)

    def add(self, other: Tally) -> None:
        """Count another tally in."""
        for f in fields(Tally):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


class Pace:
    """How many rows to run before the next decision: few at first, then more, up to a fixed duration.

    >>> pace = Pace()
    >>> pace.chunk_rows(1_000_000)
    64
    >>> pace.note(64, seconds=0.001)
    >>> pace.chunk_rows(1_000_000)
    128
    """

    def __init__(self, seconds: float = CHUNK_SECONDS, first: int = FIRST_CHUNK_ROWS) -> None:
        self._seconds, self._fewest = seconds, first
        self._chunk = first
        self._row_seconds = 0.0

    def chunk_rows(self, available: int) -> int:
        """How many of the available rows to process before the next decision."""
        rows = min(self._chunk, self.rows_within(self._seconds))
        return available if available < rows * 1.5 else rows

    def rows_within(self, seconds: float) -> int:
        """How many rows a chunk of a duration has, as fast as they go now."""
        fitting = seconds / self._row_seconds if self._row_seconds else LONGEST_CHUNK_ROWS
        return int(min(max(fitting, self._fewest), LONGEST_CHUNK_ROWS))

    def note(self, rows: int, seconds: float) -> None:
        """A chunk is done."""
        if rows:
            self._row_seconds = seconds / rows
        self._chunk = min(self._chunk * CHUNK_GROWTH, LONGEST_CHUNK_ROWS)

    def look_closely(self) -> None:
        """Something changed: small chunks again."""
        self._chunk = CLOSE_LOOK_ROWS


@dataclass
class _ProfiledRows:
    """Rows that were dropped at one place of the order and are tried on further filters."""

    rows: Rows
    drops: BoolMatrix
    wanted: frozenset[int]


class FilterPipeline:
    """Runs chunks through the current order, profiles, and lets the policy decide in between.

    Parameters
    ----------
    reoptimizer
        The ordering policy; its `order` is the current plan.
    unprofiled
        Filters that must not be called for profiling alone (volatile and strict ones).
    costs
        Seconds per row and filter, as far as they are known from before; NaN where not.
    seed
        Seed of the choice of rows to profile.
    clock
        A monotonic clock in seconds; tests pass their own.
    budget
        How long decisions may take; by default a share of the time of the filters.
    price
        What calls cost, where that is to be small, not the time; None to be fast.
    chunk_seconds
        How long a chunk of rows may take.

    Attributes
    ----------
    sampled
        Called after a chunk with rows on which all filters were tried, an even sample of dropped and passed ones in
        the order of the chunk, and their drops; for those who look for classes of rows.
    least_probability
        Profile at least this share of the dropped rows, whatever the policy says.
    """

    def __init__(
        self,
        reoptimizer: Reoptimizer,
        *,
        unprofiled: frozenset[int] = frozenset(),
        costs: Floats | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.perf_counter,
        budget: TimeBudget | None = None,
        price: ProfilePrice | None = None,
        chunk_seconds: float = CHUNK_SECONDS,
    ) -> None:
        self.reoptimizer = reoptimizer
        self.unprofiled = unprofiled
        self.times = ProcessingTimes(reoptimizer.filters, prior=costs)
        self.tally = Tally.empty(reoptimizer.filters)
        self.rows_done = 0
        self._rng = np.random.default_rng(seed)
        self.sampled: Callable[[Rows, BoolMatrix], None] | None = None
        self.least_probability = 0.0
        self._clock = clock
        self._price = price
        self._pace = Pace(chunk_seconds, FIRST_CHUNK_ROWS if price is None else FIRST_PAID_ROWS)
        self._budget = budget or TimeBudget(
            share=DECIDING_SHARE, advance=FIRST_DECISIONS_SECONDS, credit=URGENT_DECISIONS_SECONDS
        )
        self._entered: Counts = np.zeros(reoptimizer.filters, dtype=np.int64)
        self._dropped: Counts = np.zeros(reoptimizer.filters, dtype=np.int64)
        self._written = list(reoptimizer.precedence.legal(range(reoptimizer.filters)))
        self._new_profiles: BoolMatrix = np.zeros((0, reoptimizer.filters), dtype=np.bool_)

    def chunk_rows(self, available: int) -> int:
        """How many of the available rows to process before the next decision."""
        return self._pace.chunk_rows(available)

    def process(self, rows: int, evaluate: Evaluate) -> Outcome:
        """Run one chunk, then let the policy reconsider the order, if the time for that is earned."""
        started = self._clock()
        deciding = self.least_probability > 0 or self._may_decide()
        run = _Run(self, evaluate, rows, profiling=deciding)
        alive = run.through(all_rows(rows))
        self.tally.rows += rows
        self.rows_done += rows
        took = self._clock() - started
        self._pace.note(rows, took)
        self._budget.earn(took)
        self._entered += run.entered
        self._dropped += run.dropped
        decided = self._decide(run, alive) if deciding or self._alarmed(run) else ()
        return replace(outcome_of(alive, run.failures), decisions=decided)

    def cost(self, verdict: Verdict, seconds: float) -> float:
        """What a call cost, in the unit that is to be small."""
        return seconds if self._price is None else self._price.of(verdict.bill, seconds)

    def take_tally(self) -> Tally:
        """Hand over the counts since the last call."""
        taken, self.tally = self.tally, Tally.empty(self.reoptimizer.filters)
        return taken

    def take_profiles(self) -> BoolMatrix:
        """Hand over the full profile tuples since the last call, the latest of them if they are many."""
        taken, self._new_profiles = self._new_profiles, self._new_profiles[:0]
        return taken

    def _may_decide(self) -> bool:
        """Whether the time for a decision is earned, or there is credit for one that should not wait."""
        return self._budget.covers(0.0, urgent=self.reoptimizer.eager)

    def _alarmed(self, run: _Run) -> bool:
        """Whether a chunk that was to pass without a decision calls for one."""
        if not self._budget.covers(0.0, urgent=True):
            return False
        began = self._clock()
        drift_alarm = self.reoptimizer.drift_alarm(run.entered, run.dropped)
        self._pay(self._clock() - began)
        return drift_alarm

    def _pay(self, seconds: float) -> None:
        self.tally.deciding_seconds += seconds
        self._budget.spend(seconds)

    def _decide(self, run: _Run, alive: Rows) -> tuple[Decision, ...]:
        began = self._clock()
        rows, drops = run.profile_tuples()
        if self.sampled is not None and run.complete and run.probability > 0:
            passed = self.sample(alive, run.probability)
            none = np.zeros((len(passed), drops.shape[1]), dtype=np.bool_)
            both = np.concatenate([rows, passed])
            arrival = np.argsort(both, kind="stable")
            self.sampled(both[arrival], np.concatenate([drops, none])[arrival])
        entered, self._entered = self._entered, np.zeros_like(self._entered)
        dropped, self._dropped = self._dropped, np.zeros_like(self._dropped)
        decided = self.reoptimizer.observe(Observation(drops, entered, dropped, self.times.per_tuple(), began))
        if self.reoptimizer.profile_probability > run.probability:
            self._pace.look_closely()
        if run.complete and len(drops):
            self._new_profiles = np.concatenate([self._new_profiles, drops])[-MOST_HANDED_OVER:]
            first = np.bincount(drops[:, self._written].argmax(axis=1), minlength=len(self._written))
            scale = dropped.sum() / run.dropped.sum() / run.probability
            self.tally.written_drops[self._written] += first * scale
        self._pay(self._clock() - began)
        return decided

    def affordable(self, rows: int) -> float:
        """The share of dropped rows of a chunk whose profiles are worth their price."""
        if self._price is None:
            return 1.0
        policy = self.reoptimizer
        worth = self._price.worthwhile(policy.order, policy.profiles(), self.times.per_tuple(), self.rows_done)
        return worth / max(rows, 1)

    def sample(self, rows: Rows, probability: float) -> Rows:
        """Choose each row with the given probability."""
        if probability >= 1.0:
            return rows
        chosen = int(self._rng.binomial(len(rows), probability))
        return rows[self._rng.choice(len(rows), chosen, replace=False)] if chosen else rows[:0]


class _Run:
    """One chunk on its way through one order."""

    def __init__(self, pipeline: FilterPipeline, evaluate: Evaluate, rows: int, *, profiling: bool) -> None:
        policy = pipeline.reoptimizer
        self.pipeline, self.evaluate = pipeline, evaluate
        self.order: Order = policy.order
        wished = max(policy.profile_probability, pipeline.least_probability) if profiling else 0.0
        self.probability = min(wished, policy.chunk_profiles / max(rows, 1), pipeline.affordable(rows))
        self.entered = np.zeros(policy.filters, dtype=np.int64)
        self.dropped = np.zeros(policy.filters, dtype=np.int64)
        self.profiled: list[_ProfiledRows] = []
        self.failures: dict[int, tuple[int, str]] = {}
        self.complete = not pipeline.unprofiled and all(
            len(policy.wanted(place)) == policy.filters - place - 1 for place in range(policy.filters)
        )

    def through(self, alive: Rows) -> Rows:
        """Send the rows through every filter; what is left has passed all of them (or failed without a rejection)."""
        for place, f in enumerate(self.order):
            takers = [p for p in self.profiled if f in p.wanted]
            if not len(alive) and not takers:
                continue
            verdict, spent = self._call(f, alive, takers)
            passed = verdict.passed[: len(alive)]
            self._count(f, alive, passed, verdict, spent, takers)
            if self.probability > 0 and not passed.all():
                self._profile(place, f, alive[~passed])
            alive = alive[np.flatnonzero(passed)]  # quicker than by the mask itself
        return alive

    def _call(self, f: int, alive: Rows, takers: list[_ProfiledRows]) -> tuple[Verdict, float]:
        rows = np.concatenate([alive, *(p.rows for p in takers)]) if takers else alive
        began = self.pipeline._clock()
        verdict = self.evaluate(f, rows)
        spent = self.pipeline._clock() - began
        self.pipeline.times.record(f, self.pipeline.cost(verdict, spent), len(rows))
        offset = len(alive)
        for p in takers:
            p.drops[:, f] = ~verdict.passed[offset : offset + len(p.rows)]
            offset += len(p.rows)
        return self._with_failures_passed(f, verdict, alive, takers), spent

    def _with_failures_passed(self, f: int, verdict: Verdict, alive: Rows, takers: list[_ProfiledRows]) -> Verdict:
        if not verdict.failures:
            return verdict
        passed = verdict.passed.copy()
        starts = np.cumsum([len(alive), *(len(p.rows) for p in takers)])
        for at, message in verdict.failures.items():
            passed[at] = True
            if at < len(alive):
                known = self.failures.get(int(alive[at]))
                if known is None or f < known[0]:
                    self.failures[int(alive[at])] = (f, message)
            else:
                block = int(np.searchsorted(starts, at, side="right")) - 1
                takers[block].drops[at - starts[block], f] = False
        return replace(verdict, passed=passed)

    def _count(
        self, f: int, alive: Rows, passed: Mask, verdict: Verdict, spent: float, takers: list[_ProfiledRows]
    ) -> None:
        failures, bill = verdict.failures or {}, verdict.bill
        tally, extra = self.pipeline.tally, sum(len(p.rows) for p in takers)
        kept = int(np.count_nonzero(passed))
        errors = sum(1 for at in failures if at < len(alive))
        self.entered[f] += len(alive)
        self.dropped[f] += len(alive) - kept
        tally.seen[f] += len(alive)
        tally.passed[f] += kept - errors
        tally.errors[f] += errors
        tally.calls[f] += len(alive) + extra
        tally.seconds[f] += spent
        if bill is not None:
            tally.bills[f] += astuple(bill)
        if extra:
            tally.profiling_seconds += spent * extra / (len(alive) + extra)

    def _profile(self, place: int, f: int, dropped: Rows) -> None:
        rows = self.pipeline.sample(dropped, self.probability)
        if not len(rows):
            return
        policy = self.pipeline.reoptimizer
        drops = np.zeros((len(rows), policy.filters), dtype=np.bool_)
        drops[:, f] = True
        self.profiled.append(_ProfiledRows(rows, drops, self._wanted(place)))

    def _wanted(self, place: int) -> frozenset[int]:
        """What to try on rows dropped at a place: never a filter whose inputs would then be missing."""
        policy = self.pipeline.reoptimizer
        wanted = frozenset(policy.wanted(place)) - self.pipeline.unprofiled
        tried = wanted.union(self.order[: place + 1])
        return frozenset(w for w in wanted if policy.precedence.ancestors[w] <= tried)

    def profile_tuples(self) -> tuple[Rows, BoolMatrix]:
        """All profile tuples of the chunk, in the order of their rows: a window must not favour late places."""
        if not self.profiled:
            return np.zeros(0, dtype=np.int64), np.zeros((0, self.pipeline.reoptimizer.filters), dtype=np.bool_)
        rows = np.concatenate([p.rows for p in self.profiled])
        arrival = np.argsort(rows, kind="stable")
        return rows[arrival], np.concatenate([p.drops for p in self.profiled])[arrival]


def outcome_of(alive: Rows, failures: dict[int, tuple[int, str]]) -> Outcome:
    """Part the rows that no filter rejects, ascending, from those on which one fails (row -> filter, message)."""
    if not failures:
        return Outcome(alive)
    undecided = np.fromiter(failures, dtype=np.int64)
    standing = np.intersect1d(alive, undecided)
    found = tuple(Failure(int(row), *failures[int(row)]) for row in standing)
    return Outcome(np.setdiff1d(alive, standing, assume_unique=True), found)
