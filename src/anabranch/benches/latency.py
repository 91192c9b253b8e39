"""How long a row waits for its answer, while rows come at half of the rate that can be kept up."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.engine.sinks import Delivery

SCHEMA = "ts timestamp, k long, a long"
QUERY = "Select k, Count(*) As n, Sum(a) As total From s [Range 5 Seconds] Group By k"
KEYS = 1000
BACKLOG = 200_000
BACKLOGS = 4
PERIOD_SECONDS = 0.1
SETTLING_SECONDS = 5.0
WORTH = 2000


def latencies(spark: SparkSession, folder: Path, seconds: float) -> tuple[float, list[float]]:
    """The peak rate in rows/s, and for a sample of answers the seconds from a row's time to its answer."""
    peak = _peak(spark, folder / "peak")
    incoming = folder / "incoming"
    incoming.mkdir(parents=True)
    sink = _Clock()
    engine = ab.Engine(spark, folder / "state")
    source = spark.readStream.schema(SCHEMA).parquet(str(incoming))
    engine.stream("s", source, timestamp="ts")
    engine.query(QUERY, name="q").start(sink=sink)
    _feed(incoming, peak / 2, SETTLING_SECONDS + seconds)
    engine.stop()
    return peak, sink.ages


class _Clock:
    """A sink that looks at the clock: how old is what it gets."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.ages: list[float] = []

    def deliver(self, given: Delivery) -> None:
        now = time.time()
        if time.monotonic() - self._began < SETTLING_SECONDS:
            return
        ages = now - pc.cast(given.table()["_ts"], pa.int64()).to_numpy() / 1e6
        self.ages += ages[:: max(1, len(ages) // WORTH)].tolist()


def _feed(folder: Path, rate: float, seconds: float) -> None:
    """Write a file of rows of this moment, again and again."""
    rng, done, began = np.random.default_rng(1), 0, time.time()
    waiting = threading.Event()
    while (elapsed := time.time() - began) < seconds:
        due = int(elapsed * rate)
        first, last = began + done / rate, began + due / rate
        _write(folder, done, np.linspace(first, last, due - done, endpoint=False), rng)
        done = due
        waiting.wait(PERIOD_SECONDS)


def _write(
    folder: Path, number: int, times: np.ndarray[tuple[int], np.dtype[np.float64]], rng: np.random.Generator
) -> None:
    if len(times):
        columns = {
            "ts": pa.array((times * 1e6).astype(np.int64), pa.timestamp("us", "UTC")),
            "k": pa.array(rng.integers(0, KEYS, len(times))),
            "a": pa.array(rng.integers(0, 100, len(times))),
        }
        pq.write_table(pa.table(columns), folder / f".{number}.tmp")
        (folder / f".{number}.tmp").rename(folder / f"{number:012d}.parquet")


def _peak(spark: SparkSession, folder: Path) -> float:
    """Rows per second through a backlog, once it is warm."""
    incoming = folder / "incoming"
    incoming.mkdir(parents=True)
    rng, began = np.random.default_rng(1), time.time() - 3600
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(incoming))
    engine = ab.Engine(spark, folder / "state")
    engine.stream("s", source, timestamp="ts")
    query = engine.query(QUERY, name="q").start(sink=_Clock())
    rates = []
    for number in range(BACKLOGS):
        _write(incoming, number, np.linspace(began + 10 * number, began + 10 * number + 10, BACKLOG), rng)
        started = time.perf_counter()
        query.await_idle()
        rates.append(BACKLOG / (time.perf_counter() - started))
    engine.stop()
    return max(rates[1:])
