"""`anabranch bench joins`: windowed joins against Spark's own, and probe orders against the best and the worst one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches.cql import START, TimedContender, timed_contest
from anabranch.benches.harness import Race, run
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.operators.base import Tick
from anabranch.operators.join import KeyClass, MultiJoin

SEED = 20_260_023
NAMES = ("a", "b", "c")
BATCH_MICROS = 10_000_000
BATCHES_IN_WINDOW = 3
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES: Mapping[str, Mapping[str, str]] = {
    "Spark in memory": {},
    "Spark RocksDB": {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.join.stateFormatVersion": "4",
    },
}


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run every workload: see `harness.run`."""
    return run(WORKLOADS, quick=quick, json_path=json_path)


# --- on streams, against Spark


def selective(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Three streams by one key, of which few rows have partners."""
    rows = 20_000 if quick else 100_000
    return _against_spark(spark, folder, "selective", rows, 5 * rows, 5, {"Spark RocksDB": 10, "Spark in memory": 5})


def many_results(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Three streams by one key, with far more results than rows."""
    rows = 10_000 if quick else 100_000
    return _against_spark(spark, folder, "many results", rows, rows, 5, {"Spark RocksDB": 8, "Spark in memory": 3.5})


def small_batches(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """The same in small batches, where what a batch costs anyway counts most."""
    rows = 5_000 if quick else 20_000
    return _against_spark(spark, folder, "small batches", rows, rows, 8, {"Spark RocksDB": 8, "Spark in memory": 3.5})


def _against_spark(
    spark: SparkSession, folder: Path, title: str, rows: int, keys: int, batches: int, limits: Mapping[str, float]
) -> list[Bar]:
    given = folder / title.replace(" ", "-")
    _write(given, rows, keys, batches)
    contenders: dict[str, TimedContender] = {"ours": partial(_ours, spark, given)}
    contenders |= {name: partial(_spark, spark, given, settings) for name, settings in STORES.items()}
    contenders["ours again"] = contenders["ours"]
    found = timed_contest(contenders, folder, rounds=3)
    note = found.describe("ours", *STORES)
    bars = [
        at_least(f"{title}: {name} / ours", found.ratio(name, "ours"), least, note) for name, least in limits.items()
    ]
    return [*bars, informed(f"{title}: A/A control", found.ratio("ours again", "ours"), note)]


def _write(folder: Path, rows: int, keys: int, batches: int) -> None:
    """Files of a batch each; the last row of each stream has no partner, and lets time be complete for all others."""
    rng = np.random.default_rng(SEED)
    for number, name in enumerate(NAMES):
        (folder / name).mkdir(parents=True)
        for batch in range(batches):
            begins = START + batch * BATCH_MICROS
            times, found = begins + np.sort(rng.integers(0, BATCH_MICROS, rows)), rng.integers(0, keys, rows)
            if batch == batches - 1:
                times[-1], found[-1] = begins + BATCH_MICROS, -1 - number
            columns = {
                "seq": pa.array(np.arange(rows) + batch * rows),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": pa.array(found),
                "v": pa.array(rng.integers(0, 1_000_000, rows)),
            }
            pq.write_table(pa.table(columns), folder / name / f"{batch:06d}.parquet")


def _source(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    reader = spark.readStream.schema("seq long, ts timestamp, k long, v long").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / name))


def _ours(spark: SparkSession, given: Path, out: Path) -> tuple[float, DataFrame]:
    engine = ab.Engine(spark, out / "state")
    for name in NAMES:
        engine.stream(name, _source(spark, given, name), timestamp="ts", sequence="seq")
    window = f"[Range {BATCHES_IN_WINDOW * BATCH_MICROS} Microseconds]"
    sources = ", ".join(f"{name} {window}" for name in NAMES)
    text = f"Select Istream(a.v As av, b.v As bv, c.v As cv) From {sources} Where a.k = b.k And b.k = c.k"
    query = engine.query(text, name="q")
    began = time.perf_counter()
    query.start(sink="parquet", path=str(out / "answer"))
    query.await_idle()
    seconds = time.perf_counter() - began
    engine.stop()
    return seconds, spark.read.parquet(str(out / "answer")).select("av", "bv", "cv")


def _spark(spark: SparkSession, given: Path, settings: Mapping[str, str], out: Path) -> tuple[float, DataFrame]:
    a, b, c = (
        _source(spark, given, name)
        .select(*(F.col(column).alias(f"{name}{column}") for column in ("ts", "k", "v")))
        .withWatermark(f"{name}ts", "0 seconds")
        for name in NAMES
    )
    span = f"interval {BATCHES_IN_WINDOW * BATCH_MICROS} microseconds"

    def near(one: str, other: str) -> str:
        return f"{one}ts BETWEEN {other}ts - {span} AND {other}ts + {span}"

    # Spark joins on with one event time alone; the other goes on as a plain column.
    both = a.join(b, F.expr(f"ak = bk AND {near('b', 'a')}"))
    both = both.withColumn("bts", F.expr("timestamp_micros(unix_micros(bts))"))
    joined = both.join(c, F.expr(f"ak = ck AND {near('c', 'a')} AND {near('c', 'b')}"))
    writer = joined.select("av", "bv", "cv").writeStream.format("parquet").option("path", str(out / "answer"))
    writer = writer.option("checkpointLocation", str(out / "state")).trigger(availableNow=True)
    with _set(spark, settings):
        began = time.perf_counter()
        writer.start().awaitTermination()
        return time.perf_counter() - began, spark.read.parquet(str(out / "answer"))


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


# --- in process: what orders, windows and keys do to the operator


def probe_orders(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Five inputs with keys of their own; windows that drop most are written last."""
    rows, ticks = (5_000, 6) if quick else (40_000, 10)
    keys: tuple[KeyClass, ...] = tuple(((0, f"k{each}"), (each, f"j{each}")) for each in range(1, 5))
    shares = {1: 1.0, 2: 0.9, 3: 0.5, 4: 0.02}
    tables = [_star(tick, rows, shares) for tick in range(ticks)]
    best = {0: (4, 3, 2, 1)} | {each: (0, *(other for other in (4, 3, 2, 1) if other != each)) for each in shares}
    worst = {number: (*order[:1], *order[:0:-1]) if number else order[::-1] for number, order in best.items()}

    def pinned(orders: Mapping[int, tuple[int, ...]]) -> MultiJoin:
        join = MultiJoin(5, keys)
        join.pin(orders)
        return join

    starts = {
        "ours": lambda: MultiJoin(5, keys),
        "best": lambda: pinned(best),
        "worst": lambda: pinned(worst),
        "ours again": lambda: MultiJoin(5, keys),
    }
    found = _in_process(starts, tables, 3 if quick else 7)
    note = found.describe("ours", "best", "worst")
    return [
        at_least("5-way: worst written order / ours", found.ratio("worst", "ours"), 3, note),
        at_most("5-way: ours / best static order", found.ratio("ours", "best"), 1.05, note),
        informed("5-way: A/A control", found.ratio("ours again", "ours"), note),
        *_counted({name: starts[name]() for name in ("ours", "best", "worst")}, tables),
    ]


def _counted(joins: Mapping[str, MultiJoin], tables: list[list[pa.Table]]) -> list[Bar]:
    """Probes of rows of the first input, which do not depend on the machine."""
    probes = {}
    for name, join in joins.items():
        _seconds(join, tables)
        probes[name] = sum(counts.calls for counts in join.take_probes()[0].windows.values())
    note = ", ".join(f"{name} {count:,}" for name, count in probes.items())
    return [
        informed("5-way: probes of the worst order / ours", probes["worst"] / probes["ours"], note),
        informed("5-way: probes of ours / the best order", probes["ours"] / probes["best"], note),
    ]


def _star(tick: int, rows: int, shares: Mapping[int, float]) -> list[pa.Table]:
    rng, keys = np.random.default_rng(SEED + tick), rows // 10
    root = {f"k{each}": rng.integers(0, keys, rows) for each in shares} | {"v0": rng.integers(0, 100, rows)}
    small = [
        {f"j{each}": rng.permutation(max(1, int(keys * share))), f"v{each}": np.arange(max(1, int(keys * share)))}
        for each, share in shares.items()
    ]
    return [_elements(columns, tick, 1) for columns in (root, *small)]


def window_growth(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Windows 16 times as long, and their memory."""
    rows, ticks = (2_000, 40) if quick else (10_000, 64)
    keys: tuple[KeyClass, ...] = (((0, "k0"), (1, "k1"), (2, "k2")),)

    def feed(span: int) -> list[list[pa.Table]]:
        rng = np.random.default_rng(SEED)
        made = []
        for tick in range(ticks):
            columns = [{f"k{each}": rng.integers(0, 40 * rows, rows), f"v{each}": np.arange(rows)} for each in range(3)]
            made.append([_elements(values, tick, span) for values in columns])
        return made

    short, long = feed(2), feed(32)
    seconds = Race({"short": [], "long": [], "short again": []})
    for _ in range(3):
        for name, tables in (("short", short), ("long", long), ("short again", short)):
            seconds.seconds[name].append(_seconds(MultiJoin(3, keys), tables)[0])
    join = MultiJoin(3, keys)
    _seconds(join, long)
    live = min(33, ticks) * 3 * rows
    return [
        at_most("cost per row, windows x 16", seconds.ratio("long", "short"), 1.3, seconds.describe("short", "long")),
        informed("cost per row: A/A control", seconds.ratio("short again", "short"), ""),
        at_most("bytes per live row / 24", join.held_bytes / live / 24, 3, f"{live:,} rows of two longs and a time"),
    ]


def _elements(columns: Mapping[str, np.ndarray], tick: int, span: int) -> pa.Table:
    size = len(next(iter(columns.values())))
    start = np.full(size, tick)
    return pa.table({**columns, "_start": start, "_end": start + span + 1, "_weight": np.ones(size, np.int64)})


def _in_process(starts: Mapping[str, Callable[[], MultiJoin]], tables: list[list[pa.Table]], rounds: int) -> Race:
    found = Race({name: [] for name in starts})
    answers = set()
    for number in range(rounds + 1):
        for name, start in starts.items():
            seconds, results = _seconds(start(), tables)
            answers.add(results)
            if number:
                found.seconds[name].append(seconds)
    if len(answers) != 1:
        raise InternalError(f"orders give {sorted(answers)} results")
    return found


def _seconds(join: MultiJoin, tables: list[list[pa.Table]]) -> tuple[float, int]:
    """CPU seconds, and how many results there are."""
    began, results = time.process_time(), 0
    for tick, inputs in enumerate(tables):
        results += len(join.advance(inputs, Tick(tick, tick + 1)))
    return time.process_time() - began, results


WORKLOADS = (probe_orders, window_growth, selective, many_results, small_batches)
