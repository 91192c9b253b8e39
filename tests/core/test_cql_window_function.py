"""`window(ts, '5 seconds')`, as Spark writes it, is a value of its row: in Select, Where and Group By."""

from __future__ import annotations

import pytest

from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog
from anabranch.cql.problems import CQLError
from anabranch.cql.rendering import render
from anabranch.logical_plan import Aggregate, walk

CATALOG = Catalog({"s": ("ts", "k"), "t": ("window", "k")})


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("Select Count(*) As n From s Group By window(ts, '5 seconds')", ("n",)),
        ("Select window, Count(*) As n From s Group By window(ts, '5 seconds')", ("window", "n")),
        ("Select window(ts, '5 seconds'), Count(*) As n From s Group By window(ts, '5 seconds')", ("window", "n")),
        ("Select window.start, window.end From s Group By k, window(ts, '1 minute 5 seconds')", ("start", "end")),
        ("Select k From s Group By window(ts, '5 seconds'), k Having window.start > Max(ts)", ("k",)),
        ("Select window(ts, '5 seconds') As window, Count(*) As n From s Group By window", ("window", "n")),
        ("Select k From s Group By k, window(ts, '6 seconds', '6 seconds', '1 second')", ("k",)),
        ("Select k From s Where k In (Select k From s Group By k, window(ts, '1 hour') Having window.end > 0)", ("k",)),
    ],
)
def test_queries_are_grouped_by_spans_of_time(text: str, output: tuple[str, ...]) -> None:
    query = bind(text, CATALOG, "q")
    assert query.output == output
    assert any(isinstance(node, Aggregate) and node.keys for node in walk(query.plan))
    assert "window(" not in render(query.plan)


def test_a_column_or_a_source_of_that_name_comes_first() -> None:
    text = "Select window, k From t Group By window, k"
    assert "t (window as window_1" in render(bind(text, CATALOG, "q").plan)
    assert bind("Select window.k From s As window Group By window.k", CATALOG, "q").output == ("k",)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("window(ts, '10 seconds', '5 seconds')", r"several windows(?s:.*)\[Range 10 Seconds Slide 5 Seconds\]"),
        ("window(ts, '1 month')", "needs lengths of time as texts(?s:.*)the units are microsecond"),
        ("window(ts, k)", "needs lengths of time as texts"),
        ("window(ts, '0 seconds')", "needs a length above zero"),
        ("window(ts)", "takes a time and a length"),
    ],
)
def test_what_is_no_span_of_one_row_is_refused(call: str, message: str) -> None:
    with pytest.raises(CQLError, match=message):
        bind(f"Select k From s Group By k, {call}", CATALOG, "q")
