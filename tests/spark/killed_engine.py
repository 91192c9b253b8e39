"""An engine in a process of its own, to be killed: `python killed_engine.py FOLDER CHECKPOINT [--full]`.

It reads the streams `left` and `right` in FOLDER, joins and counts them into Parquet files, and ends when all rows that
are there have been answered. With `--full` the disk of the checkpoint, which should be small, is full after a while:
the engine says so, and another one goes on once there is space.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.engine.manifest_log import committed

FEW_LOGS = {"spark.sql.streaming.minBatchesToRetain": 2}  # by Spark; what is there after a hundred batches, soon
SCHEMA = "seq long, ts timestamp, k long, a long"
QUERIES = {
    "joined": "Select l.k, l.a, r.a As b From lefts [Range 5 Seconds] As l, rights [Rows 20] As r Where l.k = r.k",
    "counted": "Select k, Count(*) As n, Sum(a) As total From lefts [Range 10 Seconds] Group By k",
    "slid": "Select k, Count(*) As n, Sum(a) As total From lefts [Range 6 Seconds Slide 2 Seconds] Group By k",
    "picked": "Select k, a From rights Where a > 3",
}


def local() -> SparkSession:
    return ab.local_session("killed", cores=2, **FEW_LOGS)


def started(spark: SparkSession, folder: Path, checkpoint: Path, **options: Any) -> ab.Engine:
    engine = ab.Engine(spark, checkpoint, **options)
    for name in ("lefts", "rights"):
        source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"file://{folder / name}")
        engine.stream(name, source, timestamp="ts", sequence="seq", skew="1 second")
    for name, text in QUERIES.items():
        engine.query(text, name)
    for name, query in engine.queries.items():
        query.start(sink="parquet", path=str(folder / "out" / name))
    return engine


def ticks(checkpoint: Path) -> int:
    """How many have been committed."""
    return committed(checkpoint)


def finished(engine: ab.Engine) -> None:
    for query in engine.queries.values():
        query.await_idle()
    engine.stop()


def with_a_full_disk(folder: Path, checkpoint: Path) -> None:
    engine, ballast = started(local(), folder, checkpoint), checkpoint / "ballast"
    while ticks(checkpoint) < 2:
        time.sleep(0.01)
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"0" * 4096):
                pass
        except OSError:
            print("the disk is full")
    try:
        finished(engine)
    except Exception as error:
        print("failed:", error)
    engine.stop()
    ballast.unlink()
    finished(started(local(), folder, checkpoint))


if __name__ == "__main__":
    run = with_a_full_disk if "--full" in sys.argv else lambda *paths: finished(started(local(), *paths))
    run(Path(sys.argv[1]), Path(sys.argv[2]))
    print("finished")
