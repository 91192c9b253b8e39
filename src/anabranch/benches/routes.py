"""`anabranch bench routes`: different plans for different data, against plain Spark and the best single order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.benches import native
from anabranch.benches.harness import Contender, Race, race, run
from anabranch.benches.recovery import rows_to_recover
from anabranch.benches.searches import near_the_optimum
from anabranch.benches.workloads import Workload, build, independent
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed

SEED = 20_260_003
DATA = Path("../shared/data/kddcup99_10_percent.csv.gz")
FIELDS = {
    1: "protocol",
    2: "service",
    3: "flag",
    4: "src_bytes",
    5: "dst_bytes",
    11: "logged_in",
    22: "count",
    24: "serror_rate",
}


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run every workload: see `harness.run`."""
    return run(WORKLOADS, quick=quick, json_path=json_path)


def two_regimes(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Four predicates of 20 us; which of the first two drops nearly all rows depends on one attribute."""
    rows, rng = 150_000 if quick else 700_000, _rng()
    zone = rng.integers(0, 2, rows)
    rates = np.array([(0.05, 0.95, 0.9, 0.9), (0.95, 0.05, 0.9, 0.9)])
    work = build(spark, "regimes", rng.random((rows, 4)) < rates[zone], (20.0,) * 4, folder, {"zone": zone})
    found = _against_the_best(work, rounds=1 if quick else 5)
    return [
        _over_best("two regimes", found, 1.3),
        _over_plain("two regimes", work, found, 2.8),
        *([] if quick else _policies(work, found)),
    ]


def six_classes(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """The skew of Table 3, A = 5 %, aggregate selectivity 5 %: every class has its own strong predicate."""
    rows, rng = 80_000 if quick else 400_000, _rng()
    kind = rng.integers(0, 6, rows)
    rates = np.where(np.eye(6, dtype=bool), 0.05, 1.0)
    work = build(spark, "classes", rng.random((rows, 6)) < rates[kind], (20.0,) * 6, folder, {"kind": kind})
    found = _against_the_best(work, rounds=1 if quick else 5)
    return [
        _over_best("six classes", found, 2.0),
        _over_plain("six classes", work, found, 3.5),
    ]


def attribute_pair(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Two attributes decide together (XOR), and neither does alone."""
    rows, rng = 100_000 if quick else 500_000, _rng()
    a, b = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    rates = np.array([(0.05, 0.95, 0.9, 0.9), (0.95, 0.05, 0.9, 0.9)])
    passes = rng.random((rows, 4)) < rates[a ^ b]
    work = build(spark, "pair", passes, (20.0,) * 4, folder, {"a": a, "b": b})
    return [_over_best("attribute pair (XOR)", _against_the_best(work, rounds=1 if quick else 5), 1.25)]


def uniform(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Nothing to tell apart."""
    rows, rng = 60_000 if quick else 400_000, _rng()
    attributes = {"zone": rng.integers(0, 2, rows), "x": rng.random(rows)}
    work = build(spark, "uniform", independent(rows, (0.3, 0.6, 0.8, 0.9), rng), (20.0,) * 4, folder, attributes)
    found = _against_the_best(work, rounds=2 if quick else 9, control=True)
    return [
        at_most(
            "uniform data: ours / best single order",
            found.ratio("ours", "best"),
            1.02,
            found.describe("ours", "best"),
        ),
        informed("uniform data: A/A control", found.ratio("best again", "best"), found.describe("best again", "best")),
    ]


def one_operator(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Nothing to route."""
    rows = 40_000 if quick else 250_000
    attributes = {"zone": _rng().integers(0, 2, rows)}
    work = build(spark, "one", independent(rows, (0.5,), _rng()), (20.0,), folder, attributes)
    sbr = partial(Workload.adaptive, policy="sbr")
    contenders: dict[str, Contender[Workload]] = {"ours": Workload.adaptive, "sbr": sbr, "sbr again": sbr}
    found = _race(work, contenders, rounds=2 if quick else 9)
    return [
        at_most("one operator: ours / SBR", found.ratio("ours", "sbr"), 1.01, found.describe("ours", "sbr")),
        informed("one operator: A/A control", found.ratio("sbr again", "sbr"), found.describe("sbr again")),
    ]


def swap(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Classes swap their orders midway: how many rows until the cost is near the new best."""
    rows, rng = 200_000, _rng()
    zone = rng.integers(0, 2, rows)
    late = np.arange(rows) >= rows // 2
    rates = np.array([(0.05, 0.95, 0.9, 0.9), (0.95, 0.05, 0.9, 0.9)])
    passes = rng.random((rows, 4)) < rates[zone ^ late]
    needed = rows_to_recover(passes, {"zone": zone}, (20e-6,) * 4, rows // 2, zone ^ late)
    detail = "one worker's loop on the same rows, cost per chunk within 10 % of the best for the classes"
    return [at_most("classes swap their orders: rows until near the new best", needed, 50_000, detail)]


def native_regimes(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Two regular expressions over log lines; the zone says which drops nearly all rows. Full runs only."""
    if quick:
        return []
    strong, weak = F.when(native.zone() == 0, 5).otherwise(95), F.when(native.zone() == 0, 95).otherwise(5)
    shares = {**native.SHARES, "token": strong, "lang": weak}
    path = native.write_lines(spark, folder / "lines", 500_000, copies=4, shares=shares)
    sample = native.write_lines(spark, folder / "lines-sample", 20_000, shares=shares)
    best, _ = native.best_and_worst(spark, sample, (0, 2))
    found = race(
        {
            "ours": lambda at: ab.where(spark.read.parquet(str(at)), *map(native.term, best), attributes=["zone"]),
            "best": lambda at: native.fixed(spark, at, best),
        },
        path,
        rounds=2,
        warm_up_on=sample,
    )
    ratio = found.ratio("best", "ours")
    return [informed("two regimes, native regexes: best single order / ours", ratio, found.describe("best", "ours"))]


def searches(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """How near the heuristic searches for a mesh come to the exact one."""
    return near_the_optimum(40 if quick else 200)


def kdd(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Connections in their recorded order; what is left without floods, ordinary web traffic and big answers."""
    if not DATA.exists():
        print(f"real data: skipped, {DATA} is not there")
        return []
    rows = pd.read_csv(DATA, header=None, usecols=list(FIELDS)).rename(columns=FIELDS)[:: 3 if quick else 1]
    passes = np.column_stack(
        [
            rows["service"] != "ecr_i",  # no flood of pings
            rows["serror_rate"] < 0.5,  # no flood of connection requests
            (rows["service"] != "http") | (rows["flag"] != "SF"),  # no ordinary web traffic
            rows["src_bytes"] > 0,
            rows["dst_bytes"] < 5000,
        ]
    )
    attributes = {name: rows[name].to_numpy() for name in ("protocol", "service", "flag", "logged_in", "count")}
    work = build(spark, "kdd-routes", passes, (30.0, 20.0, 25.0, 15.0, 10.0), folder, attributes)
    return [_over_best("KDD", _against_the_best(work, rounds=1 if quick else 5), 1.15)]


def _against_the_best(work: Workload, *, rounds: int, control: bool = False) -> Race:
    best = work.best_order()
    fixed: Callable[[Workload], DataFrame] = partial(Workload.adaptive, policy="fixed", order=best)
    again = {"best again": fixed} if control else {}
    return _race(work, {"ours": Workload.adaptive, "best": fixed, **again}, rounds=rounds)


def _over_best(name: str, found: Race, limit: float) -> Bar:
    return at_least(
        f"{name}: best single order / ours", found.ratio("best", "ours"), limit, found.describe("best", "ours")
    )


def _over_plain(name: str, work: Workload, found: Race, limit: float) -> Bar:
    peers = _race(work, {"ours": Workload.adaptive, "plain": Workload.plain}, rounds=1)
    if peers.answer != found.answer:
        raise InternalError("plain Spark returned other rows")
    ratio, detail = peers.ratio("plain", "ours"), peers.describe("plain", "ours")
    return at_least(f"{name}: plain Spark / ours", ratio, limit, detail)


def _policies(work: Workload, found: Race) -> list[Bar]:
    """The other ways to find routes, on the same rows."""
    ways = {policy: partial(Workload.adaptive, policy=policy) for policy in ("content", "mesh", "sbr")}
    other = _race(work, ways, rounds=1)
    best = found.median("best")
    return [informed(f"two regimes: best single order / {p}", best / other.median(p), other.describe(p)) for p in ways]


def _race(work: Workload, contenders: Mapping[str, Contender[Workload]], *, rounds: int) -> Race:
    return race(contenders, work, rounds=rounds, warm_up_on=work.rehearsal())


def _rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


WORKLOADS = (two_regimes, six_classes, attribute_pair, uniform, one_operator, swap, searches, native_regimes, kdd)
