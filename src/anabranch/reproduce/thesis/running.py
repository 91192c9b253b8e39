"""Runs a policy over known tuples through the product's pipeline, on a clock that only the filters advance.

A filter is a column of the matrix and takes a fixed time per tuple, so evaluations and times are the same in every run.

>>> passes = np.tile([[True, False]], (4000, 1))                     # the second filter drops every tuple
>>> run = Setting(costs=np.ones(2)).run("agreedy", passes)
>>> run.orders[0], run.orders[-1]
((0, 1), (1, 0))
>>> run.after(3000).processing
1.0

Differs from the paper
----------------------
The paper decides after every tuple, this after every `CHUNK` tuples: two to five profile tuples at the paper's
drop-profiling probability of 0.01.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Floats, Order, Rows
from anabranch.ordering import Precedence, Reoptimizer, Seed, expected_cost, make, optimal_order
from anabranch.ordering.pipeline import FilterPipeline, Verdict

CHUNK = 250


@dataclass(frozen=True)
class Spent:
    """Mean time of a tuple, in units of one filter evaluation of cost 1."""

    processing: float
    profiling: float

    @property
    def total(self) -> float:
        """Useful work and profiling."""
        return self.processing + self.profiling

    @property
    def overhead(self) -> float:
        """Share of profiling in the total."""
        return self.profiling / self.total if self.total else 0.0


@dataclass(frozen=True)
class Run:
    """What a policy did, chunk by chunk."""

    processing: Floats
    profiling: Floats
    orders: list[Order]
    tuples: int

    def after(self, tuples: int) -> Spent:
        """Mean cost of a tuple over all chunks that start after so many tuples."""
        return self.between(tuples, self.tuples)

    def between(self, start: int, end: int) -> Spent:
        """Mean cost of a tuple over the chunks from one tuple to another, both multiples of the chunk."""
        part = slice(start // CHUNK, -(-end // CHUNK))
        return Spent(
            float(self.processing[part].sum()) / (end - start), float(self.profiling[part].sum()) / (end - start)
        )

    def per_tuple(self, tuples: int) -> Floats:
        """Mean processing cost of a tuple over stretches of so many tuples."""
        whole = len(self.processing) * CHUNK // tuples
        return self.processing[: whole * tuples // CHUNK].reshape(whole, -1).sum(axis=1) / tuples


@dataclass(frozen=True)
class Setting:
    """Costs of the filters, and how the policies profile: as in Table 4.1 unless a probability is given."""

    costs: Floats
    probability: float | None = None
    start: Order | None = None
    seed: int = 0

    def policy(self, name: str, **changes: float) -> Reoptimizer:
        """A policy with the thesis' parameters."""
        filters = len(self.costs)
        config = OrderingConfig.for_policy(name)
        if self.probability is not None:
            config = replace(config, profile_probability=self.probability)
        seed = Seed(self.start, np.zeros((0, filters), dtype=np.bool_), np.zeros(filters)) if self.start else None
        return make(name, filters, config=config, seed=seed)

    def run(self, name: str, passes: BoolMatrix) -> Run:
        """Send all tuples through a pipeline with the policy of that name."""
        clock = _Clock()
        pipeline = FilterPipeline(self.policy(name), seed=self.seed, clock=clock)
        processing, profiling, orders = [], [], [pipeline.reoptimizer.order]
        for start in range(0, len(passes), CHUNK):
            chunk = passes[start : start + CHUNK]
            pipeline.process(len(chunk), _Probes(chunk, self.costs, clock))
            tally = pipeline.take_tally()
            processing.append(float(tally.seen @ self.costs))
            profiling.append(float((tally.calls - tally.seen) @ self.costs))
            orders.append(pipeline.reoptimizer.order)
        return Run(np.array(processing), np.array(profiling), orders, len(passes))

    def optimum(self, passes: BoolMatrix) -> Spent:
        """What the best fixed order costs, found by exhaustive search over the very tuples."""
        best = optimal_order(~passes, self.costs, Precedence.none(len(self.costs)))
        return Spent(expected_cost(best, ~passes, self.costs), 0.0)


@dataclass
class _Clock:
    """A clock that stands still unless it is advanced."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class _Probes:
    """Answers from the matrix; each takes the filter's time."""

    chunk: BoolMatrix
    costs: Floats
    clock: _Clock

    def __call__(self, f: int, rows: Rows) -> Verdict:
        self.clock.now += float(self.costs[f]) * len(rows)
        return Verdict(self.chunk[rows, f])
