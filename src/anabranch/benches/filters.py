"""`anabranch bench filters`: adaptive filters against plain Spark, fixed orders and other engines, on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.benches import cheap, native, plain
from anabranch.benches.harness import Contender, Race, answer, race, run
from anabranch.benches.workloads import Workload, build, correlated, grouped, independent, rotating
from anabranch.errors import InternalError
from anabranch.measure import Bar, at_least, at_most, informed

COSTS, RATES = (10.0, 20.0, 30.0, 40.0, 50.0), (0.5, 0.3, 0.6, 0.2, 0.8)
SEED = 20_260_000


def main(*, quick: bool, json_path: Path | None = None) -> int:
    """Run every workload: see `harness.run`."""
    return run(WORKLOADS, quick=quick, json_path=json_path)


def cost_and_selectivity(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Five predicates of 10 to 50 us, against Spark's own ways and against the best order on the same rows."""
    rows, rounds = (60_000, 2) if quick else (300_000, 9)
    work = build(spark, "cost-selectivity", independent(rows, RATES, _rng()), COSTS, folder)
    best = partial(Workload.adaptive, policy="fixed", order=work.best_order())
    still = _race(work, {"ours": Workload.adaptive, "best": best, "best again": best}, rounds=rounds)
    contenders = {"ours": Workload.adaptive, "plain": Workload.plain, "chained": Workload.chained}
    peers = _race(work, contenders, rounds=1)
    if peers.answer != still.answer:
        raise InternalError("plain Spark returned other rows")
    calls = _calls(work)
    return [
        at_least(
            "cost x selectivity: plain Spark / ours",
            peers.ratio("plain", "ours"),
            3.0,
            peers.describe("plain", "ours"),
        ),
        informed(
            "cost x selectivity: chained filters / ours", peers.ratio("chained", "ours"), peers.describe("chained")
        ),
        informed(
            "cost x selectivity: calls of plain Spark / ours",
            work.width * rows / calls,
            f"{work.width * rows:,} / {calls:,}",
        ),
        at_most(
            "still data: ours / best fixed order", still.ratio("ours", "best"), 1.05, still.describe("ours", "best")
        ),
        informed("still data: A/A control", still.ratio("best again", "best"), still.describe("best again", "best")),
    ]


def correlation(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Four predicates, equal each by itself."""
    rows, rounds = (50_000, 2) if quick else (200_000, 7)
    work = build(spark, "correlation", correlated(rows, _rng()), (20.0,) * 4, folder)
    found = _race(
        work,
        {"ours": Workload.adaptive, "independent": lambda w: w.adaptive("independent")},
        rounds=rounds,
    )
    rates = ", ".join(f"{r:.2f}" for r in work.passes.mean(axis=0))
    return [
        at_least(
            "correlation: Independent / ours",
            found.ratio("independent", "ours"),
            1.25,
            f"pass rates {rates}; {found.describe('independent', 'ours')}",
        )
    ]


def drift(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Selectivities that change every 100,000 rows."""
    rows, rounds, rates = (200_000 if quick else 800_000), (1 if quick else 5), (0.05, 0.9, 0.85, 0.8)
    work = build(spark, "drift", rotating(rows, rates, 100_000, _rng()), (8.0,) * 4, folder)
    best = partial(Workload.adaptive, policy="fixed", order=work.best_order())
    found = _race(work, {"ours": Workload.adaptive, "best": best}, rounds=rounds)
    title = "drift every 100,000 rows: best single fixed order / ours"
    return [at_least(title, found.ratio("best", "ours"), 1.2, found.describe("best", "ours"))]


def neutral(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Nothing to gain: equal predicates, and a single one."""
    rows = 30_000 if quick else 100_000
    equal = build(spark, "neutral", independent(rows, (0.9,) * 4, _rng()), (20.0,) * 4, folder)
    single = build(spark, "single", independent(rows, (0.5,), _rng()), (20.0,), folder)
    bars = []
    for work, bar in ((equal, "neutral"), (single, "single predicate")):
        fixed = partial(Workload.adaptive, policy="fixed")
        contenders: dict[str, Contender[Workload]] = {"ours": Workload.adaptive, "fixed": fixed}
        if not quick:
            contenders["fixed again"] = fixed
        found = _race(work, contenders, rounds=2 if quick else 9)
        bars.append(
            at_most(f"{bar}: ours / fixed order", found.ratio("ours", "fixed"), 1.02, found.describe("ours", "fixed"))
        )
        if not quick:
            again = found.ratio("fixed again", "fixed")
            bars.append(informed(f"{bar}: A/A control", again, found.describe("fixed again")))
    return bars


def overhead(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Share of predicate time that A-Greedy spends on profiling and deciding (Table 4.2: 3.4 %)."""
    work = build(spark, "overhead", grouped(60_000 if quick else 400_000, 8, _rng()), (20.0,) * 8, folder)
    f = ab.Filter(*work.predicates(), policy="agreedy")
    answer(f.apply(work.read()))
    report = f.report()
    share = 100 * (report.profiling_share + report.deciding_share)
    detail = f"profiling {100 * report.profiling_share:.2f} %, deciding {100 * report.deciding_share:.2f} %"
    return [at_most("profiling and deciding, percent of time, n=8, p=0.01", share, 3.4, detail)]


def width(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Twelve predicates."""
    rng = _rng()
    rates, costs = rng.uniform(0.3, 0.95, 12).tolist(), rng.uniform(5, 30, 12).round().tolist()
    work = build(spark, "width", independent(15_000 if quick else 75_000, rates, rng), costs, folder)
    best = tuple(np.argsort(np.array(costs) / (1 - np.array(rates))).tolist())
    found = _race(
        work,
        {
            "ours": Workload.adaptive,
            "best": lambda w: w.adaptive("fixed", best),
            "plain": Workload.plain,
        },
        rounds=1,
    )
    return [
        informed("width 12: plain Spark / ours", found.ratio("plain", "ours"), found.describe("plain", "ours")),
        informed("width 12: ours / best fixed order", found.ratio("ours", "best"), found.describe("ours", "best")),
    ]


def scale(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Four times the rows: the cost per row stays flat."""
    rows = 30_000 if quick else 200_000
    small = build(spark, "scale-1", independent(rows, RATES, _rng()), COSTS, folder)
    large = build(spark, "scale-4", independent(4 * rows, RATES, _rng()), COSTS, folder)
    seconds = {
        w.name: _race(w, {"ours": Workload.adaptive}, rounds=1 if quick else 2).median("ours") for w in (small, large)
    }
    ratio = seconds[large.name] / seconds[small.name] / 4
    return [
        at_most("rows x 4: cost per row", ratio, 1.1, f"{seconds[small.name]:.2f} s and {seconds[large.name]:.2f} s")
    ]


def _race(work: Workload, contenders: Mapping[str, Contender[Workload]], *, rounds: int) -> Race:
    return race(contenders, work, rounds=rounds, warm_up_on=work.rehearsal())


def _calls(work: Workload) -> int:
    f = ab.Filter(*work.predicates())
    answer(f.apply(work.read()))
    return f.report().evaluations


def _rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


WORKLOADS = (
    cost_and_selectivity,
    correlation,
    drift,
    neutral,
    cheap.run,
    plain.texts,
    plain.cheap,
    plain.nothing_to_find,
    overhead,
    width,
    scale,
    native.run,
)
