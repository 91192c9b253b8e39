"""Advice: each finding where it is right, and silence where it is nearly so."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from anabranch.cql import Catalog, bind
from anabranch.logical_plan import Query
from anabranch.workload.advice import advise
from anabranch.workload.equal_windows import equal_windows
from anabranch.workload.findings import Finding, QueryCosts, StreamFacts, Workload
from anabranch.workload.missing_slides import missing_slides
from anabranch.workload.query_features import QueryFeatures, features
from anabranch.workload.similar_queries import constant_queries, equal_queries
from anabranch.workload.unbounded_state import unbounded_state
from anabranch.workload.unread_columns import unread_columns
from anabranch.workload.workload_mix import mix, mix_drifts

PACKETS = {
    "seq": "bigint", "ts": "timestamp", "src": "string", "dst": "string", "size": "bigint", "load": "double",
}  # fmt: skip
FLOWS = {"ts": "timestamp", "dst": "string", "id.resp_p": "int"}
HOUR = 3_600_000_000
CATALOG = Catalog(
    streams={"packets": tuple(PACKETS), "flows": tuple(FLOWS)}, relations={"hosts": ("dst", "role", "rank")}
)
COUNT = "Select dst, Count(*) As n From packets [{}] Group By dst"


def queries(**texts: str) -> list[Query]:
    return [bind(text, CATALOG, name) for name, text in texts.items()]


def workload(**texts: str) -> Workload:
    streams = {"packets": StreamFacts(PACKETS, "ts", "seq"), "flows": StreamFacts(FLOWS, "ts")}
    return Workload(queries(**texts), streams)


def with_costs(given: Workload, **costs: QueryCosts) -> Workload:
    return replace(given, costs=costs)


def changes(findings: list[Finding]) -> list[str]:
    return [each.change for each in findings]


# -- features


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Select p.dst, h.role From packets [Now] p, hosts h Where p.dst = h.dst And p.size > 40",
            {
                "streams": ("packets",),
                "relations": ("hosts",),
                "windows": ("packets [now]",),
                "columns": ("packets.dst", "packets.size", "hosts.dst", "hosts.role"),
                "conditions": ("packets.size > 40",),
                "condition_columns": ("packets.size",),
                "joins": ("packets.dst = hosts.dst",),
                "output": ("dst", "role"),
            },
        ),
        (
            """Select dst, Sum(size * 8) As bits From packets [Range 1 Minute Slide 10 Seconds] Group By dst
            Having Count(Distinct src) > 3""",
            {
                "windows": ("packets [range 1 minute slide 10 seconds]",),
                "conditions": ("count(distinct packets.src) > 3",),
                "condition_columns": ("packets.src",),
                "group_keys": ("packets.dst",),
                "aggregates": ("sum(packets.size * 8)", "count(distinct packets.src)"),
                "aggregate_columns": ("packets.dst", "packets.size", "packets.src"),
            },
        ),
        (
            # Not In tests for NULL by itself: that is no condition of the user's.
            "Select dst From packets [Now] Where dst Not In (Select dst From flows [Partition By dst Rows 2])",
            {
                "streams": ("packets", "flows"),
                "windows": ("packets [now]", "flows [partition by flows.dst rows 2]"),
                "conditions": (),
                "joins": ("packets.dst not in flows.dst",),
                "nested": 1,
            },
        ),
        (
            "Select dst From flows Where `id.resp_p` = 80 And dst Is Not Null",
            {
                "windows": ("flows [unbounded]",),
                "columns": ("flows.dst", "flows.`id.resp_p`"),
                "conditions": ("flows.`id.resp_p` = 80", "NOT flows.dst IS NULL"),
            },
        ),
        ("Select Count(*) As n From packets [Now]", {"columns": (), "aggregates": ("count(*)",), "output": ("n",)}),
    ],
)
def test_features_say_what_a_query_reads_and_does(text: str, expected: dict[str, object]) -> None:
    [query] = queries(q=text)
    found = features(query)
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.text == text


# -- operators that would be shared


def test_windows_that_are_nearly_as_long_would_be_shared() -> None:
    given = workload(a=COUNT.format("Range 10 Minutes"), b=COUNT.format("Range 8 Minutes"))
    [found] = equal_windows(with_costs(given, b=QueryCosts(state_bytes=2_500_000)))
    assert found.queries == ("a", "b")
    assert found.why == "8 minutes inside 10 minutes: 1 fewer operator, of 2.5 MB"
    assert found.change == "in b, write packets [Range 10 Minutes] instead of [Range 8 Minutes]"


def test_all_operators_over_a_window_are_one_finding() -> None:
    text = (
        "Select n, Count(*) As many From (Select Count(*) As n, dst From packets [Range {} Minutes] Group By dst) "
        "Group By n"
    )
    [found] = equal_windows(workload(a=text.format(6), b=text.format(5)))
    assert found.what == "groups of a and b would be shared if their windows were equal"
    assert "2 fewer operators" in found.why
    assert found.change == "in b, write packets [Range 6 Minutes] instead of [Range 5 Minutes]"


def test_joins_share_over_windows_of_any_length() -> None:
    text = "Select p.dst, f.ts From packets [Range {} Minutes] p, flows [Range {} Hours] f Where p.dst = f.dst"
    assert not equal_windows(workload(a=text.format(6, 2), b=text.format(5, 2)))
    inside = "Select dst, size From packets [Range {} Minutes] Where dst In (Select dst From flows [Now])"
    assert not equal_windows(workload(a=inside.format(6), b=inside.format(5)))
    [found] = equal_windows(workload(a=text.format("6 Minutes Slide 1", 2), b=text.format("5 Minutes Slide 1", 2)))
    assert found.what.startswith("join of a and b would be shared")


def test_windows_over_rows_and_slides_count_as_well() -> None:
    rows = "Select dst, Max(size) As m From packets [Partition By dst Rows {}] Group By dst"
    change = changes(equal_windows(workload(a=rows.format(80), b=rows.format(100))))
    assert change == ["in a, write packets [Partition By dst Rows 100] instead of [Partition By dst Rows 80]"]
    slides = [COUNT.format(f"Range 1 Hour Slide {each}") for each in ("5 Minutes", "6 Minutes")]
    assert len(equal_windows(workload(a=slides[0], b=slides[1]))) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(COUNT.format("Range 8 Minutes"), COUNT.format("Range 8 Minutes"), id="they share already"),
        pytest.param(COUNT.format("Range 1 Hour"), COUNT.format("Range 20 Minutes"), id="another question"),
        pytest.param(COUNT.format("Range 1 Minute"), COUNT.format("Now"), id="now"),
        pytest.param(COUNT.format("Range 1 Minute"), COUNT.format("Rows 60"), id="time and rows"),
        pytest.param(COUNT.format("Range 9 Minutes"), COUNT.format("Range 8 Minutes Slide 1 Minute"), id="slides"),
        pytest.param(
            COUNT.format("Range 9 Minutes"),
            "Select src, Count(*) As n From packets [Range 8 Minutes] Group By src",
            id="other groups",
        ),
        pytest.param(
            COUNT.format("Range 9 Minutes"),
            "Select dst, Count(*) As n From packets [Range 8 Minutes] Where size > 4 Group By dst",
            id="other rows",
        ),
        pytest.param(
            COUNT.format("Range 9 Minutes"),
            "Select Istream(dst, Count(*) As n) From packets [Range 8 Minutes] Group By dst",
            id="another kind of answer",
        ),
        pytest.param(
            "Select Istream(dst, size) From packets Where size > 4",
            "Select Istream(dst, size) From packets [Range 8 Minutes] Where size > 4",
            id="one is without state",
        ),
    ],
)
def test_other_windows_would_not(one: str, other: str) -> None:
    assert equal_windows(workload(a=one, b=other)) == []


def test_a_query_that_is_kept_apart_is_not_to_share() -> None:
    given = workload(a=COUNT.format("Range 10 Minutes"), b=COUNT.format("Range 8 Minutes"), c=COUNT.format("Now"))
    assert equal_windows(replace(given, apart={"b"})) == []


# -- slides


def test_counts_and_sums_of_integers_need_no_rows_with_a_slide() -> None:
    text = "Select dst, Count(*) As n, Avg(size * 8) As bits From packets [Range 10 Minutes] Group By dst"
    [found] = missing_slides(workload(busy=text))
    assert found.what.startswith("count(*) and avg(packets.size * 8) of busy can be summed up as rows of packets come")
    assert found.why == (
        "2 columns and the time of each row are kept for 10 minutes; "
        "with a slide, one row for each 1 minute and packets.dst"
    )
    assert found.change == "in busy, write packets [Range 10 Minutes Slide 1 Minute], before the stream starts"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(COUNT.format("Range 10 Minutes Slide 1 Minute"), id="it slides already"),
        pytest.param(COUNT.format("Now"), id="nothing to sum up"),
        pytest.param(COUNT.format("Rows 100"), id="over rows"),
        pytest.param("Select dst, Count(*) As n From packets Group By dst", id="unbounded"),
        pytest.param(
            "Select dst, Count(*) As n From packets [Range 10 Minutes] Where size > 4 Group By dst", id="a condition"
        ),
        pytest.param("Select dst, Sum(load) As s From packets [Range 10 Minutes] Group By dst", id="no integers"),
        pytest.param("Select dst, Sum(size / 8) As s From packets [Range 10 Minutes] Group By dst", id="a quotient"),
        pytest.param("Select dst, Max(size) As s From packets [Range 10 Minutes] Group By dst", id="a maximum"),
        pytest.param("Select Count(Distinct dst) As s From packets [Range 10 Minutes]", id="distinct values"),
        pytest.param("Select dst, size From packets [Range 10 Minutes]", id="rows"),
        pytest.param(
            "Select p.dst, Count(*) As n From packets [Range 1 Minute] p, flows [Range 1 Minute] f "
            "Where p.dst = f.dst Group By p.dst",
            id="a join",
        ),
    ],
)
def test_other_queries_need_rows(text: str) -> None:
    assert missing_slides(workload(q=text)) == []


def test_a_sum_of_unknown_type_gets_no_advice() -> None:
    [query] = queries(q="Select dst, Sum(size) As s From packets [Range 10 Minutes] Group By dst")
    facts = StreamFacts(PACKETS | {"size": ""}, "ts")
    assert missing_slides(Workload([query], {"packets": facts})) == []
    assert missing_slides(Workload([query])) == []


def test_a_slide_tells_who_keeps_the_rows_anyway() -> None:
    [found] = missing_slides(workload(busy=COUNT.format("Range 10 Minutes"), top="Select dst From packets [Now]"))
    assert "it is kept for top anyway" in found.why
    texts = {"busy": COUNT.format("Range 10 Minutes"), "all": "Select Sum(size) As s From packets [Range 20 Seconds]"}
    busy, whole = missing_slides(workload(**texts))
    assert ", unless all slides, too" in busy.why
    assert whole.change == "in all, write packets [Range 20 Seconds Slide 1 Second], before the stream starts"


def test_a_slide_is_one_that_the_stream_knows_if_it_fits() -> None:
    other = COUNT.format("Range 1 Hour Slide 2 Minutes").replace("dst", "src")
    change = changes(missing_slides(workload(a=COUNT.format("Range 40 Minutes"), b=other)))
    assert change == ["in a, write packets [Range 40 Minutes Slide 2 Minutes], before the stream starts"]
    change = changes(missing_slides(workload(a=COUNT.format("Range 45 Minutes"), b=other)))
    assert change == ["in a, write packets [Range 45 Minutes Slide 1 Minute], before the stream starts"]


def test_queries_with_the_same_groups_slide_together() -> None:
    having = COUNT.format("Range 10 Minutes") + " Having Count(*) > {}"
    [found] = missing_slides(workload(a=having.format(3), b=having.format(4)))
    assert found.queries == ("a", "b")


# -- columns that nobody reads


def unread(text: str, **facts: object) -> list[Finding]:
    given: dict[str, object] = {"columns": PACKETS, "timestamp": "ts", "sequence": "seq", "retain": HOUR}
    return unread_columns(Workload(queries(q=text), {"packets": StreamFacts(**(given | facts))}))  # type: ignore[arg-type]


def test_retained_columns_that_nobody_reads_are_found() -> None:
    [found] = unread("Select dst From packets [Now] Where size > 4")
    assert found.what == "no query reads src and load of packets"
    assert found.why == "2 of 6 columns, retained with every row for 1 hour"
    assert found.change == "register packets without them: df.drop('src', 'load')"
    [found] = unread("Select dst From packets [Now] Where size > 4", format="json", declared=True)
    assert found.change == "leave src and load out of Create Stream packets"


def test_columns_of_csv_are_found_by_place_so_that_the_last_alone_can_go() -> None:
    [found] = unread("Select dst From packets [Now] Where size > 4", format="csv", declared=True)
    assert found.change == "leave load out of Create Stream packets"
    assert unread("Select load From packets [Now]", format="csv", declared=True) == []


def test_columns_that_cost_nothing_or_have_to_stay_are_not() -> None:
    assert unread("Select dst From packets [Now]", retain=0) == [], "the buffer has columns that are read alone"
    assert unread("Select * From packets [Now]") == []
    assert unread("Select dst From packets [Rows 5]", sequence=None) == [], "all columns give the order of rows"
    assert len(unread("Select dst From packets [Rows 5]")) == 1, "the sequence gives it"
    assert unread("Select dst From flows [Now]") == [], "nobody reads the stream at all"
    assert unread("Select dst From packets [Now]", format="kafka") == [], "the source has columns of its own"


def test_a_batch_that_goes_several_ways_is_cached_with_all_columns() -> None:
    sums, rows = COUNT.format("Range 1 Hour Slide 1 Minute"), "Select dst From packets [Range 1 Minute]"
    [found] = unread_columns(workload(a=sums, b=rows))
    assert found.why == "3 of 6 columns, cached with every batch, which goes 2 ways"
    assert unread_columns(workload(a=sums, b=sums)) == [], "equal sums are made once"
    assert unread_columns(workload(b=rows, c=rows)) == []


# -- queries that are equal, or nearly


def test_equal_queries_are_found_whatever_their_columns_are_called() -> None:
    text = "Select {}, Count(*) As {} From packets [Range 1 Minute] Where {} And {} Group By dst"
    given = workload(
        a=text.format("dst", "n", "size > 4", "load < 1"),
        b=text.format("dst As d", "m", "load < 1", "size > 4"),
    )
    [found] = equal_queries(with_costs(given, a=QueryCosts(rows=1200)))
    assert found.why == "it is written 2 times instead of once, 1,200 rows so far"
    assert found.change == "read a instead, and Drop Query b"
    assert [each.kind for each in advise(given).findings] == ["equal queries"]


@pytest.mark.parametrize(
    "other",
    [
        "Select dst, size From packets [Now] Where size > 5",
        "Select size, dst From packets [Now] Where size > 4",
        "Select Istream(dst, size) From packets [Now] Where size > 4",
        "Select dst, size From packets [Range 1 Second] Where size > 4",
        "Select dst, size From packets [Now] Where load > 4",
        "Select Distinct dst, size From packets [Now] Where size > 4",
    ],
)
def test_queries_that_differ_are_not_equal(other: str) -> None:
    assert equal_queries(workload(a="Select dst, size From packets [Now] Where size > 4", b=other)) == []


def test_the_two_sides_of_a_join_with_itself_are_told_apart() -> None:
    text = "Select {}.dst From packets [Now] a, packets [Range 1 Minute] b Where a.src = b.src And {}"
    one = text.format("a", "a.size > b.size")
    assert len(equal_queries(workload(a=one, b=one))) == 1
    assert equal_queries(workload(a=one, b=text.format("b", "a.size > b.size"))) == []
    assert equal_queries(workload(a=one, b=text.format("a", "b.size > a.size"))) == []


def test_queries_that_differ_in_constants_are_rules() -> None:
    text = "Select dst, Count(*) As n From packets [Range 1 Minute] Where size > {} And dst <> '{}' Group By dst"
    given = workload(a=text.format(4, "x"), b=text.format(5, "x"), c=text.format(6, "x"))
    [found] = constant_queries(given)
    assert found.what == "a, b and c differ in 1 constant only"
    assert found.why == "3 answers and 3 operators instead of 1, and each row is tested 3 times"
    assert found.change == (
        "one query over a relation rules (query, c1) with 3 rows: "
        "packets.dst <> 'x' And packets.size > rules.c1; Group By rules.query, too"
    )


def test_constants_of_conditions_in_another_order_are_the_same_ones() -> None:
    texts = ["size > 4 And dst = 'a'", "dst = 'b' And size > 4", "size > 4 And dst = 'c'"]
    given = {name: f"Select load From packets [Now] Where {text}" for name, text in zip("abc", texts, strict=True)}
    assert "rules (query, c1)" in constant_queries(workload(**given))[0].change


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Select dst From packets [Range {} Minutes] Where size > 4", id="windows"),
        pytest.param("Select size * {} As s From packets [Now] Where size > 4", id="items"),
        pytest.param("Select Count(*) As n From packets [Now] Where size > {}", id="a row also without rows"),
        pytest.param(
            "Select dst From packets [Now] Where dst In (Select dst From flows [Now] Where `id.resp_p` = {})",
            id="a query within",
        ),
    ],
)
def test_other_differences_are_no_rules(text: str) -> None:
    assert constant_queries(workload(a=text.format(1), b=text.format(2), c=text.format(3))) == []


def test_two_queries_are_no_rules() -> None:
    text = "Select dst From packets [Now] Where size > {}"
    assert constant_queries(workload(a=text.format(1), b=text.format(2), c=text.format(2))) == []


# -- state that grows


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "Select p.dst From packets p, flows [Now] f Where p.dst = f.dst",
            "the join holds all rows of packets, for ever",
        ),
        (
            "Select dst From packets Where dst Not In (Select dst From flows [Now])",
            "the anti join holds all rows of packets, for ever",
        ),
        (
            "Select dst, Max(size) As m From packets Group By dst",
            "max(packets.size) holds all values of packets, for ever",
        ),
    ],
)
def test_state_that_grows_for_ever_is_found(text: str, why: str) -> None:
    costs = QueryCosts(state_rows=5_000, state_bytes=1_000_000)
    [found] = unbounded_state(with_costs(workload(q=text), q=costs))
    assert found.why == f"{why}: 5,000 rows, 1.0 MB by now"


@pytest.mark.parametrize(
    "text",
    [
        "Select p.dst From packets [Range 1 Hour] p, flows [Now] f Where p.dst = f.dst",
        "Select p.dst From packets p, hosts h Where p.dst = h.dst",
        "Select dst From packets [Now] Where dst In (Select dst From flows)",
        "Select dst, Count(*) As n, Sum(size) As s From packets Group By dst",
        "Select dst, Max(size) As m From packets [Range 1 Hour] Group By dst",
        "Select dst From packets Where size > 4",
    ],
)
def test_state_that_does_not_is_not(text: str) -> None:
    assert unbounded_state(workload(q=text)) == []


# -- the report and the mix


def test_a_report_is_text_a_page_and_plain_values() -> None:
    report = advise(workload(a=COUNT.format("Range 10 Minutes Slide 1 Minute"), b="Select dst From packets [Now]"))
    assert report.describe().splitlines()[0] == "1. unread columns: a, b"
    report = advise(workload(b="Select dst, Max(size) As m From packets Group By dst"))
    assert str(report).startswith("1. unbounded state: b\n   the state of b grows with every row of packets\n   why: ")
    assert "<td>unbounded state</td>" in report._repr_html_()
    assert report.to_dict()["findings"][0]["queries"] == ("b",)  # type: ignore[index]
    nothing = advise(workload(b="Select dst From packets [Now]"))
    assert (str(nothing), "nothing to change" in nothing._repr_html_()) == ("nothing to change", True)


def example(rng: random.Random, name: str, width: float, columns: list[str]) -> QueryFeatures:
    output = tuple(f"c{n}" for n in range(max(1, round(rng.gauss(width, width / 2)))))
    read = tuple(rng.sample(columns, rng.randint(1, 4)))
    tested, grouped = (tuple(rng.sample(columns, rng.choice([0, 0, 1, 2]))) for _ in range(2))
    nested = rng.choice([0, 0, 0, 1])
    return QueryFeatures(name, ("s",), (), (("s", read),), (), tested, tested, (), grouped, (), grouped, output, nested)


def test_a_mix_that_stays_gives_no_signal_and_one_that_changes_names_the_query() -> None:
    old, new = [f"a{n}" for n in range(12)], [f"b{n}" for n in range(12)]
    named: Counter[str] = Counter()
    for seed in range(20):
        rng = random.Random(seed)
        before, same = ([example(rng, f"q{n}", 3, old) for n in range(40)] for _ in range(2))
        wide = [example(rng, f"q{n}", 14, old) for n in range(40, 80)]
        other = [example(rng, f"q{n}", 3, new) for n in range(40, 80)]
        assert mix_drifts([*before, *same]) == []
        for changed in (wide, other):
            named.update(each.feature for each in mix_drifts([*before, *changed]) if 35 <= int(each.query[1:]) <= 45)
    assert set(named) == {"projected columns", "familiarity"}
    assert min(named.values()) >= 18
    assert mix(wide)["projected columns"] > 2 * mix(before)["projected columns"]
    assert set(mix(other)) - set(mix(before)) == {f"s.{name}" for name in new}
