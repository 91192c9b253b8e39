"""Continuous queries on Spark: examples, disorder, queries that come and go, sinks, restarts, failures, scripts."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import anabranch as ab
from anabranch.cql.dialect import parse_query
from anabranch.engine import ingest, layout, merging, retention
from anabranch.engine.batch_writer import StoredBatch
from anabranch.engine.ingest import IngestRecord
from anabranch.errors import AnabranchError, DataError, QueryError
from anabranch.events import QueryFailed, StreamFailed
from anabranch.spark.continuous.exchange import CELL
from anabranch.spark.continuous.grid import Grid
from anabranch.spark.session import LOCAL_FILES, LOG_FILES
from cql.answers import answered, before, expected
from cql.oracle import Oracle
from cql.streams import SECOND, Relation, Row, Stream
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)  # a busy machine is slow

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN = int(ZERO.timestamp()) * SECOND
PATIENCE_SECONDS = 280.0
AHEAD_SECONDS = 600
"""Rows so far ahead of the clock are not behind it when they are taken, however busy the machine is."""
SCHEMA = "seq long, ts timestamp, k long, a long"
ARROW = pa.schema([("seq", pa.int64()), ("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int64()), ("a", pa.int64())])
LABELS = ((0, "red"), (1, "green"))

Event = tuple[float | None, int, int | None]  # second, k, a


def moment(second: float) -> datetime:
    return ZERO + timedelta(seconds=second)


@dataclass
class Feed:
    """A stream that grows file by file, each a batch of its own."""

    spark: SparkSession
    folder: Path
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._files = itertools.count()

    def add(self, *events: Event) -> None:
        """One more file."""
        new = []
        for second, k, a in events:
            new.append((len(self.rows), None if second is None else moment(second), k, a))
            self.rows.append((len(self.rows), None if second is None else BEGIN + round(second * SECOND), k, a))
        number = next(self._files)
        columns = [pa.array([row[place] for row in new], each.type) for place, each in enumerate(ARROW)]
        beside = self.folder / f"_{number}.parquet"
        pq.write_table(pa.table(columns, schema=ARROW), beside)
        os.utime(beside, (number + 1, number + 1))
        beside.rename(self.folder / f"{number}.parquet")

    @property
    def df(self) -> DataFrame:
        return self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.folder))

    def oracle(self, keep: Callable[[Row], bool] = lambda row: True) -> Oracle:
        """What follows from all rows so far, or from some."""
        columns = (("k", "bigint"), ("a", "bigint"))
        relation = Relation("r", (("k", "bigint"), ("label", "string")), LABELS)
        return Oracle([Stream("s", columns, tuple(filter(keep, self.rows)))], [relation])


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "s")


def labels(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(list(LABELS), "k long, label string")


def wanted(oracle: Oracle, text: str, until: float) -> Counter[Row]:
    return before(expected(oracle, parse_query(text)), BEGIN + round(until * SECOND))


def settled(*queries: Any) -> None:
    for query in queries:
        query.await_idle()


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "this does not happen"
        time.sleep(0.05)


def emitted(df: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Rows with the second at which each appears, and, of a relation, whether it enters or leaves."""
    op = ["_op"] if "_op" in df.columns else []
    rows = df.selectExpr(*columns, "unix_micros(_ts) as _micros", *op).collect()
    found = [(*row[: len(columns)], (row["_micros"] - BEGIN) / SECOND, *(row[name] for name in op)) for row in rows]
    return sorted(found, key=lambda row: (row[len(columns)], row[-1] == "+", repr(row)))


# -- the examples of the thesis


def table(spark: SparkSession, columns: str, rows: list[tuple[Any, ...]]) -> DataFrame:
    """A bounded stream: of each row the second comes first."""
    made = [(number, moment(row[0]), *row[1:]) for number, row in enumerate(rows)]
    return spark.createDataFrame(made, f"seq long, ts timestamp, {columns}").repartition(2)


def in_table(address: str) -> bool:
    return address.startswith("10.")


def contains(data: str, part: str) -> bool:
    return part in data


THESIS = {
    "network": """
        Select  sum(C.size) As total
        From    C [Range 10 minutes], B [Range 10 minutes], O [Range 10 minutes]
        Where   C.pid = B.pid and B.pid = O.pid""",
    "filtered": "Select * From S Where S.A > 10 and S.B < 20 and S.C > 40",
    "filtered_at_length": "Select Istream(*) From S [Rows Unbounded] Where S.A > 10 and S.B < 20 and S.C > 40",
    "joined": """
        Select  S1.A, S1.B, S2.D
        From    S1 [Rows 1000], S2 [Range 2 Minutes]
        Where   S1.A = S2.A and S1.A > 10 and S1.B < 20""",
    "joined_as_stream": """
        Select  Istream(S1.A)
        From    S1 [Rows 1000], S2 [Range 2 Minutes]
        Where   S1.A = S2.A and S1.A > 10 and S1.B < 20""",
    "greatest": "Select A, Max(B) As most From S1 [Rows 2] Group By A",
    "intrusion": """
        Select  P.data
        From    Packets P
        Where   lookup(P.destAddr) = true and matches(P.data, 'abc') = true and matches(P.data, 'xyz') = true""",
    "accidents": """
        Select distinct sid From
          (Select LastRep.cid, sid From
            (CarStr [Partition By cid Rows 1]) as LastRep,
            (Select distinct cid From
              CarStr [Range 30 seconds]) as CurActiveCars
           Where LastRep.cid = CurActiveCars.cid)
         as CurCarSeg,
         (Select cid
          From CarStr [Partition By cid Rows 4]
          Group By cid
          Having count (distinct xpos) = 1 and count(*) = 4)
         as AccCars
        Where CurCarSeg.cid = AccCars.cid""",
}


def test_the_examples_of_the_thesis_say_what_they_mean(spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    inputs: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
        "C": ("pid long, size long", [(0, 1, 100), (60, 2, 50)]),
        "B": ("pid long, size long", [(10, 1, 100), (70, 2, 50), (80, 3, 9)]),
        "O": ("pid long, size long", [(20, 1, 100), (300, 2, 50)]),
        "S": ("A long, B long, C long", [(1, 11, 19, 41), (2, 11, 19, 40), (3, 20, 5, 50), (4, 10, 5, 50)]),
        "S1": ("A long, B long", [(1, 12, 5), (2, 9, 5), (3, 13, 30)]),
        "S2": ("A long, D long", [(4, 12, 7), (5, 13, 7), (6, 9, 7)]),
        "Packets": (
            "destAddr string, data string",
            [(1, "10.1", "abc-xyz"), (2, "10.1", "abc"), (700, "9.1", "abcxyz")],
        ),
        "CarStr": (
            "cid long, xpos long, sid long",
            [(0, 1, 5, 7), (10, 2, 1, 7), (30, 1, 5, 7), (40, 2, 2, 8), (60, 1, 5, 7), (70, 2, 2, 8), (90, 1, 5, 7)],
        ),
    }
    for name, (columns, rows) in inputs.items():
        engine.stream(name, table(spark, columns, rows), timestamp="ts", sequence="seq")
    engine.function("lookup", in_table)
    engine.function("matches", contains)
    for name, text in THESIS.items():
        engine.query(text, name)
    answers = engine.run_batch()

    assert emitted(answers["network"], "total") == [
        (None, 0, "+"),
        (None, 20, "-"),
        (100, 20, "+"),
        (100, 300, "-"),
        (150, 300, "+"),
        (150, 600.000001, "-"),
        (50, 600.000001, "+"),
        (50, 660.000001, "-"),
        (None, 660.000001, "+"),
    ]
    assert emitted(answers["filtered"], "A", "B", "C") == [(11, 19, 41, 1), (20, 5, 50, 3)]
    assert emitted(answers["filtered_at_length"], "A", "B", "C") == emitted(answers["filtered"], "A", "B", "C")
    assert emitted(answers["joined"], "A", "B", "D") == [(12, 5, 7, 4, "+"), (12, 5, 7, 124.000001, "-")]
    assert emitted(answers["joined_as_stream"], "A") == [(12, 4)]
    assert emitted(answers["greatest"], "A", "most") == [
        (12, 5, 1, "+"),
        (9, 5, 2, "+"),
        (12, 5, 3, "-"),
        (13, 30, 3, "+"),
    ]
    assert emitted(answers["intrusion"], "data") == [("abc-xyz", 1)]
    assert emitted(answers["accidents"], "sid") == [(7, 90, "+"), (7, 120.000001, "-")]


# -- time


def test_rows_out_of_order_change_nothing_and_late_or_unusable_ones_stay_aside(feed: Feed, spark: SparkSession) -> None:
    busy = "Select k, Count(*) As n From s [Range 5 Seconds] Group By k"
    engine, ahead = ab.Engine(spark), (datetime.now(UTC) - ZERO).total_seconds() + 2 * 86400
    engine.stream("s", feed.df, timestamp="ts", sequence="seq", skew="5 seconds")
    engine.stream("bare", feed.df, timestamp="ts", sequence="seq", skew="5 seconds")
    feed.add((0, 1, 1), (3, 1, 2), (1, 0, 3), (10, 1, 4), (None, 1, 5), (ahead, 1, 6))
    queries = [
        engine.query(busy, "busy"),
        engine.query("Select k, a From s Where a > 2", "large"),
        engine.query("Select k, a From bare Where a > 2", "large_of_bare"),
    ]
    for query in queries:
        query.start()
    settled(*queries)
    feed.add((4, 1, 7), (7, 0, 8), (12, 1, 9), (6, 1, 10))
    feed.add((30, 1, 11))
    settled(*queries)
    engine.stop()

    usable = {0, 1, 2, 3, 7, 8, 9, 10}
    oracle = feed.oracle(lambda row: row[0] in usable)
    assert answered(queries[0].to_dataframe()) == wanted(oracle, busy, 25)
    for query in queries[1:]:
        assert answered(query.to_dataframe()) == wanted(oracle, "Select k, a From s Where a > 2", 100)
    for stream in ("s", "bare"):
        assert [row["a"] for row in engine.late(stream).collect()] == [7]
        assert sorted(row["a"] for row in engine.unusable(stream).collect()) == [5, 6]
    shown = engine.describe("streams").splitlines()
    assert shown[0].split() == "stream up to rows late unusable skew suggested skew behind most behind columns".split()
    for line in shown[3:]:
        assert line.split()[1:6] == ["2026-01-01", "00:00:30.000", "8", "1", "2"]


@pytest.mark.parametrize("most_rows", tiers([1_000_000, 5], fast=1, reason="overlapping files are late in every tier"))
def test_files_that_overlap_are_one_batch_if_they_are_there_when_the_stream_begins(
    feed: Feed, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    monkeypatch.setattr(ingest, "MOST_BACKLOG_ROWS", most_rows)
    for first in (2, 1, 0):
        feed.add(*((second, second % 2, second) for second in range(first, 9, 3)))
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    texts = {"busy": "Select k, Count(*) As n From s [Range 5 Seconds] Group By k", "all": "Select k, a From s"}
    queries = [engine.query(text, name).start() for name, text in texts.items()]
    settled(*queries)
    backlog_late = {row["a"] for row in engine.late("s").collect()}
    assert backlog_late == (set() if most_rows > 5 else {0, 3, 6})
    feed.add((4, 1, 9), (20, 0, 10))
    settled(*queries)
    engine.stop()
    assert {row["a"] for row in engine.late("s").collect()} == backlog_late | {9}
    oracle = feed.oracle(lambda row: row[3] not in backlog_late | {9})
    for query in queries:
        assert answered(query.to_dataframe()) == wanted(oracle, query.text, 20 if query.name == "busy" else 100)


def test_a_silent_stream_that_may_be_idle_holds_nobody_up(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    silent = Feed(spark, tmp_path / "silent")
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    engine.stream("silent", silent.df, timestamp="ts", sequence="seq", idle="200 milliseconds")
    engine.stream("awaited", silent.df, timestamp="ts", sequence="seq")
    alone = "Select Istream(k, a) From s [Now] Where k Not In (Select k From {} [Range 1 Minute])"
    feed.add((0, 0, 1), (5, 1, 2))
    query, waiting = (engine.query(alone.format(name), f"beside_{name}") for name in ("silent", "awaited"))
    query.start()
    waiting.start()
    eventually(lambda: emitted(query.to_dataframe(), "k", "a") == [(0, 1, 0)])
    settled(waiting)
    assert waiting.to_dataframe().isEmpty()

    silent.add((3, 1, 0), (6, 1, 0))
    eventually(lambda: engine.late("silent").count() == 1)
    feed.add((7, 1, 3), (8, 0, 4), (9, 0, 5))
    eventually(lambda: emitted(query.to_dataframe(), "k", "a") == [(0, 1, 0), (1, 2, 5), (0, 4, 8)])
    settled(waiting)
    assert emitted(waiting.to_dataframe(), "k", "a") == [(0, 1, 0)]
    assert engine.late("awaited").isEmpty()
    assert [row["k"] for row in engine.late("silent").collect()] == [1]
    engine.stop()


@pytest.mark.full(reason="one silent stream is in every tier")
def test_streams_that_are_silent_together_hold_nobody_up(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    other = Feed(spark, tmp_path / "other")
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq", skew="1 second", idle="100 milliseconds")
    engine.stream("t", other.df, timestamp="ts", sequence="seq", skew="1 second", idle="5 seconds")
    other.add((12, 0, 4))
    text = "Select Istream(s.a, t.a As b) From s [Range 1 Minute], t [Range 1 Minute] Where s.k = t.k"
    query = engine.query(text, "both").start()
    eventually(lambda: engine.rows_taken("t") == 1)
    feed.add((12, 0, 1), (14, 0, 2), (19, 0, 3))
    eventually(lambda: emitted(query.to_dataframe(), "a", "b") == [(1, 4, 12), (2, 4, 14)])
    engine.stop()


def test_streams_without_rows_give_no_answers(feed: Feed, spark: SparkSession) -> None:
    texts = {"count": "Select Count(*) As n From s [Rows 5]", "all": "Select k From s"}
    bounded, streaming = ab.Engine(spark), ab.Engine(spark)
    bounded.stream("s", spark.createDataFrame([], SCHEMA), timestamp="ts")
    streaming.stream("s", feed.df, timestamp="ts")
    for name, text in texts.items():
        bounded.query(text, name)
        streaming.query(text, name).start()
    assert all(answer.isEmpty() for answer in bounded.run_batch().values())
    feed.add()
    settled(*streaming.queries.values())
    assert all(query.to_dataframe().isEmpty() for query in streaming.queries.values())
    assert streaming.queries["count"].current().isEmpty()
    streaming.stop()


# -- queries that come and go

BUSY = "Select k, Count(*) As n, Sum(a) As total From s [Range 10 Seconds] Group By k"
SMALL = "Select k, a From s Where a < 5"
STRANGE = "Select Istream(k, a) From s [Now] Where k Not In (Select k From r)"
PAIRS = "Select x.a, y.a As b From s [Rows 3] As x, s [Range 4 Seconds] As y Where x.k = y.k"


def test_queries_come_and_go_while_others_run(feed: Feed, spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq", retain="1 hour")
    engine.relation("r", labels(spark))
    seen: list[int] = []
    busy = engine.query(BUSY, "busy").start()
    small = engine.query(SMALL, "small").start(sink=lambda answer, tick: seen.append(tick))
    feed.add((0, 0, 1), (1, 1, 2), (2, 2, 3), (4, 0, 4))
    settled(busy, small)
    runs = {query.runId for query in spark.streams.active}
    assert [row["rows/s"] for row in engine.progress()] == ["-", "-"], "nobody has looked before"

    later = {
        "later_busy": BUSY,
        "later_small": SMALL,
        "later_strange": STRANGE,
        "later_pairs": PAIRS,
    }
    for name, text in later.items():
        engine.query(text, name).start()
    history = {f"history_{name}": text for name, text in (("busy", BUSY), ("small", SMALL), ("strange", STRANGE))}
    for name, text in history.items():
        engine.query(text, name, history=True).start()
    filled = {name: engine.queries[name].filled_since for name in ("busy", "history_busy", "later_busy")}
    assert filled == {"busy": None, "history_busy": None, "later_busy": moment(4)}
    small.pause()
    busy.pause()
    before_pause = answered(busy.to_dataframe()), answered(small.to_dataframe())
    feed.add((5, 0, 1), (6, 3, 2), (7, 0, 9))
    feed.add((9, 2, 3), (16, 3, 4))
    settled(*engine.queries.values())
    assert (answered(busy.to_dataframe()), answered(small.to_dataframe())) == before_pause
    assert [line.split()[1] for line in engine.describe().splitlines()[2:4]] == ["paused", "paused"]
    assert {row["rows/s"] for row in engine.progress()} == {"-"}, "those that run are new"

    busy.resume()
    small.resume()
    engine.queries["later_pairs"].stop()
    feed.add((17, 1, 1), *((18 + n / 10, 7, 9) for n in range(20)), (30, 0, 2))
    settled(*engine.queries.values())
    rates = {row["query"]: row["rows/s"] for row in engine.progress()}
    assert rates["later_pairs"] == "-", "it has stopped"
    assert float(str(rates["later_busy"])) > 0
    engine.drop("later_pairs")
    assert "later_pairs" not in engine.queries
    assert {query.runId for query in spark.streams.active} == runs

    everything, since = feed.oracle(), feed.oracle(lambda row: row[1] >= BEGIN + 4 * SECOND)
    for name, text in {"busy": BUSY, **history}.items():
        until = 1000 if "small" in name else 30
        assert answered(engine.queries[name].to_dataframe()) == wanted(everything, text, until), name
    assert answered(small.to_dataframe()) == wanted(everything, SMALL, 1000)
    for name in ("later_busy", "later_strange"):
        assert answered(engine.queries[name].to_dataframe()) == wanted(since, later[name], 30), name
    came_later = feed.oracle(lambda row: row[1] > BEGIN + 4 * SECOND)
    assert answered(engine.queries["later_small"].to_dataframe()) == wanted(came_later, SMALL, 1000)
    assert seen == sorted(set(seen))

    with pytest.raises(QueryError, match="'s' is read by busy"):
        engine.drop("s")
    busy.stop()
    with pytest.raises(QueryError, match="query busy is stopped, not paused"):
        busy.resume()
    engine.stop()


def test_queries_can_be_registered_in_the_middle_of_ticks(feed: Feed, spark: SparkSession) -> None:
    engine = ab.Engine(spark, cells=1)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    first = engine.query(BUSY, "first").start()
    for second in range(6):
        feed.add((second, second % 2, second))
    for number in range(4):
        engine.query("Select k From s Where a > 100", f"q{number}").start()
        engine.stream(f"other{number}", feed.df, timestamp="ts")
    settled(*engine.queries.values())
    assert answered(first.to_dataframe()) == wanted(feed.oracle(), BUSY, 5)
    assert {query.status for query in engine.queries.values()} == {"running"}
    engine.stop()


def test_a_stream_is_dropped_while_others_run(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    state, other = tmp_path / "state", Feed(spark, tmp_path / "other")
    engine = ab.Engine(spark, state)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    engine.stream("t", other.df, timestamp="ts", sequence="seq")
    busy, apart = engine.query(BUSY, "busy").start(), engine.query(BUSY.replace(" s ", " t "), "apart").start()
    feed.add((0, 0, 1), (2, 1, 2))
    other.add((0, 0, 1), (2, 1, 2))
    settled(busy, apart)
    with pytest.raises(QueryError, match="'t' is read by apart"):
        engine.drop("t")
    (kept,) = {query.runId for query in spark.streams.active if query.id == engine._loop._sources["s"].id}
    engine.drop("apart")
    engine.drop("t")
    assert not [path for path in state.rglob("t") if path.is_dir()]
    feed.add((3, 0, 1), (14, 1, 2))
    settled(busy)
    assert kept in {query.runId for query in spark.streams.active}
    assert engine.describe("streams").splitlines()[-1].split()[0] == "s"

    engine.stream("t", other.df, timestamp="ts", sequence="seq")  # the name is free, and all begins anew
    again = engine.query(BUSY.replace(" s ", " t "), "apart").start()
    other.add((5, 1, 3), (15, 0, 1))
    feed.add((15, 0, 1))
    settled(busy, again)
    engine.stop()
    assert answered(busy.to_dataframe()) == wanted(feed.oracle(), BUSY, 15)
    assert answered(again.to_dataframe()) == wanted(other.oracle(), BUSY, 15)


def test_columns_may_have_names_that_operators_use(spark: SparkSession) -> None:
    names = ("_ts", "_op", "_start", "_end", "_weight", "_cell", "_key", "_order", "_n")
    rows = spark.createDataFrame([(moment(n), n, *[10 * n] * len(names)) for n in range(3)], ["ts", "k", *names])
    tables = rows.where("k = 2").selectExpr("*", "7 AS _time")
    engine = ab.Engine(spark)
    engine.stream("s", rows, timestamp="ts")
    engine.relation("r", tables)
    read = [f"s.{name} As x{name}" for name in names] + [f"r.{name} As y{name}" for name in (*names, "_time")]
    latest = engine.query(f"Select {', '.join(read)}, s.k As _n From s [Rows 1], r Where s.k = r.k", "latest")
    engine.run_batch()
    assert [tuple(row) for row in latest.current().collect()] == [(*[20] * 2 * len(names), 7, 2)]


def test_spans_of_time_are_those_of_spark(spark: SparkSession) -> None:
    rows = spark.range(0, 40, 7).selectExpr("timestamp_seconds(id - 20) AS ts", "id AS a")
    engine = ab.Engine(spark, cells=1)
    engine.stream("s", rows, timestamp="ts")
    text = "Select window.start, window.end, Sum(a) As total From s Group By window(ts, '{}')"
    for name, length in (("short", "10 seconds"), ("long", "1 minute 30 seconds")):
        engine.query(text.format(length), name)
    engine.run_batch()
    rows.createOrReplaceTempView("rows_of_spans")
    for name, length in (("short", "10 seconds"), ("long", "1 minute 30 seconds")):
        want = spark.sql(text.format(length).replace("From s", "From rows_of_spans"))
        assert sorted(engine.queries[name].current().collect()) == sorted(want.collect())


@pytest.mark.full(reason="random queries over bounded inputs take several ticks in every tier")
def test_many_bounded_rows_take_several_ticks(spark: SparkSession) -> None:
    rows = spark.range(0, 600_000, 1, 4).selectExpr(
        "timestamp_micros(id * 1000) AS ts", "id % 5 AS k", "pmod(xxhash64(id), 1000000) AS a"
    )
    engine = ab.Engine(spark)
    engine.stream("s", rows, timestamp="ts")
    engine.query("Select Istream(k, Max(a) As most) From s [Rows Unbounded] Group By k", "records")
    found = engine.run_batch()["records"]
    assert engine._manifest.tick > 2
    so_far = "max(a) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    records = rows.selectExpr("k", "a", "ts", f"{so_far} AS before").where("before IS NULL OR a > before")
    assert Counter(map(tuple, found.collect())) == Counter(map(tuple, records.drop("before").collect()))


def test_a_gap_of_years_between_rows_holds_nobody_up(spark: SparkSession) -> None:
    years, window = 1_767_225_600, "s [Range 2 Seconds Slide 1 Second]"
    rows = spark.createDataFrame([(0, 1), (years, 2), (years + 3, 3)], "t long, a long")
    engine = ab.Engine(spark)
    engine.stream("s", rows.selectExpr("timestamp_seconds(t) AS ts", "a"), timestamp="ts")
    engine.query(f"Select Rstream(a) From {window}", "contents")
    found = engine.run_batch()["contents"].selectExpr("a", "unix_seconds(_ts)")
    there = [(1, 0), (1, 1), (1, 2), (2, years), (2, years + 1), (2, years + 2), (3, years + 3)]
    assert sorted(map(tuple, found.collect())) == there
    engine = ab.Engine(spark)
    engine.stream("s", rows.selectExpr("timestamp_seconds(t) AS ts", "a"), timestamp="ts")
    engine.query(f"Select Rstream(Count(*) As n) From {window}", "counts")
    with pytest.raises(ab.QueriesFailed, match="counts: Rstream would have about 1,767,225,604 rows"):
        engine.run_batch()


def views(spark: SparkSession) -> set[str]:
    return {each.name for each in spark.catalog.listTables("global_temp")}


def test_an_engine_that_rests_leaves_nothing_in_spark_and_goes_on(feed: Feed, spark: SparkSession) -> None:
    others, relation = views(spark), labels(spark).persist()
    relation.count()
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    engine.relation("r", relation)
    texts = {"busy": BUSY, "small": SMALL, "named": "Select Istream(s.a, r.label) From s [Now], r Where s.k = r.k"}
    queries = {name: engine.query(text, name) for name, text in texts.items()}
    for second in (1, 3):
        for query in queries.values():
            query.start()
        feed.add((second, 0, second), (second + 1, 1, 7))
        settled(*queries.values())
        assert views(spark) > others
        engine.stop()
        assert views(spark) == others
    oracle = feed.oracle()
    for name, text in texts.items():
        assert answered(queries[name].to_dataframe()) == wanted(oracle, text, 4)
    engine.drop("named")
    assert relation.storageLevel.useMemory, "it is the user's"
    relation.unpersist()


def test_bounded_runs_and_refused_queries_leave_nothing_in_spark(spark: SparkSession) -> None:
    others = views(spark)
    engine = ab.Engine(spark)
    engine.stream("s", table(spark, "k long, a long", [(1, 0, 3), (2, 1, 4)]), timestamp="ts", sequence="seq")
    engine.query(BUSY, "busy")
    with pytest.raises(QueryError):
        engine.query("Select Istream(k, parse_url(a, k, a, k)) From s [Rows 2] Where k = 1", "wrong")
    engine.run_batch()
    assert views(spark) == others


# -- answers that are kept for a while


KEPT = {
    "busy": BUSY,
    "small": SMALL,
    "ends": "Select Dstream(k, a) From s [Range 2 Seconds]",
}


def keeping(feed: Feed, folder: Path) -> ab.Engine:
    engine = ab.Engine(feed.spark, folder / "state")
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    for name, text in KEPT.items():
        query = engine.query(text, name)
        if name == "ends":
            query.use_sink("parquet", path=str(folder / name))
        query.start(retain="2 seconds")
    return engine


def contents(changes: Counter[Row]) -> Counter[Row]:
    """The rows that are there after some changes."""
    found = Counter[Row]()
    for (*row, _, sign), n in changes.items():
        found[tuple(row)] += sign * n
    return +found


def test_answers_that_are_kept_for_a_while_go_and_relations_stay_right(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FILED_TOGETHER", 2)
    engine, blocks, last = keeping(feed, tmp_path), tmp_path / "state" / "answers", 9
    for second in range(last + 1):
        feed.add((second, second % 3, second % 5), (second, 2, 4))
        settled(*engine.queries.values())
        if second == 2:
            old = min(blocks.glob("0*"))
            shutil.copytree(old, tmp_path / "old")
        if second == 4:
            engine.stop()
            engine = keeping(feed, tmp_path)
    oracle = feed.oracle()
    full = {name: wanted(oracle, text, last if name != "small" else 1000) for name, text in KEPT.items()}
    kept = {name: answered(query.to_dataframe()) for name, query in engine.queries.items()}
    for name in ("small", "ends"):
        lately = Counter({row: n for row, n in full[name].items() if row[-2] >= BEGIN + (last - 2) * SECOND})
        assert lately <= kept[name] < full[name]
    assert contents(kept["busy"]) == contents(full["busy"])
    assert kept["busy"].total() < full["busy"].total()
    assert Counter(map(tuple, engine.queries["busy"].current().collect())) == contents(full["busy"])
    given = feed.spark.read.parquet(str(tmp_path / "ends")).drop("tick")
    assert answered(given) == full["ends"], "the sink has had all of it"
    engine.stop()
    shutil.copytree(tmp_path / "old", old)  # as if the run had ended before this was deleted
    engine = keeping(feed, tmp_path)
    assert answered(engine.queries["busy"].to_dataframe()) == kept["busy"]
    engine.stop()


def test_late_rows_are_kept_where_answers_have_nested_columns(feed: Feed, spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    query = engine.query("Select named_struct('x', a, 'y', k) As both, a From s", "nested").start()
    for second in (10, 5, 11):
        feed.add((second, 1, second))
        settled(query)
    assert [row.a for row in engine.late("s").collect()] == [5]
    assert sorted(row.a for row in query.to_dataframe().collect()) == [10, 11]
    engine.stop()


# -- sinks, restarts, queries over queries

FILES = ("parquet", "json", "csv")
STORY = {
    "busy": BUSY,
    "small": SMALL,
    "pairs": PAIRS,
    "doubled": "Select k, twice(a) As b From s Where even(k)",
    "ends": "Select Dstream(k, a) From s [Range 3 Seconds]",
    **{f"as_{kind}": "Select k, Count(*) As n From s [Rows 3] Group By k" for kind in FILES},
    "direct_parquet": SMALL,
    "busiest": "Select Max(n) As n From busy",
    "few": "Select Count(*) As n From low [Range 5 Seconds]",
    "console": "Select Istream(k) From s [Now] Where a = 3",
    "named": "Select Istream(s.a, r.label) From s [Now], r Where s.k = r.k",
}


def even(k: int) -> bool:
    return k % 2 == 0


def twice(a: int) -> int:
    return 2 * a


@dataclass
class Story:
    """An engine that has stopped, and its successor on the same checkpoint, after all rows have come."""

    feed: Feed
    folder: Path
    engine: ab.Engine
    called: list[tuple[int, Counter[Row]]]
    printed: str


def run_story(spark: SparkSession, feed: Feed, folder: Path, called: list[tuple[int, Counter[Row]]]) -> ab.Engine:
    """Queries are registered and started one after the other, while rows come."""
    engine = ab.Engine(spark, folder / "state")
    engine.stream("s", feed.df, timestamp="ts", sequence="seq", retain="1 minute")
    engine.relation("r", labels(spark))
    engine.function("even", even)
    engine.function("twice", twice, "long")
    engine.view("low", "Select k, a From s Where a < 5")
    for name, text in STORY.items():
        query = engine.query(text, name, history=True)
        kind = name.rpartition("_")[2]
        if kind in FILES:
            query.start(sink=kind, path=str(folder / name))
        elif name == "pairs":
            query.start(sink=lambda answer, tick: called.append((tick, answered(answer))))
        else:
            query.start(sink="console" if name == "console" else "memory")
        if name == "busy":
            settled(query)
    settled(*engine.queries.values())
    return engine


@pytest.fixture(scope="module")
def story(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, functions_of_tests_travel: None
) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("story")
    feed, called = Feed(spark, folder / "s"), list[tuple[int, Counter[Row]]]()
    feed.add((0, 0, 1), (1, 1, 3), (1, 2, 8), (4, 0, 4))
    with redirect_stdout(io.StringIO()) as printed:
        run_story(spark, feed, folder, called).stop()
        feed.add((5, 1, 3), (6, 0, 2), (6, 0, 2))
        feed.add((9, 2, 3), (18, 1, 7))
        engine = run_story(spark, feed, folder, called)
    yield Story(feed, folder, engine, called, printed.getvalue())
    engine.stop()


@pytest.mark.parametrize("name", ["busy", "small", "pairs", "ends", "as_parquet"])
def test_a_restart_changes_no_answer(story: Story, name: str) -> None:
    until = 1000 if name == "small" else 18
    got = answered(story.engine.queries[name].to_dataframe())
    assert got == wanted(story.feed.oracle(), STORY[name], until)


def test_functions_are_called_in_conditions_and_in_columns(story: Story) -> None:
    got = emitted(story.engine.queries["doubled"].to_dataframe(), "k", "b")
    assert got == [(0, 2, 0), (2, 16, 1), (0, 8, 4), (0, 4, 6), (0, 4, 6), (2, 6, 9)]


def test_queries_read_answers_of_other_queries_and_views(story: Story) -> None:
    oracle = story.feed.oracle()
    inlined = f"Select Max(n) As n From ({BUSY}) As busy"
    assert answered(story.engine.queries["busiest"].to_dataframe()) == wanted(oracle, inlined, 18)
    inlined = "Select Count(*) As n From (Select k, a From s Where a < 5) [Range 5 Seconds] As low"
    assert answered(story.engine.queries["few"].to_dataframe()) == wanted(oracle, inlined, 18)


def test_the_relation_of_a_query_can_be_looked_at(story: Story) -> None:
    at_the_end = [(row["k"], row["n"]) for row in story.engine.queries["busy"].current().collect()]
    assert sorted(at_the_end) == [(2, 1)]
    with pytest.raises(QueryError, match="the answer of small is a stream, which has no current state"):
        story.engine.queries["small"].current()


@pytest.mark.parametrize("name", ["as_parquet", "as_json", "as_csv", "direct_parquet"])
def test_files_hold_every_tick_once(story: Story, name: str, spark: SparkSession) -> None:
    answer = story.engine.queries[name].to_dataframe()
    kind, schema = name.rpartition("_")[2], answer.schema
    ticks = [path.name for path in (story.folder / name).iterdir()]
    assert ticks
    assert all(tick.startswith("tick=") for tick in ticks)
    read = spark.read.schema(schema).option("header", True).format(kind).load(str(story.folder / name))
    assert answered(read.select(*answer.columns)) == answered(answer)


def test_a_function_is_given_every_tick_once(story: Story) -> None:
    ticks = [tick for tick, _ in story.called]
    assert ticks == sorted(set(ticks))
    given = sum((rows for _, rows in story.called), Counter[Row]())
    assert given == answered(story.engine.queries["pairs"].to_dataframe())


def test_the_console_shows_ticks(story: Story) -> None:
    assert story.printed.count("-- tick") == 2
    assert story.printed.count("2026-01-01 00:00:01") == 1
    assert story.printed.count("2026-01-01 00:00:05") == 1


def test_tables_show_what_is_registered(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    engine = story.engine
    engine.show()
    printed = capsys.readouterr().out
    assert printed == engine.describe() + "\n"
    assert [line.split()[0] for line in printed.splitlines()] == ["query", "-" * max(map(len, STORY)), *STORY]
    assert engine.describe("relations").splitlines()[-1].split(maxsplit=2) == ["r", "-", "k, label"]
    assert engine.describe("views").splitlines()[2].split(maxsplit=1) == ["low", "Select k, a From s Where a < 5"]
    with pytest.raises(QueryError, match="did you mean 'queries'"):
        engine.show("querys")
    progress = {row["query"]: row for row in story.engine.progress()}
    assert progress["busy"]["status"] == "running"
    assert progress["busy"]["up to"] == "2026-01-01 00:00:18.000"
    assert progress["busy"]["lag s"] == "0.0"
    assert progress["pairs"]["state rows"] != "0"
    assert "window range 10 seconds" in story.engine.queries["busy"].explain()


def test_notebooks_show_engines_and_queries(story: Story) -> None:
    page = story.engine._repr_html_()
    assert re.findall("<h4>(.*?)</h4>", page) == ["Queries", "Streams", "Relations", "Views", "Memory"]
    assert "<tr><td>r</td><td>-</td><td>k, label</td></tr>" in page
    assert "<td>Select k, a From s Where a &lt; 5</td>" in page
    page = story.engine.queries["busy"]._repr_html_()
    assert "<p>running</p>" in page
    assert re.search("<ul><li>.*<ul><li>window range 10 seconds<ul><li>stream s ", page)
    for page in (story.engine._repr_html_(), *(each._repr_html_() for each in story.engine.queries.values())):
        ET.fromstring(page)


def test_a_checkpoint_is_refused_to_another_query_other_columns_and_another_version(
    story: Story, spark: SparkSession, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for path in (story.folder / "state").glob("*.json"):
        (state / path.name).write_text(path.read_text())

    engine = ab.Engine(spark, state)
    engine.stream("s", story.feed.df, timestamp="ts", sequence="seq")
    other = BUSY.replace("10 Seconds", "11 Seconds")
    with pytest.raises(QueryError, match="the checkpoint holds another query, or other inputs, under the name 'busy'"):
        engine.query(other, "busy")
    with pytest.raises(QueryError, match="the checkpoint holds a query 'busy'; 'Busy' differs from it by case alone"):
        engine.query(BUSY, "Busy")
    engine.drop("busy")
    assert engine.query(other, "busy").status == "registered"

    engine = ab.Engine(spark, state)
    engine.stream("s", story.feed.df.selectExpr("*", "a as more"), timestamp="ts", sequence="seq")
    with pytest.raises(QueryError, match="other inputs, under the name 'small'"):
        engine.query(SMALL, "small")

    for name, kind, returns in (("named", "int", "long"), ("doubled", "string", "int")):
        engine = ab.Engine(spark, state)
        engine.stream("s", story.feed.df, timestamp="ts", sequence="seq")
        engine.relation("r", labels(spark).selectExpr("k", f"cast(label as {kind}) as label"))
        engine.function("even", even)
        engine.function("twice", twice, returns)
        with pytest.raises(QueryError, match=f"other inputs, under the name '{name}'"):
            engine.query(STORY[name], name)
        other = "doubled" if name == "named" else "named"
        assert engine.query(STORY[other], other).status == "registered"

    last = max(state.glob("manifest-*.json"))
    last.write_text(json.dumps(json.loads(last.read_text()) | {"version": 6}))
    with pytest.raises(QueryError, match="is of another version of this library"):
        ab.Engine(spark, state)


def test_a_checkpoint_keeps_its_number_of_cells(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    texts = {"busy": BUSY, "pairs": PAIRS}

    def run(cells: int | None) -> ab.Engine:
        engine = ab.Engine(spark, tmp_path / "state", cells=cells)
        engine.stream("s", feed.df, timestamp="ts", sequence="seq")
        for name, text in texts.items():
            engine.query(text, name)  # all of them first: one that is registered later sees rows from then on
        for query in engine.queries.values():
            query.start()
        settled(*engine.queries.values())
        engine.stop()
        return engine

    many = 2 * spark.sparkContext.defaultParallelism + 1
    feed.add(*((second / 10, second % 7, second) for second in range(30)))
    run(many)
    feed.add(*((3 + second / 10, second % 7, second) for second in range(60)))
    for other in (many - 1, many + 1):
        with pytest.raises(QueryError, match=f"is spread over {many} cells, not {other}") as error:
            run(other)
        assert "leave the number of cells out" in str(error.value)
    engine = run(None)
    for name, text in texts.items():
        assert answered(engine.queries[name].to_dataframe()) == wanted(feed.oracle(), text, 8.9), name


@pytest.mark.parametrize("cells", [2, 3, 8])
def test_every_cell_is_a_partition_of_its_own(cells: int, spark: SparkSession) -> None:
    rows = spark.createDataFrame([(value,) for value in Grid.of(cells).values], f"{CELL} int")
    placed = rows.repartition(cells, CELL).selectExpr(CELL, "spark_partition_id() AS place").collect()
    assert {row["place"]: row[CELL] for row in placed} == dict(enumerate(Grid.of(cells).values))


def test_two_engines_do_not_run_on_one_checkpoint(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    engines = [ab.Engine(spark, tmp_path / "state") for _ in range(2)]
    for engine in engines:
        engine.stream("s", feed.df, timestamp="ts", sequence="seq")
        engine.query(SMALL, "small")
    engines[0].queries["small"].start()
    with pytest.raises(QueryError, match="another engine runs on the checkpoint"):
        engines[1].queries["small"].start()
    feed.add((0, 0, 1))
    settled(engines[0].queries["small"])
    engines[0].stop()
    with pytest.raises(QueryError, match="another engine has used the checkpoint since this one was created"):
        engines[1].queries["small"].start()


@pytest.fixture
def forgetful(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark forgets what it knows of old batches at once, not after a hundred of them."""
    settings = {"spark.sql.streaming.minBatchesToRetain": "1", "spark.sql.streaming.asyncLogPurge.enabled": "false"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key in settings:
        spark.conf.unset(key)


def test_a_stream_goes_on_when_its_first_batches_are_forgotten(
    feed: Feed, forgetful: SparkSession, tmp_path: Path
) -> None:
    for files in (1, 2, 3):  # if it began again, batches would be other files than those that were taken
        for _ in range(6):
            feed.add((len(feed.rows), len(feed.rows) % 2, 1))
        engine = ab.Engine(forgetful, tmp_path / "state")
        source = forgetful.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(feed.folder))
        engine.stream("s", source, timestamp="ts", sequence="seq")
        query = engine.query(SMALL, "small").start()
        settled(query)
        assert not (tmp_path / "state" / "sources" / "s" / "offsets" / "0").exists()
        assert answered(query.to_dataframe()) == wanted(feed.oracle(), SMALL, len(feed.rows))
        engine.stop()


def test_a_stream_does_not_begin_again_if_the_checkpoint_has_lost_how_far_it_was_read(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    def started() -> ab.Engine:
        engine = ab.Engine(spark, tmp_path / "state")
        engine.stream("s", feed.df, timestamp="ts", sequence="seq")
        settled(engine.query(SMALL, "small").start())
        return engine

    feed.add((0, 0, 1))
    started().stop()
    shutil.rmtree(tmp_path / "state" / "sources")
    with pytest.raises(QueryError, match="does not say how far stream 's' was read"):
        started()


def test_records_that_a_kill_has_left_are_deleted(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    """Of a batch that the manifest holds already, and one that was not finished."""
    left = tmp_path / "state" / "ingest" / "s"
    for life in range(2):
        feed.add((life, 0, 1))
        engine = ab.Engine(spark, tmp_path / "state")
        engine.stream("s", feed.df, timestamp="ts", sequence="seq")
        query = engine.query(PAIRS, "pairs").start()
        settled(query)
        assert answered(query.to_dataframe()) == wanted(feed.oracle(), PAIRS, life)
        assert not list(left.iterdir())
        engine.stop()
        taken = IngestRecord("s", 0, 0, ("k", "a"), StoredBatch(1, 0, 0, None, (), {}, ()))
        (left / f"{taken.batch:012d}.json").write_text(json.dumps(asdict(taken)))
        (left / ".unfinished.tmp").write_text("{")


# -- failures


def explodes(a: int) -> bool:
    return 10 // a > 0


def test_what_fails_fails_alone(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    engine = ab.Engine(spark, tmp_path / "state")
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    engine.function("explodes", explodes)
    delivered: list[int] = []

    def full(answer: DataFrame, tick: int) -> None:
        delivered.append(tick)
        raise OSError("the disk of the sink is full")

    engine.query("Select Sum(a) As total From s [Rows 5]", "overflow").start()
    engine.query("Select k From s Where explodes(a)", "divided").start()
    engine.query(BUSY.replace("Sum(a)", "Max(a)"), "undelivered").start(sink=full)
    (tmp_path / "file").touch()
    engine.query("Select a From s [Rows 1]", "unwritten").start(sink="json", path=tmp_path / "file" / "out")
    busy, small = engine.query(PAIRS, "pairs").start(), engine.query(SMALL, "small").start()
    seen = engine.query("Select Istream(query, value) From SysStream [Now] Where property = 'rows'", "seen").start()
    feed.add((0, 0, 2**62), (1, 0, 1), (2, 0, 2))
    settled(busy, small)
    feed.add((3, 0, 2**62), (4, 0, 0), (5, 1, 2))
    feed.add((6, 0, 3), (9, 1, 2))
    settled(busy, small)

    failures = {
        "overflow": r"^the sum in '\w+' exceeds the range of a long\n  hint: cast its argument to double",
        "divided": "ZeroDivisionError",
        "undelivered": "the disk of the sink is full",
        "unwritten": r"^'\S*/file/out' cannot be written: [^\n]{,300}\n  hint: name a folder that can be written",
    }
    for name, message in failures.items():
        assert engine.queries[name].status == "failed"
        with pytest.raises(Exception, match=message):
            engine.queries[name].await_idle()
        with pytest.raises(QueryError, match=f"query {name} is failed, not running"):
            engine.queries[name].pause()
    assert sorted(each.query for each in engine.events() if isinstance(each, QueryFailed)) == sorted(failures)
    assert QueryFailed("undelivered", "OSError: the disk of the sink is full") in engine.events()
    assert len(delivered) == 1
    oracle = feed.oracle()
    assert answered(busy.to_dataframe()) == wanted(oracle, PAIRS, 9)
    assert answered(small.to_dataframe()) == wanted(oracle, SMALL, 1000)
    assert {row["query"] for row in seen.to_dataframe().collect()} >= {"pairs", "small"}

    given: list[Counter[Row]] = []
    engine.queries["undelivered"].start(sink=lambda answer, tick: given.append(answered(answer)))
    settled(engine.queries["undelivered"])
    assert sum(given, Counter[Row]()) == wanted(oracle, BUSY.replace("Sum(a)", "Max(a)"), 9)
    engine.stop()


def test_operators_queues_and_queries_tell_what_they_do(feed: Feed, spark: SparkSession) -> None:
    engine = ab.Engine(spark, cells=1)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq", skew="1 second")
    busy = engine.query("Select k, Count(*) As n From s [Rows 5] Group By k", "busy").start()
    kinds = {
        "rate": {"stream", "queue", "operator"},
        "selectivity": {"operator"},
        "memory": {"operator"},
        "lag": {"query", "operator"},
    }
    listed = ", ".join(map(repr, kinds))
    text = f"Select Istream(query, entity, property, value) From SysStream [Now] Where property In ({listed})"
    watch = engine.query(text, "watch").start()
    for second in range(0, 12, 3):
        feed.add((second, 0, 1), (second + 1, 0, 1), (second + 2, 0, 1))
        settled(busy)
    engine.stop()
    values: dict[tuple[str, str], list[float]] = {}
    for row in watch.to_dataframe().where("query is null or query = 'busy'").collect():
        kind = "operator" if row["query"] and row["entity"] != "query" else row["entity"].split()[0]
        values.setdefault((row["property"], kind), []).append(row["value"])
    assert set(values) == {(name, kind) for name, each in kinds.items() for kind in each}
    assert values["lag", "query"][-1] == values["lag", "operator"][-1] == 1.0, "the skew"
    assert all(max(found) > 0 for found in values.values())


def odd(k: int | None) -> bool | None:
    return None if k is None else k % 2 == 1


def test_conditions_that_call_functions_are_adaptive_filters(
    feed: Feed, spark: SparkSession, functions_of_tests_travel: None
) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    engine.function("even", even)
    engine.function("odd", odd)
    query = engine.query("Select k, a From s Where even(a) And Not odd(k) And a < 8", "both").start()
    feed.add((0, 0, 1), (1, 2, 4), (2, 1, 4), (3, 2, 8))
    feed.add((4, 4, 6))
    settled(query)
    engine.stop()
    assert emitted(query.to_dataframe(), "k", "a") == [(2, 4, 1), (4, 6, 4)]
    (found,) = query.filters()
    report = found.report().to_pandas()
    assert {"NOT odd(k)", "even(a)"} < set(report["predicate"])
    assert report["seen"].max() == 4, "the condition that Spark evaluates goes first"


@pytest.mark.full(reason="takes long; conditions that call functions are in every tier")
def test_conditions_that_spark_evaluates_are_ordered_by_what_they_cost(feed: Feed, spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    quick = "md5(Cast(a As String)) Like 'c%'"
    slow = "levenshtein(repeat(Cast(a As String), 300), repeat(Cast(k As String), 300)) >= 0"
    texts = {
        "direct": f"Select k, a From s Where {slow} And {quick}",
        "windowed": f"Select k, Count(*) As n From s [Rows 3] Where {slow} And {quick} Group By k",
        "counted": f"Select k, Count(*) As n From s [Range 1 Hour] Where {slow} And a % 2 = 1 Group By k",
        "summed": f"Select k, Sum(a) As n From s [Range 9 Seconds Slide 3 Seconds] Where {slow} And {quick} Group By k",
    }
    queries = {name: engine.query(text, name) for name, text in texts.items()}
    for query in queries.values():
        query.start()
    feed.add(*((n, n % 3, n) for n in range(40)))
    feed.add((41, 1, 8), (42, 1, 77))
    settled(*queries.values())
    engine.stop()
    for name, text in texts.items():
        until = 1000 if name == "direct" else 42
        assert answered(queries[name].to_dataframe()) == wanted(feed.oracle(), text, until), name
    for name in ("direct", "summed"):
        (found,) = queries[name].filters()
        (route,) = found.report().routes
        assert [name.split("(")[0] for name in route.order] == ["md5", "levenshtein"]
    assert not queries["windowed"].filters(), "a window of rows is not filtered before, and what leaves it not sampled"


def test_only_columns_that_queries_read_are_kept(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    engine = ab.Engine(spark, tmp_path / "state")
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    counted = engine.query("Select k, Count(*) As n From s [Range 1 Minute] Group By k", "counted").start()
    feed.add((0, 0, 1), (3, 0, 2))
    settled(counted)
    kept = list((tmp_path / "state" / "kept" / "s").glob("*.parquet"))
    assert {tuple(pq.read_schema(file).names) for file in kept} == {("k", "_time")}

    summed = engine.query("Select Sum(a) As total From s [Range 1 Minute]", "summed", history=True).start()
    feed.add((4, 0, 5), (6, 1, 7), (9, 1, 9))
    settled(counted, summed)
    engine.stop()
    assert emitted(counted.to_dataframe(), "k", "n")[-1] == (1, 1, 6, "+")
    # What is there lacks the column: the new query begins with the first time after it.
    assert [row for row in emitted(summed.to_dataframe(), "total") if row[-1] == "+"] == [(5, 4, "+"), (12, 6, "+")]


SLIDES = ("", " Slide 2 Seconds")
SLID = {
    "by_key": "Select k, Count(*) As n, Sum(a) As total From s [Range 10 Seconds Slide 4 Seconds] Group By k",
    "overall": "Select Count(a) As n, Avg(a) As mean From s [Range 5 Seconds Slide 3 Seconds]",
    "shown": "Select Rstream(k, Sum(a) As total) From s [Range 8 Seconds Slide 4 Seconds] Group By k",
    "brief": "Select k, Sum(a) As total From s [Range 1 Second Slide 4 Seconds] Group By k",
}


@pytest.mark.full(reason="takes long; the killed engine sums up what slides in every tier")
def test_what_slides_is_summed_up_as_it_comes(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    def engine_on(checkpoint: Path, *names: str) -> ab.Engine:
        engine = ab.Engine(spark, checkpoint)
        engine.stream("s", feed.df, timestamp="ts", sequence="seq", skew="2 seconds")
        for query in [engine.query(SLID[name], name) for name in names]:
            query.start()
        settled(*engine.queries.values())
        return engine

    state = tmp_path / "state"
    feed.add((0.5, 0, 1), (3, 1, 2), (2, 1, None), (4, 0, 3))
    feed.add((6, 1, 5), (8, 0, 7))
    engine = engine_on(state, *SLID)
    engine.stop()
    assert engine.queries["by_key"].explain().endswith("summed up as rows come: s")
    assert not list((state / "kept" / "s").glob("*")), "nobody reads the rows themselves"
    # Another engine does not know one of the queries: its sums are kept for it until it comes back.
    feed.add((5, 1, 100), (12, 1, 1), (8.5, 0, 1))
    feed.add((None, 1, 100))
    last = pa.array([2**63 - 1], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"seq": [0], "ts": last, "k": [0], "a": [101]}, ARROW), feed.folder / "_last")
    os.utime(feed.folder / "_last", (1, 1))
    (feed.folder / "_last").rename(feed.folder / "last.parquet")
    engine_on(state, "by_key", "shown").stop()
    feed.add((21, 1, 1), (33, 0, 1))
    engine = engine_on(state, *SLID)
    rows = engine.query(
        "Select k, Sum(a) As total From s [Range 10 Seconds Slide 4 Seconds] Group By k", "late"
    ).start()
    feed.add((35, 1, 8), (38, 0, 4), (50, 0, 0))
    settled(*engine.queries.values())
    engine.stop()

    oracle = feed.oracle(lambda row: row[3] != 100)
    for name, text in SLID.items():
        assert answered(engine.queries[name].to_dataframe()) == wanted(oracle, text, 48), name
    later = feed.oracle(lambda row: row[0] >= 12)
    assert answered(rows.to_dataframe()) == wanted(later, rows.text, 48)
    assert [row["a"] for row in engine.late("s").collect()] == [100]
    assert sorted(row["a"] for row in engine.unusable("s").select("a").collect()) == [100, 101]
    assert len(list((state / "kept").glob("s.*"))) == len(SLID)
    for name in [*SLID, "late"]:
        engine.drop(name)
    engine.drop("s")
    assert not list((state / "kept").glob("s*/*"))


def test_a_query_begins_after_what_others_have_answered_without_the_buffer(feed: Feed, spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts", sequence="seq", skew="5 seconds")
    small = engine.query(SMALL, "small").start()
    feed.add((0, 0, 1), (8, 0, 2), (10, 0, 3))
    settled(small)
    busy = engine.query(BUSY, "busy").start()
    feed.add((7, 0, 1), (12, 0, 4), (30, 1, 1))
    settled(small, busy)
    engine.stop()
    assert answered(busy.to_dataframe()) == wanted(feed.oracle(lambda row: row[1] > BEGIN + 10 * SECOND), BUSY, 25)
    assert answered(small.to_dataframe()) == wanted(feed.oracle(), SMALL, 100)


@pytest.mark.full(reason="needs many small files")
def test_small_files_are_merged_and_nobody_notices(
    feed: Feed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "worth_merging", partial(merging.worth_merging, most=3))
    engine = ab.Engine(spark, tmp_path / "state")
    engine.stream("s", feed.df, timestamp="ts", sequence="seq", skew="1 second")
    long, slid = (f"Select k, Sum(a) As total From s [Range 6 Seconds{slide}] Group By k" for slide in SLIDES)
    texts = {"long": long, "slid": slid, "plain": "Select a From s Where a > 3"}
    for name, text in texts.items():
        engine.query(text, name)
    queries = [query.start() for query in engine.queries.values()]
    queries[1].pause()
    for second in range(10):
        feed.add((second, second % 2, second), (second + 0.5, 1, 1))
        settled(*queries)
        for buffer in (tmp_path / "state" / "kept").iterdir():
            assert len(list(buffer.glob("*.parquet"))) <= 6
    queries[1].resume()
    settled(*queries)
    engine.stop()
    oracle, ends = feed.oracle(), {"long": 8.5, "slid": 8.5, "plain": 100}
    for query in queries:
        assert answered(query.to_dataframe()) == wanted(oracle, texts[query.name], ends[query.name])


def test_waiting_ends_when_time_is_up(spark: SparkSession) -> None:
    engine = ab.Engine(spark)
    endless = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    engine.stream("s", endless, timestamp="timestamp")
    query = engine.query("Select Sum(value) As total From s [Rows 3]", "endless").start()
    with pytest.raises(TimeoutError, match="was still busy after"):
        query.await_idle(timeout=0.001)
    engine.stop()


@pytest.mark.parametrize("text", tiers([BUSY, SMALL], fast=1), ids=["through the buffer", "as they come"])
def test_a_stream_that_cannot_be_read_stops_its_readers_alone_until_it_is_mended(
    text: str, feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    other = Feed(spark, tmp_path / "other")
    engine = ab.Engine(spark, tmp_path / "state")
    engine.stream("s", feed.df, timestamp="ts", sequence="seq")
    engine.stream("t", other.df, timestamp="ts", sequence="seq")
    reads, apart = engine.query(text, "reads").start(), engine.query(text.replace(" s", " t"), "apart").start()
    for each in (feed, other):
        each.add((0, 0, 1), (1, 0, 2))
    settled(reads, apart)
    # The next file of one stream has other columns than the stream.
    place = feed.folder / "next.parquet"
    times = pa.array([moment(2)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"seq": [2], "ts": times, "k": ["one"], "a": [1]}), place.with_name("_next"))
    os.utime(place.with_name("_next"), (1, 1))
    place.with_name("_next").rename(place)
    with pytest.raises(DataError, match=r"(?s)next\.parquet.*\bk\b|\bk\b.*next\.parquet") as caught:
        settled(reads)
    assert len(str(caught.value)) < 1000, "no traces"
    assert caught.value.hint
    assert reads.status == "failed"
    assert [each.stream for each in engine.events() if isinstance(each, StreamFailed)] == ["s"]
    assert [each.query for each in engine.events() if isinstance(each, QueryFailed)] == ["reads"]
    other.add((2, 0, 3), (3, 1, 4))
    settled(apart)
    assert answered(apart.to_dataframe()) == wanted(other.oracle(), text, 3 if text == BUSY else 100)

    feed.rows.append((2, BEGIN + 2 * SECOND, 1, 1))
    pq.write_table(pa.table({"seq": [2], "ts": times, "k": [1], "a": [1]}, ARROW), place)
    reads.start()
    feed.add((3, 0, 3), (4, 1, 4))
    settled(reads, apart)
    engine.stop()
    assert answered(reads.to_dataframe()) == wanted(feed.oracle(), text, 4 if text == BUSY else 100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Select k From r [Range 5 Seconds]", "window"),
        ("Select s.k From s [Now], r Where s.k = r.label", "label"),
        ("Select k From know", "did you mean 'known'"),
        ("Select kk From s", "k"),
        ("Select k From s Order By k", "Order By"),
        ("Select nothing(k) From s", "nothing"),
        ("Select Sum(label) As n From s [Now], r Where s.k = r.k", "sum needs numbers"),
        ("Select\nMax(array(k)) As m From s [Rows 2]", "max compares values, .* array<bigint> at line 2, column 1"),
        ("Select Count(Distinct struct(k)) As m From s", "count of distinct values compares values"),
    ],
)
def test_queries_that_cannot_be_are_refused_when_they_are_registered(
    text: str, message: str, bounded: ab.Engine
) -> None:
    with pytest.raises(AnabranchError, match=message) as error:
        bounded.query(text, "q")
    assert "java" not in str(error.value).lower()
    assert "q" not in bounded.queries


@pytest.fixture(scope="module")
def bounded(spark: SparkSession) -> ab.Engine:
    engine = ab.Engine(spark)
    engine.stream("s", spark.createDataFrame([], SCHEMA), timestamp="ts", sequence="seq")
    engine.relation("r", labels(spark))
    engine.query("Select k From s", "known")
    return engine


def test_names_columns_and_kinds_of_inputs_are_checked(bounded: ab.Engine, feed: Feed, spark: SparkSession) -> None:
    empty = spark.createDataFrame([], SCHEMA)
    for name in ("s", "R", "Known", "sysstream"):
        with pytest.raises(QueryError, match=r"the name '\w+' is taken"):
            bounded.stream(name, empty, timestamp="ts")
    with pytest.raises(QueryError, match="'2 many' is not a valid name"):
        bounded.relation("2 many", empty)
    with pytest.raises(QueryError, match="unknown column 'when' in stream 'x'"):
        bounded.stream("x", empty, timestamp="when")
    with pytest.raises(QueryError, match="column 'seq' of stream 'x' is of type long, not a time"):
        bounded.stream("x", empty, timestamp="seq")
    with pytest.raises(QueryError, match="column '_Time' of stream 'x' has a reserved name"):
        bounded.stream("x", empty.withColumnRenamed("k", "_Time"), timestamp="ts")
    with pytest.raises(QueryError, match="skew '5 parsecs' is not a duration"):
        bounded.stream("x", empty, timestamp="ts", skew="5 parsecs")
    with pytest.raises(QueryError, match="relation 'x' is a streaming DataFrame"):
        bounded.relation("x", feed.df)
    with pytest.raises(QueryError, match="stream 's' is a bounded DataFrame"):
        bounded.queries["known"].start()
    with pytest.raises(QueryError, match="query known is registered, not running"):
        bounded.queries["known"].pause()
    with pytest.raises(QueryError, match="unknown sink 'parket'"):
        bounded.queries["known"].use_sink("parket")
    with pytest.raises(QueryError, match="sink 'csv' needs a path"):
        bounded.queries["known"].use_sink("csv")
    assert bounded.late("S").columns == bounded.unusable("s").columns == empty.columns
    assert bounded.rows_taken("S") == 0
    for ask in (bounded.late, bounded.unusable, bounded.rows_taken):
        with pytest.raises(QueryError, match="there is no stream 'nope'\n  hint: The streams are: SysStream, s"):
            ask("nope")
    with pytest.raises(QueryError, match="there is no 'knwn' to drop"):
        bounded.drop("knwn")
    engine = ab.Engine(spark)
    engine.stream("s", feed.df, timestamp="ts")
    with pytest.raises(QueryError, match="stream 's' has no end"):
        engine.run_batch()


def test_streams_of_this_moment_go_in_step_with_ticks(spark: SparkSession, tmp_path: Path) -> None:
    """Each batch that is not behind the clock has a tick of its own, beside a stream that is far behind."""
    feeds = {name: Feed(spark, tmp_path / name) for name in ("s", "late")}
    engine = ab.Engine(spark, tmp_path / "state")
    for name, each in feeds.items():
        engine.stream(name, each.df, timestamp="ts", sequence="seq")
    texts = {name: f"Select k, Count(*) As n From {name} [Range 1 Minute] Group By k" for name in feeds}
    queries = {name: engine.query(text, f"of_{name}").start() for name, text in texts.items()}
    for number in range(6):
        feeds["s"].add((round(time.time() - BEGIN / SECOND, 3) + AHEAD_SECONDS, number % 2, 1))
        feeds["late"].add((number, number % 2, 1))
    settled(*queries.values())
    for name, each in feeds.items():
        last = (each.rows[-1][1] - BEGIN) / SECOND
        oracle = Oracle([Stream(name, (("k", "bigint"), ("a", "bigint")), tuple(each.rows))])
        assert answered(queries[name].to_dataframe()) == wanted(oracle, texts[name], last)
    assert len({file.tick for file in engine._manifest.streams["s"].files}) == len(feeds["s"].rows)
    engine.stop()


def test_logs_of_streams_have_no_checksum_files(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    engine = ab.Engine(spark, tmp_path / "state")
    engine.stream("s", feed.df, timestamp="ts")
    feed.add((0, 0, 1), (1, 0, 1))
    query = engine.query("Select k, Count(*) As n From s [Range 1 Minute] Group By k", "q").start()
    settled(query)
    engine.stop()
    logs = tmp_path / "state" / "sources" / "s"
    assert (logs / "offsets" / "0").exists()
    assert not list(logs.rglob("*.crc"))
    assert [spark.conf.get(key, None) for key in (LOG_FILES, *LOCAL_FILES)] == [None] * 3, "the user's session"


STOPS_WITHIN_A_BATCH = """
import sys, threading
import anabranch as ab

folder = sys.argv[1]
spark = ab.local_session("stopping", cores=2)
for n in range(12):
    rows = spark.range(20_000).selectExpr(f"timestamp_micros({n} * 20000 + id) AS ts", "id % 10 AS k")
    rows.coalesce(1).write.mode("append").parquet(f"{folder}/in")
source = spark.readStream.schema("ts timestamp, k long").option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
engine = ab.Engine(spark, f"{folder}/state")
engine.stream("s", source, timestamp="ts")
query = engine.query("Select k, Count(*) As n From s [Range 1 Second] Group By k", "q")
stopped = threading.Event()

def sink(answer, tick):
    while spark.streams.active and not spark.streams.active[0].status["isTriggerActive"]:
        pass
    query.stop()
    stopped.set()

query.start(sink=sink)
assert stopped.wait(120)
engine.stop()
"""


@pytest.mark.full(reason="starts Java once more, to read all that it says")
@pytest.mark.spark
def test_a_busy_stream_stops_without_a_cry(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STOPS_WITHIN_A_BATCH, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert "Exception in thread" not in run.stderr
    assert "StackOverflowError" not in run.stderr


# -- scripts


def test_a_script_says_it_all(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    labels(spark).write.parquet(str(tmp_path / "r"))
    engine = ab.Engine(spark)
    feed.add((0, 0, 1), (1, 1, 3), (1, 0, 8), (4, 2, 4))
    said = engine.execute(f"""
        Create Stream s (seq Long, ts Timestamp, k Long, a Long)
            From 'parquet' With (path = '{feed.folder}') Timestamp ts Sequence seq Skew 1 Second Retain 1 Minute;
        Create Relation r From 'parquet' With (path = '{tmp_path / "r"}');
        Create View low As Select k, a From s Where a < 5;
        Create Query named From History As Select Istream(low.a, r.label) From low [Now], r Where low.k = r.k;
        Create Query busy Into 'parquet' With (path = '{tmp_path / "busy"}') As
            Select k, Count(*) As n From s [Range 1 Second] Group By k;
        Select a From s Where a > 7;
        Create Query gone As Select k From s;
        Drop Query gone;
        Show Queries; Show Streams; Show Relations; Show Views;
        Explain busy;
        Explain Select k From s Where a > 2""")
    queries, streams, relations, views, plan, other = said
    assert [line.split()[0] for line in queries.splitlines()] == ["query", "-------", "named", "busy", "query_3"]
    assert [line.split()[0] for line in streams.splitlines()] == ["stream", "---------", "SysStream", "s"]
    assert "label" in relations
    assert "a < 5" in views
    assert "window range 1 second" in plan
    assert "flowchart" in plan
    assert "filter" in other

    for query in engine.queries.values():
        query.start()
    engine.execute("Pause named")
    feed.add((9, 0, 1))
    settled(*engine.queries.values())
    engine.execute("Resume named")
    settled(*engine.queries.values())
    assert emitted(engine.queries["named"].to_dataframe(), "a", "label") == [(1, "red", 0), (3, "green", 1)]
    assert emitted(engine.queries["query_3"].to_dataframe(), "a") == [(8, 1)]
    assert not spark.read.parquet(str(tmp_path / "busy")).isEmpty()
    engine.stop()
    for text, message in {
        "Pause nobody": "there is no query 'nobody'",
        "Create Relation x From 'parquet' With (path = '/nowhere')": "'x' cannot be read",
        "Create Stream x From 'parquet' With (path = '/nowhere') Timestamp ts": "'x' cannot be read",
        "Create Relation x From 'parket'": r"Failed to find the data source: parket(.|\n)*did you mean 'parquet'",
    }.items():
        with pytest.raises(QueryError, match=message):
            engine.execute(text)


TEXTS = {
    "csv": "{},2026-01-01T00:00:{:02d}Z,{},{}\n",
    "json": '{{"seq": {}, "ts": "2026-01-01T00:00:{:02d}Z", "k": {}, "a": {}}}\n',
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_script_reads_files_of_text(kind: str, feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    batches: list[list[tuple[int, int, int]]] = [[(0, 0, 1), (1, 1, 3)], [(4, 0, 4)], [(16, 1, 9)]]
    (tmp_path / "texts").mkdir()
    for number, batch in enumerate(batches):
        feed.add(*batch)
        lines = [TEXTS[kind].format(len(feed.rows) - len(batch) + at, *event) for at, event in enumerate(batch)]
        path = tmp_path / "texts" / f"{number}.{kind}"
        path.write_text("".join(lines))
        os.utime(path, (number + 1, number + 1))
    engine = ab.Engine(spark)
    engine.execute(f"""
        Create Stream s (seq Long, ts Timestamp, k Long, a Long)
            From '{kind}' With (path = '{tmp_path / "texts"}', maxFilesPerTrigger = 1) Timestamp ts Sequence seq;
        Create Query busy As {BUSY}""")
    busy = engine.queries["busy"].start()
    settled(busy)
    engine.stop()
    assert answered(busy.to_dataframe()) == wanted(feed.oracle(), BUSY, 16)


@pytest.mark.full(reason="Spark's own source, which waits for its server")
def test_a_script_reads_a_socket(spark: SparkSession) -> None:
    more, over = threading.Event(), threading.Event()

    class Speaker(socketserver.BaseRequestHandler):
        """Says two words, then one more when it is told to."""

        def handle(self) -> None:
            self.request.sendall(b"one\ntwo\n")
            more.wait(PATIENCE_SECONDS)
            self.request.sendall(b"three\n")
            over.wait(PATIENCE_SECONDS)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Speaker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        engine = ab.Engine(spark)
        engine.execute(f"""
            Create Stream words
                From 'socket' With (host = '127.0.0.1', port = {server.server_address[1]}, includeTimestamp = 'true')
                Timestamp timestamp;
            Create Query loud As Select Upper(value) As word From words;
            Create Query counted As Select Count(*) As n From words [Rows 10]""")
        loud, counted = (engine.queries[name].start() for name in ("loud", "counted"))
        eventually(lambda: {row["word"] for row in loud.to_dataframe().collect()} == {"ONE", "TWO"})
        more.set()
        eventually(lambda: {row["word"] for row in loud.to_dataframe().collect()} == {"ONE", "TWO", "THREE"})
        eventually(lambda: [row["n"] for row in counted.current().collect()] == [2])
        over.set()
        engine.stop()
        server.shutdown()
