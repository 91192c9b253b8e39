"""Windows and relation-to-stream operators, as parsed."""

from __future__ import annotations

import pytest
from sqlglot import exp

from anabranch.cql import CQLError, WindowSpec, parse_query

SECOND = 1_000_000


def first(text: str) -> exp.Expr:
    found: exp.Expr = parse_query(text).args["from_"].this
    return found


@pytest.mark.parametrize(
    ("window", "spec"),
    [
        ("[Rows 5]", WindowSpec(rows=5)),
        ("[ROWS 5]", WindowSpec(rows=5)),
        ("[Rows Unbounded]", WindowSpec()),
        ("[Range Unbounded]", WindowSpec()),
        ("[Range 10 Minutes]", WindowSpec(span=600 * SECOND)),
        ("[range 1 minute]", WindowSpec(span=60 * SECOND)),
        ("[Range 0.5 Seconds]", WindowSpec(span=SECOND // 2)),
        ("[Range 3 Microseconds]", WindowSpec(span=3)),
        ("[Range 3 Milliseconds]", WindowSpec(span=3_000)),
        ("[Range 2 Hours]", WindowSpec(span=7_200 * SECOND)),
        ("[Range 1 Day]", WindowSpec(span=86_400 * SECOND)),
        ("[Range 2 Weeks]", WindowSpec(span=1_209_600 * SECOND)),
        ("[Range 0 Seconds]", WindowSpec(span=0)),
        ("[Now]", WindowSpec(span=0)),
        ("[Partition By a, b Rows 2]", WindowSpec(rows=2, partition=("a", "b"))),
        ("[Partition  By s1.a Range 1 Second]", WindowSpec(span=SECOND, partition=("a",))),
        ("[Partition By a Rows 2 Range 1 Second]", WindowSpec(span=SECOND, rows=2, partition=("a",))),
        ("[Rows 2 Range 1 Second]", WindowSpec(span=SECOND, rows=2)),
        ("[Range 10 Seconds Slide 1 Second]", WindowSpec(span=10 * SECOND, slide=SECOND)),
        ("[Rows 100 Slide 10]", WindowSpec(rows=100, slide_rows=10)),
        ("[Rows 100 Slide 10 Seconds]", WindowSpec(rows=100, slide=10 * SECOND)),
    ],
)
def test_a_window_is_kept_with_its_stream(window: str, spec: WindowSpec) -> None:
    assert first(f"Select a From s1 {window}").meta["window"] == spec


@pytest.mark.parametrize("item", ["s1 [Now] As x", "s1 [Now] x", "s1 As x [Now]", "s1 x [Now]", "(s1) As x [Now]"])
def test_the_alias_stands_behind_the_window_or_in_front(item: str) -> None:
    node = first(f"Select a From {item}, s2 Where x.a = s2.a")
    assert node.alias == "x"
    assert node.meta["window"] == WindowSpec(span=0)


def test_a_stream_without_a_window_has_none() -> None:
    assert "window" not in first("Select a From s1").meta


def test_every_item_of_a_list_has_its_own_window() -> None:
    query = parse_query("Select * From a [Rows 1], b [Rows 2] Join c [Rows 3] On b.k = c.k")
    windows = [each.meta["window"].rows for each in query.find_all(exp.Table)]
    assert sorted(windows) == [1, 2, 3]


@pytest.mark.parametrize(
    "item",
    [
        "(Select Istream(a) From s1) [Rows 3] As x",
        "(Select Istream(a) From s1) As x [Rows 3]",
        "(Istream(Select a From s1)) [Rows 3] x",
        "Istream(Select a From s1) [Rows 3] x",
    ],
)
def test_a_subquery_has_a_window(item: str) -> None:
    node = first(f"Select a From {item}")
    assert (node.alias, node.meta["window"].rows) == ("x", 3)
    inner = node.find(exp.Select)
    assert inner is not None
    assert inner.meta["to_stream"] == "istream"


@pytest.mark.parametrize("kind", ["Istream", "Dstream", "Rstream", "ISTREAM"])
def test_a_list_of_columns_is_made_a_stream(kind: str) -> None:
    query = parse_query(f"Select {kind}(a, b As x, Count(*)) From s1")
    assert query.meta["to_stream"] == kind.lower()
    assert [each.alias_or_name for each in query.selects] == ["a", "x", "count"]


@pytest.mark.parametrize("text", ["Select Istream(Distinct k) From s1", "Select Distinct Istream(k) From s1"])
def test_a_stream_of_distinct_rows(text: str) -> None:
    query = parse_query(text)
    assert query.args["distinct"]
    assert query.meta["to_stream"] == "istream"


def test_a_whole_query_is_made_a_stream() -> None:
    query = parse_query("Rstream(Select k From s1 Union All Select k From s2)")
    assert isinstance(query, exp.Union)
    assert query.meta["to_stream"] == "rstream"


def test_a_list_of_columns_may_begin_with_a_query_that_is_a_value() -> None:
    query = parse_query("Select Istream((Select Max(a) From s2) As most, (k + 1) * 2) From s1")
    assert query.meta["to_stream"] == "istream"
    assert [type(each).__name__ for each in query.expressions] == ["Alias", "Mul"]


def test_the_inner_query_keeps_its_own_operator() -> None:
    query = parse_query("Select a, b From s1 Union All Select Istream(a, b) From s2")
    assert isinstance(query, exp.Union)
    assert "to_stream" not in query.meta
    assert query.expression.meta["to_stream"] == "istream"


def test_istream_without_parentheses_is_a_name() -> None:
    query = parse_query("Select istream, dstream As x From s1 As rstream")
    assert [each.alias_or_name for each in query.selects] == ["istream", "x"]
    assert "to_stream" not in query.meta


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ("[Rows 0]", "Rows needs a whole number"),
        ("[Rows -3]", "Rows needs a whole number"),
        ("[Rows 1.5]", "Rows needs a whole number"),
        ("[Rows many]", "Rows needs a whole number"),
        ("[Rows 3 Slide 0]", "Slide needs a whole number"),
        ("[Range -1 Seconds]", "Range needs a time that is not negative"),
        ("[Range 10]", "Range needs a unit of time"),
        ("[Range 10 Parsecs]", "Range has an unknown unit 'Parsecs'"),
        ("[Range 0.1 Microseconds]", "Range is not a whole number of microseconds"),
        ("[Range 1 Minute Slide 10]", "Slide needs a unit of time"),
        ("[Range 1 Minute Slide 0 Seconds]", "Slide needs a time above zero"),
        ("[Partition By 3]", "Partition By needs names"),
        ("[Partition By k]", "unknown window"),
        ("[Latest 3]", "unknown window 'Latest'"),
        ("[Rows 3 Rows 4]", "unexpected 'Rows' in the window"),
        ("[Now] [Rows 4]", "a second window"),
        ("[Now] As x [Rows 4]", "a second window"),
        ("[Rows 3", "the statement ends too early"),
    ],
)
def test_a_wrong_window_is_refused(window: str, words: str) -> None:
    with pytest.raises(CQLError, match=r"(?s)at line 1, column \d+\n.*\^") as caught:
        parse_query(f"Select a From s0, s1 {window}")
    assert words in str(caught.value)


def test_an_operator_must_enclose_all_columns() -> None:
    with pytest.raises(CQLError, match="Istream must enclose the whole list"):
        parse_query("Select Istream(a), b From s1")


def test_two_operators_around_one_query_are_refused() -> None:
    with pytest.raises(CQLError, match="a stream already"):
        parse_query("Istream(Select Rstream(a) From s1)")
