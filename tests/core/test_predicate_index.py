"""Which rules hold for which rows, against the definition: every pair is compared, value by value."""

from __future__ import annotations

import datetime as dt
import math
import operator
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address, ip_network
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import DataError, QueryError, UnknownColumn
from anabranch.rules import Factor, Op, PredicateIndex, rule_block
from anabranch.rules.text_patterns import OneByOne

ORDERED = (Op.EQUAL, Op.LESS, Op.AT_MOST, Op.GREATER, Op.AT_LEAST)
COMPARE: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQUAL: operator.eq,
    Op.LESS: operator.lt,
    Op.AT_MOST: operator.le,
    Op.GREATER: operator.gt,
    Op.AT_LEAST: operator.ge,
}
BEYOND = Fraction(10) ** 400

INTEGERS = st.sampled_from([-(2**63), -(2**53) - 1, -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1])
DOUBLES = st.sampled_from(
    [
        -math.inf,
        -(2.0**63),
        -1.5,
        -0.0,
        0.0,
        0.5,
        1.0,
        2.0,
        2.5,
        2.0**53,
        2.0**53 + 2,
        2.0**63,
        1e300,
        math.inf,
        math.nan,
    ]
)
CENTS = st.integers(-300, 300).map(lambda cents: Decimal(cents).scaleb(-2))
WIDE = st.sampled_from(["-1e25", "-1.5", "0", "0.5", "1", "2", "9007199254740993", "9223372036854775808"]).map(Decimal)
TEXTS = st.text(st.sampled_from("ab\0é😀"), max_size=9) | st.sampled_from(["sensor-1", "sensor-12", "sensor-123456789"])
NUMBERS: list[tuple[st.SearchStrategy[Any], pa.DataType]] = [
    (INTEGERS, pa.int64()),
    (st.integers(-3, 3), pa.int8()),
    (st.integers(0, 3) | st.just(2**64 - 1), pa.uint64()),
    (DOUBLES, pa.float64()),
    (st.sampled_from([-1.5, 0.0, 0.5, 2.0, math.nan]), pa.float32()),
    (CENTS, pa.decimal128(9, 2)),
    (WIDE, pa.decimal128(38, 10)),
]
TIMES = st.integers(-3, 3)
OTHERS: list[list[tuple[st.SearchStrategy[Any], pa.DataType]]] = [
    [(TEXTS, pa.string()), (TEXTS, pa.large_string()), (TEXTS, pa.dictionary(pa.int32(), pa.string()))],
    [(st.binary(max_size=9), pa.binary())],
    [(st.booleans(), pa.bool_())],
    [(TIMES.map(lambda days: dt.date(1970, 1, 1) + dt.timedelta(days)), pa.date32())],
    [
        (TIMES.map(lambda n: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(0, n)), pa.timestamp("s", "UTC")),
        (
            TIMES.map(lambda n: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(0, 0, 400_000 * n)),
            pa.timestamp("us", "UTC"),
        ),
    ],
    [(TIMES.map(lambda n: dt.datetime(1970, 1, 1) + dt.timedelta(n)), pa.timestamp("us"))],  # noqa: DTZ001
]
ADDRESSES = st.sampled_from(
    ["10.2.0.1", "10.2.3.4", "10.3.0.0", "0.0.0.0", "255.255.255.255", "10.02.0.1", "1.2.3", "1.2.3.256", "", "x"]
) | st.sampled_from(["fe80::1", "::", "::ffff:10.2.0.1", "10.2.0.1 ", "1.2.3.4.5", "1..2.3", "+1.2.3.4"])
NETWORKS = st.sampled_from(
    ["10.2.0.0/16", "10.2.3.4", "10.2.0.1/8", "0.0.0.0/0", "::/0", "fe80::/10", " 10.2.0.0/15", "10.2.3.4/32"]
)


def number(value: Any) -> Any:
    """A number without rounding, with NaN above all; other values compare as they are."""
    if isinstance(value, float) and not math.isfinite(value):
        return 2 * BEYOND if math.isnan(value) else (BEYOND if value > 0 else -BEYOND)
    return Fraction(value) if isinstance(value, int | float | Decimal) else value


def holds(op: Op, row: Any, rule: Any) -> bool:
    """A factor by its definition."""
    if row is None or rule is None:
        return False
    if op is Op.IN:
        return any(holds(Op.EQUAL, row, item) for item in rule)
    if op in COMPARE:
        both = [value.encode() if isinstance(value, str) else number(value) for value in (row, rule)]
        return COMPARE[op](*both)
    if op is Op.NETWORK:
        try:
            return ip_address(row) in ip_network(rule.strip(), strict=False)
        except ValueError:
            return False
    if op is Op.REGEX:
        return re.search(rule, row) is not None
    return bool(row.startswith(rule) if op is Op.PREFIX else rule in row)


def all_pairs(factors: list[Factor], rules: pa.Table, rows: pa.Table) -> list[tuple[int, int]]:
    found = [(row, rule) for row in range(len(rows)) for rule in range(len(rules))]
    for factor in factors:
        left, right = (rows[factor.attribute].to_pylist(), rules[factor.parameter].to_pylist())
        found = [(row, rule) for row, rule in found if holds(factor.op, left[row], right[rule])]
    return found


def matched(index: PredicateIndex, rows: pa.Table) -> list[tuple[int, int]]:
    row, rule = index.match(rows)
    assert (np.diff(row) >= 0).all()
    return sorted(zip(row.tolist(), rule.tolist(), strict=True))


def column(draw: st.DrawFn, values: st.SearchStrategy[Any], kind: pa.DataType, size: int) -> pa.Array:
    drawn = draw(st.lists(st.none() | values, min_size=size, max_size=size))
    return (
        pa.array(drawn, kind.value_type).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(drawn, kind)
    )


Template = tuple[list[Factor], pa.Table, pa.Table]


@st.composite
def comparisons(draw: st.DrawFn, most: int = 3) -> Template:
    """Some attributes, each with one or two comparisons, of any types that compare."""
    sizes = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    factors, rules, rows = [], {}, {}
    for place in range(draw(st.integers(1, most))):
        kinds = draw(st.sampled_from([NUMBERS, NUMBERS, *OTHERS]))
        values, kind = draw(st.sampled_from(kinds))
        rows[f"a{place}"] = column(draw, values, kind, sizes[0])
        for end in range(draw(st.integers(1, 2))):
            values, kind = draw(st.sampled_from(kinds))
            op = draw(st.sampled_from([*ORDERED, Op.IN]))
            if op is Op.IN:
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                values, kind = st.lists(st.none() | values, max_size=3), pa.list_(kind)
            rules[f"p{place}{end}"] = column(draw, values, kind, sizes[1])
            factors.append(Factor(f"a{place}", op, f"p{place}{end}"))
    return factors, pa.table(rules), pa.table(rows)


@st.composite
def on_texts(draw: st.DrawFn) -> Template:
    """Prefixes, networks and patterns beside a comparison."""
    rows, rules = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    lines = st.text(st.sampled_from("aabé"), max_size=6)
    texts = {
        Op.PREFIX: (TEXTS, TEXTS),
        Op.NETWORK: (ADDRESSES, NETWORKS),
        Op.CONTAINS: (lines, st.text(st.sampled_from("aabé"), max_size=2)),
        Op.REGEX: (lines, st.sampled_from(["a+b", "^a", "b$", "é|bb", "", "^$", "(a.)+a"])),
    }
    op = draw(st.sampled_from(list(texts)))
    left, right = texts[op]
    factors = [Factor("text", op, "pattern"), Factor("value", draw(st.sampled_from(ORDERED)), "limit")]
    kind = draw(st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]))
    small = st.integers(0, 4)
    return (
        factors[: draw(st.integers(1, 2))],
        pa.table({"pattern": column(draw, right, pa.string(), rules), "limit": column(draw, small, pa.int64(), rules)}),
        pa.table({"text": column(draw, left, kind, rows), "value": column(draw, small, pa.int64(), rows)}),
    )


BLOCKS = ["", "aaaaaaa", "bbbbbbb", "bbbbbbbb", "sensor-"]
LONG = [block + more for block in BLOCKS for more in ["", "\0", "a", "b", "bbbbbbb", "c", "é", "😀"]]
EDGES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [-(2**63), -(2**53) - 1, -1, 0, 1, 2, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1],
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.uint64(): [0, 1, 2**53 + 1, 2**63, 2**64 - 1],
    pa.float64(): [
        -math.inf,
        -(2.0**63),
        -1.5,
        -0.0,
        0.5,
        1.0,
        2.0**53,
        2.0**53 + 2,
        2.0**63,
        1e300,
        math.inf,
        math.nan,
    ],
    pa.float32(): [-1.5, 0.0, 0.5, 2.0, -math.nan],
    pa.decimal128(9, 2): [Decimal("-1.50"), Decimal("0.00"), Decimal("0.01"), Decimal("0.50"), Decimal("9999999.99")],
    pa.decimal128(38, 10): [
        *map(Decimal, ["-1e27", "-1.5", "0", "0.01", "1", "9007199254740993", "9223372036854775808"])
    ],
}


@pytest.mark.parametrize("constants", list(EDGES), ids=str)
@pytest.mark.parametrize("values", list(EDGES), ids=str)
def test_numbers_of_all_types_compare_exactly(values: pa.DataType, constants: pa.DataType) -> None:
    rows = pa.array([*EDGES[values], None], values)
    rules = pa.array([*EDGES[constants], None], constants)
    for op in ORDERED:
        check_both_ways(op, rows, rules)
    check_both_ways(Op.IN, rows, pa.array([[constant, None] for constant in EDGES[constants]], pa.list_(constants)))


@pytest.mark.parametrize("op", [*ORDERED, Op.PREFIX])
def test_texts_with_common_beginnings_compare_by_their_bytes(op: Op) -> None:
    check_both_ways(op, pa.array(LONG), pa.array(LONG[::2]))
    check_both_ways(op, pa.array(LONG).dictionary_encode(), pa.array(LONG[1::2]))


def test_addresses_lie_in_networks() -> None:
    good = ["10.2.0.1", "10.2.3.4", "10.3.0.0", "0.0.0.0", "255.255.255.255", "fe80::1", "::", "::ffff:10.2.0.1"]
    bad = [
        "10.02.0.1",
        "1.2.3",
        "1.2.3.256",
        "",
        "x",
        "10.2.0.1 ",
        "1.2.3.4.5",
        "1..2.3",
        "+1.2.3.4",
        "1.2.3.4/8",
        "1.2.3.-",
    ]
    networks = [
        "10.2.0.0/16",
        "10.2.3.4",
        "10.2.0.1/8",
        "0.0.0.0/0",
        "::/0",
        "fe80::/10",
        " 10.2.0.0/15",
        "10.0.0.0/255.0.0.0",
    ]
    check_both_ways(
        Op.NETWORK, pa.array([*good, None, *bad]), pa.array([*networks, None, "10.2.3.4/32", "10.0.0.0/08"])
    )


def check_both_ways(op: Op, rows: pa.Array, rules: pa.Array) -> None:
    """A factor as the one that gives candidates, and as the one that tests those of another."""
    factors = [Factor("value", op, "limit"), Factor("one", Op.EQUAL, "one")]
    table = pa.table({"value": rows, "one": np.ones(len(rows))})
    constants = pa.table({"limit": rules, "one": np.ones(len(rules))})
    wanted = all_pairs(factors[:1], constants, table)
    assert matched(PredicateIndex(factors[:1], constants), table) == wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule_block.RuleBlock, "_measure", lambda *_: None)
        index = PredicateIndex(factors, constants, {"one": -1.0})
        assert [*index.access] == factors[1:]
        assert matched(index, table) == wanted


@given(comparisons())
def test_comparisons_hold_by_their_definition(template: Template) -> None:
    factors, rules, rows = template
    assert matched(PredicateIndex(factors, rules), rows) == all_pairs(factors, rules, rows)


@given(on_texts())
def test_texts_match_by_their_definition(template: Template) -> None:
    factors, rules, rows = template
    assert matched(PredicateIndex(factors, rules), rows) == all_pairs(factors, rules, rows)


@given(on_texts())
def test_texts_match_the_same_without_the_extra(template: Template) -> None:
    factors, rules, rows = template
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anabranch.rules.text_patterns.find_spec", lambda _: None)
        index = PredicateIndex(factors, rules)
    assert matched(index, rows) == all_pairs(factors, rules, rows)


@given(on_texts() | comparisons(), st.data())
def test_every_condition_may_give_access(template: Template, data: st.DataObject) -> None:
    factors, rules, rows = template
    chosen = data.draw(st.sampled_from(factors))
    shares = {factor.parameter: -1e9 if factor is chosen else 1.0 for factor in factors}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule_block.RuleBlock, "_measure", lambda *_: None)
        patch.setattr(rule_block, "CANDIDATES_AT_ONCE", data.draw(st.integers(1, 20)))
        index = PredicateIndex(factors, rules, shares)
        assert chosen in index.access or not any(block.conditions for block in index._blocks)
        assert matched(index, rows) == all_pairs(factors, rules, rows)


@given(st.data())
def test_rules_come_and_go(data: st.DataObject) -> None:
    """Whatever was added and removed, the living rules match under the numbers that they were given."""
    factors, rules, rows = data.draw(comparisons(2))
    living = {number: number for number in range(len(rules))}
    index = PredicateIndex(factors, rules)
    given_numbers = len(rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anabranch.rules.predicate_index.FEWEST_ADDED", data.draw(st.integers(0, 10)))
        for _ in range(data.draw(st.integers(1, 5))):
            if data.draw(st.booleans()):
                more = data.draw(st.lists(st.integers(0, len(rules) - 1), max_size=6)) if len(rules) else []
                index = index.added(rules.take(pa.array(more, pa.int64())))
                living |= {given_numbers + place: rule for place, rule in enumerate(more)}
                given_numbers += len(more)
            elif bool(living) and data.draw(st.booleans()):
                gone = data.draw(st.lists(st.sampled_from(sorted(living)), max_size=4))
                index = index.removed(gone)
                living = {number: rule for number, rule in living.items() if number not in gone}
            else:
                flags = data.draw(st.lists(st.booleans(), min_size=len(living), max_size=len(living)))
                index = index.removed(np.array(flags, np.bool_))
                living = {n: rule for (n, rule), gone in zip(sorted(living.items()), flags, strict=True) if not gone}
            assert index.numbers.tolist() == sorted(living)
            assert len(index) == len(living)
            definition = all_pairs(factors, rules, rows)
            wanted = [(row, n) for n, rule in living.items() for row, there in definition if there == rule]
            assert matched(index, rows) == sorted(wanted)


@given(on_texts() | comparisons())
def test_an_index_pickles_before_and_after_its_use(template: Template) -> None:
    factors, rules, rows = template
    fresh = PredicateIndex(factors, rules)
    used = pickle.loads(pickle.dumps(fresh))
    assert matched(used, rows) == all_pairs(factors, rules, rows)
    assert matched(pickle.loads(pickle.dumps(used)), rows) == all_pairs(factors, rules, rows)


def test_query_24_of_psoup_matches_tuples_48_and_50() -> None:
    """Figures 2 and 3: a standing query meets the tuples that are there, and a tuple the queries that are there.

    The text says which tuples match; the figures' values are lost, so these are made to fit to it.
    """
    factors = [Factor("a", Op.GREATER, "low"), Factor("a", Op.LESS, "high"), Factor("b", Op.GREATER, "least")]
    queries = pa.table({"query": [20, 21, 22, 23], "low": [0, 4, 2, 9], "high": [5, 5, 9, 12], "least": [4, 3, 2, 15]})
    tuples = pa.table({"id": [48, 49, 50, 51, 52], "a": [3, 5, 4, 9, 1], "b": [8, 2, 6, 8, 5]})
    standing = pa.table({"query": [24], "low": [2], "high": [5], "least": [5]})
    index = PredicateIndex(factors, queries).added(standing)
    ids, found = tuples["id"].to_numpy(), np.append(queries["query"], standing["query"])
    row, rule = index.match(tuples)
    assert sorted(ids[row[found[rule] == 24]].tolist()) == [48, 50]
    row, rule = index.match(pa.table({"a": [4], "b": [16]}))
    assert sorted(found[rule].tolist()) == [20, 22, 24]


def test_psoups_workload_of_factors_on_eight_attributes() -> None:
    """Section 5: values uniform in 0..255, constants multiples of 32 with probability 0.2, 1 to 8 factors."""
    rng = np.random.default_rng(24)
    for count in (1, 3, 8):
        factors = [Factor(f"a{i}", ORDERED[int(rng.integers(1, 5))], f"c{i}") for i in range(count)]
        size = 300
        rows = pa.table({f"a{i}": rng.integers(0, 256, 200) for i in range(count)})
        constants = [
            np.where(rng.random(size) < 0.2, 32 * rng.integers(0, 8, size), rng.integers(0, 256, size))
        ] * count
        rules = pa.table({f"c{i}": np.roll(column, i) for i, column in enumerate(constants)})
        held = np.ones((200, size), np.bool_)
        for factor in factors:
            left, right = rows[factor.attribute].to_numpy(), rules[factor.parameter].to_numpy()
            held &= COMPARE[factor.op](left[:, None], right)
        assert matched(PredicateIndex(factors, rules), rows) == list(map(tuple, np.argwhere(held).tolist()))


@pytest.mark.parametrize("spread", ["even", "skewed", "far outliers", "few values"])
def test_many_rules(spread: str) -> None:
    rng = np.random.default_rng(7)
    values = rng.random(500)
    if spread == "skewed":
        values = np.exp(40 * values)
    elif spread == "far outliers":
        values[::100] = rng.choice([-1e300, 1e300, math.inf, -math.inf], 5)
    elif spread == "few values":
        values = np.round(10 * values)
    low, width = rng.choice(values, 3_000), rng.choice([0.0, 1e-3, 1.0, 1e12], 3_000)
    rules = pa.table({"low": low, "high": low + width})
    for lower in (Op.GREATER, Op.AT_LEAST):
        for upper in (Op.LESS, Op.AT_MOST):
            factors = [Factor("value", upper, "high"), Factor("value", lower, "low")]
            held = COMPARE[lower](values[:, None], low) & COMPARE[upper](values[:, None], low + width)
            row, rule = PredicateIndex(factors, rules).match(pa.table({"value": values}))
            assert np.array_equal(np.sort(row * 3_000 + rule), np.flatnonzero(held))


def test_each_interval_is_in_few_nodes_and_takes_few_bytes() -> None:
    rng = np.random.default_rng(3)
    ends = np.sort(rng.random((20_000, 2)), axis=1)
    factors = [Factor("value", Op.AT_LEAST, "low"), Factor("value", Op.LESS, "high")]
    index = PredicateIndex(factors, pa.table({"low": ends[:, 0], "high": ends[:, 1]}))
    row, _ = index.match(pa.table({"value": rng.random(10)}))
    assert len(row) > 10_000
    assert index.nbytes <= 200 * 20_000


def test_access_goes_to_the_condition_with_the_fewest_candidates_and_follows_the_rows() -> None:
    rules = pa.table({"sensor": [f"s{i % 100}" for i in range(1_000)], "low": np.arange(1_000.0)})
    rules = rules.append_column("high", pa.array(np.arange(1_000.0) + 50))
    sensor = Factor("sensor", Op.EQUAL, "sensor")
    interval = Factor("value", Op.AT_LEAST, "low"), Factor("value", Op.LESS, "high")
    index = PredicateIndex([sensor, *interval], rules)
    assert [*index.access] == [sensor]
    assert [*PredicateIndex([sensor, *interval], rules, {"low": 0.001}).access] == [*interval]
    outside = pa.table({"sensor": ["s1"] * 1_000, "value": np.full(1_000, 1e9)})
    assert not len(index.match(outside)[0])
    assert [*index.access] == [*interval]
    grown = index.added(rules.take(pa.array(np.arange(1_000))).slice(0, 1_000)).added(rules)
    assert [*grown.access] == [*interval]
    assert "access by value >= :low And value < :high: segment tree" in index.describe()


def test_describe_says_how_patterns_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = [Factor("line", Op.CONTAINS, "word")]
    rules = pa.table({"word": ["disk", "error"]})
    assert "access by line contains :word: Aho-Corasick automaton" in PredicateIndex(factors, rules).describe()
    monkeypatch.setattr("anabranch.rules.text_patterns.find_spec", lambda _: None)
    text = PredicateIndex(factors, rules).describe()
    assert "one by one, since ahocorasick-rs is not installed (pip install 'anabranch[patterns]')" in text


def test_many_expressions_are_found_across_sets() -> None:
    patterns = [f"x{i}y+$" for i in range(2_500)]
    index = PredicateIndex([Factor("line", Op.REGEX, "pattern")], pa.table({"pattern": patterns}))
    assert matched(index, pa.table({"line": ["x7y", "no", "x1003yyy", "x2499y x8y", None]})) == [
        (0, 7),
        (2, 1003),
        (3, 8),
    ]


@pytest.mark.parametrize("set_bytes", [100_000, 170_000])
def test_a_set_with_little_memory_still_answers(set_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the lesser one, RE2 refuses to compile the set."""
    monkeypatch.setattr("anabranch.rules.text_patterns.SET_BYTES", set_bytes)
    patterns = [f"{letter}.{{40}}{letter}" for letter in "abcdefgh"]
    index = PredicateIndex([Factor("line", Op.REGEX, "pattern")], pa.table({"pattern": patterns}))
    rows = pa.table({"line": ["a" + "abcdefgh" * 5 + "a", "nothing"]})
    assert matched(index, rows) == [(0, 0)]


def error_of(factors: list[Factor], rules: dict[str, Any], rows: dict[str, Any]) -> str:
    with pytest.raises(QueryError) as caught:
        PredicateIndex(factors, pa.table(rules)).match(pa.table(rows))
    return str(caught.value)


def test_what_does_not_compare_is_an_error() -> None:
    less = [Factor("value", Op.LESS, "limit")]
    assert "compares a text (string) with a number" in error_of(less, {"limit": [1]}, {"value": ["1"]})
    assert "compares a boolean (bool) with a number" in error_of(less, {"limit": [1]}, {"value": [True]})
    naive = pa.array([0], pa.timestamp("us"))
    with_zone = pa.array([0], pa.timestamp("us", "UTC"))
    assert "timestamp without time zone" in error_of(less, {"limit": with_zone}, {"value": naive})
    assert "do not compare" in error_of(less, {"limit": [{"a": 1}]}, {"value": [1]})
    assert "needs a list" in error_of([Factor("value", Op.IN, "limit")], {"limit": [1]}, {"value": [1]})
    assert "needs a text" in error_of([Factor("value", Op.PREFIX, "limit")], {"limit": ["1"]}, {"value": [1]})
    assert "'10.2.0.0/99' is not a network" in error_of(
        [Factor("value", Op.NETWORK, "limit")], {"limit": ["10.2.0.0/99"]}, {"value": [""]}
    )


@pytest.mark.parametrize("extra", [True, False])
def test_an_expression_that_re2_refuses_is_an_error(extra: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not extra:
        monkeypatch.setattr("anabranch.rules.text_patterns.find_spec", lambda _: None)
    message = error_of([Factor("value", Op.REGEX, "limit")], {"limit": ["a", "(?=b)"]}, {"value": [""]})
    assert "'(?=b)' is not a regular expression of RE2" in message


def test_unknown_names_and_wrong_rules_are_errors() -> None:
    less = [Factor("value", Op.LESS, "limit")]
    index = PredicateIndex(less, pa.table({"limit": [1]}))
    with pytest.raises(UnknownColumn, match="unknown column 'limit' in the table of rules"):
        PredicateIndex(less, pa.table({"limits": [1]}))
    with pytest.raises(UnknownColumn, match="unknown column 'value' in factor 'value < :limit'"):
        index.match(pa.table({"values": [1]}))
    with pytest.raises(QueryError, match="at least one factor"):
        PredicateIndex([], pa.table({"limit": [1]}))
    with pytest.raises(QueryError, match="unknown parameter 'limt' in selectivities"):
        PredicateIndex(less, pa.table({"limit": [1]}), {"limt": 0.5})
    with pytest.raises(QueryError, match="2 flags for 1 rules"):
        index.removed(np.array([True, False]))
    with pytest.raises(DataError, match="do not fit to those of types int64"):
        index.added(pa.table({"limit": [1.5]}))


def test_columns_of_nulls_match_nothing_and_take_later_types() -> None:
    less = [Factor("value", Op.LESS, "limit")]
    index = PredicateIndex(less, pa.table({"limit": pa.nulls(2)}))
    assert matched(index, pa.table({"value": [1]})) == []
    later = index.added(pa.table({"limit": [2.5]}))
    assert matched(later, pa.table({"value": [1]})) == [(0, 2)]
    assert matched(later, pa.table({"value": pa.nulls(3)})) == []


def test_one_by_one_tests_only_the_pairs_it_is_asked_for() -> None:
    tried = OneByOne(Op.CONTAINS, pa.array(["a", "b", "c"]))
    texts = pa.array(["ab", "bc", "x"])
    assert tried.holds(texts, np.array([0, 1, 1, 2]), np.array([1, 1, 0, 2])).tolist() == [True, True, False, False]
