"""Filters in a program of its own, which has several lives: `python filter_program.py FOLDER killed|ended|switching`.

The first two run a filter whose predicates kill their worker once and raise once, and print as JSON what came out and
what was counted. In the first life filters with state folders run, some of which cannot be written; then it waits to be
killed. In the second one a filter is never asked for a report before the program ends. In the third one a worker dies
in a job whose tasks switch to other routes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import anabranch as ab


def filter_on(folder: Path, name: str) -> ab.Filter:
    return ab.Filter(ab.predicate(lambda id: id % 2 == 0, "id", name="even"), state=folder / name)


def retried(folder: Path, numbers: DataFrame) -> dict[str, Any]:
    def first_time(name: str) -> bool:
        try:
            (folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def deadly(id: int) -> bool:
        if id == 540 and first_time("died"):
            os._exit(1)
        return id % 2 == 0

    def raising(id: int) -> bool:
        if id == 1020 and first_time("raised"):
            raise RuntimeError("only once")
        return id % 3 == 0

    f = ab.Filter(ab.predicate(deadly, "id"), ab.predicate(raising, "id"), state=folder / "retried")
    found = sorted(row.id for row in f.apply(numbers).collect())
    report = f.report()
    counts = {name: [getattr(p, name) for p in report.predicates] for name in ("dropped", "errors")}
    return {"found": found, "rows": report.rows, **counts}


def state_folders(folder: Path, spark: SparkSession, numbers: DataFrame) -> dict[str, Any]:
    own = spark.sparkContext.accumulator(0)
    quick = filter_on(folder, "quick")
    for _ in range(3):
        quick.apply(numbers).count()
    older = filter_on(folder, "shared")
    older.apply(numbers).count()
    newer = filter_on(folder, "shared")
    newer.apply(numbers).count()
    older.apply(numbers).count()
    blocked, other = filter_on(folder, "blocked"), filter_on(folder, "other")
    shutil.rmtree(folder / "blocked")
    (folder / "blocked").touch()
    deleted = filter_on(folder, "deleted")
    shutil.rmtree(folder / "deleted")
    for f in (blocked, blocked, deleted, other):
        f.apply(numbers).count()
    numbers.rdd.foreach(lambda _: own.add(1))
    try:
        reported: Any = blocked.report().rows
    except OSError as error:
        reported = repr(error)
    return {"own": own.value, "other": other.report().rows, "reported": reported}


def switched(folder: Path, spark: SparkSession) -> dict[str, Any]:
    """Rows of two classes; a worker dies in a job whose tasks switch to other routes, with what it had learned."""
    armed, died = folder / "armed", folder / "died while switching"

    def judge(hidden: int, id: int) -> bool:
        if id == 15000 and armed.exists() and not died.exists():
            died.touch()
            os._exit(1)
        return sum(range(1000)) > 0 and hidden % 2 == 1

    def rows(deciding: str) -> DataFrame:
        classes = spark.range(0, 24000, 1, 2).selectExpr(
            "id", "hash(id) & 1 as zone", "hash(id, 7) & 1 as kind", f"{deciding} & 1 as side"
        )
        return classes.selectExpr(
            "id",
            "zone",
            "kind",
            "pmod(hash(id, 1), 1000) * 2 + cast((pmod(hash(id, 3), 20) = 0) = (side = 0) as int) as p",
            "pmod(hash(id, 2), 1000) * 2 + cast((pmod(hash(id, 4), 20) = 0) = (side = 1) as int) as q",
        ).persist()

    def right(df: DataFrame, out: DataFrame) -> bool:
        wanted = sorted(row.id for row in df.where("p % 2 = 1 and q % 2 = 1").collect())
        return sorted(row.id for row in out.collect()) == wanted and len(wanted) > 0

    predicates = [ab.predicate(judge, name, "id", name=name) for name in ("p", "q")]
    f = ab.Filter(*predicates, attributes=["zone", "kind"])
    by_zone, by_kind = rows("hash(id)"), rows("hash(id, 7)")
    same, applied = right(by_zone, f.apply(by_zone)), 1
    while not armed.exists() and applied < 40:
        out = f.apply(by_kind)
        if "kind" in f.explain(by_kind):
            armed.touch()  # the tasks of this job are the first to get the new routes
        same, applied = right(by_kind, out) and same, applied + 1
    return {"same": same, "counted": f.report().rows == 24000 * applied, "died": died.exists()}


def silent(folder: Path, numbers: DataFrame) -> None:
    f = filter_on(folder, "silent")
    for _ in range(3):
        f.apply(numbers).count()


def main(folder: Path, life: str) -> None:
    spark = ab.local_session("filters", 2, **{"spark.master": "local[2,4]"})
    numbers = spark.range(0, 2000, 1, 4)
    if life == "switching":
        print(json.dumps(switched(folder, spark)))
        return
    results = {"retried": retried(folder, numbers)}
    if life == "killed":
        results["folders"] = state_folders(folder, spark, numbers)
    print(json.dumps(results), flush=True)
    if life == "killed":
        sys.stdin.read()
    silent(folder, numbers)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
