"""`anabranch bench queries`: many standing queries on one stream against few of them, in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.benches import invocation, old_engine, rules
from anabranch.benches.cql import SCHEMA, stream_files
from anabranch.benches.harness import Bench, run
from anabranch.benches.standing import Standing, race
from anabranch.measure import Bar, at_most, informed

ROWS = 20_000
SECONDS = 30.0
KEYS = 1000
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
JOINED = "From s [Range 2 Seconds] x, s [Range 2 Seconds] y, s [Now] z Where x.seq = y.seq And y.seq = z.seq"
EQUAL = [f"Select Istream(x.k + {n} As k, y.a) {JOINED}" for n in range(20)]
FILTERED = [EQUAL[0], *(f"Select Istream(x.k, y.a) {JOINED} And x.a > {4 * n}" for n in range(1, 20))]
IDLE_TICKS = 9


def main(*, quick: bool, json_path: Path | None = None, old: Path | None = None) -> int:
    """Run every workload: see `harness.run`. `old` is a worktree of an earlier version to compare with."""
    compared: Bench = partial(old_engine.alone, old=old)
    return run((*WORKLOADS, compared), quick=quick, json_path=json_path)


def different(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Fifty queries of different shape against one that counts over a window."""
    fifty = [GROUPS[0], *FILTERS, *GROUPS[1:], *JOINS]
    sets = {"one": fifty[:1], "fifty": fifty, "one again": fifty[:1]}
    with _standing(spark, folder / "different", sets, compared=1) as found:
        raced = race(found, files(folder, 3 if quick else 7))
    name = "50 queries of different shape / one"
    return [
        at_most(name, raced.ratio("fifty", "one"), 2.5, raced.describe("fifty", "one")),
        informed(f"{name}: A/A control", raced.ratio("one again", "one"), raced.describe("one again")),
    ]


def joined(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Twenty queries over one join of three windows against one of them: time and state."""
    sets = {"one": EQUAL[:1], "twenty": EQUAL, "one again": EQUAL[:1]}
    if not quick:
        sets["filters"] = FILTERED
    with _standing(spark, folder / "joined", sets, compared=1) as found:
        raced = race(found, files(folder, 3 if quick else 7))
        held = {name: each.engine.held_bytes() for name, each in found.items()}
    name, sizes = "20 queries over one 3-way join / one", {each: f"{size / 1e6:.2f} MB" for each, size in held.items()}
    bars = [
        at_most(f"{name}: time", raced.ratio("twenty", "one"), 1.5, raced.describe("twenty", "one")),
        at_most(f"{name}: state", held["twenty"] / held["one"], 1.05, f"{sizes['twenty']}, {sizes['one']}"),
        informed(f"{name}: A/A control", raced.ratio("one again", "one"), raced.describe("one again")),
    ]
    if "filters" in held:
        name = "20 queries over one 3-way join, each with its filter / one"
        bars += [
            informed(f"{name}: time", raced.ratio("filters", "one"), raced.describe("filters")),
            informed(f"{name}: state", held["filters"] / held["one"], sizes["filters"]),
        ]
    return bars


def constants(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Queries that differ in constants: the time per batch, that until one more is in force, that of an idle tick."""
    many = 100 if quick else 1000
    sets = {"ten": ranges(10), "many": ranges(many), "ten again": ranges(10)}
    given = files(folder, 4 if quick else 8)
    with _standing(spark, folder / "constants", sets) as found:
        raced = race(found, given[:-1])
        idle = [_idle_tick(found["many"]) for _ in range(IDLE_TICKS)]
        began = time.perf_counter()
        found["many"].engine.query(f"Select seq, k From s Where k >= 0 And k < {KEYS}", name="late").start()
        found["many"].take(given[-1])
        late = time.perf_counter() - began
        answered = len(found["many"].rows("late"))
    if answered != ROWS:
        raise AssertionError(f"the query that was added answered {answered} rows of {ROWS}")
    name, tick = f"{many:,} queries that differ in constants / 10", raced.median("many")
    return [
        at_most(name, raced.ratio("many", "ten"), 2.0, raced.describe("many", "ten")),
        informed(f"{name}: A/A control", raced.ratio("ten again", "ten"), raced.describe("ten again")),
        at_most(
            f"one query more while {many:,} run: seconds until in force, beyond a tick",
            late - tick,
            1.0,
            f"{late:.2f} s with a tick of {tick:.2f} s",
        ),
        at_most(
            f"a tick with nothing to do and {many:,} queries: seconds",
            statistics.median(idle),
            0.3,
            f"median of {len(idle)}, {min(idle):.3f} to {max(idle):.3f} s",
        ),
    ]


def ranges(count: int) -> list[str]:
    """Queries of one shape, of which each row matches one, however many there are."""
    width = KEYS // count
    return [f"Select seq, k From s Where k >= {n * width} And k < {(n + 1) * width}" for n in range(count)]


def files(folder: Path, count: int) -> list[Path]:
    """Batches of rows, half a minute of their own time each."""
    return sorted(stream_files(folder, f"queries-{count}", count, ROWS, count * SECONDS).folder.glob("*.parquet"))


@contextmanager
def _standing(
    spark: SparkSession, folder: Path, sets: Mapping[str, Sequence[str]], *, compared: int | None = None
) -> Iterator[dict[str, Standing]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                Standing(spark, folder / name.replace(" ", "-"), SCHEMA).register(texts, compared=compared)
            )
            for name, texts in sets.items()
        }


def _idle_tick(standing: Standing) -> float:
    """How long a tick takes that nobody has brought anything for."""
    loop = standing.engine._loop
    began = time.perf_counter()
    loop.want(lambda: None)
    loop.await_idle((), None)
    return time.perf_counter() - began


WORKLOADS: tuple[Bench, ...] = (
    different,
    joined,
    constants,
    rules.against_spark,
    rules.against_siddhi,
    rules.growth,
    rules.adding,
    invocation.current,
)
