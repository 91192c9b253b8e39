"""Which queries with state are of one template, and which are of none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog
from anabranch.planning.query_templates import MEMBER, QueryTemplate, query_template

TYPES = {"k": pa.string(), "v": pa.int64(), "w": pa.float64()}
COUNT = "Select k, Count(*) As n From s [Range 1 Minute] Where v > {} Group By k"


def template(text: str) -> QueryTemplate | None:
    query = bind(text, Catalog({"s": tuple(TYPES), "r": tuple(TYPES)}, {"t": ("k", "x")}), "q")
    found = query_template(query, TYPES)
    return None if found is None else found[0]


@pytest.mark.parametrize(
    "other",
    [COUNT.format(9), "Select k, Count(*) As n From s [Range 1 Minute] Where 7 < v Group By k", COUNT.format("-3")],
)
def test_queries_that_differ_in_constants_are_of_one_template(other: str) -> None:
    one = template(COUNT.format(1))
    assert one is not None
    assert one == template(other)
    assert MEMBER in one.query.plan.columns
    assert one.schema.names == ["k"], "what is compared with constants alone is not read again"


@pytest.mark.parametrize(
    "other",
    [
        "Select k, Count(*) As m From s [Range 1 Minute] Where v > 1 Group By k",
        "Select k, Count(*) As n From s [Range 2 Minutes] Where v > 1 Group By k",
        "Select k, Count(*) As n From s [Range 1 Minute] Where v >= 1 Group By k",
        "Select k, Count(*) As n From s [Range 1 Minute] Where w > 1 Group By k",
        "Select k, Count(*) As n From s [Range 1 Minute] Where v > 1 Group By k Having Count(*) > 2",
    ],
)
def test_others_are_of_another(other: str) -> None:
    found = template(other)
    assert found is not None
    assert found.matches != template(COUNT.format(1)).matches  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "Select Count(*) As n From s [Range 1 Minute] Where v > 1",
        "Select k, Count(*) As n From s [Rows 9] Where v > 1 Group By k",
        "Select k, Count(*) As n From s [Range 1 Minute] Group By k",
        "Select k, Count(*) As n From s [Range 1 Minute] Where v + 1 > 1 Group By k",
        "Select Rstream(k, Count(*) As n) From s [Range 1 Minute] Where v > 1 Group By k",
        "Select a.k From s [Range 1 Minute] a, r [Now] b Where a.k = b.k And a.v > 1",
        "Select a.k, Count(*) As n From s [Range 1 Minute] a, t Where a.k = t.k And a.v > 1 Group By a.k",
        "Select k From s [Range 1 Minute] Where v > 1 Except Select k From s [Now]",
    ],
)
def test_what_says_something_of_rows_that_it_does_not_want_is_of_none(text: str) -> None:
    assert template(text) is None
