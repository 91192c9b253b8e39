"""Rules that are intervals: against a nested-loop join in Spark and against Siddhi, and how cost grows with them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.benches import siddhi_program
from anabranch.benches.cql import SECOND, SEED, START
from anabranch.benches.harness import Answer
from anabranch.benches.standing import Contender, Inbox, Standing, digest, race
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.spark.session import light_logs

SCHEMA = "seq long, ts timestamp, v long"
VALUES = 1_000_000
TEMPLATE = "Select seq, v From s Where v >= :low And v < :high"
NAME = "alerts"
SIDDHI = "ANABRANCH_SIDDHI_PYTHON"
SIDDHI_SECONDS = 120


def against_spark(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Ten thousand rules against Spark's broadcast nested-loop join with the rules as a table."""
    rows, rules = 50_000 if quick else 200_000, 10_000
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {
            "ours": stack.enter_context(standing(spark, folder / "spark-ours", rules)),
            "spark": stack.enter_context(NestedLoops(spark, folder / "spark-plain", rules)),
            "ours again": stack.enter_context(standing(spark, folder / "spark-again", rules)),
        }
        raced = race(contenders, readings(folder, 3 if quick else 5, rows))
    name, rate = f"{rules:,} interval rules: rows/s of ours / Spark's nested-loop join", rows / raced.median("ours")
    return [
        at_least(name, raced.ratio("spark", "ours"), 20, f"{rate:,.0f} rows/s, {raced.describe('spark', 'ours')}"),
        informed(f"{name}: A/A control", raced.ratio("ours again", "ours"), raced.describe("ours again")),
    ]


def against_siddhi(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """A thousand rules against PySiddhi, if there is a Python that has it: `ANABRANCH_SIDDHI_PYTHON` names it."""
    python, rules, rows = os.environ.get(SIDDHI), 1000, 20_000 if quick else 100_000
    if not python:
        print(f"PySiddhi: not measured. `pip install pysiddhi` in an environment, whose Python {SIDDHI} names")
        return []
    given = readings(folder, 4, rows)
    theirs = _siddhi(python, folder, rules, given[-1], 5_000 if quick else 20_000)
    if theirs is None:
        return []
    with standing(spark, folder / "siddhi-ours", rules) as ours:
        seconds = statistics.median([ours.take(file) for file in given][1:])
    rate = rows / seconds
    detail = f"{rate:,.0f} rows/s, PySiddhi {theirs:,.0f} rows/s; row by row there, in batches of {rows:,} here"
    return [at_least(f"{rules:,} interval rules: rows/s of ours / PySiddhi", rate / theirs, 5, detail)]


def growth(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """The same matches per row with a thousand times as many rules."""
    few, many = 100, 100_000
    sets = {"few": few, "many": many, "few again": few}
    with ExitStack() as stack:
        contenders: dict[str, Standing] = {
            name: stack.enter_context(standing(spark, folder / f"growth-{name.replace(' ', '-')}", count))
            for name, count in sets.items()
        }
        for each in contenders.values():
            each.columns = ("seq", "v")
        raced = race(contenders, readings(folder, 3 if quick else 6, 100_000))
    name = f"cost per row, {few:,} to {many:,} rules"
    return [
        at_most(name, raced.ratio("many", "few"), 1.5, raced.describe("many", "few")),
        informed(f"{name}: A/A control", raced.ratio("few again", "few"), raced.describe("few again")),
    ]


def adding(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """From the call that adds rules until a batch has been answered by them, less what such a batch takes later."""
    rows, rules = 20_000, 100_000
    given = readings(folder, 6, rows)
    with standing(spark, folder / "adding", 0) as ours:
        for file in given[:2]:
            ours.take(file)
        began = time.perf_counter()
        ours.rules.add_all(_intervals(spark, rules))
        added = time.perf_counter() - began
        ours.take(given[2])
        total = time.perf_counter() - began
        usual = statistics.median(ours.take(file) for file in given[3:])
        answered = len(ours.rows(NAME))
    if answered != 4 * (rows - 1):
        raise AssertionError(f"{answered} rows were answered instead of {4 * (rows - 1)}")
    detail = f"added after {added:.2f} s, in force after {total:.2f} s with a batch of {usual:.2f} s"
    return [at_most(f"adding {rules:,} rules: seconds until in force", total - usual, 3.0, detail)]


class RuleStanding(Standing):
    """An engine of ours with rules."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        super().__init__(spark, folder, SCHEMA)
        self.rules = self.engine.rules(NAME, TEMPLATE)
        if count:
            self.rules.add_all(_intervals(spark, count))
        self.rules.start(sink="memory")
        self.compared = [NAME]


def standing(spark: SparkSession, folder: Path, count: int) -> RuleStanding:
    """Rules of ours over a stream, as many as asked for."""
    return RuleStanding(spark, folder, count)


class NestedLoops:
    """A stream of Spark's, joined with a table of rules."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        self._inbox = Inbox(folder / "in", SCHEMA)
        self._answers = folder / "answers"
        rules = F.broadcast(_intervals(spark, count))
        joined = self._inbox.source(spark).join(rules, (F.col("v") >= F.col("low")) & (F.col("v") < F.col("high")))
        writer = joined.selectExpr("rule", "seq", "v", "ts AS _ts").writeStream.format("parquet")
        with light_logs(spark):
            self._query = writer.option("checkpointLocation", str(folder / "state")).start(str(self._answers))

    def take(self, file: Path) -> float:
        """Answer a batch."""
        began = time.perf_counter()
        self._inbox.put(file)
        self._query.processAllAvailable()
        return time.perf_counter() - began

    def digest(self) -> Answer:
        """What was written."""
        return digest(pq.read_table(path).cast(ANSWER) for path in self._answers.glob("*.parquet"))

    def __enter__(self) -> NestedLoops:
        return self

    def __exit__(self, *error: object) -> None:
        self._query.stop()


ANSWER = pa.schema([("rule", pa.string()), ("seq", pa.int64()), ("v", pa.int64()), ("_ts", pa.timestamp("us", "UTC"))])


def readings(folder: Path, files: int, rows: int) -> list[Path]:
    """Files of rows with a value each, ten seconds of their own time per file.

    No rule wants the last row of a file: it is answered only when its time is over, by us, and at once by others.
    """
    where = folder / f"readings-{files}-{rows}"
    if not where.exists():
        where.mkdir(parents=True)
        rng = np.random.default_rng(SEED)
        times = START + np.linspace(0, files * 10 * SECOND, files * rows, endpoint=False).astype(np.int64)
        for number in range(files):
            part = slice(number * rows, (number + 1) * rows)
            columns: Mapping[str, pa.Array] = {
                "seq": pa.array(np.arange(files * rows)[part]),
                "ts": pa.array(times[part], pa.timestamp("us", "UTC")),
                "v": pa.array([*rng.integers(0, VALUES, rows - 1), -1]),
            }
            pq.write_table(pa.table(columns), where / f"{number:06d}.parquet")
    return sorted(where.glob("*.parquet"))


def _intervals(spark: SparkSession, count: int) -> DataFrame:
    """Rules of which each value matches one."""
    width = VALUES // count
    return spark.range(count).selectExpr(
        "concat('r', id) AS rule", f"id * {width} AS low", f"(id + 1) * {width} AS high"
    )


def _siddhi(python: str, folder: Path, rules: int, file: Path, rows: int) -> float | None:
    """Rows per second of PySiddhi; None if it could not be made to run, which is said."""
    width = VALUES // rules
    table = pq.read_table(file, columns=["v"]).slice(0, rows - 1)
    given = list(enumerate(table["v"].to_pylist()))  # PySiddhi hands on sums of 32 bits
    paths = folder / "siddhi-rules.json", folder / "siddhi-rows.json"
    paths[0].write_text(json.dumps([(n * width, (n + 1) * width) for n in range(rules)]))
    paths[1].write_text(json.dumps(given))
    command = [python, "-I", siddhi_program.__file__, *map(str, paths)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SIDDHI_SECONDS, check=True)
        answer = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        why = getattr(error, "stderr", None) or str(error)
        print(f"PySiddhi: not measured. {str(why).strip().splitlines()[-1]}")
        return None
    if (answer["count"], answer["total"]) != (len(given), sum(seq for seq, _ in given)):
        raise AssertionError(f"PySiddhi answered {answer['count']} rows, or others, instead of {len(given)}")
    return rows / float(answer["seconds"])
