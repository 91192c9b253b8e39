"""Writes an archive of the Java classes that Spark loads: `java_classes.py FILE`.

Tests start Java some twenty times. To find, check and link fifteen thousand classes takes half of the seconds until
Spark answers a first query; from an archive they come ready. Java ignores an archive that another version of it, or of
Spark, has written.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from anabranch.spark.session import local_session

if __name__ == "__main__":
    archive = Path(sys.argv[1]).resolve()
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:ArchiveClassesAtExit={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
    )
    spark = local_session("anabranch-classes", cores=2)
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.range(1000).selectExpr(
            "id", "id % 3 AS k", "timestamp_seconds(id) AS ts", "repeat('x', 3) AS text"
        )
        rows.mapInArrow(lambda batches: batches, rows.schema).write.parquet(f"{folder}/rows")
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").where("text LIKE 'x%' AND id > 5")
        counts = stream.withWatermark("ts", "1 second").groupBy("k").count()
        query = counts.writeStream.foreachBatch(lambda df, _: df.write.format("noop").mode("append").save()).outputMode(
            "complete"
        )
        query.option("checkpointLocation", f"{folder}/log").trigger(availableNow=True).start().awaitTermination()
        spark.read.parquet(f"{folder}/rows").createOrReplaceTempView("seen")
        spark.sql("SELECT s.k, count(*), max(s.ts) FROM seen s JOIN seen o ON s.id = o.id GROUP BY s.k").collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    spark.stop()
    java.stdin.close()  # Java ends with its input, and writes the archive as it ends
    java.wait()
