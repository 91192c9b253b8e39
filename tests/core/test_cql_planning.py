"""From plans to stages: which types columns are compared in, and which rewrites keep the answer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.cql import Catalog, bind, render
from anabranch.errors import QueryError
from anabranch.planning.rules import rewrite
from anabranch.planning.types import common_type

CATALOG = Catalog(streams={"s1": ("k", "a"), "s2": ("k", "b")})


def rewritten(text: str) -> list[str]:
    return [line.strip() for line in render(rewrite(bind(text, CATALOG, "q").plan)).split("\n")]


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int64(), pa.decimal128(12, 2), pa.decimal128(22, 2)),
        (pa.int32(), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 0), pa.decimal128(12, 4), pa.decimal128(14, 4)),
        (pa.decimal128(38, 18), pa.int64(), pa.decimal128(38, 18)),
        (pa.decimal128(12, 2), pa.float64(), pa.float64()),
        (pa.float32(), pa.int64(), pa.float64()),
        (pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.null(), pa.decimal128(12, 2), pa.decimal128(12, 2)),
    ],
)
def test_types_are_compared_in_a_type_that_holds_both(
    first: pa.DataType, second: pa.DataType, common: pa.DataType
) -> None:
    assert common_type(first, second) == common
    assert common_type(second, first) == common


def test_decimals_that_no_decimal_holds_are_refused() -> None:
    with pytest.raises(QueryError) as raised:
        common_type(pa.decimal128(38, 0), pa.decimal128(20, 10))
    assert str(raised.value) == (
        "a decimal(38, 0) and a decimal(20, 10) need 48 digits to be compared, and there are 38\n"
        "  hint: cast one of them, as in Cast(k As Decimal(20, 2))"
    )


@pytest.mark.parametrize(
    ("window", "shown"),
    [
        ("", "unbounded"),
        ("[Range Unbounded Slide 1 Minute]", "unbounded slide 1 minute"),
        ("[Now]", "now"),
        ("[Range 1 Minute]", "range 1 minute"),
        ("[Range 1 Hour Slide 1 Minute]", "range 1 hour slide 1 minute"),
        ("[Partition By k Range 1 Minute]", "partition by k_1 range 1 minute"),
    ],
)
def test_filters_go_below_windows_over_time(window: str, shown: str) -> None:
    lines = rewritten(f"Select Rstream(k) From s1 {window} Where a > 3 And k < 2")
    conditions = next(line for line in lines if line.startswith("filter"))
    assert "> 3 and" in conditions
    assert lines.index(conditions) == lines.index(f"window {shown}") + 1
    assert lines[-2] == conditions, "the stream alone is below"


@pytest.mark.parametrize(
    "window",
    [
        "[Rows 5]",
        "[Rows 5 Slide 2]",
        "[Rows 5 Slide 1 Minute]",
        "[Rows 5 Range 1 Minute]",
        "[Partition By k Rows 5]",
        "[Partition By k Rows 5 Range 1 Minute]",
    ],
)
def test_filters_never_go_below_windows_over_rows(window: str) -> None:
    lines = rewritten(f"Select Istream(k) From s1 {window} Where a > 3")
    assert lines[-3].startswith("filter")
    assert lines[-2].startswith("window")
    assert "rows 5" in lines[-2]
    assert lines[-1].startswith("stream")


def test_each_stream_of_a_join_has_the_filters_that_it_may_have() -> None:
    lines = rewritten("Select x.k From s1 [Range 1 Minute] x, s2 [Rows 3] y Where x.k = y.k And x.a > 3 And y.b > 4")
    place = lines.index("join k_1 = k_2")
    kinds = [line.split()[0] for line in lines[place + 1 :]]
    assert kinds == ["window", "filter", "stream", "filter", "window", "stream"]


def test_a_filter_on_a_stream_within_a_query_goes_below_its_window_and_no_further() -> None:
    lines = rewritten("Select k From (Select Istream(k, a) From s1 [Rows 2]) [Range 1 Minute] As x Where a > 3")
    kinds = [line.split()[0] for line in lines]
    assert kinds[-5:] == ["window", "filter", "istream", "window", "stream"]
