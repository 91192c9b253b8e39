"""Workloads of the bench of filters on a classic session or on Spark Connect: each line that is read is one round.

A session of Spark Connect is for a whole process, so the two are programs of their own, which take turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches.filters import COSTS, RATES, SEED
from anabranch.benches.harness import Answer, answer
from anabranch.benches.workloads import Workload, build, correlated, independent, rotating
from anabranch.errors import InternalError

SPEED_PARTITIONS = 4
CHEAP = "cheap predicates"
DRIFT_RATES = (0.05, 0.9, 0.85, 0.8)
MICROSECONDS = {"cost x selectivity": COSTS, "correlation": (20.0,) * 4, "drift": (8.0,) * 4}
NAMES = (CHEAP, *MICROSECONDS)


def ends_even(text: str) -> bool:
    """A predicate of single values."""
    return sum(map(ord, text * 3)) % 2 == 0


def small(b: pd.Series) -> pd.Series:
    """A predicate of whole columns."""
    return b < 0.3


def prepare(spark: SparkSession, folder: Path, rows: int) -> None:
    """Write the rows of the workloads that have files."""
    rng = np.random.default_rng(SEED)
    passes = {
        "cost x selectivity": independent(rows, RATES, rng),
        "correlation": correlated(rows, rng),
        "drift": rotating(rows, DRIFT_RATES, rows // 4, rng),
    }
    for name, microseconds in MICROSECONDS.items():
        build(spark, name, passes[name], microseconds, folder)


@contextmanager
def program(kind: str, folder: Path, rows: int) -> Iterator[subprocess.Popen[str]]:
    """The program for one kind of session."""
    command = [sys.executable, "-m", "anabranch.benches.connect_rounds", kind, str(folder), str(rows)]
    with (folder / f"{kind}.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def one_round(process: subprocess.Popen[str], workload: str) -> tuple[float, Answer]:
    """Seconds of a round, and its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{workload}\n")
    process.stdin.flush()
    line = next((line for line in process.stdout if line.startswith("{")), None)
    if line is None:
        assert isinstance(process.args, list)
        *_, kind, folder, _ = map(str, process.args)
        said = Path(folder, f"{kind}.log").read_text().splitlines()
        raise InternalError(f"the {kind} program has ended: {' '.join(said[-3:])}")
    found = json.loads(line)
    return found["seconds"], tuple(found["answer"])


def serve(kind: str, folder: Path, rows: int) -> None:
    """Serve rounds until the input ends."""
    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder.master("local[2]")
    for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(key, "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    made: dict[str, Callable[[], DataFrame]] = {CHEAP: partial(_cheap, spark, rows)}
    for name, microseconds in MICROSECONDS.items():
        nothing = np.zeros((0, len(microseconds)), dtype=np.bool_)
        made[name] = Workload(name, nothing, microseconds, folder / name, spark).adaptive
    for line in sys.stdin:
        began = time.perf_counter()
        found = answer(made[line.strip()]())
        print(json.dumps({"seconds": time.perf_counter() - began, "answer": found}), flush=True)


def _cheap(spark: SparkSession, rows: int) -> DataFrame:
    text = F.concat(F.lit("packet-"), F.col("id").cast("string"))
    frame = spark.range(0, rows, 1, SPEED_PARTITIONS).select(
        "id", text.alias("text"), (F.col("id") % 1000 / 1000).alias("b")
    )
    return ab.where(frame, ab.predicate(ends_even, "text"), ab.predicate(small, "b"), F.col("b") > 0.01)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
