"""Operators of different queries, and of one: equal ones have equal signatures, whatever they are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.cql import Catalog, bind
from anabranch.logical_plan import Query
from anabranch.spark.continuous.programs import CellStep
from cql.comparing import bound
from cql.local_compiler import operators, program
from cql.streams import Case, Cuts, Stream

COLUMNS = (("k", "bigint"), ("a", "bigint"), ("b", "bigint"))
CASE = Case((Stream("s", COLUMNS, ()), Stream("r", COLUMNS, ())), (), "", Cuts({"s": (1,), "r": (1,)}, 2))
JOIN = "From s [Range 5 Seconds] x, r [Range 5 Seconds] y Where x.k = y.k"
LONGER = "From s [Range 6 Seconds] x, r [Range 5 Seconds] y Where x.k = y.k"
SLIDING = "From s [Range {} Seconds Slide 1 Second] x, r [Range 5 Seconds] y Where x.k = y.k"
MEMBER = "Where k In (Select k From r [Range 5 Seconds])"
GROWING = "From s x, r [Range 5 Seconds] y Where x.k = y.k"


def steps(text: str | Query) -> list[CellStep]:
    query = bound(replace(CASE, query=text)) if isinstance(text, str) else text
    return list(operators(CASE, query).values())


def shared(one: str | Query, other: str | Query) -> list[str]:
    """Titles of the operators of one query that the other has, too."""
    known = {step.signature for step in steps(other)}
    return [step.stage.title.split(",")[0] for step in steps(one) if step.signature in known]


@pytest.mark.parametrize(
    ("one", "other", "titles"),
    [
        (
            "Select k, Count(*) As n From s [Range 5 Seconds] Where a > 1 And b = 2 Group By k",
            "Select k, Count(*) As m From s [Range 5 Seconds] Where 2 = b And 1 < a Group By k",
            ["groups"],
        ),
        (
            "Select k, Count(*) As n From s [Range 5 Seconds] Group By k Having Count(*) > 3",
            "Select k As key, Count(*) As m From s [Range 5 Seconds] Group By k Having Count(*) > 7",
            ["groups"],
        ),
        (
            "Select k, Count(*) As n From s [Range 5 Seconds] Group By k",
            "Select k, Count(*) As n From s [Range 5 Seconds] Group By k Having Count(*) > 7",
            ["groups"],
        ),
        (
            "Select Istream(k, Count(*) As n) From s [Range 5 Seconds] Group By k",
            "Select Rstream(Count(*) As n, k) From s [Range 5 Seconds] Group By k",
            ["groups"],
        ),
        (f"Select x.k, x.a, y.b {JOIN}", f"Select x.k, y.b, x.a {JOIN}", ["join"]),
        (f"Select x.k, x.a, y.b {JOIN}", f"Select x.k, x.a, y.b {JOIN} And x.a + y.b < 7", ["join"]),
        (f"Select x.k, x.a, y.b {JOIN}", f"Select x.k, x.a + y.b As c {JOIN}", ["join"]),
        (f"Select Istream(x.k, x.a) {JOIN}", f"Select Dstream(x.k, x.a) {JOIN}", ["join"]),
        (
            f"Select x.k, x.a {JOIN}",
            f"Select x.k, x.a {LONGER}",
            ["join"],
        ),
        (f"Select x.k, x.a {JOIN}", f"Select x.k, x.a {GROWING}", []),
        (f"Select x.k, x.a {SLIDING.format(5)}", f"Select x.k, x.a {SLIDING.format(6)}", []),
        (f"Select x.k, x.a {SLIDING.format(5)}", f"Select x.k, x.a {GROWING}", []),
        (f"Select x.k, x.a {SLIDING.format(5)}", f"Select x.k, x.a {JOIN}", []),
        (
            f"Select k, a From s [Range 5 Seconds] {MEMBER}",
            f"Select k, a From s [Range 9 Seconds] {MEMBER}",
            ["distinct", "semi join"],
        ),
        (
            f"Select k, a From s [Now] {MEMBER}",
            f"Select k, a From s {MEMBER}",
            ["distinct"],
        ),
        (
            f"Select k, a From s [Range 5 Seconds Slide 1 Second] {MEMBER}",
            f"Select k, a From s {MEMBER}",
            ["distinct"],
        ),
        ("Select k, a From s [Rows 1000]", "Select a, k From s [Rows 200]", ["window of rows"]),
        (
            "Select k, Sum(a) As n From s [Partition By k Rows 10] Group By k",
            "Select k, Sum(a) As n From s [Partition By k Rows 3] Group By k",
            ["window of rows"],
        ),
        (
            "Select n, Count(*) As m From (Select k, Count(*) As n From s [Range 9 Seconds] Group By k) Group By n",
            "Select z, Count(*) As m From (Select a, Count(*) As z From s [Range 9 Seconds] Group By a, k) Group By z",
            [],
        ),
        (
            "Select n, Count(*) As m From (Select k, Count(*) As n From s [Range 9 Seconds] Group By k) Group By n",
            "Select z, Count(*) As y From (Select Count(*) As z, k From s [Range 9 Seconds] Group By k) Group By z",
            ["groups", "groups"],
        ),
        ("Select k, a From s [Rows 10] Where a > 1", "Select k, a From s [Rows 10 Slide 5] Where a > 1", []),
        (
            "Select k, Count(*) As n From s [Range 5 Seconds] Where b <> 0 And a / b > 1 Group By k",
            "Select k, Count(*) As n From s [Range 5 Seconds] Where a / b > 1 And b <> 0 Group By k",
            [],
        ),
    ],
)
def test_queries_share_what_they_do_alike(one: str, other: str, titles: list[str]) -> None:
    assert shared(one, other) == titles
    assert sorted(shared(other, one)) == sorted(titles)


def test_equal_taps_are_those_that_want_the_same_columns_in_whatever_order() -> None:
    texts = [
        f"Select x.k, x.a, y.b {JOIN}",
        f"Select y.b As z, x.k, x.a {JOIN}",
        f"Select Istream(x.k, x.a, y.b) {JOIN}",
    ]
    first, other, inserts = ([step.tap for step in steps(text)] for text in texts)
    assert first == other
    assert first != inserts


def test_not_in_reads_its_inner_query_once() -> None:
    inner = "Select a From s [Range 9 Seconds] Group By a"
    found = steps(f"Select k, a From r [Range 5 Seconds] Where a Not In ({inner})")
    assert [step.stage.title for step in found].count("groups") == 1
    assert len({(step.signature, step.tap) for step in found}) == len(found)


def test_a_query_over_the_answer_of_another_shares_its_operators() -> None:
    streams = {"s": ("k", "a", "b"), "r": ("k", "a", "b")}
    answer = bind("Select k, Count(*) As n From s [Range 5 Seconds] Group By k", Catalog(streams), "counts")
    catalog = Catalog(streams, queries={"counts": answer}, views={"v": "Select n, k From counts Where n > 2"})
    over = bind("Select x.k, x.n From counts x Where x.n > 3", catalog, "over")
    view = bind("Select k From v Where k > 1", catalog, "view")
    assert shared(over, answer) == shared(view, answer) == ["groups"]


def test_physical_plans_can_be_compared_and_printed() -> None:
    text = "Select k, Count(*) As n From s [Range 5 Seconds] Where a > {} Group By k Having Count(*) > 3"
    one, again, other = (program(CASE, bound(replace(CASE, query=text.format(number)))) for number in (1, 1, 2))
    assert one == again != other
    assert one.describe().splitlines() == [
        "runs groups 1 (layer 1) over stream s, what leaves s after 5 seconds",
        "runs relation 2 (layer 2) over groups 1",
        "answers with relation 2",
    ]
