"""Every node of a syntax tree, and every part of one, is understood or refused by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest
from sqlglot import exp

from anabranch.cql import Catalog, CQLError, bind, parse_query
from anabranch.cql.grammar import PARENTS, TYPES, UNDERSTOOD, check

CATALOG = Catalog(streams={"s1": ("k", "a"), "s2": ("k", "b"), "s3": ("k", "c")}, relations={"r": ("k", "label")})
UNDERSTOOD_QUERIES = [
    "Select /*+ Leading(y, x) */ x.k From s1 x, s1 y Where x.k = y.k",
    "With x(i, j) As (Select k, a From s1) Select Distinct x.*, y.b As z From x, (Select * From s2) As y Where i = y.b",
    "With x As (Select k From s1) (Select k From x)",
    "With x As (Select k From s1) Select k From x Union All Select k From s2 Union Select k From r",
    "With x As (Select k From s1) Select k From x Except Select k From s2",
    "With x As (Select k From s1) Select k From x Intersect Select k From s2",
    "Select b From s2 Join s3 Using (k) Cross Join r Where Exists (Select 1 From s1 t Where t.k = b)",
    "Select p.k From (Select k From s1) As p Inner Join (s2) As q On p.k = q.k",
    "Select k, Count(Distinct a) Filter (Where a > 1) From s1 Group By k Having Count(*) > 1",
    "Select k From s1 Where k Not In (Select k From s2) And ((k, a) In ((1, 2), (3, 4)) Or a.x.y['z'].v Is Null)",
    "Select s1.a.x.y, upper(a).v From s1",
    "Select k From s1 Where a Like Any ('x%', 'y%') And a ILike All ('x%', 'y/%' ) And a Like '/%' Escape '/'",
    "Select k From s1 Where a Not Like 'x%' And a Not ILike 'x%'",
    "Select k From s1 Where Exists ((Select k From s2) Union (Select k From s3))",
    "Select a = 1, a <> 1, a <=> 1, a Is Distinct From 1, a < 1, a <= 1, a > 1, a >= 1, a Between 1 And 2 From s1",
    "Select -a + 1 - 2 * 3 / 4 % 5, a Div 2, ~a & 1 | 2 ^ 3, a << 1, a >> 1, a || 'x' From s1 Where a RLike 'x'",
    "Select Case a When 1 Then 2 Else 3 End, Case When a > 1 Then 2 End, If(a > 1, 2, 3) From s1",
    "Select Cast(a As Decimal(9, 2)), Try_Cast(a As Struct<x: Array<Int>>), Date '2026-01-01', a::Long From s1",
    "Select a + Interval 1 Day, Interval '1-2' Year To Month, r'\\d', X'1F', 'a' 'b', Null, `a` From s1 Where Not True",
    "Select Extract(Year From a), Overlay(a Placing 'x' From 1 For 2), Position('x', a, 2), Position('x' In a) From s1",
    "Select Substring(a From 1 For 2), Trim(Both 'x' From a), filter(a, x -> x > 0), date_add(Day, 1, a) From s1",
]


def classes(base: type[exp.Expr] = exp.Expression) -> Iterator[type[exp.Expr]]:
    for each in base.__subclasses__():
        yield each
        yield from classes(each)


def refusal(node: exp.Expr) -> str:
    with pytest.raises(CQLError) as caught:
        check(node, "")
    return str(caught.value)


def test_what_is_understood_is_bound_and_nothing_else_is_listed() -> None:
    found: dict[type[exp.Expr], set[str]] = defaultdict(set)
    for text in UNDERSTOOD_QUERIES:
        bind(text, CATALOG, "q")
        for node in parse_query(text).walk():
            found[type(node)] |= {key for key, value in node.args.items() if value}
    unread: dict[type[exp.Expr], set[str]] = {
        exp.Join: {"method", "side"}
    }  # words of joins that are refused by their own names
    assert dict(found) == {kind: set(parts) - unread.get(kind, set()) for kind, parts in UNDERSTOOD.items()}


def test_every_other_node_is_refused_by_its_name() -> None:
    others = sorted(set(classes()) - set(UNDERSTOOD), key=lambda each: each.__name__)
    assert len(others) > 900
    for kind in others:
        assert re.fullmatch(r"(?s)\S.* is not supported\n  hint: \S.*", refusal(kind())), kind


def test_every_other_part_of_a_node_is_refused_by_its_name() -> None:
    count = 0
    for kind, parts in UNDERSTOOD.items():
        for part in sorted(set(kind.arg_types) - parts):
            for value in (True, exp.Null(), [exp.Null()]):
                message = refusal(kind(**{part: value}))
                assert re.fullmatch(r"(?s)\S.* is not supported\n  hint: \S.*", message), (kind, part)
            count += 1
    assert count > 100


def test_nodes_that_mean_something_elsewhere_are_refused() -> None:
    for kind in PARENTS:
        assert "is not supported" in refusal(exp.Paren(this=kind()))


def test_every_other_type_is_refused_by_its_name() -> None:
    for each in exp.DType:
        node = exp.DataType(this=each)
        if each in TYPES:
            check(node, "")
        else:
            assert refusal(node).startswith(f"the type {node.sql()} is not supported")
    assert "the type TIMESTAMP(9)" in refusal(exp.DataType.build("timestamp(9)", dialect="postgres"))


@pytest.mark.parametrize(
    "item",
    [
        "(s1 Join s2 On s1.a = s2.b) As t",
        "(s1 Cross Join s2) As t",
        "(s1, s2) As t",
        "((s1 Join s2 On s1.nothing = s2.b))",
        "s3 Join (s1 Join s2 On s1.a = s2.b) On s3.c = s1.a",
        "((Select a From s1) As x Join s2 On x.a = s2.b) As t",
    ],
)
def test_a_nested_join_is_refused(item: str) -> None:
    with pytest.raises(CQLError, match="a nested join is not supported at line 1") as caught:
        bind(f"Select Count(*) As n From {item}", CATALOG, "q")
    assert "hint: write the joins without parentheses, or a query: (Select ... From ... Join ...) As t" in str(
        caught.value
    )


def test_a_view_is_checked_in_its_own_text() -> None:
    catalog = Catalog(CATALOG.streams, views={"v": "Select k\nFrom s1 Order By k"})
    with pytest.raises(CQLError, match="Order By is not supported at line 2, column 18"):
        bind("Select k From v", catalog, "q")


def test_what_the_parser_would_rewrite_is_refused() -> None:
    for text, words in {
        "Select k From s1 |> Where k > 1": "|> is not supported at line 1, column 18",
        "Select hash(*) From s1": "hash(*) is not supported at line 1, column 8",
        "Select upper(a) Filter (Where k > 1) From s1": "Filter must follow an aggregate at line 1, column 8",
        "Select system.builtin.rand() From s1": "the function 'rand' has a name of several parts",
        "Select /*+ Broadcast(s1) */ k From s1": "a hint is not supported at line 1, column 29",
        "Select /*+ Leading(s1), Leading(s1) */ k From s1": "a hint is not supported",
        "Select /*+ Leading(s3) */ x.k From s1 x": "Leading names 's3', which is no source",
        "Select /*+ Leading(x, x) */ x.k From s1 x": "Leading names 'x' twice",
        "Select /*+ Leading(x) */ x.k From s1 x Left Join s1 y On x.k = y.k": "Leading is for joins that are not outer",
    }.items():
        with pytest.raises(CQLError) as caught:
            bind(text, CATALOG, "q")
        assert words in str(caught.value)


def test_an_array_that_is_called_as_such_has_parts() -> None:
    assert "array(`k_1`, 2)[0]" in str(bind("Select array(k, 2)[0] As x From s1", CATALOG, "q").plan)
