"""Runs a policy over known tuples through the product's pipeline, on a clock that only the filters advance.

A filter is a column of the matrix and takes a fixed time per tuple, so evaluations and times are the same in every run.

>>> passes = np.tile([[True, False]], (200_000, 1))                  # the second filter drops every tuple
>>> run = Setting(costs=np.ones(2)).run("agreedy", passes)
>>> run.orders[0], run.orders[-1]
((0, 1), (1, 0))
>>> run.between(0, 50_000).processing, run.between(150_000, 200_000).processing
(2.0, 1.0)

Notes
-----
The parameters are those of Table 4.1: `OrderingConfig.for_policy`, where no other probability is given.

Differs from the paper
----------------------
The paper decides after every tuple, this after every 500: about five profile tuples at the default drop-profiling
probability of 0.01. The thesis' policies decide on full windows only (for Sweep: a stage's, for LocalSwaps: a pair's);
the paper does not say how few tuples it decides on, the product's default is 30. `auto` runs as shipped, except that
its chunks do not grow.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Floats, Order, Rows
from anabranch.ordering import Precedence, Reoptimizer, Seed, expected_cost, make, optimal_order
from anabranch.ordering.pipeline import FilterPipeline, Verdict

CHUNK = 500
THESIS = ("agreedy", "independent", "sweep", "localswaps")
OURS = "auto"


@dataclass(frozen=True)
class Spent:
    """Mean time of a tuple, in units of one evaluation of a filter of cost 1."""

    processing: float
    profiling: float = 0.0

    @property
    def total(self) -> float:
        """Useful work and profiling."""
        return self.processing + self.profiling

    @property
    def overhead(self) -> float:
        """Share of profiling in the total."""
        return self.profiling / self.total if self.total else 0.0


Measured = dict[str, list[Spent]]
"""What each policy spent, per repetition."""


def means(measured: Measured) -> dict[str, Spent]:
    """What each policy spent on average."""
    return {
        name: Spent(float(np.mean([s.processing for s in spent])), float(np.mean([s.profiling for s in spent])))
        for name, spent in measured.items()
    }


def ratio(averages: Mapping[str, Spent], above: str, below: str, what: str = "total") -> float:
    """How much more one policy spends than another: in total, or on `processing` or `profiling`.

    >>> ratio({"sweep": Spent(2.0, 1.0), "optimal": Spent(2.0)}, "sweep", "optimal")
    1.5
    """
    return float(getattr(averages[above], what) / getattr(averages[below], what))


@dataclass(frozen=True)
class Run:
    """What a policy did, chunk by chunk; `orders` begins with the one before the first chunk."""

    processing: Floats
    profiling: Floats
    orders: list[Order]
    chunk: int

    def between(self, start: int, end: int) -> Spent:
        """Mean cost of a tuple from one tuple to another, both multiples of the chunk."""
        if start % self.chunk or end % self.chunk:
            raise ValueError(f"{start} and {end} are no multiples of the chunk of {self.chunk} tuples")
        part, tuples = slice(start // self.chunk, end // self.chunk), end - start
        return Spent(float(self.processing[part].sum()) / tuples, float(self.profiling[part].sum()) / tuples)

    def per_stretch(self, tuples: int) -> Floats:
        """Processing cost of each stretch of so many tuples."""
        return np.asarray(self.processing.reshape(-1, tuples // self.chunk).sum(axis=1))


@dataclass(frozen=True)
class Setting:
    """What the filters cost, and how the policies start and profile.

    Parameters
    ----------
    costs
        Time units per tuple and filter.
    probability
        Drop-profiling probability of all policies; `None` for Table 4.1.
    start
        The first order, as written if not given.
    learned
        Profile tuples that A-Greedy and Independent start with, to measure them after convergence.
    full_windows
        Whether the thesis' policies wait for a full window.
    chunk
        Tuples between two decisions, and the finest resolution of a run; `auto` decides every `CHUNK` tuples at least.
    seed
        Seed of the choice of tuples to profile.
    """

    costs: Floats
    probability: float | None = None
    start: Order | None = None
    learned: BoolMatrix | None = None
    full_windows: bool = True
    chunk: int = CHUNK
    seed: int = 0

    @property
    def filters(self) -> int:
        """How many there are."""
        return len(self.costs)

    def policy(self, name: str) -> Reoptimizer:
        """The policy of that name."""
        config = OrderingConfig.for_policy(name)
        if self.probability is not None:
            config = replace(config, profile_probability=self.probability)
        if self.full_windows and name in THESIS:
            config = replace(config, minimum_profiles=config.window_tuples)
        learned = np.zeros((0, self.filters), dtype=np.bool_) if self.learned is None else self.learned
        order = self.start or tuple(range(self.filters))
        return make(name, self.filters, config=config, seed=Seed(order, learned, self.costs))

    def run(self, name: str, passes: BoolMatrix) -> Run:
        """Send all tuples through a pipeline with the policy of that name."""
        clock = _Clock()
        pipeline = FilterPipeline(self.policy(name), seed=self.seed, clock=clock)
        processing, profiling, orders = [], [], [pipeline.reoptimizer.order]
        step = min(self.chunk, CHUNK) if name == OURS else self.chunk
        for start in range(0, len(passes), self.chunk):
            for inner in range(start, min(start + self.chunk, len(passes)), step):
                chunk = passes[inner : inner + step]
                pipeline.process(len(chunk), _Probes(chunk, self.costs, clock))
            tally = pipeline.take_tally()
            processing.append(float(tally.seen @ self.costs))
            profiling.append(float((tally.calls - tally.seen) @ self.costs))
            orders.append(pipeline.reoptimizer.order)
        return Run(np.array(processing), np.array(profiling), orders, self.chunk)

    def best_order(self, passes: BoolMatrix) -> Order:
        """The best fixed order, found by exhaustive search over the very tuples."""
        return optimal_order(~passes, self.costs, Precedence.none(self.filters))

    def optimum(self, passes: BoolMatrix) -> Spent:
        """What the best fixed order costs."""
        return Spent(expected_cost(self.best_order(passes), ~passes, self.costs))


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
