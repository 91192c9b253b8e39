"""`anabranch bench joins`: windowed joins against Spark's and Flink's, and the operator alone (`join_operator.py`).

All read the same rows from CSV and write their answers: see `csv_contest.py`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches import flink, join_operator
from anabranch.benches.cql import START
from anabranch.benches.csv_contest import Contender, Files, contest, once, write
from anabranch.benches.harness import Race, run
from anabranch.benches.old_engine import in_conditions
from anabranch.measure import Bar, at_least, at_most, informed

SEED = 20_260_023
NAMES = ("a", "b", "c")
BATCH_MILLIS = 10_000
BATCHES_IN_WINDOW = 3
WINDOW = f"[Range {BATCHES_IN_WINDOW * BATCH_MILLIS} Milliseconds]"
FEW_ROWS = 100
COLUMNS = (("seq", "BIGINT"), ("k", "BIGINT"), ("v", "BIGINT"))
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES: Mapping[str, Mapping[str, str]] = {
    "Spark in memory": {},
    "Spark RocksDB": {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.join.stateFormatVersion": "4",
    },
}


def main(*, quick: bool, json_path: Path | None = None, old: Path | None = None) -> int:
    """Run every workload: see `harness.run`. `old` is a worktree of an earlier version to compare with."""
    return run([*WORKLOADS, partial(in_conditions, old=old)], quick=quick, json_path=json_path)


def selective(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Three streams by one key, of which few rows have partners."""
    rows, limits = 20_000 if quick else 100_000, {"Spark RocksDB": 10.0, "Spark in memory": 5.0, "Flink": 3.0}
    return _against_peers(spark, folder, "selective", (rows, 5 * rows, 5), limits, 1 if quick else 2)


def many_results(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Three streams by one key, with far more results than rows."""
    rows, limits = 10_000 if quick else 100_000, {"Spark RocksDB": 8.0, "Spark in memory": 3.5, "Flink": 2.0}
    return _against_peers(spark, folder, "many results", (rows, rows, 5), limits, 1)


def small_batches(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """The same in small batches, where what a batch costs anyway counts most."""
    rows, limits = 5_000 if quick else 20_000, {"Spark RocksDB": 8.0, "Spark in memory": 3.5, "Flink": 2.0}
    return _against_peers(spark, folder, "small batches", (rows, rows, 8), limits, 1 if quick else 2)


def hot_key(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """One key has half of the rows of a stream; there are as many results as with even keys."""
    rows, batches = (10_000, 3) if quick else (60_000, 5)
    given = {}
    for name, hot in (("even", 0.0), ("hot", 0.5)):
        rng, keys = np.random.default_rng(SEED), rows // 10
        drawn = {"a": lambda: np.where(rng.random(rows) < hot, 0, rng.integers(0, keys, rows))}  # noqa: B023
        drawn |= dict.fromkeys("bc", lambda: rng.permutation(keys))  # noqa: B023
        given[name] = _write(folder / f"keys-{name}", batches, drawn)
    small = _small(folder)
    race, counts = Race({"even": [], "hot": [], "even again": []}), {}
    for number in range(2 if quick else 4):
        for name in race.seconds:
            out = folder / "hot-key-out"
            seconds, found = _ours(spark, given[name.split()[0]], out)
            counts[name] = found.count()
            shutil.rmtree(out)
            if number:
                race.seconds[name].append(seconds / counts[name])
    start = min(once(partial(_ours, spark), small, folder)[0] for _ in range(2))
    note = ", ".join(f"{name} {1e6 * race.median(name):.2f} us" for name in race.seconds)
    note += f" per result; {counts['hot']:,} and {counts['even']:,} results; {start:.1f} s to start are in it"
    return [
        at_most("one key has half of the rows: time / even keys, per result", race.ratio("hot", "even"), 1.5, note),
        informed("one key has half of the rows: A/A control", race.ratio("even again", "even"), note),
    ]


def _against_peers(
    spark: SparkSession,
    folder: Path,
    title: str,
    shape: tuple[int, int, int],
    limits: Mapping[str, float],
    rounds: int,
) -> list[Bar]:
    rows, keys, batches = shape
    rng = np.random.default_rng(SEED)
    drawn = dict.fromkeys(NAMES, lambda: rng.integers(0, keys, rows))
    given, small = _write(folder / title.replace(" ", "-"), batches, drawn), _small(folder)
    contenders: dict[str, Contender] = {"ours": partial(_ours, spark)}
    contenders |= {name: partial(_spark, spark, settings) for name, settings in STORES.items()}
    if (python := flink.python()) is not None:
        contenders["Flink"] = partial(_flink, spark, python, small)
    contenders["ours again"] = contenders["ours"]
    race = contest(contenders, given, small, folder, rounds)
    note = race.describe(*contenders)
    ratios = {name: race.ratio(name, "ours") for name in limits if name in contenders}
    bars = [at_least(f"{title}: {name} / ours", ratio, limits[name], note) for name, ratio in ratios.items()]
    return [*bars, informed(f"{title}: A/A control", race.ratio("ours again", "ours"), note)]


def _small(folder: Path) -> Files:
    """A few rows of each stream, in one batch."""
    if (folder / "small").exists():
        return Files(folder / "small", dict.fromkeys(NAMES, COLUMNS))
    rng = np.random.default_rng(SEED)
    return _write(folder / "small", 1, dict.fromkeys(NAMES, lambda: rng.integers(0, FEW_ROWS, FEW_ROWS)))


def _write(folder: Path, batches: int, drawn: Mapping[str, Callable[[], np.ndarray]]) -> Files:
    """The last row of each stream has no partner, and lets time be complete for all others."""
    rng, made = np.random.default_rng(SEED), {}
    for number, name in enumerate(NAMES):
        tables, rows = [], 0
        for batch in range(batches):
            found, begins = drawn[name](), START // 1000 + batch * BATCH_MILLIS
            times = begins + np.sort(rng.integers(0, BATCH_MILLIS, len(found)))
            if batch == batches - 1:
                times[-1], found[-1] = begins + BATCH_MILLIS, -1 - number
            columns = {"ms": times, "seq": rows + np.arange(len(found)), "k": found}
            tables.append(pa.table(columns | {"v": rng.integers(0, 1_000_000, len(found))}))
            rows += len(found)
        made[name] = tables
    return write(folder, dict.fromkeys(NAMES, COLUMNS), made)


def _ours(spark: SparkSession, given: Files, out: Path) -> tuple[float, DataFrame]:
    engine = ab.Engine(spark, out / "state")
    for name in NAMES:
        engine.stream(name, given.read(spark, name), timestamp="ts", sequence="seq")
    sources = ", ".join(f"{name} {WINDOW}" for name in NAMES)
    text = f"Select Istream(a.v As av, b.v As bv, c.v As cv) From {sources} Where a.k = b.k And b.k = c.k"
    query = engine.query(text, name="q")
    began = time.perf_counter()
    query.start(sink="parquet", path=str(out / "answer"))
    query.await_idle()
    seconds = time.perf_counter() - began
    engine.stop()
    return seconds, spark.read.parquet(str(out / "answer")).select("av", "bv", "cv")


def _spark(spark: SparkSession, settings: Mapping[str, str], given: Files, out: Path) -> tuple[float, DataFrame]:
    a, b, c = (
        given.read(spark, name)
        .select(*(F.col(column).alias(f"{name}{column}") for column in ("ts", "k", "v")))
        .withWatermark(f"{name}ts", "0 seconds")
        for name in NAMES
    )
    span = f"interval {BATCHES_IN_WINDOW * BATCH_MILLIS} milliseconds"

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


def _flink(spark: SparkSession, python: str, small: Files, given: Files, out: Path) -> tuple[float, DataFrame]:
    sources, few = given.for_flink(NAMES), small.for_flink(NAMES)
    span = f"INTERVAL '{BATCHES_IN_WINDOW * BATCH_MILLIS // 1000}' SECOND"

    def near(one: str, other: str) -> str:
        return f"{one}.ts BETWEEN {other}.ts - {span} AND {other}.ts + {span}"

    select = (
        "SELECT a.v, b.v, c.v FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
        f"AND {near('a', 'b')} AND {near('a', 'c')} AND {near('b', 'c')}"
    )
    columns = "av BIGINT, bv BIGINT, cv BIGINT"
    seconds = flink.seconds(python, out, sources, few, columns, select)
    return seconds, spark.read.schema(columns).csv(str(out / "answer"))


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


WORKLOADS = (*join_operator.WORKLOADS, hot_key, selective, many_results, small_batches)
