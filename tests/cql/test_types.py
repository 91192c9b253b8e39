"""Values of different types that are compared with one another: none is lost on the way, and no two are confused."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal

import pytest

from anabranch.cql import Catalog, CQLError, bind
from anabranch.errors import QueryError
from cql.comparing import bound, expected
from cql.local import LocalEngine
from cql.oracle import normalised
from cql.streams import SECOND, Case, Cuts, Relation, Row, Stream

WORDS = Stream("words", (("k", "string"), ("j", "bigint")), ((0, 0, "p", 1),))
BIG = 2**53  # the next whole number is no double
BIG_DECIMAL = Decimal(BIG)


def stream(name: str, kind: str, *values: object) -> Stream:
    rows = tuple((number, number * SECOND, value) for number, value in enumerate(values))
    return Stream(name, (("k", kind),), rows)


LONGS = stream("longs", "bigint", BIG, BIG + 1, 3, None)
INTS = stream("ints", "int", 3, 7)
CENTS = stream("cents", "decimal(20, 2)", BIG_DECIMAL + 1, Decimal("3.00"), Decimal("3.01"), None)
SMALL = stream("small", "decimal(9, 2)", Decimal("3.00"), Decimal("3.01"))
WIDE = stream("wide", "decimal(38, 0)", BIG_DECIMAL)
DOUBLES = stream("doubles", "double", float(BIG), 3.0)
TABLE = Relation("r", (("k", "decimal(20, 2)"),), ((BIG_DECIMAL,), (Decimal("3.00"),)))


def case(query: str) -> Case:
    streams = (LONGS, INTS, CENTS, SMALL, DOUBLES, WORDS, WIDE)
    return Case(streams, (TABLE,), query, Cuts({each.name: (1, len(each.rows) - 1) for each in streams}, 3))


def answer(each: Case) -> Counter[Row]:
    return LocalEngine(each, bound(each)).answer()


@pytest.mark.parametrize(
    "query",
    [
        "Select x.k As k, y.k As j From longs x, cents y Where x.k = y.k",
        "Select x.k As k, y.k As j From small x, cents y Where x.k = y.k",
        "Select x.k As k, y.k As j, z.k As i From longs x, cents y, ints z Where x.k = y.k And y.k = z.k",
        "Select x.k As k From longs x Where x.k In (Select k From cents)",
        "Select x.k As k From longs x Where x.k Not In (Select k From cents Where k Is Not Null)",
        "Select x.k As k From longs x Where Exists (Select 1 From cents y Where y.k = x.k)",
        "Select x.k As k, r.k As j From longs x, r Where x.k = r.k",
        "Select k From longs Intersect Select k From cents",
        "Select k From longs Except All Select k From cents",
        "Select k From longs Union Select k From cents",
        "Select k From small Union Select k From cents",
        "Select x.k As k, y.k As j From longs x, doubles y Where x.k = y.k",
    ],
)
def test_keys_of_different_types_are_compared_exactly(query: str) -> None:
    each = case(query)
    want = expected(each)
    assert want
    assert answer(each) == want


def test_what_is_selected_keeps_its_type() -> None:
    each = case("Select x.k As k From longs x, doubles y Where x.k = y.k")
    kinds = {type(row[0]) for row in answer(each)}
    assert kinds == {int}


COMPARED = "bigint and string have no common type"
CAST = "cast one of them, as in Cast(k As String)"


@pytest.mark.parametrize(
    "marked",
    [
        "Select x.k From longs x, words y Where «x.k = y.k»",
        "Select 1\nFrom longs x Join words y\n  On «x.k = y.k»",
        "Select 1 From longs Join words Using («k»)",
        "Select 1 From longs x, longs y, words z Where x.k = y.k And y.k + 1 = z.j And «x.k = z.k»",
        "Select 1 From longs x, words y, longs z Where «x.k = y.k» And z.k = x.k",
        "Select k From longs Where «k» In (Select k From words)",
        "Select k From longs Where «k + 1» Not In (Select w.k From words w)",
        "Select k From longs x Where Exists (Select 1 From words y Where «y.k = x.k»)",
        "Select 1, k From longs Union Select 2, «k || '!'» From words",
        "Select k From longs Intersect Select k From ints Union All Select «words.k» From words",
    ],
)
def test_types_that_do_not_compare_are_shown_in_the_query(marked: str) -> None:
    assert refusal(marked) == message(COMPARED, marked, CAST)


@pytest.mark.parametrize(
    ("marked", "what", "hint"),
    [
        (
            "Select j, «Sum(k») From words Group By j",
            "sum needs numbers, and its argument is of type string",
            "cast it, or use count, min or max",
        ),
        (
            "Select x.k From wide x, cents y Where «x.k = y.k»",
            "a decimal(38, 0) and a decimal(20, 2) need 40 digits to be compared, and there are 38",
            "cast one of them, as in Cast(k As Decimal(20, 2))",
        ),
        (
            "Select 1 From longs x, longs y, doubles z Where x.k = y.k And «x.k = z.k»",
            "whole numbers and decimals would be compared as doubles, as they all equal a double",
            "cast one of them, as in Cast(k As Double) = x",
        ),
    ],
)
def test_types_that_do_not_fit_are_shown_in_the_query(marked: str, what: str, hint: str) -> None:
    assert refusal(marked) == message(what, marked, hint)


def refusal(marked: str) -> str:
    with pytest.raises(CQLError) as caught:
        answer(case(marked.replace("«", "").replace("»", "")))
    return str(caught.value)


def message(what: str, marked: str, hint: str) -> str:
    """The whole message; the place is marked in the query."""
    before, place, _ = re.split("[«»]", marked)
    query = marked.replace("«", "").replace("»", "")
    line, column = before.count("\n") + 1, len(before.split("\n")[-1]) + 1
    shown, under = query.split("\n")[line - 1], " " * (column - 1) + "^" * len(place)
    return f"{what} at line {line}, column {column}\n  {shown}\n  {under}\n  hint: {hint}"


def test_a_place_in_a_view_is_shown_in_the_text_of_the_view() -> None:
    each = case("Select k From v")
    streams = {stream.name: tuple(name for name, _ in stream.columns) for stream in each.streams}
    view = "Select x.k\nFrom longs x, words y Where x.k = y.k"
    with pytest.raises(
        CQLError, match=r"have no common type at line 2, column 29\n  From longs x, words y Where x.k = y.k"
    ):
        LocalEngine(each, bind("Select k From v", Catalog(streams, views={"v": view}), "q")).answer()


def test_columns_without_a_place_are_named() -> None:
    with pytest.raises(CQLError) as caught:
        answer(case("Select *, 1 As j From longs Union Select * From words"))
    assert str(caught.value) == f"k and k: {COMPARED}\n  hint: {CAST}"


def test_longs_do_not_meet_as_doubles() -> None:
    text = "Select x.k As k From longs x, longs y, doubles z Where x.k = y.k And x.k = z.k"
    with pytest.raises(QueryError, match="would be compared as doubles"):
        answer(case(text))
    cast = case(text.replace("x.k = z.k", "Cast(x.k As Double) = z.k"))
    assert answer(cast) == expected(cast)
    assert normalised((BIG, SECOND, 1)) not in answer(cast)
