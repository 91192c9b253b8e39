"""A filter on a cluster of two executors, one of which is killed: `python cluster_program.py FOLDER` prints JSON.

Executors are Java processes of their own, with Python workers of their own. FOLDER becomes the home of the cluster, and
holds the logs of its executors.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.spark.java import ensure_java

ROWS = 40_000
FATAL = 23_456
QUIET = "-XX:TieredStopAtLevel=1"


def home(folder: Path) -> Path:
    """Spark, in a folder of its own: a cluster writes next to what it finds there."""
    for part in Path(pyspark.__file__).parent.iterdir():
        (folder / part.name).symlink_to(part)
    return folder


def cluster(folder: Path) -> SparkSession:
    ensure_java()
    os.environ |= {"SPARK_HOME": str(home(folder)), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": QUIET,
        "spark.executor.extraJavaOptions": QUIET,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("cluster")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def kill_the_executor() -> None:
    """From a Python worker: the parent of its parent, the daemon that makes workers."""
    status = Path(f"/proc/{os.getppid()}/status").read_text().splitlines()
    os.kill(next(int(line.split()[1]) for line in status if line.startswith("PPid")), signal.SIGKILL)
    signal.pause()


def main(folder: Path) -> None:
    spark = cluster(folder)

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
    print(
        json.dumps(
            {
                "first": first,
                "again": again,
                "killed": (folder / "killed").exists(),
                "rows": [counted, f.report().rows],
                "dropped": sum(p.dropped or 0 for p in f.report().predicates if p.executor == "arrow"),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
