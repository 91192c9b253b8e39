"""`anabranch bench cql`: continuous queries against plain Structured Streaming, in one run."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches.harness import Answer, Race, answer, over, run
from anabranch.benches.latency import latencies
from anabranch.benches.resume import seconds_to_resume
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.spark.session import light_logs

SEED = 20_260_004
START = 1_767_225_600_000_000
SECOND = 1_000_000
SCHEMA = "seq long, ts timestamp, k long, a long, note string"
KEYS = 1000
LARGE_BATCH, SMALL_BATCH = 400_000, 100_000


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run every workload: see `harness.run`."""
    return run(WORKLOADS, quick=quick, json_path=json_path)


@dataclass(frozen=True)
class StreamFiles:
    """A folder of files that a stream reads one by one."""

    folder: Path
    files: int
    rows: int

    def source(self, spark: SparkSession) -> DataFrame:
        """The rows, a file per batch."""
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))

    @property
    def all_rows(self) -> int:
        """Rows in all files."""
        return self.files * self.rows


def stream_files(folder: Path, name: str, files: int, rows: int, seconds: float) -> StreamFiles:
    """Files of rows at a steady rate over so many seconds of their own time; none lies on a full second."""
    where = folder / name
    if not where.exists():
        rng, total = np.random.default_rng(SEED), files * rows
        times = START + (np.arange(total) * (seconds * SECOND / total)).astype(np.int64)
        times += times % SECOND == 0
        where.mkdir(parents=True)
        for number in range(files):
            part = slice(number * rows, (number + 1) * rows)
            columns = {
                "seq": pa.array(np.arange(total)[part]),
                "ts": pa.array(times[part], pa.timestamp("us", "UTC")),
                "k": pa.array(rng.integers(0, KEYS, rows)),
                "a": pa.array(rng.integers(0, 100, rows)),
                "note": pa.array(np.array(["quiet", "loud", "odd", "even"])[rng.integers(0, 4, rows)]),
            }
            pq.write_table(pa.table(columns), where / f"{number:06d}.parquet")
    return StreamFiles(where, files, rows)


Made = Callable[[DataFrame], DataFrame]
Contender = Callable[[StreamFiles, Path], DataFrame]
TimedContender = Callable[[Path], tuple[float, DataFrame]]


def contest(contenders: Mapping[str, Contender], given: StreamFiles, folder: Path, rounds: int) -> Race:
    """Run all contenders on the same files, timed as a whole: see `timed_contest`."""
    return timed_contest({name: partial(_timed, each, given) for name, each in contenders.items()}, folder, rounds)


def _timed(contender: Contender, given: StreamFiles, out: Path) -> tuple[float, DataFrame]:
    began = time.perf_counter()
    rows = contender(given, out)
    return time.perf_counter() - began, rows


def timed_contest(contenders: Mapping[str, TimedContender], folder: Path, rounds: int) -> Race:
    """Run all contenders, which say how long they took, each round in another order.

    All must give the same bag of rows. There are so many rounds at most: see `harness.over`.
    """
    result: Race = Race({name: [] for name in contenders})
    names, found, started = list(contenders), None, time.perf_counter()
    for number in range(rounds + 1):  # the first round is to warm up
        if over(result.seconds, time.perf_counter() - started):
            break
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            out = folder / f"{name.replace(' ', '-')}-{number}"
            seconds, rows = contenders[name](out)
            rows_given: Answer = answer(rows)
            found = found or rows_given
            if rows_given != found:
                raise InternalError(f"{name} answered {rows_given[0]} rows, or others, instead of {found[0]}")
            if number:
                result.seconds[name].append(seconds)
            shutil.rmtree(out, ignore_errors=True)
    result.answer = found
    return result


def ours(spark: SparkSession, text: str, pick: Made) -> Contender:
    """A query of ours, into files."""

    def once(given: StreamFiles, out: Path) -> DataFrame:
        engine = ab.Engine(spark, out / "state")
        engine.stream("s", given.source(spark), timestamp="ts", sequence="seq")
        query = engine.query(text, name="q")
        query.start(sink="parquet", path=str(out / "answer"))
        query.await_idle()
        engine.stop()
        return pick(spark.read.parquet(str(out / "answer")))

    return once


def plain(
    spark: SparkSession,
    made: Callable[[DataFrame], DataFrame],
    pick: Callable[[DataFrame], DataFrame],
    *,
    light: bool = False,
) -> Contender:
    """Structured Streaming, into files; with its own settings, or with logs as light as our streams have them."""

    def once(given: StreamFiles, out: Path) -> DataFrame:
        writer = made(given.source(spark)).writeStream.format("parquet").option("path", str(out / "answer"))
        writer = writer.option("checkpointLocation", str(out / "state")).trigger(availableNow=True)
        with light_logs(spark) if light else nullcontext():
            query = writer.start()
        query.awaitTermination()
        return pick(spark.read.parquet(str(out / "answer")))

    return once


def pass_through(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """A filter and a projection."""
    given = stream_files(folder, "wide", 5 if quick else 40, LARGE_BATCH, 600)
    wanted = [F.col(name) for name in ("k", "a", "loud", "_ts")]

    def made(df: DataFrame) -> DataFrame:
        return df.where("a > 30 AND note <> 'odd'").selectExpr("k", "a * 2 AS a", "upper(note) AS loud", "ts AS _ts")

    text = "Select k, a * 2 As a, Upper(note) As loud From s Where a > 30 And note <> 'odd'"
    contenders = {
        "plain": plain(spark, made, lambda df: df.select(*wanted)),
        "ours": ours(spark, text, lambda df: df.select(*wanted)),
        "plain again": plain(spark, made, lambda df: df.select(*wanted)),
    }
    found = contest(contenders, given, folder, 1 if quick else 5)
    return [
        at_least(
            "filter and projection: rows/s of ours / plain Spark",
            found.ratio("plain", "ours"),
            0.9,
            _rate(given.all_rows, found, "plain"),
        ),
        informed(
            "filter and projection: A/A control", found.ratio("plain again", "plain"), found.describe("plain again")
        ),
    ]


def sliding(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Counts and sums by key over the last 10 minutes, every minute."""
    files = 6 if quick else 24
    given = stream_files(folder, "long", files, SMALL_BATCH, files * 300)
    small = _sliding(spark, folder, given, 1 if quick else 5, light=not quick)
    label = "sliding count and sum: rows/s of ours / Spark's windows"
    found = [
        at_least(label, small.ratio("spark", "ours"), 2, _rate(files * SMALL_BATCH, small, "spark")),
        informed("sliding count and sum: A/A control", small.ratio("ours again", "ours"), small.describe("ours again")),
    ]
    if not quick:
        light = "spark with light logs"
        found.append(informed(f"{label}, with logs as light", small.ratio(light, "ours"), small.describe(light)))
        large = _sliding(spark, folder, stream_files(folder, "longer", files, LARGE_BATCH, files * 300), 2)
        detail = _rate(files * LARGE_BATCH, large, "spark")
        found.append(informed(f"{label}, {LARGE_BATCH:,} rows per batch", large.ratio("spark", "ours"), detail))
    return found


def _sliding(spark: SparkSession, folder: Path, given: StreamFiles, rounds: int, *, light: bool = False) -> Race:
    # Spark emits a window one batch after its end, so the end is left out on both sides.
    until = START + (given.files - 2) * 300 * SECOND
    first = START + 600 * SECOND

    def compared(df: DataFrame) -> DataFrame:
        return df.where(F.unix_micros("at").between(first, until)).select(
            "k", "n", "total", F.unix_micros("at").alias("at")
        )

    def made(df: DataFrame) -> DataFrame:
        window = F.window("ts", "10 minutes", "1 minute")
        grouped = df.withWatermark("ts", "0 seconds").groupBy(window, "k")
        return grouped.agg(F.count(F.lit(1)).alias("n"), F.sum("a").alias("total")).select(
            "k", "n", "total", F.col("window.end").alias("at")
        )

    text = "Select Rstream(k, Count(*) As n, Sum(a) As total) From s [Range 10 Minutes Slide 1 Minute] Group By k"
    contenders = {
        "spark": plain(spark, made, compared),
        "ours": ours(spark, text, lambda df: compared(df.withColumnRenamed("_ts", "at"))),
        "ours again": ours(spark, text, lambda df: compared(df.withColumnRenamed("_ts", "at"))),
    }
    if light:
        contenders["spark with light logs"] = plain(spark, made, compared, light=True)
    return contest(contenders, given, folder, rounds)


def window_growth(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """The same rows and the same changes per row, over a window 16 times as long: answers differ, as they have to."""
    files = 6 if quick else 24
    given = stream_files(folder, "grow", files, 60_000, files * 120)
    text = "Select k, Count(*) As n, Sum(a) As total From s [Range {} Seconds] Group By k"
    contenders: dict[str, Contender] = {
        name: ours(spark, text.format(seconds), lambda df: df.agg(F.lit(1)))
        for name, seconds in (("short", 45), ("long", 720), ("short again", 45))
    }
    found = contest(contenders, given, folder, 1 if quick else 5)
    return [
        at_most("cost per row, window x 16", found.ratio("long", "short"), 1.3, found.describe("short", "long")),
        informed(
            "cost per row, window x 16: A/A control", found.ratio("short again", "short"), found.describe("short again")
        ),
    ]


def sharing(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Bytes that a second query on the same stream and window adds to what one alone holds.

    With as many rows if quick: with few of them, what does not grow with rows counts.
    """
    given = stream_files(folder, "shared", 4, 250_000, 400)
    texts = {
        "counts": "Select k, Count(*) As n From s [Range 1 Hour] Group By k",
        "sums": "Select k, Sum(a) As total From s [Range 1 Hour] Group By k",
    }

    def held(*names: str) -> int:
        out = folder / "shared-state"
        engine = ab.Engine(spark, out)
        engine.stream("s", given.source(spark), timestamp="ts", sequence="seq")
        queries = [engine.query(texts[name], name=name) for name in names]
        for query in queries:
            query.start()
        for query in queries:
            query.await_idle()
        engine.stop()
        found = engine.held_bytes()
        shutil.rmtree(out, ignore_errors=True)
        return found

    one, both = held("counts"), held("counts", "sums")
    other = held("sums")
    name = "second query on the same stream and window: extra memory, percent"
    detail = f"{one / 1e6:.1f} MB and {both / 1e6:.1f} MB with {given.all_rows:,} rows in the window"
    same = f"{other / 1e6:.1f} MB and {both / 1e6:.1f} MB"
    return [
        at_most(name, 100 * (both - one) / one, 15, detail),
        informed(f"{name}, if it reads no further column", 100 * (both - other) / other, same),
    ]


def recovery(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """From a killed driver to the first answer to new rows, with a million rows in each of two windows."""
    given = stream_files(folder, "million", 12, 25_000 if quick else 100_000, 1200)
    seconds, detail = seconds_to_resume(given.folder, given.files, folder / "resume")
    size = "0.25M" if quick else "1M"
    return [at_most(f"recovery with {size} rows in windows, seconds after Spark is up", seconds, 10, detail)]


def latency(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """From the moment a row is there to the moment its answer is, at half of the rate that can be kept up."""
    peak, found = latencies(spark, folder / "latency", seconds=10 if quick else 40)
    p95 = statistics.quantiles(found, n=20)[-1]
    detail = f"median {statistics.median(found):.2f} s, {len(found):,} answers, {peak / 2:,.0f} of {peak:,.0f} rows/s"
    return [at_most("latency at half of the peak rate, p95, seconds", p95, 1.5, detail)]


def _rate(rows: int, found: Race, other: str) -> str:
    return f"{rows / found.median('ours'):,.0f} rows/s, {found.describe(other, 'ours')}"


WORKLOADS = (pass_through, sliding, window_growth, sharing, recovery, latency)
