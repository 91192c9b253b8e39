"""`anabranch bench queries`: many standing queries on one stream against one of them, in one run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.benches.cql import KEYS, Feed, feed, timed_contest
from anabranch.benches.harness import Race, run
from anabranch.measure import Bar, at_most, informed

ROWS = 20_000
FILTERS = [f"Select seq, k From s Where a = {n} And k < {500 + n}" for n in range(20)]
GROUPS = [
    f"Select k % 10 As part, Count(*) As n, Sum(a) As total From s [Range 1 Minute Slide 10 Seconds] "
    f"Where a > {n} Group By k % 10"
    for n in range(20)
]
JOINS = [
    f"Select Istream(x.seq, y.seq As other) From s [Now] x, s [Range 10 Seconds] y "
    f"Where x.k = y.k And x.a = {n} And y.a = {n}"
    for n in range(10)
]
SHARED = (
    "Select Istream(x.k, y.a) From s [Range 2 Seconds] x, s [Range 2 Seconds] y, s [Now] z "
    "Where x.seq = y.seq And y.seq = z.seq"
)

MANY, FEW = 1_000, 10


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run every workload: see `harness.run`."""
    return run(WORKLOADS, quick=quick, json_path=json_path)


def different(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Fifty queries of different shape against one that counts over a window."""
    first = GROUPS[0]
    rest = [*FILTERS, *GROUPS[1:], *JOINS]
    sets = {"one": [first], "one again": [first], "fifty": [first, *rest]}
    raced = _contest(spark, sets, feed(folder, "queries", 2 if quick else 4, ROWS, 120.0), folder, 1 if quick else 3)
    return [
        at_most(
            "50 queries of different shape / one", raced.ratio("fifty", "one"), 2.5, raced.describe("fifty", "one")
        ),
        informed("50 queries of different shape: A/A control", raced.ratio("one again", "one"), ""),
    ]


def equal(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Twenty equal queries over one join of three windows against one of them."""
    sets = {"one": [SHARED], "one again": [SHARED], "twenty": [SHARED] * 20}
    raced = _contest(spark, sets, feed(folder, "queries", 2 if quick else 4, ROWS, 120.0), folder, 1 if quick else 3)
    return [
        at_most(
            "20 queries over one 3-way join / one", raced.ratio("twenty", "one"), 1.5, raced.describe("twenty", "one")
        ),
        informed("20 queries over one 3-way join: A/A control", raced.ratio("one again", "one"), ""),
    ]


def constants(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """A thousand queries that differ in constants against ten: each row is wanted by one query of either set."""
    sets = {name: _parts(count) for name, count in {"ten": FEW, "ten again": FEW, "a thousand": MANY}.items()}
    raced = _contest(spark, sets, feed(folder, "queries", 2 if quick else 4, ROWS, 120.0), folder, 1 if quick else 3)
    return [
        at_most(
            "1,000 queries that differ in constants / 10 of them",
            raced.ratio("a thousand", "ten"),
            2.0,
            raced.describe("a thousand", "ten"),
        ),
        informed("queries that differ in constants: A/A control", raced.ratio("ten again", "ten"), ""),
    ]


def _parts(count: int) -> list[str]:
    """Queries that take one part of the keys each, the first of them the same part in all sets."""
    first = KEYS // MANY
    ends = [0, *(first + (KEYS - first) * n // (count - 1) for n in range(count))]
    return [f"Select seq, k From s Where k >= {low} And k < {high}" for low, high in pairwise(ends)]


def _contest(spark: SparkSession, sets: Mapping[str, Sequence[str]], given: Feed, folder: Path, rounds: int) -> Race:
    """Run each set of queries over all files; the first query of every set gives the same answer."""
    contenders = {name: partial(_run, spark, texts, given) for name, texts in sets.items()}
    return timed_contest(contenders, folder, rounds)


def _run(spark: SparkSession, texts: Sequence[str], given: Feed, out: Path) -> tuple[float, DataFrame]:
    """How long some queries take from when all are registered, and the answer of the first."""
    engine = ab.Engine(spark, out / "state")
    engine.stream("s", given.source(spark), timestamp="ts", sequence="seq")
    queries = [engine.query(text, name=f"q{number}") for number, text in enumerate(texts)]
    began = time.perf_counter()
    for query in queries:
        query.start(sink="memory")
    for query in queries:
        query.await_idle()
    seconds = time.perf_counter() - began
    engine.stop()
    return seconds, queries[0].to_dataframe()


WORKLOADS = (different, equal, constants)
