"""A filter and an engine on a cluster of two executors: `python cluster_program.py FOLDER` prints JSON.

Executors are Java processes of their own, with Python workers of their own; one is killed under the filter, one under
the engine, which is then stopped and started again. FOLDER holds the streams of the engine (see `two_streams.py`), its
checkpoint and its answers; `FOLDER/home` becomes the home of the cluster. Spark's own file system is one that is not
there: a path without a scheme is not found.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.spark.java import ensure_java
from spark.killed_engine import FEW_LOGS, finished, started, ticks

ROWS = 40_000
FATAL = 23_456
ROWS_PER_FILE = 6
QUIET = "-XX:TieredStopAtLevel=1"


def home(folder: Path) -> Path:
    """Spark, in a folder of its own: a cluster writes next to what it finds there."""
    folder.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (folder / part.name).symlink_to(part)
    return folder


def cluster(folder: Path) -> SparkSession:
    ensure_java()
    os.environ |= {
        "SPARK_HOME": str(home(folder / "home")),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.extraJavaOptions": QUIET,
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.defaultFS": "hdfs://127.0.0.1:1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("cluster")
    for name, value in (settings | FEW_LOGS).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def parent(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("PPid"))


def kill_the_executor() -> None:
    """From a Python worker: the parent of its parent, the daemon that makes workers."""
    os.kill(parent(os.getppid()), signal.SIGKILL)
    signal.pause()


def executors() -> list[int]:
    """Java processes that run tasks for this program: children of its own Java process."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            runs_tasks = b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes()
            if runs_tasks and parent(parent(int(process.name))) == os.getpid():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def awaited(rows: int, engine: ab.Engine) -> None:
    while engine.rows_taken("lefts") < rows or engine.rows_taken("rights") < rows:
        time.sleep(0.01)


def continuous(spark: SparkSession, folder: Path) -> int:
    """Answer the streams, with a dead executor and a restart in between; how many ticks that took."""
    checkpoint = folder / "checkpoint"
    engine = started(spark, folder, checkpoint)
    awaited(1, engine)
    os.kill(executors()[0], signal.SIGKILL)
    awaited(ROWS_PER_FILE + 1, engine)
    engine.stop()
    finished(started(spark, folder, checkpoint))
    return ticks(checkpoint)


def filtered(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Apply a filter twice, and let it kill an executor once."""

    def third(n: int) -> bool:
        if n == FATAL and not (folder / "killed").exists():
            (folder / "killed").touch()
            kill_the_executor()
        return n % 3 == 0

    df = spark.range(0, ROWS, 1, 8).select("id", F.concat(F.lit("10."), F.col("id") % 5, F.lit(".0.7")).alias("dst"))
    known = spark.createDataFrame([("10.1.0.7",), ("10.4.0.7",)], ["addr"])
    f = ab.Filter(
        ab.predicate(lambda n: n * 2, "id", returns="long", keep="twice", test=lambda n: n % 4 == 0, name="twice"),
        ab.predicate(third, "id"),
        ab.lookup("dst", known, on="addr"),
        F.col("id") >= 100,
        state=folder / "state",
    )
    first = sorted(map(tuple, f.apply(df).select("id", "twice").collect()))
    counted = f.report().rows
    again = f.apply(df).count()
    return {
        "first": first,
        "again": again,
        "killed": (folder / "killed").exists(),
        "rows": [counted, f.report().rows],
        "dropped": sum(p.dropped or 0 for p in f.report().predicates if p.executor == "arrow"),
    }


def main(folder: Path) -> None:
    spark = cluster(folder)
    results = filtered(spark, folder) | {"ticks": continuous(spark, folder)}
    print(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
