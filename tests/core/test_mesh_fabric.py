"""The fabric returns what plain evaluation returns, whatever the routes; examples of sections 5.2 and 5.4."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InternalError
from anabranch.mesh.fabric import Fabric
from anabranch.mesh.lottery import Lottery
from anabranch.mesh.tokens import Token, chosen, read, token, uncertain_route, written
from anabranch.model.arrays import BoolMatrix, Mask, Rows
from anabranch.ordering import Precedence

EVERYTHING = np.arange(200)


class Recorded:
    """Filters whose answers are known, and the calls that were made of them."""

    def __init__(self, passes: BoolMatrix) -> None:
        self.passes = passes
        self.calls: list[tuple[int, int]] = []

    def __call__(self, f: int, rows: Rows) -> Mask:
        self.calls.append((f, len(rows)))
        return np.asarray(self.passes[rows, f])


def table(seed: int, rows: int = 200, filters: int = 4, passing: float = 0.7) -> BoolMatrix:
    return np.random.default_rng(seed).random((rows, filters)) < passing


def test_example_5_has_two_stacks() -> None:
    everything_passes = Recorded(np.ones((4, 3), dtype=np.bool_))
    apple_amazon_google, ford = (2, 1, 0), (0, 1, 2)
    fabric = Fabric(3, everything_passes, routes=[apple_amazon_google, ford])
    fabric.admit(np.arange(4), np.array([0, 0, 0, 1]))
    assert {written(r.token): r.rows.tolist() for r in fabric.waiting()} == {"<3, 2, 1>": [0, 1, 2], "<1, 2, 3>": [3]}
    fabric.step()
    assert {written(r.token) for r in fabric.waiting()} == {"<2, 1>", "<1, 2, 3>"}
    assert everything_passes.calls == [(2, 3)]
    assert fabric.drain().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("stack", "pick", "after"), [("<3|1, 4>", 3, "<1, 4>"), ("<3|1, 4>", 1, "<3, 4>"), ("<3|1|4>", 3, "<1|4>")]
)
def test_section_5_4_updates_the_ruster(stack: str, pick: int, after: str) -> None:
    assert chosen(read(stack), pick)[0] == pick
    assert chosen(read(stack), pick)[1:] == read(after)


def test_section_5_4_executes_the_uncertain_route() -> None:
    seconds = set()
    for seed in range(20):
        known = Recorded(table(seed, passing=0.9))
        fabric = Fabric(4, known, routes=[(1, {2, 0}, 3)], seed=seed)
        fabric.admit(EVERYTHING, np.zeros(200, dtype=np.int64))
        assert fabric.drain().tolist() == np.flatnonzero(known.passes.all(axis=1)).tolist()
        order = [f for f, _ in known.calls]
        assert order in ([1, 2, 0, 3], [1, 0, 2, 3])
        seconds.add(order[1])
    assert seconds == {0, 2}


def test_the_lottery_learns_what_drops_most() -> None:
    passes = np.column_stack([np.random.default_rng(0).random(200) < p for p in (0.95, 0.05)])
    known = Recorded(passes)
    fabric = Fabric(2, known, routes=[({0, 1},)], seed=1)
    for _ in range(60):
        fabric.admit(EVERYTHING, np.zeros(200, dtype=np.int64))
        fabric.drain()
    firsts = [f for f, rows in known.calls if rows == 200]
    assert firsts[-30:].count(1) > 20
    wheel = fabric.lottery.slices((0, 0), frozenset({1, 2}))
    assert wheel[2] > 0.8 > 0.2 > wheel[1]


def test_wheels_of_subsets_are_apart() -> None:
    lottery, alternatives = Lottery(seed=0), frozenset({1, 2})
    lottery.feedback("north", alternatives, 1, entered=100, passed=0)
    assert lottery.slices("north", alternatives)[1] > 0.6
    assert lottery.slices("south", alternatives) == {1: 0.5, 2: 0.5}
    assert lottery.slices("north", frozenset({1, 3})) == {1: 0.5, 3: 0.5}


def as_sets(order: Sequence[int], cuts: Sequence[bool]) -> list[int | set[int]]:
    """An order in which some neighbours are alternatives."""
    groups: list[set[int]] = [{order[0]}]
    for f, cut in zip(order[1:], cuts, strict=False):
        if cut:
            groups.append({f})
        else:
            groups[-1].add(f)
    return [next(iter(g)) if len(g) == 1 else g for g in groups]


orders = st.permutations(range(5))
uncertain = st.builds(as_sets, orders, st.lists(st.booleans(), min_size=4, max_size=4))


@given(st.lists(uncertain, min_size=1, max_size=6), st.integers(0, 999), st.floats(0.0, 1.0))
def test_any_routes_keep_the_rows_that_pass_everything(
    routes: list[list[int | set[int]]], seed: int, passing: float
) -> None:
    known = Recorded(table(seed, filters=5, passing=passing))
    fabric = Fabric(5, known, routes=routes, seed=seed)
    fabric.admit(EVERYTHING, np.random.default_rng(seed).integers(len(routes), size=200))
    assert fabric.drain().tolist() == np.flatnonzero(known.passes.all(axis=1)).tolist()
    assert fabric.calls == len(known.calls)
    assert all(rows > 0 for _, rows in known.calls)


@given(
    st.lists(st.lists(orders, min_size=1, max_size=3), min_size=2, max_size=5), st.integers(0, 999), st.integers(0, 4)
)
def test_nothing_is_lost_when_the_mesh_is_switched(meshes: list[list[list[int]]], seed: int, steps: int) -> None:
    rng, known = np.random.default_rng(seed), Recorded(table(seed, filters=5, passing=0.8))
    fabric = Fabric(5, known, routes=meshes[0])
    for batch, mesh in zip(np.array_split(EVERYTHING, len(meshes)), meshes, strict=True):
        fabric.switch(mesh)
        fabric.admit(batch, rng.integers(len(mesh), size=len(batch)))
        for _ in range(steps):
            fabric.step()
    assert fabric.drain().tolist() == np.flatnonzero(known.passes.all(axis=1)).tolist()


def test_rusters_of_two_meshes_live_at_once() -> None:
    fabric = Fabric(2, Recorded(np.ones((2, 2), dtype=np.bool_)), routes=[(0, 1)])
    fabric.admit(np.array([0]), np.array([0]))
    fabric.switch([(1, 0)])
    fabric.admit(np.array([1]), np.array([0]))
    assert [(written(r.token), r.subset) for r in fabric.waiting()] == [("<1, 2>", (0, 0)), ("<2, 1>", (1, 0))]
    assert fabric.drain().tolist() == [0, 1]


def test_many_routes_share_calls() -> None:
    known = Recorded(np.ones((200, 4), dtype=np.bool_))
    rotations = [tuple((start + i) % 4 for i in range(4)) for start in range(4)]
    fabric = Fabric(4, known, routes=[*rotations] * 5)
    fabric.admit(EVERYTHING, EVERYTHING % 20)
    fabric.drain()
    assert sum(rows for _, rows in known.calls) == 800
    assert len(known.calls) <= 16


def test_a_ruster_without_rows_is_discarded() -> None:
    known = Recorded(np.zeros((5, 3), dtype=np.bool_))
    fabric = Fabric(3, known, routes=[(2, 0, 1)])
    fabric.admit(np.arange(5), np.zeros(5, dtype=np.int64))
    assert fabric.drain().tolist() == []
    assert known.calls == [(2, 5)]
    fabric.admit(np.arange(0), np.zeros(0, dtype=np.int64))
    assert not fabric.step()


@pytest.mark.parametrize("wrong", [(0,), (0, 1, 1), (0, 1, 2), ({0, 1}, 0)])
def test_a_route_visits_every_operator_once(wrong: tuple[int, ...]) -> None:
    with pytest.raises(InternalError, match="does not visit every operator"):
        Fabric(2, Recorded(table(0)), routes=[wrong])


@pytest.mark.parametrize("stack", ["<2, 1|3, 4>", "<1>", "<>", "<1|2|3>"])
def test_tokens_are_written_and_read(stack: str) -> None:
    assert written(read(stack)) == stack


def test_uncertain_routes_respect_precedence() -> None:
    drops = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=np.bool_)
    free: Token = uncertain_route((0, 1, 2), drops, np.ones(3), Precedence.none(3), tolerance=0.1)
    assert written(free) == "<1|2, 3>"
    bound = Precedence(3, frozenset({(0, 1)}))
    assert written(uncertain_route((0, 1, 2), drops, np.ones(3), bound, tolerance=0.1)) == "<1, 2|3>"
    assert uncertain_route((2, 0, 1), drops, np.array([1.0, 9.0, 0.1]), Precedence.none(3), 0.01) == token((2, 0, 1))
