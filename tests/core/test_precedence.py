from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InternalError
from anabranch.ordering.precedence import Precedence


@st.composite
def constraints(draw: st.DrawFn) -> tuple[Precedence, list[int]]:
    """Constraints without a cycle, and a wish."""
    filters = draw(st.integers(1, 7))
    ranking = draw(st.permutations(range(filters)))
    pairs = [(a, b) for i, a in enumerate(ranking) for b in ranking[i + 1 :]]
    edges = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    return Precedence(filters, frozenset(edges)), draw(st.permutations(range(filters)))


def obeys(order: tuple[int, ...], precedence: Precedence) -> bool:
    return all(order.index(before) < order.index(after) for before, after in precedence.edges)


@given(constraints())
def test_the_legal_order_is_a_permutation_that_obeys_every_edge(case: tuple[Precedence, list[int]]) -> None:
    precedence, wish = case
    order = precedence.legal(wish)
    assert sorted(order) == list(range(precedence.filters))
    assert obeys(order, precedence)


@given(constraints())
def test_a_wish_is_allowed_and_kept_exactly_if_it_obeys_every_edge(case: tuple[Precedence, list[int]]) -> None:
    precedence, wish = case
    assert precedence.allows(wish) == obeys(tuple(wish), precedence)
    assert (precedence.legal(wish) == tuple(wish)) == obeys(tuple(wish), precedence)


@given(constraints())
def test_a_filter_stands_behind_a_later_wish_only_if_it_has_to_wait(case: tuple[Precedence, list[int]]) -> None:
    precedence, wish = case
    order = precedence.legal(wish)
    for place, f in enumerate(order):
        for waiting in order[place + 1 :]:
            if wish.index(waiting) < wish.index(f):
                assert not precedence.ready(waiting, order[:place])


def test_ancestors_reach_through_others() -> None:
    chain = Precedence(4, frozenset({(3, 1), (1, 0)}))
    assert chain.ancestors == (frozenset({1, 3}), frozenset({3}), frozenset(), frozenset())
    assert chain.ready(0, [3, 1])
    assert not chain.ready(0, [1])


def test_a_cycle_is_our_bug() -> None:
    with pytest.raises(InternalError, match="cycle"):
        Precedence(3, frozenset({(0, 1), (1, 2), (2, 0)})).legal(range(3))


def test_no_constraint_is_false_and_pickles() -> None:
    assert not Precedence.none(3)
    bound = Precedence(3, frozenset({(0, 1)}))
    assert bound.legal((1, 0, 2)) == (0, 1, 2)
    assert pickle.loads(pickle.dumps(bound)) == bound
