"""Joins over four cells in Spark: a hot key is spread, and a restart finds the state where it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab

TEXT = """Select Istream(a.v As x, b.v As y) From a [Range 1000 Seconds], b [Range 1000 Seconds] Where a.k = b.k"""
SCHEMA = "seq bigint, ts timestamp, k bigint, v bigint"

pytestmark = pytest.mark.spark


def rows(spark: SparkSession, name: str, first: int, last: int) -> DataFrame:
    """Of stream a, which is five times as fast, one key has half of the rows."""
    key, per_second = ("if(id % 2 = 1, 0, id % 199)", 10) if name == "a" else ("id % 199", 2)
    columns = ["id AS seq", f"timestamp_seconds(id div {per_second}) AS ts", f"{key} AS k", "id AS v"]
    return spark.range(first, last).selectExpr(*columns)


@pytest.mark.full(reason="an engine that starts twice takes seconds")
def test_a_hot_key_is_spread_over_cells_also_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    counts = {"a": (1500, 1800), "b": (300, 330)}
    placements, received = [], []
    for part in range(2):
        for name, ends in counts.items():
            some = rows(spark, name, ends[0] if part else 0, ends[part])
            some.coalesce(1).write.mode("append").parquet(str(tmp_path / name))
        made = ab.Engine(spark, checkpoint=tmp_path / "state", cells=4)
        for name in counts:
            source = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / name))
            made.stream(name, source, timestamp="ts", sequence="seq")
        query = made.query(TEXT, name="q").start()
        query.await_idle(300)
        [(node, placement)] = made._manifest.placements.items()
        placements.append(placement)
        received.append([report.rows_in for (of, _), report in made._runner.reports.items() if of == node])
        explained = query.explain()
        said = Counter((row["x"], row["y"]) for row in query.to_dataframe().collect())
        made.stop()
    assert placements[0] == placements[1]
    assert len(placements[0].hot) == 1
    assert "4 cells by k, which sends the fewest rows for: a" in explained
    assert "1 hot key spread by rows of a" in explained
    assert max(received[0]) < 1.3 * sum(received[0]) / 4
    until = min((last - 1) // per for (_, last), per in zip(counts.values(), (10, 2), strict=True))
    left = [(0 if v % 2 else v % 199, v) for v in range(until * 10)]
    assert said == Counter((x, y) for k, x in left for y in range(until * 2) if y % 199 == k)
