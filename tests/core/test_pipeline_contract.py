"""What the pipeline of every policy promises: the rows of the definition, legal orders, the same calls by one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest

from anabranch.config import OrderingConfig
from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.nodes import Among, Branch, Leaf
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix, Counts, Rows
from anabranch.ordering import Precedence
from anabranch.ordering.pipeline import Outcome, Verdict
from anabranch.routing.chunk_pipeline import ChunkPipeline
from anabranch.routing.policies import NAMES, ROUTING, make_pipeline
from anabranch.routing.route_plan import RoutePlan

FABRIC = "mesh by the fabric"
ROWS = 12_000
every_policy = pytest.mark.parametrize("policy", [*NAMES, FABRIC])
BY_ZONE = TreeRoutes(DecisionTree(Branch(Among("zone", ("north",)), Leaf(0), Leaf(1))))


def pipeline(
    policy: str,
    filters: int,
    precedence: Precedence | None = None,
    *,
    unprofiled: frozenset[int] = frozenset(),
    clock: Callable[[], float] = perf_counter,
) -> ChunkPipeline:
    precedence = precedence or Precedence.none(filters)
    forward, back = (precedence.legal(order) for order in (range(filters), reversed(range(filters))))
    name = "mesh" if policy == FABRIC else policy
    return make_pipeline(
        name,
        filters,
        OrderingConfig.for_policy(name),
        precedence,
        mesh=MeshConfig(executor="fabric", window_tuples=200, route_tolerance=0.3) if policy == FABRIC else None,
        plan=RoutePlan(BY_ZONE, (forward, back), "mesh") if name in ROUTING else None,
        learning=True,
        unprofiled=unprofiled,
        seed=3,
        clock=clock,
    )


@dataclass
class Stream:
    """Rows of two zones that filters treat differently; some rows fail, and every call is recorded."""

    filters: int = 3
    failing: float = 0.0
    zone: Counts = field(init=False)
    passes: BoolMatrix = field(init=False)
    fails: BoolMatrix = field(init=False)
    seconds: float = 0.0
    called: list[tuple[int, Rows]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(5)
        self.zone = rng.integers(0, 2, ROWS)
        rates = np.stack([np.linspace(0.1, 0.9, self.filters), np.linspace(0.9, 0.1, self.filters)])
        self.passes = rng.random((ROWS, self.filters)) < rates[self.zone]
        self.fails = rng.random((ROWS, self.filters)) < self.failing

    def through(self, chosen: ChunkPipeline) -> list[tuple[int, Outcome]]:
        found, at = [], 0
        while at < ROWS:
            size = chosen.chunk_rows(min(1500, ROWS - at))
            names = np.array(["north", "south"])[self.zone[at : at + size]]
            columns = {"zone": pa.array(names), "row": pa.array(np.arange(at, at + size))}
            start = at

            def judge(f: int, rows: Rows, start: int = start) -> Verdict:
                self.called.append((f, start + rows))
                self.seconds += 1e-5 * len(rows)
                failed = np.flatnonzero(self.fails[start + rows, f]).tolist()
                return Verdict(self.passes[start + rows, f], {i: f"{f} on {start + rows[i]}" for i in failed})

            found.append((at, chosen.process(size, judge, columns)))
            at += size
        return found


def survivors(found: Sequence[tuple[int, Outcome]]) -> list[int]:
    return [int(at + row) for at, outcome in found for row in outcome.survivors]


@every_policy
@pytest.mark.parametrize("failing", [0.0, 0.02])
def test_the_rows_are_those_of_the_definition(policy: str, failing: float) -> None:
    stream = Stream(failing=failing)
    chosen = pipeline(policy, 3)
    found = stream.through(chosen)
    accepted = (stream.passes | stream.fails).all(axis=1)
    undecided = accepted & stream.fails.any(axis=1)
    assert survivors(found) == np.flatnonzero(accepted & ~undecided).tolist()
    reported = {at + failure.row: (failure.filter, failure.message) for at, o in found for failure in o.failures}
    assert sorted(reported) == np.flatnonzero(undecided).tolist()
    assert all(reported[row] == (f := int(stream.fails[row].argmax()), f"{f} on {row}") for row in reported)


@every_policy
def test_counts_add_up_and_are_handed_over_once(policy: str) -> None:
    stream, chosen = Stream(failing=0.02), pipeline(policy, 3)
    found = stream.through(chosen)
    tally = chosen.take_tally()
    passed_or_failed = len(survivors(found)) + sum(len(o.failures) for _, o in found)
    assert tally.rows == chosen.rows_done == ROWS
    assert (tally.seen - tally.passed - tally.errors).sum() == ROWS - passed_or_failed
    assert tally.calls.tolist() == [sum(len(rows) for f, rows in stream.called if f == each) for each in range(3)]
    assert sum(route.rows for route in chosen.take_routes()) == ROWS
    assert chosen.take_tally().rows == 0
    assert chosen.take_routes() == ()
    assert np.isfinite(chosen.costs()).all()


@every_policy
def test_constraints_hold_for_every_row_and_unprofiled_filters_see_no_rejected_row(policy: str) -> None:
    order = Precedence(4, frozenset({(0, 3), (1, 3)}))
    stream = Stream(filters=4)
    stream.through(pipeline(policy, 4, order, unprofiled=frozenset({3})))
    done = np.zeros((ROWS, 4), dtype=np.bool_)
    for f, rows in stream.called:
        assert not done[rows, f].any()
        if f == 3:
            assert done[rows][:, :2].all()
            assert stream.passes[rows][:, :2].all()
        done[rows, f] = True


@every_policy
def test_the_same_seed_makes_the_same_calls(policy: str) -> None:
    first, second = Stream(), Stream()
    for stream in (first, second):
        stream.through(pipeline(policy, 3, clock=lambda stream=stream: stream.seconds))  # type: ignore[misc]
    assert [(f, rows.tolist()) for f, rows in first.called] == [(f, rows.tolist()) for f, rows in second.called]


@pytest.mark.parametrize("policy", ["content-learns", FABRIC])
def test_the_papers_routers_make_fewer_calls_than_any_single_order(policy: str) -> None:
    stream = Stream(filters=2)
    stream.through(pipeline(policy, 2, clock=lambda: stream.seconds))
    single = min(len(stream.passes) + int(stream.passes[:, f].sum()) for f in range(2))
    assert sum(len(rows) for _, rows in stream.called) < 0.9 * single
