"""Sums of several operators in one aggregation: same sums as each by itself, shown by DuckDB on random rows."""

from __future__ import annotations

import re
from functools import cache

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.expressions import Scalar
from anabranch.operators.base import END, START, TIME, WEIGHT
from anabranch.spark.continuous.exchange import ExchangeInput
from anabranch.spark.continuous.flows import Select, Sql, Summed, View
from anabranch.spark.continuous.sums_together import MOST_TOGETHER, sums_together

ROWS = View("rows", "rows")


def summed(number: int, key: str, conditions: list[str], *values: str, view: View = ROWS) -> ExchangeInput:
    """What an operator wants whose columns are numbered, as those of a query are."""
    names = {f"v{place}_{number}": Scalar.parsed(value) for place, value in enumerate(values)}
    items = {f"key_{number}": Scalar.parsed(key)} | names
    items |= {START: Scalar.reading(TIME), END: Scalar.parsed(f"{TIME} + 10"), WEIGHT: Scalar.long(1)}
    flow = Sql((Select(view, tuple(items.items()), tuple(map(Scalar.parsed, conditions))),))
    source = Summed(flow, (f"key_{number}",), tuple((name, f"sum_{name}", True) for name in names), timed=False)
    columns = tuple((name, Scalar.reading(name), pa.int64()) for name in source.columns)
    select = Select(source, tuple((name, scalar) for name, scalar, _ in columns))
    return ExchangeInput(select, Scalar.call("abs", Scalar.reading(f"key_{number}")), columns)


def test_operators_that_differ_in_conditions_share_an_aggregation_and_others_do_not() -> None:
    alike = [summed(n, "k % 3", [f"a > {n}"], "a") for n in range(3)]
    unlike = [summed(7, "k % 4", [], "a"), summed(8, "k % 3", [], "a", view=View("others", "others"))]
    found = sums_together([*alike, *unlike])
    assert list(found) == alike
    assert len({each.select.source for each in found.values()}) == 1
    assert len({each.cell for each in found.values()}) == 1, "they go to the same cells, so that they travel together"


def test_more_operators_than_an_aggregation_takes_share_several() -> None:
    many = [summed(n, "k", [f"a > {n}"], "a") for n in range(MOST_TOGETHER + 2)]
    sources = [each.select.source for each in sums_together(many).values()]
    assert [sources.count(each) for each in dict.fromkeys(sources)] == [MOST_TOGETHER, 2]


@cache
def duckdb_session() -> duckdb.DuckDBPyConnection:
    session = duckdb.connect()
    session.execute("CREATE MACRO shr(value, bits) AS value >> bits")
    return session


def answers(wanted: ExchangeInput, table: pa.Table) -> list[tuple[object, ...]]:
    """The rows that it wants, as DuckDB finds them."""
    condition = " AND ".join(f"({each.sql})" for each in wanted.select.conditions) or "true"
    columns = ", ".join(f"{scalar.sql} AS {name}" for name, scalar, _ in wanted.columns)
    text = f"SELECT {wanted.cell.sql} AS cell, {columns} FROM {wanted.select.source.text} WHERE {condition}"
    text = text.replace("`", '"').replace("named_struct(", "struct_pack(").replace("shiftright(", "shr(")
    for field in ("_count", "_low", "_high"):
        text = text.replace(f"'{field}',", f"{field} :=")
    session = duckdb_session()
    session.register("rows", table)
    return sorted(map(str, session.execute(re.sub(r"(\d)L\b", r"\1", text)).fetchall()))  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9) | st.none(), st.integers(0, 3)), max_size=30),
    st.lists(st.sampled_from([[], ["a > 0"], ["a > 0", "k < 3"], ["k = 1"], ["10 / a > 2"]]), min_size=2, max_size=4),
)
def test_each_gets_what_it_would_get_alone(
    rows: list[tuple[int, int | None, int]], conditions: list[list[str]]
) -> None:
    table = pa.table(
        {
            "k": pa.array([row[0] for row in rows], pa.int64()),
            "a": pa.array([row[1] for row in rows], pa.int64()),
            TIME: pa.array([row[2] for row in rows], pa.int64()),
        }
    )
    wanted = [summed(n, "k % 3", each, "a", "a + k") for n, each in enumerate(conditions)]
    shared = sums_together(wanted)
    for each in wanted:
        assert answers(shared.get(each, each), table) == answers(each, table)
