"""Scripts of declarations and queries."""

from __future__ import annotations

import pytest

from anabranch.cql import CQLError
from anabranch.cql.dialect import parse
from anabranch.cql.statements import (
    CreateQuery,
    CreateRelation,
    CreateStream,
    CreateView,
    DropStatement,
    Explain,
    Pause,
    Resume,
    SelectStatement,
    Show,
    SinkClause,
    Statement,
)
from anabranch.model.stream_times import ARRIVAL

SECOND = 1_000_000


def one(text: str) -> Statement:
    (found,) = parse(text)
    return found


def test_a_stream_is_declared_with_all_clauses() -> None:
    assert one("""
        Create Stream packets (src String, len Long, ts Timestamp, tags Map<String, Array<Int>>)
        From 'csv' With (path = '/data/in', header = true, 'max.age' = 3, kafka.bootstrap.servers = 'h:1', n = -1)
        Timestamp ts Skew 5 Seconds Sequence seq Idle 0.5 Seconds Retain 1 Hour
    """) == CreateStream(
        "packets",
        (("src", "STRING"), ("len", "BIGINT"), ("ts", "TIMESTAMP"), ("tags", "MAP<STRING, ARRAY<INT>>")),
        "csv",
        (
            ("path", "/data/in"),
            ("header", "true"),
            ("max.age", "3"),
            ("kafka.bootstrap.servers", "h:1"),
            ("n", "-1"),
        ),
        timestamp="ts",
        skew_us=5 * SECOND,
        sequence="seq",
        idle_us=SECOND // 2,
        retain_us=3_600 * SECOND,
    )


def test_a_stream_needs_little() -> None:
    assert one("create stream s from 'rate' timestamp timestamp") == CreateStream("s", (), "rate", (), "timestamp")


def test_a_stream_may_get_its_times_and_follow_its_delays() -> None:
    assert one("Create Stream s From 'socket' Timestamp Arrival") == CreateStream("s", (), "socket", (), ARRIVAL)
    assert one("Create Stream s From 'csv' Timestamp `Arrival` Skew Auto") == CreateStream(
        "s", (), "csv", (), "Arrival", skew_us=None
    )


def test_a_stream_may_have_a_key() -> None:
    found = one("Create Stream s From 'csv' Key (id, at) Timestamp ts")
    assert found == CreateStream("s", (), "csv", (), "ts", key=("id", "at"))


@pytest.mark.parametrize("before", ["", "From History ", "Into 'csv' With (path = 'x') "])
def test_a_query_has_options(before: str) -> None:
    found = one(f"Create Query q {before}With (constraints = 'exact', memory = '2 MB') As Select k From s")
    assert isinstance(found, CreateQuery)
    assert (found.constraints, found.memory, found.text) == ("exact", "2 MB", "Select k From s")


def test_other_options_of_a_query_are_refused() -> None:
    with pytest.raises(CQLError, match="a query has no option 'constraint'"):
        one("Create Query q With (constraint = 'exact') As Select k From s")


def test_a_relation_is_declared() -> None:
    text = "Create Relation r (k Long, label String) From 'csv' With (path = 'x')"
    columns = (("k", "BIGINT"), ("label", "STRING"))
    assert one(text) == CreateRelation("r", columns, "csv", (("path", "x"),))


def test_a_relation_may_describe_itself() -> None:
    assert one("Create Relation r From 'parquet' With (path = 'x')") == CreateRelation(
        "r", (), "parquet", (("path", "x"),)
    )


def test_a_query_is_registered() -> None:
    text = "Select k, Count(*) From s [Range 1 Minute] Group By k"
    assert one(f"Create Query busy As {text}") == CreateQuery("busy", text, None)  # type: ignore[arg-type]


def test_a_query_reads_history_and_writes_to_a_sink() -> None:
    found = one("Create Query busy From History Into 'parquet' With (path = 'out') As Istream(Select k From s [Now])")
    assert isinstance(found, CreateQuery)
    assert found.from_history
    assert found.sink == SinkClause("parquet", (("path", "out"),))
    assert found.text == "Istream(Select k From s [Now])"
    assert found.ast.meta["to_stream"] == "istream"


def test_a_view_is_declared() -> None:
    found = one("Create View v As With x As (Select k From s) Select * From x")
    assert isinstance(found, CreateView)
    assert (found.name, found.text) == ("v", "With x As (Select k From s) Select * From x")


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("Drop Stream s", DropStatement("stream", "s")),
        ("Drop Relation r", DropStatement("relation", "r")),
        ("drop query q", DropStatement("query", "q")),
        ("Drop View v", DropStatement("view", "v")),
        ("Pause q", Pause("q")),
        ("Resume q", Resume("q")),
        ("Show Queries", Show("queries")),
        ("Show Queries Like 'alert%'", Show("queries", "alert%")),
        ("Show Streams", Show("streams")),
        ("Show Relations", Show("relations")),
        ("Show Views", Show("views")),
        ("Show Memory", Show("memory")),
        ("Explain Memory", Show("memory")),
        ("Explain `memory`", Explain("memory")),
        ("Explain q", Explain("q")),
    ],
)
def test_queries_are_managed(text: str, statement: Statement) -> None:
    assert one(text) == statement


def test_a_select_can_be_explained() -> None:
    found = one("Explain Select k From s")
    assert isinstance(found, Explain)
    assert isinstance(found.target, SelectStatement)
    assert found.target.text == "Select k From s"


def test_a_script_has_comments_and_empty_statements() -> None:
    found = parse("""
        -- the input
        Create Stream s From 'rate' Timestamp ts; ;
        /* what
           we want */
        Select k From s -- all
        ;
        Show Queries;
    """)
    assert [type(each) for each in found] == [CreateStream, SelectStatement, Show]
    assert isinstance(found[1], SelectStatement)
    assert found[1].text == "Select k From s"


@pytest.mark.parametrize("text", ["", "  ", ";", "-- nothing"])
def test_nothing_is_no_statement(text: str) -> None:
    assert parse(text) == []


def test_words_of_statements_remain_names() -> None:
    assert isinstance(one("Select pause, show, stream, query From s As resume"), SelectStatement)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Create Table x", "cannot create 'Table'"),
        ("Create Stream s From 'csv'", "stream 's' has no timestamp"),
        ("Create Stream s (a) From 'csv' Timestamp ts", "column 'a' has no type"),
        ("Create Stream s From csv Timestamp ts", "a format in quotes"),
        ("Create Stream s From 'csv' With path Timestamp ts", "With needs options in parentheses"),
        ("Create Stream s From 'csv' With (path) Timestamp ts", "an option is a name, = and a value"),
        ("Create Stream s From 'csv' With (path = ) Timestamp ts", "option 'path' has no value"),
        ("Create Stream s From 'csv' Timestamp a Timestamp b", "Timestamp is given twice"),
        ("Create Stream s From 'csv' Timestamp a Skew 5", "Skew needs a unit of time"),
        ("Create Stream s From 'csv' Timestamp a Keep 1 Hour", "a stream has no Keep"),
        ("Create Query q Select k From s", "As and a query are expected"),
        ("Create Query q As nothing", "a query is expected"),
        ("Drop q", "cannot drop 'q'"),
        ("Show Tables", "cannot show 'Tables'"),
        ("Pause", "Pause needs a name"),
        ("Pause q r", "unexpected 'r'"),
        ("Update t Set a = 1", "'Update' does not begin a statement"),
        ("Insert Into t Select 1", "Values are expected"),
        ("Insert Into t Values (1), (2, 3)", "a row of 2 values, where 1 are expected"),
        ("Insert Into t (a, b) Values (1)", "a row of 1 values, where 2 are expected"),
        ("Insert Into t Values 1", "a row in parentheses is expected"),
        ("Delete From t Where", "Where needs a condition"),
        ("Create Relation r From Stream s Where k", "Key and columns in parentheses are expected"),
        ("Show Streams; Create View v As Select a Frm s", "unexpected 'Frm'"),
    ],
)
def test_a_wrong_statement_is_refused(text: str, words: str) -> None:
    with pytest.raises(CQLError, match="at line 1, column") as caught:
        parse(text)
    assert words in str(caught.value)
