"""Plans of queries, by their rendering."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from anabranch.cql import Catalog, FunctionInfo, bind, mermaid, parse_query, render
from anabranch.cql.dialect import parse
from anabranch.expressions import Scalar
from anabranch.logical_plan import (
    Filter,
    Join,
    Member,
    Query,
    Scan,
    ToStream,
    Window,
    scalars,
    user_functions,
    walk,
)

CATALOG = Catalog(
    streams={
        "s": ("a", "b", "c"),
        "s1": ("k", "a"),
        "s2": ("k", "b"),
        "s3": ("k", "c"),
        "CarStr": ("cid", "xpos", "sid"),
    },
    relations={"r": ("k", "label")},
    functions={"score": FunctionInfo("Score")},
)


def query(text: str, catalog: Catalog = CATALOG) -> Query:
    found = bind(text, catalog, "q")
    for node in walk(found.plan):
        if isinstance(node, Join):
            assert len(set(node.columns)) == len(node.columns), "columns of a join are unique"
    return found


def plan(text: str, catalog: Catalog = CATALOG) -> str:
    return render(query(text, catalog).plan)


def same(found: str, expected: str) -> bool:
    assert found == dedent(expected).strip()
    return True


@pytest.mark.parametrize(
    "head", ["Select Istream(*) From S [Rows Unbounded]", "Select * From S", "Select Istream(a, b, c) From s"]
)
def test_the_filter_of_the_thesis_in_its_forms(head: str) -> None:
    assert same(
        plan(f"{head} Where S.A > 10 and S.B < 20 and S.C > 40"),
        """
        istream
          filter `a_1` > 10 and `b_2` < 20 and `c_3` > 40
            window unbounded
              stream s (a as a_1, b as b_2, c as c_3)
        """,
    )


def test_the_windowed_join_of_the_thesis() -> None:
    found = query("Select * From s1 [Rows 1000], s2 [Range 2 Minutes] Where s1.k = s2.k and s1.k > 10 and s1.a < 20")
    assert not found.is_stream
    assert found.output == ("k", "a", "s2_k", "b")
    assert found.plan == Join(
        (
            Filter(
                Window(Scan("s1", "stream", (("k", "k_1"), ("a", "a_3"))), rows=1000),
                (Scalar.parsed("`k_1` > 10"), Scalar.parsed("`a_3` < 20")),
            ),
            Window(Scan("s2", "stream", (("k", "k_2"), ("b", "b_4"))), span=120_000_000),
        ),
        (((0, "k_1"), (1, "k_2")),),
    )


def test_the_windowed_join_of_the_thesis_as_a_stream() -> None:
    found = query("Select Istream(S1.k) From S1 [Rows 1000], S2 [Range 2 Minutes] Where S1.k = S2.k")
    assert found.is_stream
    assert found.output == ("k",)


def test_the_network_query_of_the_thesis() -> None:
    text = """
        Select Istream(s1.k, Count(*) As n)
        From s1 [Range 10 minutes], s2 [Range 10 minutes], s3 [Range 10 minutes]
        Where s1.k = s2.k and s2.k = s3.k Group By s1.k
    """
    assert same(
        plan(text),
        """
        istream
          aggregate by (k_1): count(*) as n_4
            join k_1 = k_2 = k_3
              window range 10 minutes
                stream s1 (k as k_1)
              window range 10 minutes
                stream s2 (k as k_2)
              window range 10 minutes
                stream s3 (k as k_3)
        """,
    )


def test_the_accident_query_of_the_thesis() -> None:
    """But for the qualified cid: two columns have that name, and standard SQL wants to be told which."""
    text = """
        Select distinct sid From
          (Select LastRep.cid, sid From
            (CarStr [Partition By cid Rows 1]) as LastRep,
            (Select distinct cid From
              CarStr [Range 30 seconds]) as CurActiveCars
           Where LastRep.cid = CurActiveCars.cid)
         as CurCarSeg,
         (Select cid
          From CarStr [Partition By cid Rows 4]
          Group By cid
          Having count (distinct xpos) = 1 and count(*) = 4)
         as AccCars
        Where CurCarSeg.cid = AccCars.cid
    """
    assert same(
        plan(text),
        """
        distinct
          project sid_4
            join cid_1 = cid_6
              project cid_1, sid_4
                join cid_1 = cid_2
                  window partition by cid_1 rows 1
                    stream CarStr (cid as cid_1, sid as sid_4)
                  distinct
                    window range 30 seconds
                      stream CarStr (cid as cid_2)
              project cid_6
                filter `count_8` = 1 and `count_9` = 4
                  aggregate by (cid_6): count(distinct xpos_7) as count_8, count(*) as count_9
                    window partition by cid_6 rows 4
                      stream CarStr (cid as cid_6, xpos as xpos_7)
        """,
    )


@pytest.mark.parametrize(
    ("text", "is_stream"),
    [
        ("Select k From s1", True),
        ("Select Distinct k From s1", True),
        ("Select s1.k From s1, r Where s1.k = r.k", True),
        ("Select k From s1 Union All Select k From s2", True),
        ("Select k From s1 Intersect Select k From s2", True),
        ("Select k From s1 Where Exists (Select 1 From s2)", True),
        ("Select k From (Select Istream(k) From s1 [Now]) As x", True),
        ("Select k From s1 [Range Unbounded Slide 1 Minute]", True),
        ("Select k From s1 [Partition By k Range Unbounded]", True),
        ("Select k From s1 [Range 1 Minute Slide 1 Minute]", False),
        ("Select k From s1 [Rows 5]", False),
        ("Select k From s1 [Now]", False),
        ("Select s1.k From s1, s2 [Rows 5]", False),
        ("Select Count(*) From s1", False),
        ("Select k From s1 Except Select k From s2", False),
        ("Select k From s1 Where Not Exists (Select 1 From s2)", False),
        ("Select k From s1 Where k Not In (Select k From s2)", False),
        ("Select k From (Select Istream(k) From s1) [Rows 2] As x", False),
    ],
)
def test_an_answer_that_only_grows_is_a_stream(text: str, is_stream: bool) -> None:
    assert query(text).is_stream == is_stream


def test_only_used_columns_are_scanned() -> None:
    text = "Select k From (Select * From s1) As x, (Select k As j, Max(b) As m From s2 Group By k) As y Where k = j"
    assert [node for node in walk(query(text).plan) if isinstance(node, Scan)] == [
        Scan("s1", "stream", (("k", "k_1"),)),
        Scan("s2", "stream", (("k", "k_4"),)),
    ]


def test_a_key_that_is_no_column_is_computed_below_the_join() -> None:
    assert same(
        plan("Select s1.k From s1, s2 Where s1.k + 1 = s2.k And s1.a + s2.b > 3"),
        """
        istream
          project k_1
            filter `a_3` + `b_4` > 3
              join key_5 = k_2
                project k_1, a_3, `k_1` + 1 as key_5
                  window unbounded
                    stream s1 (k as k_1, a as a_3)
                window unbounded
                  stream s2 (k as k_2, b as b_4)
        """,
    )


def test_an_input_has_one_column_per_class() -> None:
    assert same(
        plan("Select a.k From s1 a Join s2 b On a.k = b.k And a.a = b.k"),
        """
        istream
          project k_1
            join k_1 = k_2
              filter `k_1` = `a_3`
                window unbounded
                  stream s1 (k as k_1, a as a_3)
              window unbounded
                stream s2 (k as k_2)
        """,
    )


def test_columns_of_using_are_one() -> None:
    found = query("Select *, k From s1 Join s2 Using (k) Join s3 Using (k)")
    assert found.output == ("k", "a", "b", "c", "k_2")
    join = next(node for node in walk(found.plan) if isinstance(node, Join))
    assert [len(key) for key in join.keys] == [3]


def test_inner_and_cross_joins_are_one_join() -> None:
    assert same(
        plan("Select s1.k From s1 Inner Join s2 On s1.k = s2.k Cross Join r"),
        """
        istream
          project k_1
            join k_1 = k_2
              window unbounded
                stream s1 (k as k_1)
              window unbounded
                stream s2 (k as k_2)
              relation r ()
        """,
    )


def test_a_stream_is_joined_with_itself() -> None:
    found = query("Select x.k, y.k From s1 [Now] x, s1 As y [Rows 3] Where x.a = y.a")
    assert found.output == ("k", "y_k")


def test_conditions_can_be_joined_by_and_as_they_stand() -> None:
    found = query("Select k From s1 Where (a > 1 Or a < 0) And k = 2").plan
    assert [each.sql for node in walk(found) if isinstance(node, Filter) for each in node.conditions] == [
        "(`a_1` > 1 OR `a_1` < 0)",
        "`k_2` = 2",
    ]


def test_fields_of_a_struct_are_read() -> None:
    assert "filter `a_1`.`x`.`y` > 3" in plan("Select k From s1 Where s1.a.x.y > 3")
    assert "filter `a_1`.`x` > 3" in plan("Select k From s1 Where a.x > 3")


def test_aggregates_and_keys_are_computed_below() -> None:
    text = """
        Select a + 1 As b, Count(*), Sum(k * 2) + 1 As t, Sum(k) Filter (Where a > 2), count_if(a > 3) As many
        From s1 [Rows 9] Group By b Having Count(*) > 1 And t < 9
    """
    found = query(text)
    assert found.output == ("b", "count", "t", "sum", "many")
    assert same(
        render(found.plan),
        """
        project key_3, count_4, `sum_6` + 1 as t_11, sum_8, many_10
          filter `count_4` > 1 and (`sum_6` + 1) < 9
            aggregate by (key_3): count(*) as count_4, sum(argument_5) as sum_6, sum(argument_7) as sum_8, \
count(argument_9) as many_10
              project `a_1` + 1 as key_3, `k_2` * 2 as argument_5, CASE WHEN `a_1` > 2 THEN `k_2` END as argument_7, \
CASE WHEN `a_1` > 3 THEN 1 END as argument_9
                window rows 9
                  stream s1 (k as k_2, a as a_1)
        """,
    )


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("count(1)", "count(*)"),
        ("count(a)", "count(a_1)"),
        ("count(Distinct a)", "count(distinct a_1)"),
        ("approx_count_distinct(a)", "count(distinct a_1)"),
        ("sum(Distinct a)", "sum(distinct a_1)"),
        ("avg(a)", "avg(a_1)"),
        ("mean(a)", "avg(a_1)"),
        ("min(a)", "min(a_1)"),
        ("max(a)", "max(a_1)"),
        ("stddev(a)", "stddev_samp(a_1)"),
        ("std(a)", "stddev_samp(a_1)"),
        ("stddev_samp(a)", "stddev_samp(a_1)"),
        ("stddev_pop(a)", "stddev_pop(a_1)"),
        ("variance(a)", "var_samp(a_1)"),
        ("var_samp(a)", "var_samp(a_1)"),
        ("var_pop(a)", "var_pop(a_1)"),
        ("approx_percentile(a, 0.9)", "quantile(a_1, 0.9)"),
        ("percentile_approx(a, 0.5, 100)", "quantile(a_1, 0.5)"),
    ],
)
def test_every_aggregate_function(call: str, shown: str) -> None:
    assert plan(f"Select {call} As x From s1").startswith(f"aggregate by (): {shown} as x_")


def test_groups_are_named_by_place_alias_or_expression() -> None:
    texts = [
        f"Select upper(k) As u, Count(*) As n From s1 Group By {key}" for key in ("1", "u", "upper(k)", "(Upper(K))")
    ]
    assert len({plan(text).replace("(upper(`k_1`))", "upper(`k_1`)") for text in texts}) == 1


def test_in_is_a_member() -> None:
    assert same(
        plan("Select k From s1 Where (k, a) In (Select k, b * 2 From s2 [Now]) And k In (1, 2)"),
        """
        project k_1
          member k_1 = k_3 and a_2 = _c1_5
            filter `k_1` IN (1, 2)
              window unbounded
                stream s1 (k as k_1, a as a_2)
            project k_3, `b_4` * 2 as _c1_5
              window now
                stream s2 (k as k_3, b as b_4)
        """,
    )


def test_exists_compares_with_the_outer_query() -> None:
    assert same(
        plan("Select k From s1 Where Exists (Select * From s2 [Now] t Where t.k = s1.k And t.b > 3)"),
        """
        member k_2 = k_1
          window unbounded
            stream s1 (k as k_2)
          filter `b_3` > 3
            window now
              stream s2 (k as k_1, b as b_3)
        """,
    )


def test_not_in_minds_nulls() -> None:
    assert same(
        plan("Select Istream(k, a) From s1 [Now] Where k Not In (Select k From s2 [Range 10 Seconds])"),
        """
        istream
          union all
            not member
              not member k_1 = k_2
                filter NOT `k_1` IS NULL
                  window now
                    stream s1 (k as k_1, a as a_3)
                window range 10 seconds
                  stream s2 (k as k_2)
              filter `k_2` IS NULL
                window range 10 seconds
                  stream s2 (k as k_2)
            not member
              filter `k_1` IS NULL
                window now
                  stream s1 (k as k_1, a as a_3)
              window range 10 seconds
                stream s2 (k as k_2)
        """,
    )


def test_not_in_with_a_comparison_keeps_it_in_every_test() -> None:
    found = query("Select k From s1 Where a Not In (Select b From s2 Where s2.k = s1.k)").plan
    tests = [node.pairs for node in walk(found) if isinstance(node, Member)]
    assert tests == [(("a_1", "b_4"), ("k_3", "k_2")), (("k_3", "k_2"),), (("k_3", "k_2"),)]


def test_an_aggregate_of_a_query_is_a_value() -> None:
    assert same(
        plan("Select k From s1 [Now] Where a > (Select Avg(b) From s2 [Rows 10]) And k = (Select Max(k) From s2)"),
        """
        project k_8
          filter `a_7` > `avg_2`
            join k_8 = max_5
              window now
                stream s1 (k as k_8, a as a_7)
              aggregate by (): avg(b_1) as avg_2
                window rows 10
                  stream s2 (b as b_1)
              aggregate by (): max(k_4) as max_5
                window unbounded
                  stream s2 (k as k_4)
        """,
    )


def test_set_operations_agree_by_place() -> None:
    found = query("Istream(Select k As x From s1 Union All Select b From s2 Union All Select k From r)")
    assert found.output == ("x",)
    assert same(
        render(found.plan),
        """
        istream
          union all
            window unbounded
              stream s1 (k as k_1)
            window unbounded
              stream s2 (b as b_2)
            relation r (k as k_3)
        """,
    )
    assert plan("Select k From s1 Except All Select k From s2 Intersect Select k From r").startswith("except all\n")


@pytest.mark.parametrize(
    ("items", "output"),
    [
        ("a, a, a As z", ("a", "a_2", "z")),
        ("s1.*, r.*", ("k", "a", "r_k", "label")),
        ("upper(label), a + 1, -a, cast(a As Double)", ("upper", "_c1", "_c2", "a")),
        ("Score(a), 'x'", ("score", "_c1")),
    ],
)
def test_columns_without_an_alias_get_a_name(items: str, output: tuple[str, ...]) -> None:
    assert query(f"Select {items} From s1, r Where s1.k = r.k").output == output


def test_functions_of_the_user_are_listed() -> None:
    found = query("Select k From s1 Where score(a, SCORE(k)) > 3").plan
    condition = next(iter(scalars(found)))
    assert condition == Scalar.parsed("score(`a_1`, score(`k_2`)) > 3")
    assert (condition.columns, condition.functions) == (("a_1", "k_2"), ("Score",))
    assert user_functions(found) == {"Score"}


def test_a_view_and_a_common_query_are_expanded() -> None:
    catalog = replace(CATALOG, views={"v": "Select k, a From s1 [Now]", "w": parse_query("Select k As j From V")})
    expected = "filter `k_1` > 3\n  window now\n    stream s1 (k as k_1)"
    assert plan("Select j From w Where j > 3", catalog) == expected
    text = "With x As (Select k, a From s1 [Now]), y(j) As (Select k From x) Select j From y Where j > 3"
    assert plan(text) == plan("Select j From w Where j > 3", catalog)


def test_answers_of_other_queries_are_inlined() -> None:
    stream = bind("Select Istream(k, a.f + 1 As x) From s1 [Rows 3]", CATALOG, "q1")
    relation = bind("Select k, Count(*) As n From s1 [Rows 3] Where a = 'a_2' Group By k", CATALOG, "q2")
    catalog = replace(CATALOG, queries={"q1": stream, "q2": relation})
    assert same(
        plan("Select l.x, n From Q1 [Range 1 Minute] l, q1 m, q2 Where l.k = m.k And q2.k = m.k", catalog),
        """
        project x_3, n_9
          join k_1 = k_4 = k_7
            window range 1 minute
              istream
                project k_1, `a_2`.`f` + 1 as x_3
                  window rows 3
                    stream s1 (k as k_1, a as a_2)
            window unbounded
              istream
                project k_4, `a_5`.`f` + 1 as x_6
                  window rows 3
                    stream s1 (k as k_4, a as a_5)
            aggregate by (k_7): count(*) as n_9
              filter `a_8` = 'a_2'
                window rows 3
                  stream s1 (k as k_7, a as a_8)
        """,
    )


def test_binding_leaves_the_tree_as_it_is() -> None:
    tree = parse_query("Select k, (Select Max(b) From s2) From (s1) [Now] Where k In (Select k From s2)")
    assert bind(tree, CATALOG, "q") == bind(tree, CATALOG, "q")


def test_a_registered_query_knows_its_text() -> None:
    script = "Show Streams; Create Query busy As Select k From s1 [Now];"
    statement = parse(script)[1]
    assert bind(statement.ast, CATALOG, "busy").text == "Select k From s1 [Now]"  # type: ignore[union-attr]


def test_every_window_is_rendered() -> None:
    windows = {
        "[Partition By k Rows 2 Range 90 Seconds]": "partition by k_1 rows 2 range 90 seconds",
        "[Range 1 Hour Slide 1 Minute]": "range 1 hour slide 1 minute",
        "[Rows 10 Slide 5]": "rows 10 slide 5 rows",
        "[Now]": "now",
    }
    for written, shown in windows.items():
        assert plan(f"Select k From s1 {written}").startswith(f"window {shown}\n")


def test_a_chart_of_a_query() -> None:
    assert same(
        mermaid(query("Select k From s1 Where a > 'x'")),
        """
        flowchart TD
            n0[("stream s1 (k as k_2, a as a_1)")]
            n1["window unbounded"]
            n0 --> n1
            n2["filter #96;a_1#96; &gt; 'x'"]
            n1 --> n2
            n3["project k_2"]
            n2 --> n3
            n4["istream"]
            n3 --> n4
            answer(["q: k"])
            n4 --> answer
        """,
    )


def test_the_outermost_query_alone_becomes_a_stream_by_default() -> None:
    found = query("Select k From (Select k From s1) As x").plan
    assert [type(node) for node in walk(found) if isinstance(node, ToStream)] == [ToStream]
