"""Filters that cost next to nothing: comparisons of whole columns, where no order and no route can save anything.

Each row's numbers tell what every predicate will say of it, so there are classes of rows to be found; using them would
take longer than the filters do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.benches.harness import CLOSE_RACE_SECONDS, race
from anabranch.measure import Bar, at_most, informed

WIDTH = 5
FILES = 8
LARGEST = 1000
SEED = 20_261_117


def run(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Predicates on pandas Series and on Arrow arrays."""
    rows, rounds = (800_000, 2) if quick else (3_000_000, 18)
    rng = np.random.default_rng(SEED)
    (folder / "cheap").mkdir()
    for number in range(FILES):
        columns = {f"c{i}": rng.integers(0, LARGEST, rows // FILES) for i in range(WIDTH)}
        pq.write_table(pa.table(columns), folder / "cheap" / f"{number}.parquet")
    df = spark.read.parquet(str(folder / "cheap"))
    bars = []
    for kind, above in (("pandas", _series_above), ("Arrow", _array_above)):
        fixed = partial(_where, above, "fixed")
        contenders = {"ours": partial(_where, above, "auto"), "fixed": fixed, "fixed again": fixed}
        found = race(contenders, df, rounds=rounds, warm_up_on=df.limit(rows // 4), seconds=CLOSE_RACE_SECONDS)
        again = found.ratio("fixed again", "fixed")
        bars += [
            at_most(
                f"neutral, cheap {kind} predicates: ours / fixed order",
                found.ratio("ours", "fixed"),
                1.02,
                found.describe("ours", "fixed"),
            ),
            informed(f"neutral, cheap {kind} predicates: A/A control", again, found.describe("fixed again")),
        ]
    return bars


def _where(above: Callable[[int], Callable[[Any], Any]], policy: str, df: DataFrame) -> DataFrame:
    predicates = [ab.predicate(above(LARGEST // 2), name, name=name) for name in df.columns]
    return ab.where(df, *predicates, policy=policy)


def _series_above(bound: int) -> Callable[[Any], Any]:
    def above(values: pd.Series) -> pd.Series:
        return values > bound

    return above


def _array_above(bound: int) -> Callable[[Any], Any]:
    def above(values: pa.Array) -> pa.Array:
        return pc.greater(values, bound)

    return above
