"""Streams whose source has no times: rows get that at which their batch is taken, and answers follow from these."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.cql.dialect import parse_query
from anabranch.engine import ingest
from anabranch.errors import QueryError
from cql.answers import answered, before, expected
from cql.oracle import Oracle
from cql.streams import Row, Stream
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k long, a long"
ROWS = "Select k, a From s"
BUSY = "Select k, Count(*) As n, Sum(a) As total From s [Range 1 Hour] Group By k"
SECOND = 1_000_000
BATCHES = ([(1, 10), (2, 20), (1, 30)], [(2, 40)], [(1, 50), (3, 60)], [(3, 70), (3, 80)])


def add(folder: Path, number: int) -> None:
    """One more file."""
    k, a = zip(*BATCHES[number], strict=True)
    pq.write_table(pa.table({"k": k, "a": a}), folder / f"{number}.parquet")


def source(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(spark: SparkSession, tmp_path: Path, numbers: range, *texts: str) -> ab.Engine:
    """An engine that takes these batches one after the other, and stops."""
    (tmp_path / "in").mkdir(exist_ok=True)
    engine = ab.Engine(spark, tmp_path / "state", cells=2)
    engine.stream("s", source(spark, tmp_path / "in"), timestamp=ab.ARRIVAL)
    queries = [engine.query(text, f"q{number}") for number, text in enumerate(texts)]
    for query in queries:
        query.start()
    for number in numbers:
        add(tmp_path / "in", number)
        for query in queries:
            query.await_idle()
    engine.stop()
    return engine


def times(engine: ab.Engine) -> dict[int, int]:
    """When each row came, by its value of `a`."""
    return {a: time for _, a, time, _ in answered(engine.queries["q0"].to_dataframe())}


def with_times(found: dict[int, int]) -> Oracle:
    rows = [row for batch in BATCHES for row in batch if row[1] in found]
    stream = Stream(
        "s", (("k", "bigint"), ("a", "bigint")), tuple((n, found[a], k, a) for n, (k, a) in enumerate(rows))
    )
    return Oracle([stream])


def wanted(oracle: Oracle, text: str, found: dict[int, int]) -> Counter[Row]:
    return before(expected(oracle, parse_query(text)), max(found.values()) + 1)


def one_time_each(found: dict[int, int], batches: int) -> None:
    """All rows of a batch have one time, and each batch has a later one."""
    of_batches = [{found[a] for _, a in batch} for batch in BATCHES[:batches]]
    assert [len(each) for each in of_batches] == [1] * batches
    assert all(max(one) < min(other) for one, other in pairwise(of_batches))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the clock of the ingest."""
    return lambda time: monkeypatch.setattr(ingest, "now", lambda: time)


@pytest.mark.parametrize("texts", tiers([(ROWS, BUSY), (ROWS,)], fast=1), ids=["through the buffer", "as rows come"])
def test_times_of_arrival_grow_over_batches_and_restarts_though_the_clock_goes_back(
    texts: tuple[str, ...], spark: SparkSession, tmp_path: Path, clock: Callable[[int], None]
) -> None:
    clock(2_000_000_000 * SECOND)
    first = times(run(spark, tmp_path, range(2), *texts))
    clock(1_900_000_000 * SECOND)
    engine = run(spark, tmp_path, range(2, 4), *texts)
    found = times(engine)
    assert found | first == found, "times that were committed do not change"
    one_time_each(found, 4)
    assert min(found.values()) == 2_000_000_000 * SECOND
    for text, query in zip(texts, engine.queries.values(), strict=True):
        assert answered(query.to_dataframe()) == wanted(with_times(found), text, found)
    assert engine.late("s").isEmpty()
    assert engine.unusable("s").isEmpty()
    state = engine.overview().streams[-1]
    assert (state.timestamp, state.rows, state.late, state.unusable) == (None, 8, 0, 0)
    assert state.closed == max(found.values()) + 1, "what has come is complete at once"


def test_a_bounded_stream_is_one_batch_in_a_script_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        add(tmp_path / "in", number)
    engine = ab.Engine(spark, tmp_path / "state", cells=2)
    create = f"Create Stream s ({SCHEMA}) From 'parquet' With (path = '{tmp_path / 'in'}') Timestamp Arrival;"
    engine.execute(f"{create} Create Query q0 As {ROWS}; Create Query busy As {BUSY}", bounded=True)
    answers = engine.run_batch()
    found = times(engine)
    assert len(found) == 8
    assert len(set(found.values())) == 1
    assert answered(answers["busy"]) == wanted(with_times(found), BUSY, found)


def test_what_cannot_be_meant_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    engine, rows = ab.Engine(spark), spark.createDataFrame([], SCHEMA)
    with pytest.raises(QueryError, match=r"unknown column 'ts' in stream 's'(.|\n)*timestamp=ab.ARRIVAL"):
        engine.stream("s", rows, timestamp="ts")
    for skew in ("5 seconds", "auto", ab.AutoSkew(begin="0 seconds")):
        with pytest.raises(QueryError, match="has a skew, and rows with the times of their arrival"):
            engine.stream("s", rows, timestamp=ab.ARRIVAL, skew=skew)
    pq.write_table(pa.table({"arrival": [1]}), tmp_path / "x.parquet")
    create = f"Create Stream s (arrival Long) From 'parquet' With (path = '{tmp_path}') Timestamp"
    with pytest.raises(QueryError, match="may mean two things"):
        engine.execute(f"{create} Arrival", bounded=True)
    with pytest.raises(QueryError, match="column 'arrival' of stream 's' is of type long, not a time"):
        engine.execute(f"{create} `arrival`", bounded=True)
    with pytest.raises(QueryError, match="replayed by times that its rows do not have"):
        engine.execute(f"Create Stream s From 'replay' With (path = '{tmp_path}') Timestamp Arrival")


def out_of_order(folder: Path, batches: int, rows: int) -> None:
    """Files of rows that come as they are sent, with delays that are exponential with a mean of a second."""
    draw = random.Random(5)
    sent = [60 * SECOND + number * SECOND // 100 for number in range(batches * rows)]
    came = sorted((time + int(draw.expovariate(1 / SECOND)), number, time) for number, time in enumerate(sent))
    folder.mkdir()
    for batch in range(batches):
        some = came[batch * rows : (batch + 1) * rows]
        times = pa.array([time for _, _, time in some], pa.timestamp("us", tz="UTC"))
        path = folder / f"{batch}.parquet"
        pq.write_table(pa.table({"ts": times, "a": [number for _, number, _ in some]}), path)
        os.utime(path, (batch + 1, batch + 1))


def test_a_skew_that_follows_keeps_the_share_of_late_rows_and_is_known_after_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MOST_BACKLOG_ROWS", 1)
    out_of_order(tmp_path / "in", batches=10, rows=400)

    def engine() -> ab.Engine:
        made = ab.Engine(spark, tmp_path / "state", cells=2)
        files = spark.readStream.schema("ts timestamp, a long").option("maxFilesPerTrigger", 1)
        skew = ab.AutoSkew(late=0.01, begin="2 seconds")
        made.stream("s", files.parquet(str(tmp_path / "in")), timestamp="ts", skew=skew, retain="1 hour")
        made.query("Select a From s", "q0")
        return made

    first = engine()
    first.queries["q0"].start().await_idle()
    first.stop()
    state = first.overview().streams[-1]
    late = {row["a"] for row in first.late("s").collect()}
    assert (state.rows + state.late, state.late) == (4000, len(late))
    assert 0 < state.late <= 0.01 * 4000
    assert 2 * SECOND < state.skew <= state.largest_delay
    assert 0 < state.suggested_skew <= state.largest_delay
    assert {row["a"] for row in first.queries["q0"].to_dataframe().collect()} == set(range(4000)) - late
    assert f"{state.suggested_skew / 1e6:,.3f} s" in first.describe("streams")
    assert engine().overview().streams[-1].skew == state.skew
    assert (state.behind, state.largest_behind) == (None, None)  # there is no other stream


def test_how_far_a_stream_is_behind_the_others_is_observed_and_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MOST_BACKLOG_ROWS", 1)
    engine = ab.Engine(spark, tmp_path / "state", cells=1)
    source = spark.readStream.schema("ts timestamp, k long").option("maxFilesPerTrigger", 1)
    for name in ("fast", "slow", "arriving"):
        (tmp_path / name).mkdir()
        times = ab.ARRIVAL if name == "arriving" else "ts"
        engine.stream(name, source.parquet(str(tmp_path / name)), timestamp=times)

    def send(name: str, second: int) -> None:
        times = pa.array([second * SECOND], pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"ts": times, "k": [1]}), tmp_path / name / f"{second}.parquet")
        queries[name].await_idle()

    texts = {"fast": "Select Count(*) As n From fast [Range 1 Minute]", "slow": "Select k From slow"}
    texts["arriving"] = "Select k From arriving"
    queries = {name: engine.query(text, f"of_{name}").start() for name, text in texts.items()}
    for second in range(10, 40, 10):
        send("fast", second)
        send("arriving", second)
        send("slow", second - 3)
    engine.stop()
    streams = {each.name: each for each in engine.overview().streams}
    assert {name: (each.behind, each.largest_behind) for name, each in streams.items() if name in texts} == {
        "fast": (0, 0),
        "slow": (3 * SECOND, 3 * SECOND),
        "arriving": (None, None),
    }
    assert "3.000 s" in engine.describe("streams")
