"""Where Anabranch has little to win, against plain Spark: long texts, predicates that cost next to nothing, and
attributes that tell nothing."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

import anabranch as ab
from anabranch.benches.harness import CLOSE_RACE_SECONDS, Contender, Race, race
from anabranch.benches.workloads import Workload, build, independent
from anabranch.measure import Bar, at_most, informed

FILES = 8
LARGEST_FILE = 4_000_000
"""Bytes of texts in a file: Spark's readers hold the texts of a batch of rows together, and more would not fit."""
LARGEST = 1000
SEED = 20_261_118
TEXTS = {1_000: 60_000, 16_000: 6_000, 120_000: 1_200, 1_000_000: 400}
"""Bytes of a text -> number of rows."""
SHARES = {"c": 0.9, "b": 0.6, "a": 0.2}
"""Letters that predicates count, and shares of rows that they let pass; the best order is the reverse."""


def texts(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Three predicates that read a text from its beginning to its end; as written, the order is the worst."""
    bars = []
    for size, rows in list(TEXTS.items())[:: 2 if quick else 1]:
        path = _write_texts(folder / f"texts-{size}", size, rows)
        few = _write_texts(folder / f"texts-{size}-few", size, FILES * 4)
        best = partial(_judged, spark, "fixed", list(SHARES)[::-1])
        contenders = {
            "ours": partial(_judged, spark, "auto", list(SHARES)),
            "best": best,
            "best again": best,
            "plain": partial(_by_spark, spark),
        }
        found = race(contenders, path, rounds=2 if quick else 12, warm_up_on=few, seconds=CLOSE_RACE_SECONDS)
        name = f"texts of {size:,} bytes"
        bars += [
            at_most(
                f"{name}: ours / best fixed order", found.ratio("ours", "best"), 1.03, found.describe("ours", "best")
            ),
            at_most(f"{name}: ours / plain Spark", found.ratio("ours", "plain"), 1.0, found.describe("plain")),
            informed(f"{name}: A/A control", found.ratio("best again", "best"), found.describe("best again")),
        ]
    return bars


def cheap(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """One or two comparisons of whole columns, and a lambda of less than a microsecond: nothing to order or to save."""
    many = _write_numbers(spark, folder / "numbers", 800_000 if quick else 5_000_000)
    few = _write_numbers(spark, folder / "fewer-numbers", 100_000 if quick else 600_000)
    cases: list[tuple[str, DataFrame, list[str], Callable[..., Any], Callable[..., Any]]] = [
        ("one pandas predicate", many, ["c0"], _series_above, partial(pandas_udf, returnType="boolean")),
        ("two pandas predicates", many, ["c0", "c1"], _series_above, partial(pandas_udf, returnType="boolean")),
        ("one quick lambda", few, ["c0"], lambda value: value > LARGEST // 2, partial(F.udf, returnType="boolean")),
    ]
    if arrow_udf := getattr(F, "arrow_udf", None):  # from Spark 4.1 on
        cases.append(("one Arrow predicate", many, ["c0"], _array_above, partial(arrow_udf, returnType="boolean")))
    bars = []
    for name, rows, columns, function, udf in cases:
        plain = partial(_where_udf, udf(function), columns)
        contenders = {"ours": partial(_where, function, columns), "plain": plain, "plain again": plain}
        found = race(contenders, rows, rounds=2 if quick else 12, warm_up_on=rows.limit(50_000))
        bars += _against_plain(f"neutral, {name}", found)
    return bars


def nothing_to_find(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """A small input whose attributes, ids of users and times, tell nothing about three predicates of 10 us."""
    rows, rng = 60_000, np.random.default_rng(SEED)
    attributes = {
        "user": rng.integers(0, 10_000, rows),
        "at": (1_767_225_600_000_000 + rng.integers(0, 86_400_000_000, rows)).astype("datetime64[us]"),
    }
    work = build(spark, "nothing", independent(rows, (0.3, 0.6, 0.8), rng), (10.0,) * 3, folder, attributes)
    contenders: dict[str, Contender[Workload]] = {
        "ours": Workload.adaptive,
        "one order": _without_attributes,
        "one order again": _without_attributes,
    }
    found = race(contenders, work, rounds=2 if quick else 20, warm_up_on=work.rehearsal())
    again = found.ratio("one order again", "one order")
    return [
        at_most(
            "nothing to find: ours / without attributes",
            found.ratio("ours", "one order"),
            1.02,
            found.describe("ours", "one order"),
        ),
        informed("nothing to find: A/A control", again, found.describe("one order again")),
    ]


def _against_plain(name: str, found: Race) -> list[Bar]:
    again = found.ratio("plain again", "plain")
    return [
        at_most(f"{name}: ours / plain Spark", found.ratio("ours", "plain"), 1.05, found.describe("ours", "plain")),
        informed(f"{name}: A/A control", again, found.describe("plain again")),
    ]


def _without_attributes(work: Workload) -> DataFrame:
    return ab.where(work.read(), *work.predicates(), attributes=[])


def _write_texts(path: Path, size: int, rows: int) -> Path:
    rng = np.random.default_rng(size)
    path.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), max(FILES, size * rows // LARGEST_FILE))):
        words = [rng.bytes(40).hex() for _ in part]
        bodies = [(word * (size // len(word) + 1))[:size] for word in words]
        pq.write_table(pa.table({"id": part, "body": bodies}), path / f"{number}.parquet")
    return path


def _write_numbers(spark: SparkSession, path: Path, rows: int) -> DataFrame:
    rng = np.random.default_rng(SEED)
    path.mkdir()
    for number in range(FILES):
        columns = {f"c{i}": rng.integers(0, LARGEST, rows // FILES) for i in range(3)}
        pq.write_table(pa.table(columns), path / f"{number}.parquet")
    return spark.read.parquet(str(path))


def _reads(letter: str) -> Callable[[str], bool]:
    def reads(body: str) -> bool:
        body.count(letter)
        return zlib.crc32((body[:80] + letter).encode()) < SHARES[letter] * 2**32

    return reads


def _judged(spark: SparkSession, policy: str, letters: list[str], path: Path) -> DataFrame:
    predicates = [ab.predicate(_reads(letter), "body", name=letter) for letter in letters]
    return ab.where(spark.read.parquet(str(path)), *predicates, policy=policy)


def _by_spark(spark: SparkSession, path: Path) -> DataFrame:
    condition: Column = F.lit(True)
    for letter in SHARES:
        condition = condition & F.udf(_reads(letter), "boolean")("body")
    return spark.read.parquet(str(path)).where(condition)


def _where(function: Callable[..., Any], columns: list[str], df: DataFrame) -> DataFrame:
    return ab.where(df, *(ab.predicate(function, name, name=name) for name in columns))


def _where_udf(udf: Callable[..., Column], columns: list[str], df: DataFrame) -> DataFrame:
    condition: Column = F.lit(True)
    for name in columns:
        condition = condition & udf(name)
    return df.where(condition)


def _series_above(values: pd.Series) -> pd.Series:
    return values > LARGEST // 2


def _array_above(values: pa.Array) -> pa.Array:
    return pc.greater(values, LARGEST // 2)
