"""An engine with a console, and rows that come by themselves, for the bench of the console."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.console.guard import Limits
from anabranch.console.service import Service, serve

SCHEMA = "ts timestamp, host string, size long"
MANY = Limits(per_second=100_000, burst=100_000, logins_per_second=1_000, login_burst=1_000)
"""All clients of a bench have one address."""
HOSTS = 20
QUERIES = {
    "busy": "Select host, Count(*) As n From calls [Range 1 Minute] Group By host",
    "twin": "Select host, Count(*) As m From calls [Range 1 Minute] Group By host",
    "picked": "Select host, size From calls Where large(size) And odd(size)",
}


def large(size: int) -> bool:
    """A predicate."""
    return size > 20


def odd(size: int) -> bool:
    """Another one."""
    return size % 2 == 1


@dataclass
class Feed:
    """Writes a file of rows of this moment, again and again, until it is stopped."""

    folder: Path
    rows: int
    period_seconds: float
    written: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to write."""
        self.write()
        threading.Thread(target=self._run, name="feed", daemon=True).start()

    def stop(self) -> None:
        """Write no more."""
        self._stopping.set()

    def write(self) -> None:
        """One file."""
        numbers = np.arange(self.written, self.written + self.rows)
        now = np.full(self.rows, int(time.time() * 1e6), dtype=np.int64) + np.arange(self.rows)
        columns = {
            "ts": pa.array(now, pa.timestamp("us", "UTC")),
            "host": pa.array([f"h{n % HOSTS}" for n in numbers]),
            "size": pa.array(numbers * 7 % 100),
        }
        hidden = self.folder / f".{self.written}.tmp"
        pq.write_table(pa.table(columns), hidden)
        hidden.rename(self.folder / f"{self.written:012d}.parquet")
        self.written += self.rows

    def _run(self) -> None:
        while not self._stopping.wait(self.period_seconds):
            self.write()


@dataclass
class Running:
    """An engine that runs, with its console and its rows."""

    engine: ab.Engine
    service: Service
    feed: Feed

    def tick_seconds(self, after: int) -> dict[int, float]:
        """What ticks have taken, by their numbers."""
        ticks = self.engine.recent_ticks(after=after)
        wanted = ("engine", "seconds")
        return {tick: value for tick, rows in ticks for *_, entity, name, value in rows if (entity, name) == wanted}


@contextmanager
def running(spark: SparkSession, folder: Path, *, rows: int, period_seconds: float) -> Iterator[Running]:
    """Queries over rows that come by themselves, with a console."""
    (folder / "in").mkdir(parents=True)
    engine = ab.Engine(spark, folder / "state", cells=2)
    engine.stream("calls", spark.readStream.schema(SCHEMA).parquet(str(folder / "in")), timestamp="ts")
    engine.function("large", large)
    engine.function("odd", odd)
    for name, text in QUERIES.items():
        engine.query(text, name=name).start()
    feed = Feed(folder / "in", rows, period_seconds)
    service = serve(engine, port=0, home=folder / "home", limits=MANY)
    feed.start()
    try:
        engine.queries["busy"].await_idle(120)
        yield Running(engine, service, feed)
    finally:
        feed.stop()
        service.stop()
        engine.stop()
