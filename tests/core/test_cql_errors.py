"""Errors in queries say what, where, and what to do about it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from anabranch.cql import Catalog, CQLError, FunctionInfo, bind
from anabranch.cql.dialect import parse
from anabranch.cql.rendering import render
from anabranch.errors import QueryError

CATALOG = Catalog(
    streams={"s1": ("k", "a"), "s2": ("k", "b")},
    relations={"r": ("k", "label")},
    views={"loop": "Select k From loop", "broken": "Select\n  kk\nFrom s1"},
    functions={"luck": FunctionInfo("luck", deterministic=False), "upper": FunctionInfo("upper")},
)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "cql.md"


def error(text: str) -> CQLError:
    with pytest.raises(CQLError) as caught:
        bind(text, CATALOG, "q")
    return caught.value


def test_an_unknown_column_is_shown_and_one_is_suggested() -> None:
    assert str(error("Select kk From s1")) == (
        "unknown column 'kk' at line 1, column 8\n"
        "  Select kk From s1\n"
        "         ^^\n"
        "  hint: did you mean 'k'? The columns are: k, a"
    )


def test_an_ambiguous_column_is_shown_with_its_full_names() -> None:
    assert str(error("Select s1.k From s1 [Now] Join s2 [Now] On a = b Where k > 3")) == (
        "column 'k' is ambiguous at line 1, column 56\n"
        "  Select s1.k From s1 [Now] Join s2 [Now] On a = b Where k > 3\n"
        "                                                         ^\n"
        "  hint: write one of s1.k, s2.k"
    )
    assert "write one of s1.k, s2.k" in str(error("Select k From s1 [Now], s2 [Now] Where s1.k = s2.k"))
    assert bind("Select k From s1 [Now] Join s2 [Now] Using (k)", CATALOG, "q").output == ("k",)


def test_an_unknown_stream_is_shown_and_names_are_suggested() -> None:
    assert str(error("Select k\nFrom s9")) == (
        "unknown stream or relation 's9' at line 2, column 6\n"
        "  From s9\n"
        "       ^^\n"
        "  hint: did you mean 's2'? The names are: s1, s2, r, loop, broken"
    )


def test_a_misspelt_keyword_is_shown() -> None:
    assert str(error("Select k Frm s1")) == (
        "unexpected 'Frm' at line 1, column 10\n  Select k Frm s1\n           ^^^\n  hint: did you mean 'From'?"
    )


def test_a_wrong_number_of_rows_is_shown() -> None:
    assert str(error("Select k From s1 [Rows -3]")) == (
        "Rows needs a whole number above zero at line 1, column 24\n"
        "  Select k From s1 [Rows -3]\n"
        "                         ^\n"
        "  hint: as in [Rows 100]"
    )


@pytest.mark.parametrize(
    ("window", "what", "place"),
    [
        ("Rows 99999999999999999999", "Rows has too large a number", 6),
        ("Rows 5 Slide 99999999999999999999", "Slide has too large a number", 14),
        ("Range 99999999999999 Days", "Range is longer than 36,000 years", 7),
    ],
)
def test_windows_that_no_number_can_hold_are_shown(window: str, what: str, place: int) -> None:
    assert str(error(f"Select k From s1 [{window}]")).startswith(f"{what} at line 1, column {18 + place}\n")
    bind("Select k From s1 [Range 13000000 Days]", CATALOG, "q")


def test_a_replay_of_nothing_is_shown() -> None:
    with pytest.raises(CQLError) as caught:
        parse("Create Stream s (k Long)\n  From 'replay' With (speed = 60) Timestamp ts")
    assert str(caught.value) == (
        "'replay' needs a path at line 2, column 8\n"
        "    From 'replay' With (speed = 60) Timestamp ts\n"
        "         ^^^^^^^^\n"
        "  hint: as in From 'replay' With (path = 'in/', speed = 60)"
    )


def test_an_unknown_function_is_shown_and_one_is_suggested() -> None:
    functions = {"suspicious": FunctionInfo("suspicious")}
    catalog = Catalog(CATALOG.streams, functions=functions, builtins=lambda: ["soundex", "Levenshtein", "elt", "upper"])
    bind("Select levenshtein(k, 'x'), soundex(k), upper(k), suspicious(a), elt(1, k) From s1", catalog, "q")
    messages = {
        "Select k\nFrom s1 Where sondex(k) = 'x'": (
            "unknown function 'sondex' at line 2, column 15\n"
            "  From s1 Where sondex(k) = 'x'\n"
            "                ^^^^^^^^\n"
            "  hint: did you mean 'soundex'? The functions of a similar name are: soundex"
        ),
        "Select suspicous(a) From s1": (
            "unknown function 'suspicous' at line 1, column 8\n"
            "  Select suspicous(a) From s1\n"
            "         ^^^^^^^^^^^\n"
            "  hint: did you mean 'suspicious'? The functions of a similar name are: suspicious"
        ),
        "Select frobnicate(a) From s1": (
            "unknown function 'frobnicate' at line 1, column 8\n"
            "  Select frobnicate(a) From s1\n"
            "         ^^^^^^^^^^^^\n"
            "  hint: register it, as in engine.function(...)"
        ),
    }
    for text, message in messages.items():
        with pytest.raises(CQLError) as caught:
            bind(text, catalog, "q")
        assert str(caught.value) == message


def test_spark_is_asked_for_its_functions_once_at_most() -> None:
    asked = []

    def builtins() -> list[str]:
        asked.append(1)
        return ["upper", "lower"]

    catalog = Catalog(CATALOG.streams, builtins=builtins)
    bind("Select Count(*), Max(a) From s1", catalog, "q")
    assert not asked
    bind("Select upper(k), lower(a), upper(a) From s1", catalog, "q")
    assert asked == [1]


def test_a_function_of_the_user_is_not_taken_for_an_aggregate() -> None:
    catalog = Catalog(CATALOG.streams, functions={"measure": FunctionInfo("measure")})
    with pytest.raises(CQLError, match="the function 'measure' of the user has the name of a built-in one"):
        bind("Select measure(a) From s1", catalog, "q")


def test_without_a_list_of_functions_any_name_may_be_one_of_sparks() -> None:
    assert bind("Select frobnicate(a) From s1", CATALOG, "q").output == ("frobnicate",)


def test_a_text_that_ends_too_early_is_shown_where_it_ends() -> None:
    assert str(error("Select *\nFrom \n")) == ("the statement ends too early at line 2, column 5\n  From\n      ^")
    assert str(error("Select k From s1 [Range 1 Minute")) == (
        "the statement ends too early at line 1, column 33\n"
        "  Select k From s1 [Range 1 Minute\n"
        "                                  ^\n"
        "  hint: the windows are [Rows N], [Range T], [Now], [Partition By a, b Rows N], each but [Now] also with Slide"
    )
    for text in ("Show Streams; Create", "Show Streams; Drop", "Show Streams; Show"):
        with pytest.raises(CQLError, match=f"the statement ends too early at line 1, column {len(text) + 1}\n"):
            parse(text)


@pytest.mark.parametrize("unit", ["Months", "quarter", "YEARS"])
def test_units_without_a_fixed_length_are_refused(unit: str) -> None:
    text = f"Select k From s1 [Range 3 {unit}]"
    assert str(error(text)) == (
        f"Range in {unit} has no fixed length at line 1, column 27\n"
        f"  {text}\n"
        f"  {' ' * 26}{'^' * len(unit)}\n"
        "  hint: write it in days, as in Range 30 Days"
    )


def test_a_window_on_a_relation_is_refused() -> None:
    assert str(error("Select s1.k From s1, r [Rows 3]")) == (
        "a window on a relation: windows are for streams at line 1, column 24\n"
        "  Select s1.k From s1, r [Rows 3]\n"
        "                         ^^^^^^^^\n"
        "  hint: leave the window out, or make a stream of it with Istream, Dstream or Rstream"
    )


def test_a_problem_in_a_view_shows_the_text_of_the_view() -> None:
    assert (error("Select * From s1, broken").line, error("Select * From s1, broken").column) == (2, 3)


def test_a_problem_in_a_script_counts_its_lines() -> None:
    statement = parse("Show Streams;\nSelect k\nFrom s1 Where aa > 3")[1]
    with pytest.raises(CQLError, match="line 3, column 15"):
        bind(statement.ast, CATALOG, "q")  # type: ignore[union-attr]


def test_a_problem_in_a_view_of_a_script_counts_the_lines_of_the_script() -> None:
    statement = parse("Show Streams;\nCreate View v As\n  Select aa From s1")[1]
    with pytest.raises(CQLError, match="line 3, column 10"):
        bind("Select * From v", Catalog(CATALOG.streams, views={"v": statement.ast}), "q")  # type: ignore[union-attr]


def test_an_error_is_a_query_error_and_survives_pickling() -> None:
    found = error("Select kk From s1")
    assert isinstance(found, QueryError)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Selct k From s1", "did you mean 'Select'?"),
        ("Select k From s1 Where a > 3 Grup By k", "did you mean 'Group'?"),
        ("Select k From s1 Where", "something is missing at 'Where'"),
        ("Select k From s1 Where a >", "something is missing at '>'"),
        ("Select k From s1 Where (a", "ends too early at line 1, column 26"),
        ("Select Istream(", "ends too early at line 1, column 16"),
        ("Select k From s1 [", "ends too early at line 1, column 19"),
        ("Select k From s1 [Rows", "a whole number above zero at line 1, column 23"),
        ("Select (k From s1", "a closing parenthesis"),
        ("Select 'k From s1", "close every quote"),
        ("Select x.k From s1", "'x' is not in From"),
        ("Select s1.kk From s1", "unknown column 'kk' of 's1'"),
        ("Select x.* From s1", "'x' is not in From"),
        ("Select k From s1, s2", "write one of s1.k, s2.k"),
        ("Select a.k From s1 a, s2 a", "'a' is in From twice"),
        ("Select k From db.s1", "streams and relations have names of one part"),
        ("Select k From s1 [Partition By kk Rows 3]", "unknown column 'kk' in Partition By"),
        ("Select k From (Select k From s1 [Now]) [Rows 3]", "a window on a relation"),
        ("Select k From loop", "the view 'loop' reads itself"),
        ("Select k From r", "no stream in the query"),
        ("Select 1", "a query without From has no stream"),
    ],
)
def test_names_and_texts_that_mean_nothing_are_refused(text: str, words: str) -> None:
    assert words in str(error(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Select k From s1 Order By k", "Order By is not supported"),
        ("Select k From s1 Limit 3", "a relation has no order"),
        ("Select Sum(a) Over (Order By k) From s1", "Over is not supported"),
        ("With Recursive x As (Select k From s1) Select * From x", "With Recursive is not supported"),
        ("Select s1.k From s1 Left Join s2 Using (k)", "Left Join needs On"),
        (
            "Select s1.k From s1 Full Join s2 On s1.k In (Select k From s2)",
            "In or Exists with a query is not",
        ),
        ("Select s1.k From s1 Left Join s2 On s1.k = z.k Left Join s2 As z On s1.k = z.k", "'z' is not in From"),
        ("Select s1.k From s1 Natural Join s2", "name the columns with Using"),
        ("Select k From s1 Left Anti Join s2 On s1.k = s2.k", "use Not Exists"),
        ("Select x From Values (1) As t(x)", "Values is not supported"),
        ("Select * Except (k) From s1", "* Except is not supported"),
        ("Select rand() From s1", "rand() is not deterministic"),
        ("Select k From s1 Where a > now()", "now() is not deterministic"),
        ("Select current_timestamp From s1", "current_timestamp() is not deterministic"),
        ("Select uuid() From s1", "uuid() is not deterministic"),
        ("Select getdate() From s1", "getdate() is not deterministic"),
        ("Select unix_timestamp() From s1", "unix_timestamp() is not deterministic"),
        ("Select localtime() From s1", "localtime() is not deterministic"),
        ("Select input_file_block_start() From s1", "input_file_block_start() is not deterministic"),
        ("Select input_file_block_length() From s1", "input_file_block_length() is not deterministic"),
        ("Select current_user From s1", "current_user() is not deterministic"),
        ("Select current_database() From s1", "current_database() is not deterministic"),
        ("Select reflect('java.lang.System', 'exit', 1) From s1", "reflect() can call anything"),
        ("Select java_method('java.lang.Math', 'random') From s1", "java_method() can call anything"),
        ("Select try_reflect('java.lang.Math', 'random') From s1", "try_reflect() can call anything"),
        ("Select json_tuple(a, 'x') From s1", "yields several rows"),
        ("Select luck(a) From s1", "luck() is not deterministic"),
        ("Select upper(a) From s1", "has the name of a built-in one"),
        ("Select explode(a) From s1", "yields several rows"),
        ("Select k From s1 Union Select k, b From s2", "Union of 1 and 2 columns"),
        ("Select Istream(k) From s1 Union Select k From s2", "one side is a stream"),
    ],
)
def test_what_a_relation_cannot_do_is_refused(text: str, words: str) -> None:
    assert words in str(error(text))


def test_a_column_is_not_named_as_what_every_answer_has() -> None:
    catalog = Catalog(streams={"s": ("k", "_ts", "_op")})
    messages = {
        "Select k As _TS From s": (
            "the answer has a column '_ts' of its own at line 1, column 8\n"
            "  Select k As _TS From s\n"
            "         ^^^^^^^^\n"
            "  hint: give it another name, as in As TS"
        ),
        "Select k, s.* From s": (
            "the answer has a column '_ts' of its own at line 1, column 11\n"
            "  Select k, s.* From s\n"
            "            ^^^\n"
            "  hint: list the columns, with _ts As ts"
        ),
        "Select k, _op From s [Rows 1] Union Select k, k From s": (
            "the answer has a column '_op' of its own at line 1, column 11\n"
            "  Select k, _op From s [Rows 1] Union Select k, k From s\n"
            "            ^^^\n"
            "  hint: give it another name, as in As op"
        ),
    }
    for text, message in messages.items():
        with pytest.raises(CQLError) as caught:
            bind(text, catalog, "q")
        assert str(caught.value) == message
    assert bind("Select k, _ts As t, _op From s", catalog, "q").output == ("k", "t", "_op"), "a stream has no _op"
    assert bind("With x As (Select * From s) Select k, _op As o From x", catalog, "q").output == ("k", "o")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Select k, Count(*) From s1", "column 'k' is neither grouped nor aggregated"),
        ("Select k From s1 Group By a", "add k to Group By"),
        ("Select Median(a) From s1", "the aggregate 'median' is not supported"),
        ("Select collect_list(a) From s1", "there are count, count_if, approx_count_distinct, sum"),
        ("Select Count(Distinct a, k) From s1", "count takes one argument"),
        ("Select approx_percentile(a, 90) From s1", "a quantile needs one number from 0 to 1"),
        ("Select Sum(Count(*)) From s1", "an aggregate inside an aggregate"),
        ("Select k From s1 Where Count(*) > 1", "use Having"),
        ("Select k From s1 Group By Rollup(k)", "Rollup is not supported"),
        ("Select k From s1 Group By 2", "Group By 2 is not a position"),
    ],
)
def test_a_wrong_aggregation_is_refused(text: str, words: str) -> None:
    assert words in str(error(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Select k From s1 Where k In (Select k From s2) Or a = 1", "In or Exists with a query is not"),
        ("Select k From s1 Where k In (Select k, b From s2)", "In compares 1 values with 2 columns"),
        ("Select k From s1 Where (k, a) Not In (Select k, b From s2)", "use Not Exists"),
        ("Select k From s1 Where k In (Select Istream(k) From s2)", "this is a stream"),
        ("Select k From s1 Where Exists (Select 1 From s2 Where s2.k > s1.k)", "by = only"),
        ("Select k From s1 Where Exists (Select Count(*) From s2 Where s2.k = s1.k)", "use a join"),
        ("Select k From s1 Where a = (Select b From s2)", "this query is not a single value"),
        ("Select k From s1 Where a = (Select Max(b) From s2 Group By k)", "this query is not a single value"),
        ("Select k From s1 Where Exists (Select s1.a From s2)", "a column of the outer query cannot be used here"),
    ],
)
def test_a_wrong_inner_query_is_refused(text: str, words: str) -> None:
    assert words in str(error(text))


def test_what_the_page_lists_is_refused_by_that_name() -> None:
    section = PAGE.read_text().split("## What is not supported")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| `(Select .+?|With .+?)` \| (.+?) \|$", section, re.MULTILINE)
    assert len(rows) == section.count("\n| ") - 1 > 40, "every row but the first has a query"
    catalog = Catalog({"s1": ("k", "a"), "s2": ("k", "b"), "s3": ("k", "c")}, {"r": ("k", "label")})
    for name, text, _ in rows:
        with pytest.raises(CQLError) as caught:
            bind(text, catalog, "q")
        what = str(caught.value).split("\n")[0]
        assert name.lower() in what.lower(), (name, what)
        assert re.search(r" at line 1, column \d+$", what), what
        assert "\n  hint: " in str(caught.value), what


def test_a_quote_within_a_text_is_doubled_or_behind_a_backslash() -> None:
    for text in ("it''s", "it\\'s"):
        assert "`a_1` = 'it\\'s'" in render(bind(f"Select a From s1 [Now] Where a = '{text}'", CATALOG, "q").plan)


def test_double_quotes_enclose_names() -> None:
    assert bind('Select "K" As "a b" From "s1" Where "a" = \'x\'', CATALOG, "q").output == ("a b",)
    assert str(error('Select k From s1 Where a = "x"')) == (
        "unknown column 'x' at line 1, column 28\n"
        '  Select k From s1 Where a = "x"\n'
        "                             ^^^\n"
        "  hint: double quotes enclose a name; a text has single ones, as in 'x'"
    )
