"""Times without a zone in look-ups: as in `isin`, or in `createDataFrame`, wherever the process and the session are."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.spark.filters.lookup import INSTANT, LOCAL_TIME, SessionRules, member_test
from anabranch.spark.filters.lookup_table import collect_values

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata"]
"""Clocks are put forward and back: in the north, in the south, at midnight, by half an hour, and not at all."""
EPOCH, STEP = datetime(1970, 1, 1, tzinfo=UTC), timedelta(minutes=15)


def changes(zone: str, year: int = 2018) -> list[datetime]:
    """Instants, to the quarter of an hour, at which the clocks of a zone are changed in a year."""
    start = datetime(year, 1, 1, tzinfo=UTC)
    quarters = [start + STEP * i for i in range(366 * 96)]
    offsets = [q.astimezone(ZoneInfo(zone)).utcoffset() for q in quarters]
    return [q for q, (one, other) in zip(quarters[1:], pairwise(offsets), strict=True) if one != other]


CHANGES = [at for zone in ZONES for at in changes(zone)]
near_changes = st.builds(lambda at, steps: at + STEP * steps, st.sampled_from(CHANGES), st.integers(-10, 10))
walls = st.builds(
    lambda at, zone: at.astimezone(ZoneInfo(zone)).replace(tzinfo=None), near_changes, st.sampled_from(ZONES)
)
"""What a clock shows around a change, somewhere; elsewhere it may never show it, or twice."""
EXAMPLES = 500 if os.environ.get("ANABRANCH_SOAK") else 5
few = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def shown(wall: datetime, zone: str) -> set[datetime]:
    """All instants that a local time may mean in a zone."""
    return {wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)}


def table(spark: SparkSession, instants: set[datetime], local: list[datetime]) -> DataFrame:
    """Instants, local times and their dates, whatever the zones of the session and of the process are."""
    known = [*sorted(instants), *[None] * len(local)][: max(len(instants), len(local))]
    rows = pa.table(
        {
            "t": pa.array([None if at is None else micros(at) for at in known], pa.int64()),
            "text": pa.array([str(wall) for wall in local] + [None] * (len(known) - len(local)), pa.string()),
        }
    )
    made = spark.createDataFrame(rows)
    return made.selectExpr(
        "timestamp_micros(t) as instant", "cast(text as timestamp_ntz) as local", "cast(text as date) as day"
    )


def rules_of(spark: SparkSession) -> SessionRules:
    local = spark.conf.get("spark.sql.timestampType") == "TIMESTAMP_NTZ"
    return SessionRules(str(spark.conf.get("spark.sql.session.timeZone")), local_times=local)


def disagreements(spark: SparkSession, df: DataFrame, sets: list[list[Any]]) -> list[str]:
    """Where Spark's `isin`, made here and now, and look-ups do not find the same."""
    asked = {f"{name} {i}": F.col(name).isin(values) for i, values in enumerate(sets) for name in df.columns}
    found = df.select("*", *(column.alias(name) for name, column in asked.items())).toArrow()
    wrong = []
    for i, values in enumerate(sets):
        p = ab.lookup("c", values)
        test = member_test(p, collect_values(p, rules_of(spark)), rules_of(spark))
        for name in df.columns:
            column = found.column(name).combine_chunks()
            ours, theirs = test(column).to_pylist(), found.column(f"{name} {i}").to_pylist()
            wrong += [
                f"{name} {v} in {values}: {one}, in Spark {other}"
                for v, one, other in zip(column, ours, theirs, strict=True)
                if one != other
            ]
    return wrong


@few
@given(
    process=st.sampled_from(ZONES),
    session=st.sampled_from(ZONES),
    kind=st.sampled_from(["TIMESTAMP_LTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"]),
    local=st.lists(walls, min_size=6, max_size=12),
    zones=st.lists(st.sampled_from(ZONES), min_size=2, max_size=2),
)
def test_single_times_are_those_of_isin(
    spark: SparkSession,
    settings_of: Any,
    clocks_of: Any,
    process: str,
    session: str,
    kind: str,
    local: list[datetime],
    zones: list[str],
) -> None:
    """Of an hour that comes twice, `isin` takes the one or the other, by what was converted before."""
    once = [v for v in local if kind == "TIMESTAMP_NTZ" or not repeats(v, process)]
    zoned = [v.replace(tzinfo=ZoneInfo(zone)) for v in local for zone in zones]
    mixed: list[list[Any]] = [once[:2] + zoned[:2], [*once[2:], local[0].date()], [*zoned[2:4], local[-1].date()]]
    stamps = [[pd.Timestamp(v) for v in once[:3]], [pd.Timestamp(v) + pd.Timedelta(1) for v in once[3:]]]
    singles = [[v] for v in [*once, *zoned[:6], *(v.date() for v in local[:3])]]
    instants = {at for v in local for zone in (process, session) for at in shown(v, zone)}
    with clocks_of(process), settings_of(spark__sql__session__timeZone=session, spark__sql__timestampType=kind):
        df = table(spark, instants, local).localCheckpoint()
        assert disagreements(spark, df, [s for s in [*singles, *mixed, *stamps] if s]) == []


def repeats(wall: datetime, zone: str) -> bool:
    """Whether the clocks of a zone show a time twice."""
    first, second = (wall.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1))
    return first.astimezone(UTC) < second.astimezone(UTC)


def exists(wall: datetime, zone: str) -> bool:
    there = wall.replace(tzinfo=ZoneInfo(zone))
    return there.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wall


@few
@given(
    process=st.sampled_from(ZONES),
    session=st.sampled_from(ZONES),
    kind=st.sampled_from(["TIMESTAMP_LTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"]),
    local=st.lists(walls, min_size=6, max_size=12),
)
def test_times_of_columns_are_those_of_create_data_frame(
    spark: SparkSession, settings_of: Any, clocks_of: Any, process: str, session: str, kind: str, local: list[datetime]
) -> None:
    """A time that the clocks of the session's zone never show is refused there."""
    there = [v for v in local if exists(v, session)]
    once = [v for v in there if not repeats(v, session)]
    series, array, column = (
        pd.Series(there, dtype="datetime64[ns]"),
        np.array(there, "M8[us]"),
        pa.array(once, LOCAL_TIME),
    )
    zoned = series.dt.tz_localize("UTC")
    unlike: dict[str, tuple[Any, Any]] = {
        "Series": (series, pd.DataFrame({"c": series})),
        "numpy": (array, pd.DataFrame({"c": array})),
        "Arrow": (column, pa.table({"c": column})),
        "Polars": (pl.Series(once, dtype=pl.Datetime("us")), pa.table({"c": column})),
        "zoned": (zoned, pd.DataFrame({"c": zoned})),
    }
    with clocks_of(process), settings_of(spark__sql__session__timeZone=session, spark__sql__timestampType=kind):
        for name, (container, frame) in unlike.items():
            theirs = spark.createDataFrame(frame).toArrow().column(0).combine_chunks()
            theirs = theirs.cast(INSTANT) if theirs.type.tz else theirs
            for values in (container, frame):
                ours = collect_values(ab.lookup("c", values), rules_of(spark))
                assert ours.type == theirs.type, name
                assert set(ours.to_pylist()) == set(theirs.to_pylist()), name


def test_a_single_time_of_an_hour_that_comes_twice_says_which_one(clocks_of: Any) -> None:
    twice = datetime(2024, 10, 27, 2, 30)  # noqa: DTZ001 - a local time
    rules = SessionRules("Asia/Tokyo")
    for zone, wall in (("Europe/Berlin", twice), ("America/New_York", datetime(2024, 11, 3, 1, 30))):  # noqa: DTZ001
        with clocks_of(zone):
            for fold in (0, 1):
                collected = collect_values(ab.lookup("c", [wall.replace(fold=fold)]), rules).to_pylist()
                assert collected == [wall.replace(fold=fold, tzinfo=ZoneInfo(zone)).astimezone(UTC)]
    rules = SessionRules("Europe/Berlin")
    for values, hour in ((pa.array([twice]), 0), (pl.Series([twice]), 0), (pd.Series([twice]), 1)):
        assert [at.hour for at in collect_values(ab.lookup("c", values), rules).to_pylist()] == [hour]


def test_a_time_that_clocks_skip_is_as_if_they_had_not_been_put_forward(clocks_of: Any) -> None:
    skipped = datetime(2024, 3, 31, 2, 30)  # noqa: DTZ001 - a local time
    wanted = [datetime(2024, 3, 31, 1, 30, tzinfo=UTC)]
    for values in (pa.array([skipped]), pd.Series([skipped])):
        assert collect_values(ab.lookup("c", values), SessionRules("Europe/Berlin")).to_pylist() == wanted
    with clocks_of("Europe/Berlin"):
        for fold in (0, 1):
            values = [skipped.replace(fold=fold)]
            assert collect_values(ab.lookup("c", values), SessionRules()).to_pylist() == wanted


def test_a_filter_finds_what_isin_and_a_python_predicate_find(spark: SparkSession, settings_of: Any) -> None:
    """Workers are in the time zone of the session's start, as this process is."""
    with settings_of(spark__sql__session__timeZone="Asia/Kathmandu"):
        df = spark.range(40).selectExpr("timestamp_seconds(1717200000 + 900 * id) as ts")
        values = [row.ts for row in df.collect()][3:20:4]
        wanted = df.where(F.col("ts").isin(values)).count()
        found = ab.where(df, ab.lookup("ts", values)).count()
        asked = ab.where(df, ab.predicate(lambda at: at in values, "ts", name="among")).count()
        assert found == asked == wanted == len(values)


@pytest.mark.parametrize("values", [[datetime(2024, 6, 1), 5], [datetime(2024, 6, 1), "x"], [pd.NaT]])  # noqa: DTZ001
def test_what_is_no_time_is_refused_among_times(values: list[Any]) -> None:
    with pytest.raises(ab.AnabranchError, match="are not a set of one type"):
        collect_values(ab.lookup("c", values), SessionRules())


def test_dates_of_a_list_are_days_in_any_zone(spark: SparkSession, settings_of: Any, clocks_of: Any) -> None:
    with clocks_of("America/New_York"), settings_of(spark__sql__session__timeZone="Asia/Tokyo"):
        df = spark.sql("select timestamp_seconds(1717200000 + 3600 * id) as instant from range(48)")
        days = [date(2024, 6, 1), date(2024, 6, 2)]
        assert disagreements(spark, df, [days]) == []
        assert ab.where(df, ab.lookup("instant", days)).count() == df.where(F.col("instant").isin(days)).count() > 0
