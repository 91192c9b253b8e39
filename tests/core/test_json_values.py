"""Values that routes are told apart by, written as JSON and read back: the same values, of the same types."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.errors import InternalError
from anabranch.mesh.nodes import Among, AtMost, Branch, Leaf, node_from_dict, node_to_dict
from anabranch.routing.json_values import from_json, to_json
from anabranch.routing.value_classes import RangeSplit, ValueClasses, ValueSplit, split

ZONES = [UTC, timezone(timedelta(hours=5, minutes=30)), ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")]
SECONDS = st.integers(-(2**32), 2**33)
TIMES = st.builds(datetime.fromtimestamp, SECONDS, st.sampled_from(ZONES))
LOCAL_TIMES = TIMES.map(lambda time: time.replace(tzinfo=None, fold=0))
VALUES = {
    pa.bool_(): st.booleans(),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=8),
    pa.date32(): st.dates(),
    pa.timestamp("us"): LOCAL_TIMES,
    pa.timestamp("us", "UTC"): TIMES,
    pa.timestamp("us", "Europe/Berlin"): TIMES,
    pa.decimal128(20, 4): st.decimals(-(10**15), 10**15, places=4),
    pa.binary(): st.binary(max_size=6),
}


def through_json(data: Any) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


@given(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.dates(),
        TIMES,
        LOCAL_TIMES,
        st.decimals(allow_nan=False),
        st.binary(),
    )
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    again = from_json(through_json(to_json(value)))
    assert type(again) is type(value)
    assert repr(again) == repr(value)  # tells zones, exponents and signs of zero apart, and NaN is NaN


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    kind = draw(st.sampled_from(list(VALUES)))
    some = draw(st.lists(VALUES[kind], min_size=1, max_size=6))
    picked = draw(st.lists(st.sampled_from([*some, None]), min_size=8, max_size=30))
    return pa.array(picked, kind)


@given(columns())
@example(pa.array([-float("nan")] * 7 + [None]))
def test_cells_of_every_type_classify_alike_after_json(column: pa.Array) -> None:
    found = split("a", column)
    if found is None:
        return
    classes = ValueClasses((found,), np.arange(found.codes))
    again = ValueClasses.from_dict(through_json(classes.to_dict()))
    assert again.classify({"a": column}).tolist() == classes.classify({"a": column}).tolist()
    assert [again.tests(r) for r in range(again.routes)] == [classes.tests(r) for r in range(classes.routes)]


def test_ranges_and_trees_without_end_travel_too() -> None:
    ranges = ValueClasses((RangeSplit("x", (float("-inf"), 1.0, float("inf"))),), np.arange(5))
    assert ValueClasses.from_dict(through_json(ranges.to_dict())).splits == ranges.splits
    tree = Branch(AtMost("x", float("inf")), Leaf(0), Branch(Among("zone", ("north", True)), Leaf(1), Leaf(2)))
    assert node_from_dict(through_json(node_to_dict(tree))) == tree


def test_dates_are_read_back_as_dates() -> None:
    days = pa.array([date(2026, 3, 1), date(2026, 3, 2), None])
    classes = ValueClasses((ValueSplit("day", (date(2026, 3, 2),)),), np.array([1, 0]))
    assert ValueClasses.from_dict(through_json(classes.to_dict())).classify({"day": days}).tolist() == [0, 1, 0]


def test_sums_of_money_can_be_written() -> None:
    classes = ValueClasses((ValueSplit("price", (Decimal("1.50"),)),), np.array([1, 0]))
    assert ValueClasses.from_dict(through_json(classes.to_dict())).splits[0] == classes.splits[0]


def test_a_value_of_another_kind_is_our_mistake() -> None:
    with pytest.raises(InternalError, match="no JSON for a list"):
        to_json([1])


@pytest.mark.parametrize(
    "values", [pa.array([{"a": i % 3} for i in range(60)]), pa.array([timedelta(i) for i in range(60)])]
)
def test_columns_of_rare_types_tell_no_rows_apart(values: pa.Array) -> None:
    assert split("rare", values) is None


DAYS = pa.array([0, 4_000_000, None, 0, 4_000_000] * 20, pa.int32()).cast(pa.date32())
MANY_DAYS = pa.array([(i * 7919) % 5003 * 1000 for i in range(100)], pa.int32()).cast(pa.date32())
TEXTS = pa.array([b"north", bytes([255])] * 20).cast(pa.string(), safe=False)


@pytest.mark.parametrize(
    "values",
    [
        DAYS,
        DAYS.cast(pa.timestamp("us")),
        DAYS.cast(pa.timestamp("us")).cast(pa.timestamp("us", "Asia/Tokyo")),
        MANY_DAYS,
        MANY_DAYS.cast(pa.timestamp("us")),
        TEXTS,
    ],
)
def test_columns_with_values_that_python_does_not_have_tell_no_rows_apart(values: pa.Array) -> None:
    assert split("odd", values) is None


def test_values_that_python_does_not_have_take_the_route_of_unknown_ones() -> None:
    classes = ValueClasses((ValueSplit("day", (date(1970, 1, 1),)),), np.array([1, 0]))
    assert classes.classify({"day": DAYS[:5]}).tolist() == [1, 0, 0, 1, 0]
    texts = ValueClasses((ValueSplit("text", ("north",)),), np.array([1, 0]))
    assert texts.classify({"text": TEXTS[:3]}).tolist() == [1, 0, 1]
