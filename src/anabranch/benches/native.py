"""Native predicates: regular expressions in the best, the worst and our order; DuckDB and Polars by their regret."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches.harness import Race, race
from anabranch.measure import Bar, at_least, at_most, informed

PATTERNS = (
    "(GET|POST).*id=[0-9]+.*token=[a-f]+.*end",
    "user=(anna|bert|carl).*role=(admin|root)",
    "agent=[A-Za-z ]+/[0-9.]+ .*lang=(de|fr|it)",
    "ip=10\\.[0-9]+\\.7\\.",
)
WORDS = ("anna", "bert", "carl", "dora", "emil", "fran", "gert", "hans")
FILES = 8


def run(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Four regular expressions over log lines of some hundred characters."""
    path = _write(folder / "native", 700_000 if quick else 2_000_000)
    orders = list(itertools.permutations(range(len(PATTERNS))))
    sample = path.parent / "native-sample"
    _write(sample, 40_000)
    times = {order: _seconds(_fixed(spark, sample, order).count) for order in orders}
    best, worst = min(times, key=times.__getitem__), max(times, key=times.__getitem__)
    found = race(
        {
            "ours": lambda: ab.where(spark.read.parquet(str(path)), *(_term(i) for i in worst)),
            "best": lambda: _fixed(spark, path, best),
            "worst": lambda: _fixed(spark, path, worst),
        },
        rounds=2 if quick else 5,
    )
    return [
        at_least("native: worst order / ours", found.ratio("worst", "ours"), 2.0, found.describe("worst", "ours")),
        at_most(
            "native: ours, with its pilot / best order",
            found.ratio("ours", "best"),
            1.08,
            found.describe("ours", "best"),
        ),
        _regret("DuckDB", _duckdb(sample), best, worst),
        _regret("Polars", _polars(sample), best, worst),
    ]


def _term(i: int) -> Column:
    return F.col("line").rlike(PATTERNS[i])


def _chain(order: Sequence[int]) -> Column:
    chain = _term(order[0])
    for i in order[1:]:
        chain = chain & _term(i)
    return chain


def _fixed(spark: SparkSession, path: Path, order: Sequence[int]) -> DataFrame:
    return spark.read.parquet(str(path)).where(_chain(order))


def _write(path: Path, rows: int) -> Path:
    """Log lines in which each pattern matches a share of its own."""
    rng = np.random.default_rng(7)
    path.mkdir(parents=True)
    for number in range(FILES):
        size = rows // FILES
        pick = {n: rng.random(size) for n in ("method", "user", "role", "lang", "ip", "token")}
        users, numbers = rng.choice(WORDS, size), rng.integers(0, 10**6, size)
        lines = [
            f"{'GET' if m < 0.9 else 'PUT'} /shop/item?id={n} ref=/a/b/{n * 7919 % 10**9}/c/d user={u} "
            f"role={'admin' if r < 0.7 else 'guest'} agent=Mozilla Browser/{n % 97}.{n % 13} (X11 Linux) "
            f"lang={'de' if la < 0.5 else 'en'} "
            f"ip=10.{n % 200}.{7 if i < 0.25 else 8}.{n % 250} token={'abcdef' if t < 0.95 else '012345'} end"
            for m, u, r, la, i, t, n in zip(
                pick["method"],
                users,
                pick["role"],
                pick["lang"],
                pick["ip"],
                pick["token"],
                numbers.tolist(),
                strict=True,
            )
        ]
        pq.write_table(
            pa.table({"id": np.arange(size) + number * size, "line": lines}), path / f"part-{number}.parquet"
        )
    return path


def _duckdb(path: Path) -> Callable[[Sequence[int]], int]:
    connection = duckdb.connect(config={"threads": 2})

    def count(order: Sequence[int]) -> int:
        terms = " and ".join(f"regexp_matches(line, '{PATTERNS[i]}')" for i in order)
        found = connection.execute(f"select count(*) from read_parquet('{path}/*.parquet') where {terms}").fetchone()
        assert found is not None
        return int(found[0])

    return count


def _polars(path: Path) -> Callable[[Sequence[int]], int]:
    def count(order: Sequence[int]) -> int:
        frame = pl.scan_parquet(f"{path}/*.parquet")
        for i in order:
            frame = frame.filter(pl.col("line").str.contains(PATTERNS[i]))
        return int(frame.select(pl.len()).collect().item())

    return count


def _regret(engine: str, count: Callable[[Sequence[int]], int], best: Sequence[int], worst: Sequence[int]) -> Bar:
    """How much an engine loses when the terms are written in the worst order instead of its own best one."""
    assert count(best) == count(worst)
    found = Race({"best": [], "worst": []})
    for _ in range(5):
        found.seconds["best"].append(_seconds(lambda: count(best)))
        found.seconds["worst"].append(_seconds(lambda: count(worst)))
    return informed(
        f"native: {engine} written worst / its best order",
        found.ratio("worst", "best"),
        found.describe("worst", "best"),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
