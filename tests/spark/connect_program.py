"""What filters do on Spark Connect; a session of it is for a whole process, so this is a program of its own.

It writes what it found to a file, and so it does with a classic session: both have to be the same.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.errors import ResourceError
from spark.filter_program import retried

ROWS = 6000


def third(n: int) -> bool:
    return n % 3 == 0


def small(b: pd.Series) -> pd.Series:
    return b < 0.7


def inverse(a: int) -> float:
    return 100 / a


def counted(f: ab.Filter) -> list[list[Any]]:
    """What does not depend on the order that was learned."""
    return [[p.predicate, p.executor] for p in f.report().predicates] + [[f.report().rows]]


def main(kind: str, out_file: str) -> None:
    master = "local[2,4]"  # a task may fail three times
    builder = SparkSession.builder.remote(master) if kind == "connect" else SparkSession.builder.master(master)
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    folder = Path(tempfile.mkdtemp())
    frame = spark.range(0, ROWS, 1, 4).select("id", (F.col("id") % 100).alias("a"), (F.col("id") / ROWS).alias("b"))
    found: dict[str, Any] = {}

    def predicates() -> list[Any]:
        score = ab.predicate(inverse, "a", returns="double", keep="inv", test=lambda v: v > 2, kind="fallible")
        return [score, "a < 90", ab.predicate(third, "id"), ab.predicate(small, "b"), ab.lookup("a", list(range(60)))]

    fixed = ab.Filter(*predicates(), policy="fixed", on_error="quarantine")
    out = fixed.apply(frame)
    found["rows"] = sorted([row.id, row.inv] for row in out.collect())
    found["aside"] = sorted(row.id for row in fixed.quarantined().collect())
    seen = [[p.predicate, p.seen, p.passed, p.dropped, p.errors, p.calls] for p in fixed.report().predicates[:1]]
    found["fixed"] = seen + [[p.predicate, p.seen, p.passed] for p in fixed.report().predicates[2:]]
    out.count()
    found["twice"] = [fixed.report().rows, fixed.report().predicates[2].seen]
    found["report"] = ab.report(out).rows
    auto = ab.Filter(*predicates(), on_error="quarantine", state=folder / "state")
    found["auto"] = [auto.apply(frame).count(), counted(auto), len(auto.events()) > 0]
    auto.save(folder / "saved.json")
    again = ab.Filter(*predicates(), on_error="quarantine").load(folder / "saved.json")
    found["loaded"] = [again.apply(frame).count(), "third" in again.explain(frame)]
    found["retried"] = retried(folder, spark.range(0, 2000, 1, 4))
    found.update(streams(spark, frame, folder, predicates()[1:]))
    if kind == "connect":
        try:
            ab.Engine(spark)
        except ResourceError as error:
            found["engine"] = str(error)
        found["explained"] = again.explain(frame)
    Path(out_file).write_text(json.dumps(found))
    spark.stop()


def streams(spark: SparkSession, frame: DataFrame, folder: Path, predicates: list[Any]) -> dict[str, Any]:
    frame.write.parquet(str(folder / "in"))
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 2).parquet(str(folder / "in"))
    f, g = ab.Filter(*predicates), ab.Filter(*predicates)
    out = str(folder / "out")
    written = f.apply(stream).writeStream.format("parquet").option("checkpointLocation", str(folder / "c1"))
    written.trigger(availableNow=True).start(out).awaitTermination()
    sunk = str(folder / "sunk")
    sink = g.foreach_batch(lambda batch, number: batch.write.mode("append").parquet(sunk))
    each = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder / "c2"))
    each.trigger(availableNow=True).start().awaitTermination()
    for _ in range(100):  # the last progress of a query may come a moment after its end
        if f.report().rows == ROWS * 0.9:
            break
    rows = {name: sorted(r.id for r in spark.read.parquet(path).collect()) for name, path in (("w", out), ("s", sunk))}
    return {"streamed": rows, "stream counts": [f.report().rows, g.report().rows]}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
