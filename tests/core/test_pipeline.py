"""The adaptive loop without Spark: whatever the policy and the chunks, the outcome is that of the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.config import OrderingConfig
from anabranch.model.arrays import Order, Rows
from anabranch.ordering import POLICIES, Precedence, make
from anabranch.ordering.agreedy import AGreedy
from anabranch.ordering.base import Observation
from anabranch.ordering.decisions import Decision
from anabranch.ordering.pipeline import CHUNK_SECONDS, FIRST_CHUNK_ROWS, LONGEST_CHUNK_ROWS, FilterPipeline, Verdict

EAGER = OrderingConfig(profile_probability=0.7, window_tuples=60, minimum_profiles=5)
FALSE, TRUE, FAILS = 0, 1, 2


@dataclass
class World:
    """Rows whose fate under every filter is known, and a record of who was called on what, and when."""

    fates: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    at: int = 0

    def __post_init__(self) -> None:
        self.calls: list[list[int]] = [[] for _ in range(self.fates.shape[1])]
        self.order_of_calls: list[int] = []

    def evaluate(self, f: int, rows: Rows) -> Verdict:
        absolute = rows + self.at
        self.calls[f] += absolute.tolist()
        self.order_of_calls.append(f)
        fate = self.fates[absolute, f]
        failures = {int(i): f"filter {f}" for i in np.flatnonzero(fate == FAILS)}
        return Verdict(fate == TRUE, failures or None)

    def run(self, pipeline: FilterPipeline, chunks: list[int]) -> tuple[list[int], list[tuple[int, int, str]]]:
        passed: list[int] = []
        failed: list[tuple[int, int, str]] = []
        for size in chunks:
            outcome = pipeline.process(size, self.evaluate)
            passed += (outcome.survivors + self.at).tolist()
            failed += [(f.row + self.at, f.filter, f.message) for f in outcome.failures]
            self.at += size
        return passed, failed

    def definition(self) -> tuple[list[int], list[tuple[int, int, str]]]:
        """The outcome, row by row: all true; or none false, and the first that fails as written."""
        passed, failed = [], []
        for row, fate in enumerate(self.fates.tolist()):
            if all(f == TRUE for f in fate):
                passed.append(row)
            elif FALSE not in fate:
                first = fate.index(FAILS)
                failed.append((row, first, f"filter {first}"))
        return passed, failed


def clock(step: float = 1e-3) -> Callable[[], float]:
    now = [0.0]

    def tick() -> float:
        now[0] += step
        return now[0]

    return tick


def worlds(seed: int, filters: int, rows: int, failing: float) -> World:
    """Correlated filters whose rates change halfway; some rows fail."""
    rng = np.random.default_rng(seed)
    halves = []
    for part in (rows // 2, rows - rows // 2):
        common, rates = rng.random((part, 1)), rng.uniform(0.3, 1.0, filters)
        passes = np.where(rng.random((part, filters)) < 0.5, common, rng.random((part, filters))) < rates
        halves.append(np.where(rng.random((part, filters)) < failing, FAILS, passes.astype(np.int64)))
    return World(np.concatenate(halves))


def precedence(seed: int, filters: int, density: float) -> Precedence:
    rng = np.random.default_rng(seed)
    ranking = rng.permutation(filters).tolist()
    pairs = [(a, b) for i, a in enumerate(ranking) for b in ranking[i + 1 :]]
    return Precedence(filters, frozenset(pair for pair in pairs if rng.random() < density))


def cut(rng: np.random.Generator, rows: int) -> list[int]:
    sizes: list[int] = []
    while rows:
        sizes.append(int(min(rows, rng.choice([0, 1, 3, 17, 64, 200]))))
        rows -= sizes[-1]
    return sizes


@given(
    policy=st.sampled_from(sorted(POLICIES)),
    seed=st.integers(0, 10_000),
    filters=st.integers(1, 5),
    rows=st.integers(0, 600),
    failing=st.sampled_from([0.0, 0.05, 0.6]),
    density=st.sampled_from([0.0, 0.4, 1.0]),
    data=st.data(),
)
def test_the_outcome_is_the_definition_s(
    policy: str, seed: int, filters: int, rows: int, failing: float, density: float, data: st.DataObject
) -> None:
    world = worlds(seed, filters, rows, failing)
    constraints = precedence(seed, filters, density)
    unprofiled = data.draw(st.frozensets(st.integers(0, filters - 1)), label="unprofiled")
    reoptimizer = make(policy, filters, config=EAGER, precedence=constraints)
    pipeline = FilterPipeline(reoptimizer, unprofiled=unprofiled, seed=seed, clock=clock())
    passed, failed = world.run(pipeline, cut(np.random.default_rng(seed), rows))

    assert (passed, failed) == world.definition()
    assert constraints.allows(reoptimizer.order)
    for f in range(filters):
        assert max(Counter(world.calls[f]).values(), default=0) <= 1, "each filter sees a row once at most"
    check_counts(pipeline, world, passed)
    for f in unprofiled:
        assert pipeline.tally.calls[f] == pipeline.tally.seen[f]


def check_counts(pipeline: FilterPipeline, world: World, passed: list[int]) -> None:
    tally, rows = pipeline.tally, len(world.fates)
    dropped = tally.seen - tally.passed - tally.errors
    rejected = int((world.fates == FALSE).any(axis=1).sum())
    assert tally.rows == rows == pipeline.rows_done
    assert tally.calls.tolist() == [len(calls) for calls in world.calls]
    assert (tally.calls >= tally.seen).all()
    assert (dropped >= 0).all()
    assert int(dropped.sum()) == rejected
    assert (tally.passed >= len(passed)).all()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_same_run_twice_is_the_same(policy: str) -> None:
    def run() -> tuple[list[int], Order, list[list[int]]]:
        world = worlds(3, 4, 2000, 0.0)
        pipeline = FilterPipeline(make(policy, 4, config=EAGER), seed=11, clock=clock())
        world.run(pipeline, [100] * 20)
        return world.order_of_calls, pipeline.reoptimizer.order, world.calls

    assert run() == run()


@given(st.sampled_from(sorted(set(POLICIES) - {"fixed"})), st.integers(0, 1000))
def test_a_kept_column_is_there_before_it_is_read(policy: str, seed: int) -> None:
    world = worlds(seed, 4, 400, 0.0)
    edges = Precedence(4, frozenset({(2, 0), (0, 3)}))
    reoptimizer = make(policy, 4, config=EAGER, precedence=edges)
    world.run(FilterPipeline(reoptimizer, seed=seed, clock=clock()), [50] * 8)
    computed = [set(calls) for calls in world.calls]
    assert computed[3] <= computed[0] <= computed[2], "a reader never runs on a row without its input"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_unprofiled_filters_see_the_living_alone(policy: str) -> None:
    """A strict or volatile filter behind its guard is never called on a row that the guard rejects."""
    world = worlds(5, 3, 3000, 0.0)
    edges = Precedence(3, frozenset({(0, 1), (1, 2)}))
    pipeline = FilterPipeline(make(policy, 3, config=EAGER, precedence=edges), unprofiled=frozenset({1}), clock=clock())
    world.run(pipeline, [100] * 30)
    assert world.calls[1] == np.flatnonzero(world.fates[:, 0] == TRUE).tolist()


def test_fixed_never_profiles_and_never_moves() -> None:
    world = worlds(7, 3, 3000, 0.1)
    pipeline = FilterPipeline(make("fixed", 3), clock=clock())
    world.run(pipeline, [300] * 10)
    assert pipeline.reoptimizer.order == (0, 1, 2)
    assert pipeline.tally.calls.tolist() == pipeline.tally.seen.tolist()
    assert pipeline.tally.profiling_seconds == 0


def test_nothing_is_called_once_no_row_is_left() -> None:
    world = World(np.array([[FALSE, TRUE]] * 10))
    FilterPipeline(make("fixed", 2), clock=clock()).process(10, world.evaluate)
    assert world.order_of_calls == [0]
    assert FilterPipeline(make("fixed", 2), clock=clock()).process(0, world.evaluate).survivors.tolist() == []


def test_tallies_add_up_over_takes() -> None:
    world = worlds(9, 3, 1000, 0.1)
    pipeline = FilterPipeline(make("agreedy", 3, config=EAGER), clock=clock())
    parts = []
    for _ in range(10):
        world.run(pipeline, [100])
        parts.append(pipeline.take_tally())
    assert sum(t.rows for t in parts) == 1000
    assert sum(int((t.seen - t.passed - t.errors).sum()) for t in parts) == int(
        (world.fates == FALSE).any(axis=1).sum()
    )
    assert pipeline.take_tally().rows == 0


def test_the_estimate_for_the_written_order_is_right() -> None:
    """With every drop profiled, the drops of the written order are known exactly, whatever order ran."""
    world = worlds(13, 4, 4000, 0.0)
    sure = OrderingConfig(profile_probability=1.0, window_tuples=100, minimum_profiles=10)
    pipeline = FilterPipeline(make("agreedy", 4, config=sure), clock=lambda: 0.0)
    world.run(pipeline, [200] * 20)
    assert pipeline.reoptimizer.order != (0, 1, 2, 3)
    rejected = (world.fates == FALSE)[(world.fates == FALSE).any(axis=1)]
    assert pipeline.tally.written_drops.tolist() == np.bincount(rejected.argmax(axis=1), minlength=4).tolist()


@pytest.mark.parametrize(("row_seconds", "all_chunks"), [(1e-7, False), (3e-4, True)])
def test_decisions_take_a_small_share_of_the_filters_time(row_seconds: float, all_chunks: bool) -> None:
    """Each decision takes a millisecond: after every chunk that is nothing for slow filters, and too much for fast."""
    now, chunks, rows = [0.0], 6000, 1000
    observed: list[Observation] = []

    class Pondering(AGreedy):
        def observe(self, seen: Observation) -> tuple[Decision, ...]:
            now[0] += 0.001
            observed.append(seen)
            return super().observe(seen)

    def judge(f: int, chosen: Rows) -> Verdict:
        now[0] += row_seconds * len(chosen)
        return Verdict(chosen % 4 < 3 - f)

    config = OrderingConfig(profile_probability=1.0)
    pipeline = FilterPipeline(Pondering(2, config=config), clock=lambda: now[0])
    for _ in range(chunks):
        pipeline.process(rows, judge)
    decided = len(observed)
    while len(observed) == decided:  # what ran without a decision counts in the next
        pipeline.process(rows, judge)
    tally = pipeline.take_tally()
    assert tally.deciding_seconds <= 0.007 + 0.005 * tally.seconds.sum()
    assert decided == chunks if all_chunks else 5 < decided < 30
    assert np.sum([seen.entered for seen in observed], axis=0).tolist() == tally.seen.tolist()
    assert tally.written_drops.sum() == pytest.approx((tally.seen - tally.passed).sum())
    assert pipeline.reoptimizer.order == (1, 0)


def test_chunks_grow_while_nothing_changes_and_stay_short_for_slow_filters() -> None:
    def sizes(step: float) -> list[int]:
        pipeline = FilterPipeline(make("fixed", 1), clock=clock(step))
        found = []
        for _ in range(12):
            found.append(pipeline.chunk_rows(10**9))
            pipeline.process(found[-1], lambda f, rows: Verdict(np.ones(len(rows), dtype=np.bool_)))
        return found

    quick, slow = sizes(1e-9), sizes(10 * CHUNK_SECONDS)
    assert quick[0] == FIRST_CHUNK_ROWS
    assert quick == sorted(quick)
    assert quick[-1] == LONGEST_CHUNK_ROWS
    assert slow == [FIRST_CHUNK_ROWS] * 12


def test_a_small_rest_joins_its_chunk() -> None:
    pipeline = FilterPipeline(make("fixed", 1), clock=clock())
    assert pipeline.chunk_rows(FIRST_CHUNK_ROWS + 1) == FIRST_CHUNK_ROWS + 1
    assert pipeline.chunk_rows(2 * FIRST_CHUNK_ROWS) == FIRST_CHUNK_ROWS


def test_failures_in_profiled_rows_are_no_rejections() -> None:
    """A row that the first filter drops and the second fails on teaches nothing about the second."""
    fates = np.array([[FALSE, FAILS]] * 50 + [[TRUE, TRUE]] * 50)
    sure = OrderingConfig(profile_probability=1.0, window_tuples=100, minimum_profiles=10)
    world, policy = World(fates), make("agreedy", 2, config=sure)
    outcome = FilterPipeline(policy, clock=clock()).process(100, world.evaluate)
    assert outcome.failures == ()
    assert policy.profiles().tolist() == [[True, False]] * 50


def test_profile_tuples_are_handed_over_once() -> None:
    """Whoever merges what several workers learned must not count a tuple with every task again."""
    rng = np.random.default_rng(3)
    drops = rng.random((500, 2)) < (0.5, 0.3)
    pipeline = FilterPipeline(make("agreedy", 2, config=OrderingConfig(profile_probability=1.0)), clock=clock())

    def evaluate(f: int, rows: Rows) -> Verdict:
        return Verdict(~drops[rows, f])

    pipeline.process(500, evaluate)
    assert pipeline.take_profiles().tolist() == drops[drops.any(axis=1)].tolist()
    assert len(pipeline.take_profiles()) == 0
    for _ in range(5):
        pipeline.process(500, evaluate)
    assert len(pipeline.take_profiles()) == 1000, "the latest"


def test_costs_known_from_before_count_until_a_filter_is_timed() -> None:
    """A first chunk that the first filter drops whole says nothing about the second, which is known to be dear."""
    now = 0.0

    def evaluate(f: int, rows: Rows) -> Verdict:
        nonlocal now
        now += len(rows) * (1e-6, 1e-3)[f]
        return Verdict(np.full(len(rows), f == 1))

    pipeline = FilterPipeline(make("agreedy", 2), costs=np.array([1e-6, 1e-3]), clock=lambda: now)
    pipeline.process(100, evaluate)
    assert pipeline.times.per_tuple().tolist() == pytest.approx([1e-6, 1e-3])
