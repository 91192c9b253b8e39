"""Probe orders of joins: the thesis's examples with their numbers, and orders that follow the data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.joins import window_store
from anabranch.joins.graph import tree_of
from anabranch.joins.plan_costs import plan_costs
from anabranch.joins.window_store import WindowStore
from anabranch.operators.base import FOREVER, Tick
from anabranch.operators.join import KeyClass, MultiJoin
from anabranch.ordering import greedy_order


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        pytest.importorskip("numba")
    monkeypatch.setattr(window_store, "compiles", lambda: request.param)


def no_time() -> float:
    """All probes cost the same, however busy the machine is."""
    return 0.0


def rows(start: int = 0, end: int = FOREVER, **columns: list[int]) -> pa.Table:
    size = len(next(iter(columns.values())))
    ends = {"_start": [start] * size, "_end": [end] * size, "_weight": [1] * size}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in (columns | ends).items()})


CHAIN: tuple[KeyClass, ...] = (((0, "a1"), (1, "a2")), ((1, "b2"), (2, "b3")))


def test_example_5_1_1() -> None:
    join = MultiJoin(3, CHAIN)
    windows = [rows(a1=[]), rows(a2=[1, 1, 2], b2=[2, 3, 3]), rows(b3=[2])]
    assert not len(join.advance(windows, Tick(0, 1)))
    found = join.advance([rows(a1=[1]), rows(a2=[], b2=[]), rows(b3=[])], Tick(1, 2))
    assert [tuple(row.values())[:4] for row in found.to_pylist()] == [(1, 1, 2, 2)]
    assert join.held_rows == 5
    (first, _, _) = join.take_probes()
    assert first.order == (1, 2)
    assert {each: counts.found for each, counts in first.windows.items()} == {1: 2, 2: 1}


def test_a_row_of_the_middle_meets_old_rows_of_both_ends() -> None:
    join = MultiJoin(3, CHAIN)
    join.advance([rows(a1=[1, 1]), rows(a2=[], b2=[]), rows(b3=[2, 2, 3])], Tick(0, 1))
    found = join.advance([rows(a1=[]), rows(a2=[1, 1], b2=[2, 3]), rows(b3=[])], Tick(1, 2))
    assert sorted(row["b3"] for row in found.to_pylist()) == [2, 2, 2, 2, 3, 3]


def test_logical_filters_of_a_tree_are_legal_in_the_order_of_their_paths() -> None:
    """Figure 5.3(a), from R1."""
    tree = tree_of(0, 6, ({0, 1}, {0, 2}, {2, 3}, {2, 4}, {4, 5}))
    filters = [tuple(each + 1 for each in tree.path(other)) for other in tree.others]
    assert filters == [(2,), (3,), (3, 4), (3, 5), (3, 5, 6)]
    chosen = tree.precedence.legal([2, 1, 0, 3, 4])  # F3, F2, F1, F4, F5
    assert [tree.others[f] + 1 for f in chosen] == [3, 4, 2, 5, 6]
    legal, illegal = [2, 3, 4, 5, 6], [2, 4, 3, 5, 6]
    assert tree.precedence.allows([tree.others.index(each - 1) for each in legal])
    assert not tree.precedence.allows([tree.others.index(each - 1) for each in illegal])
    drops = np.zeros((10, 5), np.bool_)
    drops[:8, 2] = True  # R3 |x| R4 drops most: R3 has to come before it
    order = greedy_order(drops, np.ones(5), tree.precedence)
    assert [tree.others[f] + 1 for f in order[:2]] == [3, 4]


def star(selective: int, inputs: int) -> list[dict[str, list[int]]]:
    """Inputs of which one has few of the keys."""
    rng = np.random.default_rng(7)
    keys = [20 if each == selective else 1000 for each in range(inputs)]
    return [{f"k{each}": (rng.integers(0, most, 1500)).tolist()} for each, most in enumerate(keys)]


def probed(join: MultiJoin) -> int:
    """Probes of rows of the first input."""
    return sum(counts.calls for counts in join.take_probes()[0].windows.values())


def advanced(join: MultiJoin, selective: int, ticks: int, first: int) -> int:
    for number in range(first, first + ticks):
        tables = [rows(number, number + 2, **each) for each in star(selective, join.inputs)]
        join.advance(tables, Tick(number, number + 1))
    return probed(join)


STAR: tuple[KeyClass, ...] = (tuple((each, f"k{each}") for each in range(5)),)


def test_the_selective_window_is_probed_first_wherever_it_is_written() -> None:
    adaptive, fixed = MultiJoin(5, STAR, clock=no_time), MultiJoin(5, STAR, policy="fixed", clock=no_time)
    advanced(adaptive, selective=4, ticks=3, first=0)
    ours, written = (advanced(join, selective=4, ticks=3, first=3) for join in (adaptive, fixed))
    assert adaptive.pipelines[0].order[0] == 4
    assert fixed.pipelines[0].order == (1, 2, 3, 4)
    assert 2 * ours < written


def test_an_order_follows_selectivities_that_flip() -> None:
    join = MultiJoin(5, STAR, clock=no_time)
    advanced(join, selective=4, ticks=3, first=0)
    advanced(join, selective=1, ticks=6, first=3)
    assert join.pipelines[0].order[0] == 1


def test_what_was_learned_serves_another_worker() -> None:
    learned = MultiJoin(5, STAR, clock=no_time)
    advanced(learned, selective=4, ticks=3, first=0)
    other = MultiJoin(5, STAR, clock=no_time)
    nothing: list[dict[str, list[int]]] = [{f"k{each}": []} for each in range(5)]
    other.absorb([rows(0, 1, **each) for each in nothing], Tick(0, 3))
    other.learn({each.input: each.seed for each in learned.take_probes() if each.seed})
    assert other.pipelines[0].order[0] == learned.pipelines[0].order[0] != 1


def test_hot_keys_that_are_not_there_at_one_time_are_not_compared_pair_by_pair() -> None:
    """Versions of one row, one after the other: the pairs that meet are as many as the versions."""
    join, size = MultiJoin(2, (((0, "n"), (1, "m")),)), 20_000
    times = np.arange(size)
    ends = {"_start": times, "_end": times + 1, "_weight": np.ones(size, np.int64)}
    tables = [pa.table({name: np.zeros(size, np.int64), **ends}) for name in ("n", "m")]
    assert len(join.advance(tables, Tick(0, size))) == size


def test_rows_at_the_front_go_in_one_go_and_the_others_keep_their_names() -> None:
    store = WindowStore(columns=((0,),), indexed=((0,),))
    for tick in range(40):
        start = np.full(100, tick)
        store.append(start, start + 3, np.ones(100, np.int64), {(0,): np.arange(100)})
        gone = store.expired(tick)
        if gone is not None:
            assert isinstance(gone, int)
            store.drop(gone)
        newest = store.first_match((0,), np.array([7]), np.array([tick]), np.array([tick + 1]))
        assert store.first + newest[0] == 100 * tick + 7
    assert store.epoch == 0
    assert len(store) < 1000


def test_a_hint_pins_the_order_of_all_inputs_as_far_as_paths_allow() -> None:
    star, line = MultiJoin(5, STAR, leading=(3, 0)), MultiJoin(3, CHAIN, leading=(2, 1))
    star.advance([rows(0, FOREVER, **{f"k{each}": [1]}) for each in range(5)], Tick(0, 1))
    line.advance([rows(a1=[1]), rows(a2=[1], b2=[1]), rows(b3=[1])], Tick(0, 1))
    assert [each.order for each in star.pipelines][1:] == [(3, 0, 2, 4), (3, 0, 1, 4), (0, 1, 2, 4), (3, 0, 1, 2)]
    assert star.pipelines[0].order == (3, 1, 2, 4)
    assert [each.order for each in line.pipelines] == [(1, 2), (2, 0), (1, 0)]


def test_what_other_orders_would_cost_is_told_from_profiles() -> None:
    join = MultiJoin(5, STAR, clock=no_time)
    for tick in range(3):
        join.advance([rows(tick, tick + 2, **each) for each in star(4, 5)], Tick(tick, tick + 1))
    found = plan_costs(join.take_probes()[0])
    assert found is not None
    assert found.best_order[0] == 4
    assert found.best <= found.now <= found.written
    assert found.best < found.written
