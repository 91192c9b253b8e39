"""A filter on a classic session or on Spark Connect, round by round: each line that it reads is one round.

A session of Spark Connect is for a whole process, so the two are programs of their own, which take turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches.harness import answer

SPEED_PARTITIONS = 4


def ends_even(text: str) -> bool:
    """A predicate of single values."""
    return sum(map(ord, text * 3)) % 2 == 0


def small(b: pd.Series) -> pd.Series:
    """A predicate of whole columns."""
    return b < 0.3


@contextmanager
def program(kind: str, rows: int) -> Iterator[subprocess.Popen[str]]:
    """The program for one kind of session."""
    command = [sys.executable, "-m", "anabranch.benches.connect_rounds", kind, str(rows)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def one_round(process: subprocess.Popen[str]) -> tuple[float, tuple[int, int]]:
    """Seconds of a round, and its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    line = next(line for line in process.stdout if line.startswith("{"))
    found = json.loads(line)
    return found["seconds"], tuple(found["answer"])


def serve(kind: str, rows: int) -> None:
    """Serve rounds until the input ends."""
    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder.master("local[2]")
    spark = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    text = F.concat(F.lit("packet-"), F.col("id").cast("string"))
    frame = spark.range(0, rows, 1, SPEED_PARTITIONS).select(
        "id", text.alias("text"), (F.col("id") % 1000 / 1000).alias("b")
    )
    for _ in sys.stdin:
        began = time.perf_counter()
        found = answer(ab.where(frame, ab.predicate(ends_even, "text"), ab.predicate(small, "b"), F.col("b") > 0.01))
        print(json.dumps({"seconds": time.perf_counter() - began, "answer": found}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
