"""`anabranch bench joins`: windowed joins against Spark's and Flink's, and the operator alone (`join_operator.py`).

All read the same rows from CSV and write their answers. What it takes to start is not counted: each runs over a few
rows of each stream first, and the time of that is taken off.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches import flink, join_operator
from anabranch.benches.cql import START
from anabranch.benches.harness import Race, answer, run
from anabranch.errors import InternalError
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

Contender = Callable[["Files", Path], tuple[float, DataFrame]]


@dataclass(frozen=True)
class Files:
    """Rows of the three streams: per stream a folder of batches, and one file with all of them."""

    folder: Path

    def batches(self, name: str) -> Path:
        """Of a stream."""
        return self.folder / name

    def whole(self, name: str) -> Path:
        """Of a stream."""
        return self.folder / f"{name}.csv"

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A stream that has a batch of each file."""
        reader = spark.readStream.schema("ms long, seq long, k long, v long").option("maxFilesPerTrigger", 1)
        return reader.csv(str(self.batches(name))).select(F.expr("timestamp_millis(ms)").alias("ts"), "seq", "k", "v")


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run every workload: see `harness.run`."""
    return run(WORKLOADS, quick=quick, json_path=json_path)


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
    start = min(_once(partial(_ours, spark), small, folder)[0] for _ in range(2))
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
    race = _contest(contenders, given, small, folder, rounds)
    note = race.describe(*contenders)
    ratios = {name: race.ratio(name, "ours") for name in limits if name in contenders}
    bars = [at_least(f"{title}: {name} / ours", ratio, limits[name], note) for name, ratio in ratios.items()]
    return [*bars, informed(f"{title}: A/A control", race.ratio("ours again", "ours"), note)]


def _contest(contenders: Mapping[str, Contender], given: Files, small: Files, folder: Path, rounds: int) -> Race:
    """All over the same files, in turn; all must give the same bag of rows."""
    race = Race({name: [] for name in contenders})
    starts = {
        name: 0.0 if name == "Flink" else min(_once(each, small, folder)[0] for _ in range(3))
        for name, each in contenders.items()
    }
    for number in range(rounds):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            seconds, found = _once(contenders[name], given, folder)
            race.answer = race.answer or found
            if found != race.answer:
                raise InternalError(f"{name} answered {found[0]} rows, or others, instead of {race.answer[0]}")
            race.seconds[name].append(seconds - starts[name])
    return race


def _once(contender: Contender, given: Files, folder: Path) -> tuple[float, tuple[int, int]]:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    seconds, rows = contender(given, out)
    return seconds, answer(rows)


def _small(folder: Path) -> Files:
    """A few rows of each stream, in one batch."""
    if (folder / "small").exists():
        return Files(folder / "small")
    rng = np.random.default_rng(SEED)
    return _write(folder / "small", 1, dict.fromkeys(NAMES, lambda: rng.integers(0, FEW_ROWS, FEW_ROWS)))


def _write(folder: Path, batches: int, drawn: Mapping[str, Callable[[], np.ndarray]]) -> Files:
    """The last row of each stream has no partner, and lets time be complete for all others."""
    rng, given = np.random.default_rng(SEED), Files(folder)
    for number, name in enumerate(NAMES):
        given.batches(name).mkdir(parents=True)
        tables, rows = [], 0
        for batch in range(batches):
            found, begins = drawn[name](), START // 1000 + batch * BATCH_MILLIS
            times = begins + np.sort(rng.integers(0, BATCH_MILLIS, len(found)))
            if batch == batches - 1:
                times[-1], found[-1] = begins + BATCH_MILLIS, -1 - number
            columns = {"ms": times, "seq": rows + np.arange(len(found)), "k": found}
            tables.append(pa.table(columns | {"v": rng.integers(0, 1_000_000, len(found))}))
            rows += len(found)
            _write_csv(tables[-1], given.batches(name) / f"{batch:06d}.csv")
        _write_csv(pa.concat_tables(tables), given.whole(name))
    return given


def _write_csv(table: pa.Table, path: Path) -> None:
    pc.write_csv(table, path, pc.WriteOptions(include_header=False))


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
    sources, few = ({name: flink.Source(COLUMNS, each.whole(name)) for name in NAMES} for each in (given, small))
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
