"""Hours and weekdays of times: as the clocks of a zone show them, and used only where they come back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.model.attributes import LAST_MICROSECOND, clock_part, joined
from anabranch.routing.value_classes import RangeSplit, ValueClasses, ValueSplit, label, splits

ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]
HOUR = 3_600_000_000
DAY = 24 * HOUR
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IN_WINTER = 1_700_000_000_000_000


@given(st.integers(0, LAST_MICROSECOND), st.sampled_from(ZONES))
@example(1_774_746_000_000_000, "Europe/Berlin")  # clocks go forward
@example(1_792_888_200_000_000, "Europe/Berlin")  # clocks have gone back
def test_hours_and_weekdays_are_those_of_the_zone(instant: int, zone: str) -> None:
    local = (EPOCH + timedelta(microseconds=instant)).astimezone(ZoneInfo(zone))
    array = pa.array([instant, None], pa.timestamp("us", tz=zone))
    assert clock_part(array, "hour").to_pylist() == [local.hour, None]
    assert clock_part(array, "weekday").to_pylist() == [local.weekday(), None]


def test_where_arrow_does_not_know_the_clock_its_parts_are_null() -> None:
    outside = pa.array([-1, LAST_MICROSECOND + 1], pa.timestamp("us", tz="Europe/Berlin"))
    assert clock_part(outside, "hour").to_pylist() == [None, None]
    unknown = pa.array(np.arange(400) * 7 * HOUR, pa.timestamp("us", tz="PST"))
    assert clock_part(unknown, "weekday").null_count == 400
    assert not [s for s in splits("at", unknown) if s.part]
    assert ValueSplit("at", (3, 4), "hour").encode(unknown).tolist() == [2] * 400


def test_local_times_and_dates_have_no_zone() -> None:
    local = pa.array([datetime(2040, 7, 1, 3, 30)], pa.timestamp("us"))  # noqa: DTZ001 - local time
    assert clock_part(local, "hour").to_pylist() == [3]
    assert clock_part(pa.array([date(2040, 7, 1)]), "weekday").to_pylist() == [6]


@pytest.mark.parametrize(
    ("days", "parts"), [(0.1, set()), (0.9, set()), (4, {"hour(at)"}), (40, {"hour(at)", "weekday(at)"})]
)
def test_times_that_grow_are_split_by_what_comes_back(days: float, parts: set[str]) -> None:
    growing = pa.array(IN_WINTER + np.linspace(0, days * DAY, 800).astype(np.int64), pa.timestamp("us", tz="UTC"))
    assert {label(s) for s in splits("at", growing)} == parts


def test_dates_are_split_by_weekday() -> None:
    days = pa.array([date(2026, 1, 1) + timedelta(days=i // 4) for i in range(400)])
    assert [s.values for s in splits("day", days) if isinstance(s, ValueSplit) and s.part] == [(3, 4, 5, 6, 0, 1, 2)]


def test_integers_of_few_values_are_split_by_value_and_by_range() -> None:
    rng = np.random.default_rng(0)
    kinds = {n: [type(s) for s in splits("k", pa.array(rng.integers(0, n, 800)))] for n in (5, 24, 150, 10_000)}
    assert kinds == {5: [ValueSplit], 24: [RangeSplit, ValueSplit], 150: [RangeSplit, ValueSplit], 10_000: [RangeSplit]}
    phases = pa.array(np.arange(800) // 40)
    assert [type(s) for s in splits("batch", phases)] == [RangeSplit], "its values do not come back"


def test_splits_by_parts_survive_json() -> None:
    classes = ValueClasses((ValueSplit("at", (3,), "hour"), RangeSplit("at", (4.5,), "weekday")), np.arange(6) % 4)
    again = ValueClasses.from_dict(classes.to_dict())
    assert again.splits == classes.splits
    assert again.attributes == ("at",)
    assert again.tests(1) == ("hour(at) in (3) and 4.5 < weekday(at)", "hour(at) not in (3) and weekday(at) is null")


def test_samples_of_two_session_zones_are_one_sample() -> None:
    instants = [pa.array([IN_WINTER], pa.timestamp("us", tz=zone)) for zone in ("UTC", "Asia/Kolkata")]
    assert clock_part(joined(instants), "hour").to_pylist() == [3, 3]
