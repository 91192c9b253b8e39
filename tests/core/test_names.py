"""Columns of any name: what is made of them in queries is quoted."""

from __future__ import annotations

import pytest

from anabranch.cql.binder import bind
from anabranch.cql.catalog import Catalog
from anabranch.cql.problems import CQLError
from anabranch.cql.rendering import render
from cql.comparing import bound
from cql.local import LocalEngine
from cql.names import PLAIN, QUERIES, ZEEK, case, random_names

SEEDS = 5


@pytest.mark.parametrize("query", QUERIES)
def test_the_names_of_columns_change_nothing(query: str) -> None:
    text = QUERIES[query]
    plain = case(text, PLAIN)
    wanted = LocalEngine(plain, bound(plain)).answer()
    assert wanted
    for names in (ZEEK, *map(random_names, range(SEEDS))):
        other = case(text, names)
        assert LocalEngine(other, bound(other)).answer() == wanted, names


def test_a_view_and_a_plan_keep_names_as_they_are() -> None:
    catalog = Catalog({"s": ZEEK}, views={"v": "Select `id.orig_h`, `id.resp_h.``q``` As `x``.y` From s"})
    query = bind("Select a.`x``.y` From v [Rows 2] As a, v [Rows 3] As b Where a.`x``.y` = b.`x``.y`", catalog, "q")
    assert query.output == ("x`.y",)
    assert "id.resp_h.`q` as id.resp_h.`q`_4)" in render(query.plan)


@pytest.mark.parametrize("text", ["Select id.orig_h From s", "Select s.id.orig_h From s", "Select ID.Orig_H From s"])
def test_a_name_with_dots_and_without_quotes_is_understood(text: str) -> None:
    with pytest.raises(CQLError, match=r"a name with dots stands in backticks: `id\.orig_h`"):
        bind(text, Catalog({"s": ZEEK}), "q")
