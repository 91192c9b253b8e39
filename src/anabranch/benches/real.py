"""Real network connections (KDD Cup 99), where the data is at hand: costly predicates over their content fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from anabranch.benches.harness import race
from anabranch.benches.workloads import Workload, build
from anabranch.measure import Bar, informed

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
COSTS = (30.0, 20.0, 25.0, 15.0, 10.0)


def run(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Five predicates over the connections in their recorded order."""
    if not DATA.exists():
        print(f"real data: skipped, {DATA} is not there")
        return []
    rows = pd.read_csv(DATA, header=None, usecols=list(FIELDS), nrows=30_000 if quick else None).rename(columns=FIELDS)
    passes = np.column_stack(
        [
            rows["src_bytes"] > 0,
            rows["service"] != "ecr_i",
            rows["flag"] == "SF",
            rows["count"] < 300,
            rows["dst_bytes"] < 5000,
        ]
    )
    work = build(spark, "kdd", passes, COSTS, folder)
    best = work.best_order()
    found = race(
        {"ours": Workload.adaptive, "best": lambda w: w.adaptive("fixed", best), "plain": Workload.plain},
        work,
        rounds=1,
        warm_up_on=work.rehearsal(),
    )
    return [
        informed("KDD: plain Spark / ours", found.ratio("plain", "ours"), found.describe("plain", "ours")),
        informed("KDD: best single fixed order / ours", found.ratio("best", "ours"), found.describe("best", "ours")),
    ]
