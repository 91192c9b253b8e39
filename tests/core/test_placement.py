"""Placements of joins: what is spread, where rows then are, and the texts that send them there."""

from __future__ import annotations

from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.network import change_nodes, join_nodes
from anabranch.planning.keys import distributions_of
from anabranch.planning.placement import HotKey, Measured, Placement, chosen

CHAIN = distributions_of((((0, "a"), (1, "a_1")), ((1, "b_1"), (2, "b_2"))), [("a", "v"), ("a_1", "b_1"), ("b_2", "w")])
PAIR = distributions_of((((0, "k"), (1, "k_1")),), [("k", "v"), ("k_1", "w")])


def test_without_measures_inputs_are_alike() -> None:
    assert chosen(CHAIN, 4) == Placement((2, 2))
    assert chosen(PAIR, 4) == Placement((4,))


def test_rates_choose_the_shares() -> None:
    assert chosen(CHAIN, 4, Measured((1000, 1000, 5000))).sizes == (1, 4)
    assert chosen(CHAIN, 4, Measured((5000, 1000, 1000))).sizes == (4, 1)


def test_an_input_that_has_brought_nothing_is_not_free() -> None:
    assert chosen(CHAIN, 4, Measured((1000, 0, 1000))).sizes == (2, 2)
    assert chosen(distributions_of((), [("v",), ("w",)]), 4, Measured((0, 0))).sizes == (4, 1)


def test_a_hot_key_is_spread_by_the_input_that_has_most_of_its_rows() -> None:
    found = Measured((1000, 1000), {(0, 0): {7: 200, 8: 90}, (1, 0): {7: 300, 8: 10}})
    assert chosen(PAIR, 4, found).hot == (HotKey(0, 7, 1),)
    assert chosen(PAIR, 8, found).hot == (HotKey(0, 7, 1), HotKey(0, 8, 0))


def test_a_key_is_not_spread_by_rows_that_cannot_be_told_apart() -> None:
    alike = distributions_of((((0, "k"), (1, "k_1")),), [("k", "v"), ()])
    found = Measured((1000, 1000), {(0, 0): {7: 200, 8: 900}, (1, 0): {7: 300, 8: 800}})
    assert chosen(alike, 4, found).hot == (HotKey(0, 8, 0),)


def test_few_rows_make_no_hot_key() -> None:
    assert chosen(PAIR, 4, Measured((20, 20), {(0, 0): {7: 15}})).hot == ()


def test_in_words() -> None:
    found = Measured((9000, 1000, 1000), {(0, 0): {7: 8000}})
    text = chosen(CHAIN, 4, found).in_words(CHAIN, ["r", "s", "t"])
    assert text == (
        "4 cells by a, which sends the fewest rows for: r 9,000, s 1,000, t 1,000; 1 hot key spread by rows of r"
    )
    assert chosen(CHAIN, 4).in_words(CHAIN, ["r", "s", "t"]) == (
        "2 x 2 cells by a, b, which sends the fewest rows if inputs are equally fast"
    )


def test_a_placement_goes_with_the_state() -> None:
    manifest, placement = Manifest(cells=4), Placement((4,), (HotKey(0, 7, 1),), (9, 9))
    for name in ("a", "b"):
        manifest.queries[name] = QueryState("", nodes={1: "f00d.0"})
    manifest.placements["f00d.0"] = placement
    change_nodes(manifest, "b", {1: "f00d"}, owner="b")
    assert manifest.placements == {"f00d.0": placement, "f00d-b.0": placement}
    join_nodes(manifest, ["a"], {"a": {1: "changes"}, "b": {1: "changes"}})
    del manifest.queries["b"]
    join_nodes(manifest, ["a"], {"a": {1: "changes"}})
    assert manifest.placements == {"f00d.0": placement}
