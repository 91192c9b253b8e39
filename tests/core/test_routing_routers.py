"""What every router promises, and what Content-Learns finds out, keeps, gives up and leaves alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from anabranch.model.arrays import BoolMatrix
from anabranch.routing import (
    ContentKnows,
    ContentLearns,
    Eddy,
    LearningConfig,
    Profiled,
    Router,
    SourceBased,
    TrialEnded,
)
from anabranch.routing.eddy import grouped, trace
from anabranch.routing.partitioning import Column
from anabranch.routing.sbr import Seen, fold

BEST = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
SELECTIVITIES = np.array([[0.05, 0.9, 0.9], [0.9, 0.05, 0.9], [0.9, 0.9, 0.05]])

ROUTERS: dict[str, Callable[[], Router]] = {
    "sbr": lambda: SourceBased(3, seed=5),
    "sbr, costs": lambda: SourceBased(3, seed=5, costs=np.array([1.0, 2.0, 3.0])),
    "learns": lambda: ContentLearns(["discrete", "discrete", "continuous"], 3, seed=5),
    "learns, costs": lambda: ContentLearns(
        ["discrete", "discrete", "continuous"], 3, seed=5, costs=np.array([1.0, 2.0, 3.0])
    ),
    "knows": lambda: ContentKnows(BEST),
}


def data(tuples: int = 20_000, seed: int = 1) -> tuple[BoolMatrix, list[Column]]:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, tuples)
    return rng.random((tuples, 3)) < SELECTIVITIES[classes], [classes, np.arange(tuples), rng.random(tuples)]


@pytest.mark.parametrize("make", ROUTERS.values(), ids=list(ROUTERS))
def test_every_router_leaves_the_same_survivors_and_orders_are_permutations(make: Callable[[], Router]) -> None:
    passes, columns = data(3_000)
    assert (Eddy(make()).run(passes, columns).remaining == passes.all(axis=1)).all()
    orders = make().orders([column[:40] for column in columns], 40)
    assert orders.shape == (40, 3)
    assert (np.sort(orders, axis=1) == np.arange(3)).all()


@pytest.mark.parametrize("make", ROUTERS.values(), ids=list(ROUTERS))
def test_the_same_seed_gives_the_same_counts_and_routers_pickle_midway(make: Callable[[], Router]) -> None:
    passes, columns = data(6_000)
    first, second = make(), make()
    tallies = [Eddy(router).run(passes[:3000], [c[:3000] for c in columns]) for router in (first, second)]
    assert tallies[0].evaluations.tolist() == tallies[1].evaluations.tolist()
    copied: Router = pickle.loads(pickle.dumps(first))
    rest = [Eddy(r).run(passes[3000:], [c[3000:] for c in columns]).calls for r in (copied, second)]
    assert rest[0] == rest[1]


@pytest.mark.parametrize("make", ROUTERS.values(), ids=list(ROUTERS))
def test_empty_batches_and_single_rows_are_fine(make: Callable[[], Router]) -> None:
    passes, columns = data(1)
    router = make()
    assert router.orders([column[:0] for column in columns], 0).shape == (0, 3)
    router.observe(Seen.of(np.zeros((0, 3))))
    assert Eddy(router).run(passes, columns).tuples == 1


def test_folding_a_batch_equals_the_formula_tuple_by_tuple() -> None:
    rng = np.random.default_rng(2)
    groups, values = rng.integers(0, 4, 200), rng.integers(0, 3, 200).astype(float)
    times = rng.integers(1, 4, 200).astype(float)
    slow = np.array([0.2, 0.4, 0.6, 0.8, 0.5])
    start = slow.copy()
    for group, value, often in zip(groups, values, times, strict=True):
        for _ in range(int(often)):
            slow[group] = slow[group] * 0.95 + value * 0.05
    assert fold(start, groups, values, times=times) == pytest.approx(slow)
    assert fold(start, groups[:0], values[:0]) == pytest.approx(start)


def test_sbr_draws_operators_inversely_to_their_selectivity() -> None:
    router = SourceBased(3, seed=3)
    router.overall = np.array([0.1, 0.2, 0.4])
    firsts = np.array([router.orders([], 1)[0, 0] for _ in range(20_000)])
    assert np.bincount(firsts) / len(firsts) == pytest.approx([4 / 7, 2 / 7, 1 / 7], abs=0.015)


def test_sbr_with_costs_draws_by_tuples_dropped_per_unit() -> None:
    router = SourceBased(2, seed=3, costs=np.array([1.0, 3.0]))
    router.overall = np.array([0.5, 0.5])
    firsts = np.array([router.orders([], 1)[0, 0] for _ in range(20_000)])
    assert (firsts == 0).mean() == pytest.approx(0.75, abs=0.015)


def test_the_tally_counts_what_a_loop_over_tuples_counts() -> None:
    rng = np.random.default_rng(4)
    fan_outs, costs = rng.integers(0, 4, (60, 3)), np.array([1.0, 2.0, 5.0])
    orders = np.array([rng.permutation(3) for _ in range(60)])
    entering, left = trace(fan_outs, orders)
    for row in range(60):
        alive = 1
        for operator in orders[row]:
            assert entering[row, operator] == alive
            alive *= fan_outs[row, operator]
        assert left[row] == alive
    classes = np.zeros(60, dtype=np.int64)
    tally = Eddy(ContentKnows([[2, 0, 1]]), costs=costs).run(fan_outs, [classes])
    fixed, left = trace(fan_outs, np.tile([2, 0, 1], (60, 1)))
    assert tally.evaluations.tolist() == fixed.sum(axis=0).tolist()
    assert tally.units == pytest.approx(float((fixed @ costs).sum()))
    assert (tally.dropped, tally.calls_until_dropped) == ((left == 0).sum(), fixed[left == 0].sum())


def test_rows_with_equal_orders_go_together() -> None:
    orders = np.array([[1, 0], [0, 1], [1, 0], [0, 1]])
    assert {order: rows.tolist() for order, rows in grouped(orders)} == {(0, 1): [1, 3], (1, 0): [0, 2]}


def test_content_learns_comes_close_to_content_knows_and_names_the_class() -> None:
    passes, columns = data(30_000)
    learner = ContentLearns(["discrete", "discrete", "continuous"], 3, seed=1)
    Eddy(learner).run(passes, columns)
    assert 0 in learner.classifiers
    assert set(learner.classifiers) <= {0, -1}
    later = data(20_000, seed=2)
    calls = {
        name: Eddy(router).run(*later).calls
        for name, router in (("learns", learner), ("knows", ContentKnows(BEST)), ("sbr", SourceBased(3)))
    }
    assert calls["knows"] <= calls["learns"] <= 1.2 * calls["knows"]
    assert calls["learns"] < 0.8 * calls["sbr"]


def test_a_classifier_is_dropped_when_tuples_are_not_processed_faster() -> None:
    reported: list[Profiled | TrialEnded] = []
    learner = ContentLearns(["discrete"], 2, seed=1, config=LearningConfig(prune=False), tell=reported.append)
    rng = np.random.default_rng(5)
    for _ in range(300):
        kinds = rng.integers(0, 2, 50)
        orders = learner.orders([kinds], 50)
        entering, _ = trace(
            (rng.random((50, 2)) < np.stack([0.1 + 0.8 * kinds, 0.9 - 0.8 * kinds], 1)).astype(int), orders
        )
        rows, operators = np.nonzero(entering)
        produced = rng.random(len(rows)) < np.where(operators == 0, 0.1 + 0.8 * kinds[rows], 0.9 - 0.8 * kinds[rows])
        spent = np.full(50, 2.0 if learner.on_trial else 1.0)
        learner.observe(Seen(rows, operators, produced.astype(float), spent))
    verdicts = [each for each in reported if isinstance(each, TrialEnded)]
    assert verdicts
    assert not any(each.kept for each in verdicts)
    assert all(each.rate_with < each.rate_without for each in verdicts)
    assert learner.on_trial or (learner.classifiers == -1).all()


def test_profiling_goes_round_and_takes_the_profiled_operator_first() -> None:
    reported: list[Profiled | TrialEnded] = []
    config = LearningConfig(profile_probability=0.5, sample_tuples=40)
    learner = ContentLearns(["discrete", "discrete", "continuous"], 3, seed=1, config=config, tell=reported.append)
    passes, columns = data(6_000)
    orders = learner.orders([column[:200] for column in columns], 200)
    assert (orders[:, 0] == learner.profiled).sum() > 60
    Eddy(learner).run(passes, columns)
    assert [each.operator for each in reported if isinstance(each, Profiled)][:6] == [0, 1, 2, 0, 1, 2]


def test_operators_with_a_fixed_place_and_single_ones_are_not_profiled() -> None:
    single = ContentLearns(["discrete"], 1)
    assert single.profiled == -1
    reported: list[Profiled | TrialEnded] = []
    learner = ContentLearns(["discrete"], 3, costs=np.array([1.0, 1.0, 500.0]), tell=reported.append, seed=2)
    passes, columns = data(20_000)
    Eddy(learner).run(passes, columns[:1])
    assert {each.operator for each in reported} == {0, 1}


def test_constants_sequences_and_keys_are_never_classifiers() -> None:
    rng = np.random.default_rng(6)
    passes = rng.random((20_000, 2)) < 0.5
    reported: list[Profiled | TrialEnded] = []
    columns = [np.full(20_000, 3), np.arange(20_000), rng.integers(0, 10**6, 20_000)]
    learner = ContentLearns(["discrete"] * 3, 2, tell=reported.append)
    Eddy(learner).run(passes, columns)
    assert reported
    assert all(np.isnan(each.ratios).all() for each in reported if isinstance(each, Profiled))


def test_joins_with_fan_outs_are_routed_by_content() -> None:
    rng = np.random.default_rng(7)
    zones = rng.integers(0, 2, 30_000)
    fan_outs = rng.poisson(np.array([[0.1, 2.5], [2.5, 0.1]])[zones])
    router = ContentLearns(["discrete"], 2, seed=1)
    learned = Eddy(router).run(fan_outs, [zones])
    plain = Eddy(SourceBased(2, seed=1)).run(fan_outs, [zones])
    assert (learned.remaining == plain.remaining).all()
    assert (learned.remaining == fan_outs.prod(axis=1)).all()
    assert learned.calls < 0.85 * plain.calls


def test_content_learns_adapts_like_sbr_when_the_correlation_vanishes() -> None:
    """Example 5.1: if the classifier tells nothing any more, S converges to W, as fast as W follows."""
    passes, columns = data(30_000)
    config = LearningConfig(profile_probability=0.06)
    learner, plain = ContentLearns(["discrete", "discrete", "continuous"], 3, seed=1, config=config), SourceBased(3)
    for router in (learner, plain):
        Eddy(router).run(passes, columns)
    while (learner.classifiers >= 0).sum() < 2 or learner.on_trial:
        Eddy(learner).run(*data(50, seed=learner.tuples))
    rng = np.random.default_rng(8)
    changed = rng.random((2_000, 3)) < np.array([0.9, 0.1, 0.9])
    classes = [rng.integers(0, 3, 2_000), np.arange(2_000), rng.random(2_000)]
    learned, drawn = Eddy(learner).run(changed, classes), Eddy(plain).run(changed, classes)
    assert learned.calls <= 1.02 * drawn.calls
    tagged = learner.classifiers >= 0
    assert np.abs(learner.detailed[tagged, :3] - learner.overall[tagged, np.newaxis]).max() < 0.35


def test_nulls_many_values_and_nan_do_not_disturb() -> None:
    rng = np.random.default_rng(9)
    texts = rng.choice(np.array(["north", "south", None], dtype=object), 10_000)
    readings = np.where(rng.random(10_000) < 0.2, np.nan, rng.normal(size=10_000))
    passes = np.stack([texts == "north", np.isnan(readings), rng.random(10_000) < 0.5], axis=1)
    learner = ContentLearns(["discrete", "continuous"], 3, seed=1)
    tally = Eddy(learner).run(passes, [texts, readings])
    assert (tally.remaining == passes.all(axis=1)).all()


def test_without_attributes_content_learns_routes_by_the_overall_selectivity() -> None:
    passes, _ = data(5_000)
    learner = ContentLearns([], 3)
    assert (Eddy(learner).run(passes, []).remaining == passes.all(axis=1)).all()
    assert (learner.classifiers == -1).all()
