"""Traces of rows and comparisons of plans: what is seen is right, and rows and counts are the same with and without."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.model.arrays import BoolMatrix, Rows
from anabranch.ordering import make
from anabranch.ordering.base import Seed
from anabranch.ordering.pipeline import Verdict
from anabranch.ordering.row_trace import ChunkWatch, RowSampler
from anabranch.routing.plan_comparison import RIVAL, Block, ComparedPlans, Comparison
from anabranch.routing.routed import RoutedPipeline

ROWS = 30_000
COSTS = (4e-5, 1e-5, 2e-5)


class Worker:
    """Runs rows through a pipeline, on a clock that only filters move; zones want different orders."""

    def __init__(self, sampler: RowSampler | None = None, policy: str = "auto", rival: Seed | None = None) -> None:
        rng = np.random.default_rng(3)
        self.zone = rng.integers(0, 2, ROWS)
        likely = np.where(self.zone[:, None] == 0, (0.05, 0.9, 0.5), (0.9, 0.05, 0.5))
        self.passes: BoolMatrix = rng.random((ROWS, 3)) < likely
        self.now, self.at = 0.0, 0
        self.sampler = sampler
        self.watches: list[tuple[int, ChunkWatch]] = []
        self.survivors: list[int] = []
        self.pipeline: Any = self._pipeline(policy, None)
        if rival is not None:
            self.pipeline = ComparedPlans(self.pipeline, self._pipeline("fixed", rival), clock=self.clock)

    def clock(self) -> float:
        return self.now

    def _pipeline(self, policy: str, start: Seed | None) -> RoutedPipeline:
        return RoutedPipeline(lambda seed: make(policy, 3, seed=seed), start=start, clock=self.clock)

    def judge(self, f: int, rows: Rows) -> Verdict:
        self.now += COSTS[f] * len(rows)
        failures = {int(at): "odd" for at in np.flatnonzero((self.at + rows) % 997 == 0)} if f == 2 else None
        return Verdict(self.passes[self.at + rows, f], failures)

    def run(self) -> Worker:
        while self.at < ROWS:
            size = self.pipeline.chunk_rows(min(4_000, ROWS - self.at))
            watch = self.sampler.watch(size) if self.sampler else None
            judge = watch.over(self.judge) if watch else self.judge
            outcome = self.pipeline.process(size, judge, {"zone": pa.array(self.zone[self.at : self.at + size])})
            self.survivors += (self.at + outcome.survivors).tolist()
            if watch:
                self.watches.append((self.at, watch))
            self.at += size
        return self


def test_rows_and_counts_are_the_same_with_and_without_traces() -> None:
    plain, traced = Worker().run(), Worker(RowSampler(0.01, most=5)).run()
    assert plain.pipeline.plan is not None  # by several routes
    assert traced.watches
    assert plain.survivors == traced.survivors
    for one, other in zip(astuple(plain.pipeline.take_tally()), astuple(traced.pipeline.take_tally()), strict=True):
        np.testing.assert_allclose(one, other)


def test_a_trace_says_what_every_filter_said_in_the_order_of_the_route() -> None:
    worker = Worker(RowSampler(0.02, most=8)).run()
    survivors, failed, seen = set(worker.survivors), 0, 0
    for at, watch in worker.watches:
        for row, calls in watch.calls.items():
            seen += 1
            alive = True
            for call in calls:
                assert call.profiling is not alive
                failing = call.filter == 2 and (at + row) % 997 == 0
                wanted = "passed" if worker.passes[at + row, call.filter] else "dropped"
                assert call.verdict == ("failed" if failing else wanted)
                assert call.rows > 0
                failed += failing
                alive = alive and call.verdict != "dropped"
            assert len({call.filter for call in calls}) == len(calls)
            assert (at + row in survivors) == (alive and not any(call.verdict == "failed" for call in calls))
    assert seen > 100
    assert failed < seen


def test_what_is_traced_is_bounded() -> None:
    sampler = RowSampler(1.0, most=4)
    watch = sampler.watch(10_000)
    assert watch is not None
    assert len(watch.calls) == 4
    assert sampler.watch(0) is None


@pytest.mark.parametrize(("order", "verdict"), [((1, 0, 2), "rival"), ((0, 2, 1), "present"), ((0, 1, 2), "alike")])
def test_the_faster_plan_is_found_and_rows_are_judged_once(order: tuple[int, ...], verdict: str) -> None:
    seed = Seed(order, np.zeros((0, 3), dtype=np.bool_), np.full(3, np.nan))
    plain, compared = Worker(policy="fixed").run(), Worker(policy="fixed", rival=seed).run()
    assert compared.survivors == plain.survivors
    blocks, rows = compared.pipeline.take_blocks()
    found = Comparison.of(blocks, rows)
    assert found.verdict == verdict
    assert found.control == pytest.approx(1.0, abs=0.1)
    assert ROWS / 4 < rows < ROWS / 2
    tally = compared.pipeline.take_tally()
    assert tally.rows == ROWS
    assert compared.pipeline.take_blocks() == ((), 0)


def test_every_three_chunks_one_goes_by_the_rival() -> None:
    seed = Seed((2, 1, 0), np.zeros((0, 3), dtype=np.bool_), np.full(3, np.nan))
    worker = Worker(policy="fixed", rival=seed).run()
    blocks, _ = worker.pipeline.take_blocks()
    assert RIVAL == 2
    assert len(blocks) >= 4
    assert all(min(each.first, each.again, each.rival) > 0 for each in blocks)


def test_little_says_nothing() -> None:
    assert Comparison.of([], rows=0).verdict == "unknown"
    assert Comparison.of([Block(1.0, 1.1, 0.95)], rows=10).verdict == "unknown"
    noisy = [Block(1.0, 1.3, 1.1), Block(1.2, 0.9, 1.0), Block(1.0, 1.0, 1.2), Block(1.1, 1.0, 0.9)] * 3
    assert Comparison.of(noisy, rows=10).verdict == "alike"
