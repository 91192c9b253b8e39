"""Random queries over all that docs/cql.md claims: each says what DuckDB says, or is refused as the page announces."""

from __future__ import annotations

import os

import pytest

from cql.comparing import bound, expected
from cql.judging import difference
from cql.local import LocalEngine
from cql.streams import SECOND, Case, Cuts, Relation, Stream
from seeds import daily_seed

CASES = 30
FULL_CASES = 1000
SOAK_CASES = 20_000


def check(first: int, count: int) -> None:
    for seed in range(first, first + count):
        found = difference(seed)
        assert found is None, found


def test_documented_queries_say_what_duckdb_says() -> None:
    check(daily_seed() * FULL_CASES, CASES)


@pytest.mark.full(reason="a thousand queries take minutes, and more make up a soak")
@pytest.mark.timeout(4 * 3600)
def test_many_documented_queries_say_what_duckdb_says() -> None:
    check(daily_seed() * FULL_CASES + CASES, SOAK_CASES if os.environ.get("ANABRANCH_SOAK") else FULL_CASES)


@pytest.mark.parametrize(
    "query",
    [
        "Select s.k From s Join r On a = w Join t On s.k = t.k Join s x On x.k = t.k",
        "Select r.w From s Join r On a = w And Exists (Select 1 From t Where t.b = a) Join s x On x.k = r.k",
        "Select s.k From s Join r On a = (Select Max(b) From t) Join s x On x.k = r.k",
    ],
)
def test_names_in_on_are_columns_of_what_is_joined_so_far(query: str) -> None:
    s = Stream("s", (("k", "bigint"), ("a", "bigint")), ((0, 0, 1, 5), (1, SECOND, 2, 6), (2, SECOND, 2, 5)))
    t = Stream("t", (("k", "bigint"), ("b", "bigint")), ((0, 0, 1, 6), (1, SECOND, 2, 5)))
    r = Relation("r", (("k", "bigint"), ("w", "bigint")), ((1, 5), (2, 6)))
    case = Case((s, t), (r,), query, Cuts({"s": (2, 1), "t": (1, 1)}, 2))
    want = expected(case)
    assert want
    assert LocalEngine(case, bound(case)).answer() == want
