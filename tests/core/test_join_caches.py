"""Caches of joins: the thesis's examples with their numbers, and choices against the best of all."""

from __future__ import annotations

import random

import pytest

from anabranch.joins.cache_candidates import (
    Candidate,
    candidates,
    global_candidates,
    keeps_itself_right,
    prefix_candidates,
)
from anabranch.joins.cache_cost import CachePrice, Estimate, PipelineWork, benefit, estimate, processing, upkeep
from anabranch.joins.cache_selection import (
    any_shared,
    best_of_all,
    best_of_forest,
    gain_of,
    greedy_cover,
    select,
    trees,
)
from anabranch.joins.cache_states import CacheConfig, CacheStates
from anabranch.model.arrays import Order


def numbered(*orders: str) -> list[Order]:
    """Orders with R1 as 0."""
    return [tuple(int(each) - 1 for each in order) for order in orders]


SIX = numbered("23456", "13546", "21456", "51236", "42316", "21453")


def named(candidate: Candidate) -> str:
    return "".join(str(each + 1) for each in sorted(candidate.windows))


def by_pipeline(found: list[Candidate]) -> dict[int, list[str]]:
    return {number + 1: sorted(named(each) for each in found if each.pipeline == number) for number in range(6)}


def test_example_5_4_3() -> None:
    orders = numbered("23", "31", "21")
    assert keeps_itself_right({1, 2}, orders)
    assert not keeps_itself_right({0, 1}, orders)
    assert [(each.pipeline, each.windows) for each in prefix_candidates(orders)] == [(0, (1, 2))]


def test_example_5_5_1() -> None:
    found = prefix_candidates(SIX)
    assert {named(each) for each in found} == {"12", "45", "123", "12345"}
    assert by_pipeline(found) == {
        1: ["45"],
        2: ["45"],
        3: ["12", "45"],
        4: ["12", "123"],
        5: ["123"],
        6: ["12", "12345", "45"],
    }
    assert len(found) == 10
    parents = {(each.pipeline + 1, named(each)): parent and named(parent) for each, parent in trees(found).items()}
    assert parents[4, "12"] == "123"
    assert parents[6, "12"] == parents[6, "45"] == "12345"
    assert parents[4, "123"] is parents[6, "12345"] is None


def test_example_5_5_2() -> None:
    users: dict[str, list[int]] = {}
    for each in prefix_candidates(SIX):
        users.setdefault(named(each), []).append(each.pipeline + 1)
    assert users["12"] == [3, 4, 6]
    assert users["123"] == [4, 5]
    assert users["45"] == [1, 2, 3, 6]
    assert any_shared(prefix_candidates(SIX))


def test_example_5_7_1() -> None:
    orders = [*SIX[:5], *numbered("23451")]
    assert not keeps_itself_right({1, 2}, orders)
    assert keeps_itself_right({0, 1, 2}, orders)
    (found,) = (each for each in global_candidates(orders) if each.pipeline == 5 and each.windows == (1, 2))
    assert found.support == {0}


def test_candidates_that_need_support_fill_up_to_the_limit() -> None:
    orders = numbered("234", "341", "412", "123")
    assert prefix_candidates(orders) == []
    found = candidates(orders, most=6)
    assert [len(each.windows) for each in found] == [3, 3, 3, 3, 2, 2]
    assert candidates(SIX, most=6) == prefix_candidates(SIX)


def test_the_cost_model() -> None:
    cache, price = Candidate(0, 1, (2, 3)), CachePrice(probe=1.0, update=2.0, miss=0.25)
    works = {
        0: PipelineWork((100, 40, 80, 20), (1, 3, 2)),
        2: PipelineWork((10, 5, 4, 1), (1, 1, 1)),
        3: PipelineWork((30, 6, 4, 1), (1, 1, 1)),
    }
    assert works[0].segment(cache) == 40 * 3 + 80 * 2
    assert processing(cache, works[0], price) == 40 + 0.25 * (280 + 20 * 2)
    assert benefit(cache, works[0], price) == 280 - 120
    assert upkeep(cache, works, price) == 2 * (5 + 6)
    assert estimate(cache, works, price).gain == 160 - 22
    end = Candidate(0, 0, (1, 2, 3))
    assert works[0].after(end) == 20  # what comes out of the last operator


def random_estimates(rng: random.Random, shared: bool) -> dict[Candidate, Estimate]:
    inputs = rng.randint(3, 6)
    while True:
        orders = [tuple(rng.sample([o for o in range(inputs) if o != i], inputs - 1)) for i in range(inputs)]
        if rng.random() < 0.7:
            orders = [
                tuple(sorted(order, key=lambda each: (each // 2 != i // 2, each))) for i, order in enumerate(orders)
            ]
        found = [each for each in prefix_candidates(orders) if shared or each.pipeline == inputs - 1]
        if 0 < len(found) <= 9:
            break
    costs = {each.identity: rng.randint(0, 8) for each in found}
    estimates = {}
    for each in found:
        work = sum(operators(each).values())
        taken = rng.uniform(0, 1.3) * work
        estimates[each] = Estimate(work - taken, costs[each.identity], processing=taken)
    return estimates


def operators(candidate: Candidate) -> dict[tuple[int, int], float]:
    return {each: 1.0 + (7 * each[0] + 3 * each[1]) % 5 for each in candidate.operators}


@pytest.mark.parametrize("seed", range(60))
def test_choices_are_the_best_without_sharing_and_near_it_with_it(seed: int) -> None:
    rng = random.Random(seed)
    alone = random_estimates(rng, shared=False)
    assert gain_of(best_of_forest(alone), alone) == pytest.approx(gain_of(best_of_all(alone), alone))
    shared = random_estimates(rng, shared=True)
    work: dict[tuple[int, int], float] = {}
    for each in shared:
        work |= operators(each)
    best, greedy = best_of_all(shared), greedy_cover(shared, work)
    assert not any(one.overlaps(other) for one in greedy for other in greedy if one != other)
    everything = sum(work.values())
    assert everything - gain_of(greedy, shared) <= 3 * (everything - gain_of(best, shared)) + 1e-9
    assert gain_of(greedy, shared) >= 0
    assert gain_of(select(shared, work), shared) == pytest.approx(gain_of(best, shared))


def test_a_shared_cache_pays_for_its_upkeep_once() -> None:
    pair = [Candidate(2, 0, (0, 1)), Candidate(3, 0, (1, 0))]
    estimates = dict.fromkeys(pair, Estimate(3, 4, processing=1))
    assert gain_of(pair, estimates) == 2
    assert best_of_all(estimates) == set(pair)
    assert greedy_cover(estimates, {each: 2.0 for one in pair for each in one.operators}) == set(pair)


NESTED = Candidate(3, 0, (0, 1)), Candidate(3, 0, (0, 1, 2))


def states(interval: int = 100) -> CacheStates:
    return CacheStates(NESTED, CacheConfig(observations=2, interval=interval))


def observed(found: CacheStates, times: int = 2) -> None:
    for each in found.profiled:
        for _ in range(times):
            found.observe(each)


def test_states_of_figure_5_9() -> None:
    small, large = NESTED
    found = states()
    assert found.profiled == [small, large]
    observed(found, 1)
    before = found.ready(3)
    observed(found, 1)
    assert (before, found.ready(3)) == (False, True)
    changes = found.decide({small: Estimate(1, 0), large: Estimate(9, 1)}, {})
    assert [(each.candidate, each.added) for each in changes] == [(large, True)]
    assert (found.state(small), found.state(large)) == ("unused", "used")
    found.pass_by(99)
    assert len(found.profiled) == 0
    found.pass_by(1)
    assert found.profiled == [small, large]  # the small one would not see what the large one hides


def test_a_used_cache_that_hides_nothing_stays_used_while_others_are_profiled() -> None:
    small, large = NESTED
    found = states()
    observed(found)
    found.decide({small: Estimate(9, 0), large: Estimate(1, 0)}, {})
    found.pass_by(100)
    assert found.used == [small]
    assert found.profiled == [large]


def test_a_choice_is_computed_only_if_something_has_changed_by_a_fifth() -> None:
    small, large = NESTED
    found = states()
    observed(found)
    found.decide({small: Estimate(1, 0), large: Estimate(10, 1)}, {})
    for gain, selections in ((11.0, 1), (13.0, 2)):
        found.pass_by(100)
        observed(found)
        assert found.ready(3)
        assert found.decide({small: Estimate(1, 0), large: Estimate(gain, 1)}, {}) == []
        assert (found.selections, found.used) == (selections, [large])


def test_a_cache_that_stops_paying_goes_at_once() -> None:
    small, large = NESTED
    found = states()
    observed(found)
    found.decide({small: Estimate(1, 0), large: Estimate(10, 1)}, {})
    assert found.watch({large: Estimate(2, 1)}) == []
    (change,) = found.watch({large: Estimate(1, 2)})
    assert (change.candidate, change.added, change.why) == (large, False, "saves 1, costs 2")
    assert found.state(large) == "unused"


def test_a_new_order_drops_the_caches_that_it_does_not_allow() -> None:
    small, large = NESTED
    found = states()
    observed(found)
    found.decide({small: Estimate(1, 0), large: Estimate(10, 1)}, {})
    other = Candidate(3, 1, (1, 2))
    (change,) = found.reorder([small, other])
    assert (change.candidate, change.added) == (large, False)
    assert found.state(other) == "profiled"
