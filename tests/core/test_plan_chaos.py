"""Plan chaos for filters: a random legal order and random routes at every chunk, through the real pipelines.

Whatever the plan, the rows are those of the definition, and so are the rows that cannot be decided. Queries have the
same switch in `cql/local_network.py`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.nodes import Among, Branch, Leaf, Node
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix, Rows
from anabranch.ordering import Precedence
from anabranch.ordering.pipeline import Verdict
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.routed import RoutedPipeline
from chaos import ChaosOrder, legal_order
from seeds import drawn

ZONES = ("north", "south", "east", "west")


def random_plan(rng: random.Random, precedence: Precedence) -> RoutePlan | None:
    """No routes, or some of random classes, each with a legal order."""
    routes = rng.choice((0, 2, 3, 4))
    if not routes:
        return None
    tree: Node = Leaf(0)
    for route in range(1, routes):
        tree = Branch(Among("zone", tuple(sorted(rng.sample(ZONES, rng.randrange(1, 4))))), Leaf(route), tree)
    orders = tuple(legal_order(rng, precedence) for _ in range(routes))
    return RoutePlan(TreeRoutes(DecisionTree(tree)), orders, "mesh")


@dataclass
class Filters:
    """Filters with constraints over random rows, some of which they fail on."""

    rng: random.Random

    def __post_init__(self) -> None:
        rng = self.rng
        numbers = np.random.default_rng(rng.randrange(2**32))
        self.rows = rng.choice((0, 1, 300, 1500))
        self.count = rng.randrange(1, 7)
        self.zones = numbers.integers(0, len(ZONES), self.rows)
        rates = numbers.uniform(0.05, 1.0, (len(ZONES), self.count))
        self.passes: BoolMatrix = numbers.random((self.rows, self.count)) < rates[self.zones]
        self.fails: BoolMatrix = numbers.random((self.rows, self.count)) < rng.choice((0.0, 0.0, 0.05))
        pairs = [(a, b) for a in range(self.count) for b in range(a + 1, self.count)]
        self.precedence = Precedence(self.count, frozenset(pair for pair in pairs if rng.random() < 0.2))
        last = [f for f in range(self.count) if not any(before == f for before, _ in self.precedence.edges)]
        self.unprofiled = frozenset(f for f in last if rng.random() < 0.3)
        self.decisions = 0
        self.seconds = 0.0
        self.called = np.zeros((self.rows, self.count), dtype=np.bool_)

    def judge(self, start: int, f: int, rows: Rows) -> Verdict:
        """A filter's answer; it has not been asked about these rows, and those that come before it have."""
        where = start + rows
        self.seconds += 0.01  # so that there is always time to decide
        assert not self.called[where, f].any()
        for before in self.precedence.ancestors[f]:
            assert self.called[where, before].all()
        if f in self.unprofiled:
            for before in np.flatnonzero(self.called[where].any(axis=0)).tolist():
                asked = where[self.called[where, before]]
                assert (self.passes | self.fails)[asked, before].all()
        self.called[where, f] = True
        failed = np.flatnonzero(self.fails[where, f]).tolist()
        return Verdict(self.passes[where, f], {place: str(f) for place in failed})


def survived(filters: Filters, pipeline: RoutedPipeline) -> tuple[list[int], dict[int, int]]:
    """The rows that pass, and those that cannot be decided with the filter that fails, by a plan per chunk."""
    rng, passed, undecided, at = filters.rng, list[int](), dict[int, int](), 0
    while at < filters.rows:
        if rng.random() < 0.5:
            pipeline.switch(random_plan(rng, filters.precedence), pipeline.version + 1, "chaos")
        size = min(rng.choice((1, 30, 64, 200)), filters.rows - at)
        zones = pa.array(np.array(ZONES)[filters.zones[at : at + size]])
        outcome = pipeline.process(size, partial(filters.judge, at), {"zone": zones})
        passed += [int(at + row) for row in outcome.survivors]
        undecided |= {at + failure.row: failure.filter for failure in outcome.failures}
        filters.decisions += len(outcome.decisions)
        at += size
    return sorted(passed), undecided


@pytest.mark.parametrize("learning", [False, True])
def test_rows_are_those_of_the_definition_whatever_order_and_route_every_chunk_takes(learning: bool) -> None:
    decisions = 0
    for number in drawn(30):
        filters = Filters(random.Random(number))
        make = partial(ChaosOrder, filters.count, filters.rng, filters.precedence)
        pipeline = RoutedPipeline(
            make,
            learning=learning,
            unprofiled=filters.unprofiled,
            seed=number,
            clock=partial(getattr, filters, "seconds"),
        )
        found = survived(filters, pipeline)
        accepted = (filters.passes | filters.fails).all(axis=1)
        failing = accepted & filters.fails.any(axis=1)
        expected = {int(row): int(filters.fails[row].argmax()) for row in np.flatnonzero(failing)}
        assert found == (np.flatnonzero(accepted & ~failing).tolist(), expected), f"seed {number}"
        decisions += filters.decisions
    assert decisions > 100, "orders change"
