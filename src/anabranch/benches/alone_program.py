"""Answers queries over folders of rows, one per line of standard input, with the version on PYTHONPATH.

Run by `old_engine.py`; it uses only what earlier versions have as well.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from pyspark.sql import functions as F

import anabranch as ab
from anabranch.spark.session import local_session


def answer_lines() -> None:
    """Take lines until there are no more: `{"text": ..., "streams": {name: [folder, schema]}, "out": ...}`."""
    spark = local_session("anabranch-bench", cores=2)
    for line in sys.stdin:
        asked = json.loads(line)
        out = Path(asked["out"])
        began = time.perf_counter()
        engine = ab.Engine(spark, out / "state")
        for name, (folder, schema) in asked["streams"].items():
            source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
            engine.stream(name, source, timestamp="ts", sequence="seq")
        query = engine.query(asked["text"], name="q")
        query.start(sink="parquet", path=str(out / "answer"))
        query.await_idle()
        engine.stop()
        seconds = time.perf_counter() - began
        answer = spark.read.parquet(str(out / "answer")).drop("tick")  # versions take other batches together
        checksum = F.sum(F.xxhash64(*sorted(answer.columns)).cast("decimal(38,0)"))
        row = answer.agg(F.count(F.lit(1)), checksum).head()
        assert row is not None
        print(json.dumps({"seconds": seconds, "count": int(row[0]), "checksum": str(row[1])}), flush=True)
        shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    answer_lines()
