"""Native predicates: regular expressions in the best, the worst and our order; DuckDB and Polars by their regret."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches.harness import Race, race
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.model.arrays import Order
from anabranch.ordering import expected_cost

PATTERNS = (
    "id=[0-9]+ .*token=[a-f]+[0-9]+.* end$",
    "(user=anna|user=bert|user=carl).*role=(admin|root)",
    "agent=[A-Za-z ]+/[0-9.]+ .*lang=(de|fr|it)",
    "ip=10[.][0-9]+[.]7[.]",
)
SHARES: dict[str, int | Column] = {"role": 70, "lang": 50, "ip": 40, "token": 95}
TIMINGS = 4
USERS = ("anna", "bert", "carl", "dora", "emil", "fran", "gert", "hans")


def zone() -> Column:
    """One of two, by the line's number."""
    return F.pmod(F.xxhash64("id", F.lit(0)), F.lit(2))


def run(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Four regular expressions over log lines of some hundred characters."""
    path = write_lines(spark, folder / "native", 100_000 if quick else 500_000, copies=4)
    sample = write_lines(spark, folder / "native-sample", 20_000)
    best, worst = best_and_worst(spark, sample, range(len(PATTERNS)))
    matches = fixed(spark, sample, best).count()
    spark.read.parquet(str(path)).where(F.length("line") > 0).count()  # no contender pays for the cold files
    found = race(
        {
            "ours": lambda at: ab.where(spark.read.parquet(str(at)), *map(term, worst)),
            "best": lambda at: fixed(spark, at, best),
            "worst": lambda at: fixed(spark, at, worst),
        },
        path,
        rounds=1 if quick else 2,
        warm_up_on=sample,
    )
    return [
        at_least("native: worst order / ours", found.ratio("worst", "ours"), 2.0, found.describe("worst", "ours")),
        at_most(
            "native: ours, with its pilot / best order",
            found.ratio("ours", "best"),
            1.08,
            found.describe("ours", "best"),
        ),
        *(
            _regret(engine, count, matches)
            for engine, count in (("DuckDB", _duckdb(sample)), ("Polars", _polars(sample)))
        ),
    ]


def best_and_worst(spark: SparkSession, sample: Path, patterns: Sequence[int]) -> tuple[Order, Order]:
    """By what each pattern costs and drops alone on a sample: 24 timed orders would show the JIT compiler's mood.

    Patterns are timed in turn, and the fastest time counts, so that none is measured while Java still compiles.
    """
    lines = spark.read.parquet(str(sample))
    drops = ~lines.select(*map(term, patterns)).toPandas().to_numpy(dtype=bool)
    conditions = [F.length("line") > 0, *map(term, patterns)]
    seconds = [[_seconds(lines.where(each).count) for each in conditions] for _ in range(TIMINGS)]
    scan, *alone = np.min(seconds, axis=0)
    costs = np.maximum(np.array(alone) - scan, 1e-6)
    orders = sorted(itertools.permutations(range(len(patterns))), key=lambda o: expected_cost(o, drops, costs))
    best, worst = (tuple(patterns[i] for i in order) for order in (orders[0], orders[-1]))
    return best, worst


def term(i: int) -> Column:
    """The pattern of a number, as a condition."""
    return F.col("line").rlike(PATTERNS[i])


def _chain(order: Sequence[int]) -> Column:
    chain = term(order[0])
    for i in order[1:]:
        chain = chain & term(i)
    return chain


def fixed(spark: SparkSession, path: Path, order: Sequence[int]) -> DataFrame:
    """The lines that match the patterns, tried in this order."""
    return spark.read.parquet(str(path)).where(_chain(order))


def write_lines(
    spark: SparkSession, path: Path, rows: int, copies: int = 1, shares: Mapping[str, int | Column] = SHARES
) -> Path:
    """Log lines of 900 characters in which each pattern matches a share (percent) of its own, a few times over."""

    def chance(salt: int) -> Column:
        return F.pmod(F.xxhash64("id", F.lit(salt)), F.lit(100))

    user = F.element_at(F.array(*map(F.lit, USERS)), (F.pmod(F.xxhash64("id"), F.lit(len(USERS))) + 1).cast("int"))
    line = F.concat_ws(
        " ",
        F.concat(F.lit("id="), F.col("id").cast("string")),
        F.concat(F.lit("path=/"), F.repeat(F.sha2(F.col("id").cast("string"), 256), 8)),
        F.concat(F.lit("user="), user),
        F.when(chance(1) < shares["role"], "role=admin").otherwise("role=guest"),
        F.concat(F.lit("agent=Mozilla Browser/"), (F.col("id") % 97).cast("string"), F.lit(".0 (X11; Linux)")),
        F.repeat(F.lit("accept=text/html "), 12),
        F.when(chance(2) < shares["lang"], "lang=de").otherwise("lang=en"),
        F.concat(
            F.lit("ip=10."),
            (F.col("id") % 200).cast("string"),
            F.when(chance(3) < shares["ip"], ".7.").otherwise(".8."),
        ),
        F.when(chance(4) < shares["token"], "token=abcdef0123").otherwise("token=none"),
        F.lit("end"),
    )
    spark.range(0, rows, 1, 8).select("id", zone().alias("zone"), line.alias("line")).write.parquet(str(path))
    for file in list(path.glob("*.parquet")):
        for copy in range(1, copies):
            shutil.copy(file, file.with_name(f"{copy}-{file.name}"))
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


def _regret(engine: str, count: Callable[[Sequence[int]], int], matches: int) -> Bar:
    """How much an engine loses when the terms are written in the order that is worst for it, instead of its best."""
    orders = list(itertools.permutations(range(len(PATTERNS))))
    if any(count(order) != matches for order in orders):
        raise InternalError(f"{engine} found other lines than Spark")
    once = {order: _seconds(partial(count, order)) for order in orders}
    best, worst = min(orders, key=once.__getitem__), max(orders, key=once.__getitem__)
    found = Race({"best": [], "worst": []})
    for _ in range(5):
        found.seconds["best"].append(_seconds(partial(count, best)))
        found.seconds["worst"].append(_seconds(partial(count, worst)))
    return informed(
        f"native: {engine}, terms in its worst / its best order of {len(orders)}",
        found.ratio("worst", "best"),
        found.describe("worst", "best"),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
