"""What every ordering policy promises, checked on each that is registered."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import fields
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from anabranch.config import OrderingConfig
from anabranch.errors import QueryError
from anabranch.model.arrays import BoolMatrix, Floats, Order
from anabranch.ordering import (
    POLICIES,
    Observation,
    Precedence,
    Reoptimizer,
    Seed,
    expected_cost,
    greedy_order,
    make,
    optimal_order,
)
from anabranch.ordering.decisions import NewOrder
from anabranch.routing.policies import make_order
from anabranch.routing.source_based_order import SourceBasedOrder
from anabranch.stats.matrix_view import MatrixView
from tiers import tiers

Run = Callable[..., list[Order]]
Observe = Callable[..., Observation]

CONFIG = OrderingConfig(profile_probability=1.0, window_tuples=200, minimum_profiles=20)
CONVERGING = ("agreedy", "sweep", "exhaustive", "auto")
every_policy = pytest.mark.parametrize("name", list(POLICIES))
every_order = pytest.mark.parametrize("name", [*POLICIES, SourceBasedOrder.name])


def stream(seed: int, filters: int, chunks: int = 12, rows: int = 60) -> list[BoolMatrix]:
    """Correlated filters whose drop rates change halfway."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(2):
        rates = rng.uniform(0.05, 0.8, filters)
        for _ in range(chunks // 2):
            common = rng.random((rows, 1))
            made.append(np.where(rng.random((rows, filters)) < 0.5, common, rng.random((rows, filters))) < rates)
    return made


def constraints(seed: int, filters: int) -> Precedence:
    rng = np.random.default_rng(seed)
    ranking = rng.permutation(filters).tolist()
    pairs = [(a, b) for i, a in enumerate(ranking) for b in ranking[i + 1 :]]
    return Precedence(filters, frozenset(pair for pair in pairs if rng.random() < 0.25))


def prices(seed: int, filters: int) -> Floats:
    return np.random.default_rng(seed).choice([0.1, 1.0, 10.0], filters)


@every_order
@pytest.mark.parametrize("seed", tiers(range(6), fast=3))
def test_orders_are_legal_permutations(run: Run, name: str, seed: int) -> None:
    filters = 2 + seed
    precedence = constraints(seed, filters)
    policy = make_order(name, filters, CONFIG, precedence)
    for order in run(policy, stream(seed, filters), prices(seed, filters)):
        assert sorted(order) == list(range(filters))
        assert precedence.allows(order)
        assert all(type(f) is int for f in order)
    assert policy.order == order
    for place in range(filters):
        assert set(policy.wanted(place)) <= set(order[place + 1 :])


@every_policy
@pytest.mark.parametrize("constrained", [False, True])
def test_a_new_order_says_why_with_the_filter_that_moved(observation: Observe, name: str, constrained: bool) -> None:
    names, costs = [f"<{f}>" for f in range(5)], prices(3, 5) * 1e-6
    precedence = Precedence(5, frozenset({(4, 0)})) if constrained else None
    policy, reasons = make(name, 5, config=CONFIG, precedence=precedence), list[str]()
    for drops in stream(3, 5):
        decided = policy.observe(observation(policy, drops, costs))
        reasons += [each.why.format(*names) for each in decided if isinstance(each, NewOrder)]
    by_cost = name == "exhaustive" or (constrained and name in ("agreedy", "auto"))
    pattern = (
        r"[\d.e-]+ us per profiled row instead of [\d.e-]+"
        if by_cost
        else r"at place \d <\d> drops \d+ profiled rows at [\d.]+ us each, <\d> \d+ at [\d.]+ us"
    )
    assert reasons or name == "fixed"
    assert all(re.fullmatch(pattern, each) for each in reasons), reasons


@every_order
def test_the_same_input_gives_the_same_orders(run: Run, name: str) -> None:
    policies = [make_order(name, 5, CONFIG, Precedence.none(5)) for _ in range(2)]
    first, second = (run(policy, stream(3, 5), prices(3, 5)) for policy in policies)
    assert first == second


@every_order
@pytest.mark.parametrize("constrained", [False, True])
def test_a_pickled_policy_continues_identically(run: Run, name: str, constrained: bool) -> None:
    chunks, precedence = stream(5, 5), constraints(5, 5) if constrained else Precedence.none(5)
    policy = make_order(name, 5, CONFIG, precedence)
    run(policy, chunks[:5])
    again: Reoptimizer = pickle.loads(pickle.dumps(policy))
    assert run(again, chunks[5:]) == run(policy, chunks[5:])
    np.testing.assert_array_equal(again.profiles(), policy.profiles())


@every_order
def test_inputs_are_left_alone(observation: Observe, name: str) -> None:
    seed = Seed((2, 1, 0), np.ones((4, 3), dtype=np.bool_), np.ones(3))
    seed.drops.flags.writeable = False
    policy = make_order(name, 3, CONFIG, Precedence.none(3), seed)
    for chunk in stream(1, 3):
        seen = observation(policy, chunk, np.array([1.0, np.nan, 0.0]))
        for each in fields(seen):
            value = getattr(seen, each.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        policy.observe(seen)


@every_order
def test_a_single_filter_leaves_nothing_to_order(run: Run, name: str) -> None:
    alone = make_order(name, 1, CONFIG, Precedence.none(1))
    assert set(run(alone, [np.ones((40, 1), dtype=np.bool_)] * 8)) == {(0,)}


@every_policy
def test_an_observation_without_profile_tuples_changes_nothing(run: Run, name: str) -> None:
    policy = make(name, 4, config=CONFIG)
    assert set(run(policy, [np.zeros((50, 4), dtype=np.bool_)] * 8)) == {(0, 1, 2, 3)}


@every_policy
def test_too_few_profile_tuples_change_nothing(run: Run, name: str) -> None:
    drops = np.repeat([[False, False, True]], CONFIG.minimum_profiles - 1, axis=0)
    assert run(make(name, 3, config=CONFIG), [drops]) == [(0, 1, 2)]


@every_order
def test_a_seed_gives_the_order_to_start_with(name: str) -> None:
    seed, bound = Seed((2, 0, 1), np.zeros((0, 3), dtype=np.bool_), np.ones(3)), Precedence(3, frozenset({(1, 2)}))
    assert make_order(name, 3, CONFIG, Precedence.none(3), seed).order == (2, 0, 1)
    assert make_order(name, 3, CONFIG, bound, seed).order == (0, 1, 2)


@pytest.mark.parametrize("name", ["agreedy", "independent", "exhaustive"])
def test_seeded_profile_tuples_decide_at_once_and_age_from_the_first_observation(name: str) -> None:
    drops = np.repeat([[False, False, True]], 300, axis=0)
    config = OrderingConfig(window_tuples=200, minimum_profiles=20, window_seconds=10.0)
    policy = make(name, 3, config=config, seed=Seed((0, 1, 2), drops, np.ones(3)))
    np.testing.assert_array_equal(policy.profiles(), drops[:200])
    none, nothing = np.zeros(3, dtype=np.int64), np.zeros((0, 3), dtype=np.bool_)
    policy.observe(Observation(nothing, none, none, np.ones(3), now=1e6))
    assert policy.order[0] == 2
    policy.observe(Observation(nothing, none, none, np.ones(3), now=1e6 + 10))
    assert len(policy.profiles()) == 0


@pytest.mark.parametrize("name", ["agreedy", "sweep", "independent", "localswaps", "exhaustive"])
def test_a_strong_filter_comes_forward_and_goes_back(run: Run, name: str) -> None:
    rng = np.random.default_rng(0)
    last_is_strong = [rng.random((100, 4)) < (0.1, 0.1, 0.1, 0.9) for _ in range(60)]
    first_is_strong = [rng.random((100, 4)) < (0.9, 0.1, 0.1, 0.1) for _ in range(60)]
    orders = run(make(name, 4, config=CONFIG), last_is_strong + first_is_strong)
    assert (orders[59][0], orders[-1][0]) == (3, 0)


def test_fixed_stays_and_asks_for_nothing(run: Run) -> None:
    policy = make("fixed", 4, config=CONFIG)
    assert set(run(policy, stream(1, 4))) == {(0, 1, 2, 3)}
    assert policy.profile_probability == 0.0
    assert [tuple(policy.wanted(place)) for place in range(4)] == [()] * 4


def small_case(seed: int) -> tuple[BoolMatrix, Floats]:
    """A population of 100 tuples, each dropped by some filter, in which the order as written is a bad one."""
    rng = np.random.default_rng(seed)
    filters = 2 + seed % 5
    rates = np.sort(rng.uniform(0.02, 0.9, filters))
    drops = np.where(rng.random((100, filters)) < 0.4, rng.random((100, 1)), rng.random((100, filters))) < rates
    drops[:, -1] |= ~drops.any(axis=1)
    return drops, np.sort(rng.choice([1.0, 3.0, 30.0, 100.0], filters))[::-1].copy()


def cheapest(drops: BoolMatrix, costs: Floats, precedence: Precedence) -> float:
    orders = permutations(range(len(costs)))
    return min(expected_cost(order, drops, costs) for order in orders if precedence.allows(order))


@pytest.mark.parametrize("name", CONVERGING)
@pytest.mark.parametrize("seed", tiers(range(15), fast=5))
def test_on_stable_data_the_cost_is_within_the_proven_factor(run: Run, name: str, seed: int) -> None:
    drops, costs = small_case(seed)
    order = run(make(name, len(costs), config=CONFIG), [drops] * 80, costs)[-1]
    alpha, optimum = CONFIG.thrash_avoidance, cheapest(drops, costs, Precedence.none(len(costs)))
    factor = 1 if name == "exhaustive" else 4
    assert expected_cost(order, drops, costs) <= factor / alpha * optimum * (1 + 1e-9)
    if name != "exhaustive":
        view = MatrixView(order)
        view.insert(drops)
        assert view.violation(costs, alpha) is None


def test_the_small_cases_need_reordering() -> None:
    beyond = 0
    for seed in range(15):
        drops, costs = small_case(seed)
        optimum = cheapest(drops, costs, Precedence.none(len(costs)))
        beyond += expected_cost(range(len(costs)), drops, costs) > 4 / CONFIG.thrash_avoidance * optimum
    assert beyond >= 5


@st.composite
def samples(draw: st.DrawFn) -> tuple[BoolMatrix, Floats, Precedence]:
    filters = draw(st.integers(1, 5))
    rows = draw(hnp.arrays(np.bool_, (draw(st.integers(0, 15)), filters)))
    costs = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 7.0]), min_size=filters, max_size=filters)))
    return rows, costs, constraints(draw(st.integers(0, 99)), filters)


@given(samples())
def test_the_optimal_order_is_the_best_of_all_permutations(case: tuple[BoolMatrix, Floats, Precedence]) -> None:
    rows, costs, precedence = case
    order = optimal_order(rows, costs, precedence)
    assert precedence.allows(order)
    assert sorted(order) == list(range(len(costs)))
    assert expected_cost(order, rows, costs) == pytest.approx(cheapest(rows, costs, precedence))


@given(samples())
def test_the_cost_of_an_order_is_what_each_tuple_pays_until_it_is_dropped(
    case: tuple[BoolMatrix, Floats, Precedence],
) -> None:
    rows, costs, precedence = case
    order = precedence.legal(range(len(costs)))
    paid = 0.0
    for row in [*rows, *np.zeros((3, len(costs)), dtype=np.bool_)]:
        for f in order:
            paid += costs[f]
            if row[f]:
                break
    assert expected_cost(order, rows, costs, passed=3) == pytest.approx(paid / (len(rows) + 3))


@given(samples())
def test_the_greedy_order_is_greedy_and_legal(case: tuple[BoolMatrix, Floats, Precedence]) -> None:
    rows, costs, precedence = case
    assert precedence.allows(greedy_order(rows, costs, precedence))
    view = MatrixView(greedy_order(rows, costs, Precedence.none(len(costs))))
    view.insert(rows)
    assert view.violation(costs, 1.0) is None


def test_a_weak_filter_comes_first_for_the_strong_one_that_needs_it(run: Run) -> None:
    rng = np.random.default_rng(2)
    drops = [rng.random((60, 3)) < (0.0, 0.4, 0.95) for _ in range(5)]
    costs, needs = np.array([0.01, 1.0, 0.1]), Precedence(3, frozenset({(0, 2)}))
    seed = Seed((1, 0, 2), np.zeros((0, 3), dtype=np.bool_), costs)
    for name in ("agreedy", "exhaustive"):
        assert run(make(name, 3, config=CONFIG, precedence=needs, seed=seed), drops, costs)[-1] == (0, 2, 1)


def test_a_gain_below_the_thrash_avoidance_changes_nothing(run: Run) -> None:
    drops = np.zeros((100, 2), dtype=np.bool_)
    drops[:48, 0] = drops[48:, 1] = True
    for name in ("agreedy", "sweep", "independent", "localswaps", "exhaustive"):
        assert set(run(make(name, 2, config=CONFIG), [drops] * 12)) == {(0, 1)}


def test_independent_ignores_violations_that_constraints_force(run: Run) -> None:
    drops = np.arange(100)[:, np.newaxis] < (50, 52, 90)
    forced = Precedence(3, frozenset({(0, 2)}))
    assert set(run(make("independent", 3, config=CONFIG, precedence=forced), [drops] * 5)) == {(0, 1, 2)}
    assert run(make("independent", 3, config=CONFIG), [drops])[-1] == (2, 1, 0)


def test_agreedy_corrects_every_place_that_a_batch_upsets(run: Run) -> None:
    drops = np.repeat(np.eye(4, dtype=np.bool_), (20, 30, 5, 10), axis=0)
    assert run(make("agreedy", 4, config=CONFIG), [drops]) == [(1, 0, 3, 2)]


def test_an_unknown_policy_is_named_with_a_suggestion() -> None:
    with pytest.raises(QueryError, match=r"unknown policy 'swep'\n  hint: did you mean 'sweep'\?"):
        make("swep", 3)


def test_the_exhaustive_search_has_a_limit() -> None:
    assert optimal_order(np.eye(16, dtype=np.bool_), np.arange(16.0, 0.0, -1.0), Precedence.none(16))[0] == 15
    with pytest.raises(QueryError, match=r"at most 16 filters, not 17\n  hint: use the policy 'agreedy'"):
        make("exhaustive", 17)
    with pytest.raises(QueryError, match="at most 16 filters"):
        optimal_order(np.eye(17, dtype=np.bool_), np.ones(17), Precedence.none(17))


def test_a_short_window_needs_no_more_profiles_than_it_holds() -> None:
    assert OrderingConfig(window_tuples=20).minimum_profiles == 20
    with pytest.raises(QueryError, match="minimum_profiles must be between 1 and 20, not 40"):
        OrderingConfig(window_tuples=20, minimum_profiles=40)
