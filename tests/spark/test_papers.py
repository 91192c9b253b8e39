"""The papers' own algorithms on Spark: Content-Learns and the Self-Routing Fabric, with their events and reports."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.events import Reordered, RoutesChanged

pytestmark = pytest.mark.spark

ROWS = 24_000
FABRIC = ab.MeshConfig(executor="fabric", window_tuples=500)
SCHEMA = "id long, zone string, p long, q long, r long"


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """In the north nearly all rows have an even `p`, in the south an even `q`; `r` is odd in nine of ten."""
    return (
        spark.range(0, ROWS, 1, 2)
        .selectExpr("id", "if(hash(id) % 2 = 0, 'north', 'south') as zone", "pmod(hash(id, 1), 1000) as a")
        .selectExpr(
            "id",
            "zone",
            "pmod(hash(id, 2), 1000000) * 2 + cast(a < if(zone = 'north', 50, 950) as int) as p",
            "pmod(hash(id, 3), 1000000) * 2 + cast((a * 7) % 1000 < if(zone = 'south', 50, 950) as int) as q",
            "pmod(hash(id, 4), 1000000) * 2 + cast(pmod(hash(id, 5), 10) > 0 as int) as r",
        )
        .persist()
    )


def odd(hidden: int) -> bool:
    """Costs enough for routes to pay."""
    end = time.perf_counter() + 1e-5
    while time.perf_counter() < end:
        pass
    return hidden & 1 == 1


def predicates() -> list[Any]:
    return [ab.predicate(odd, name, name=name) for name in ("p", "q", "r")]


def ids(df: DataFrame) -> list[int]:
    return sorted(r.id for r in df.select("id").collect())


@pytest.fixture(scope="module")
def expected(rows: DataFrame) -> list[int]:
    return ids(rows.where("p % 2 = 1 and q % 2 = 1 and r % 2 = 1"))


def test_content_learns_routes_by_the_zone_and_tells_so(rows: DataFrame, expected: list[int]) -> None:
    f = ab.Filter(*predicates(), policy="content-learns", attributes=["zone"])
    assert ids(f.apply(rows)) == expected
    changes = [e for e in f.events() if isinstance(e, RoutesChanged)]
    assert any(e.reason.startswith(("p is routed by zone: ", "q is routed by zone: ")) for e in changes)
    assert any("of rows: p -> " in line for e in changes for line in e.routes)
    assert not any(isinstance(e, Reordered) for e in f.events())
    report = f.report()
    assert report.rows == ROWS
    assert report.evaluations < 1.6 * ROWS
    assert sum(p.dropped or 0 for p in report.predicates) == ROWS - len(expected)


def test_the_fabric_runs_the_mesh_of_a_pilot(rows: DataFrame, expected: list[int]) -> None:
    f = ab.Filter(*predicates(), policy="mesh", attributes=["zone"], config=FABRIC)
    assert ids(f.apply(rows)) == expected
    report = f.report()
    assert {route.order[0] for route in report.routes} == {"p", "q"}
    assert sum(route.share for route in report.routes) == pytest.approx(1.0)
    assert report.rows == ROWS
    assert report.evaluations < 1.5 * ROWS
    assert any(isinstance(e, RoutesChanged) and "; r-tokens <" in e.reason for e in f.events())
    assert "route 1" in f.explain(rows)
    assert ids(f.apply(rows)) == expected


@pytest.mark.classic(reason="its sink fills a list of this process, and runs in one of the server's there")
def test_the_fabric_gets_its_mesh_on_a_stream(
    spark: SparkSession, rows: DataFrame, expected: list[int], tmp_path: Path
) -> None:
    rows.repartition(4).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    f, found = ab.Filter(*predicates(), policy="mesh", attributes="zone", config=FABRIC), list[int]()
    sink = f.foreach_batch(lambda df, _: found.extend(row.id for row in df.collect()))
    stream.writeStream.foreachBatch(sink).trigger(availableNow=True).start().awaitTermination()
    assert sorted(found) == expected
    assert any(isinstance(e, RoutesChanged) and "; r-tokens <" in e.reason for e in f.events())


@pytest.mark.parametrize("policy", ["content-learns", "sbr"])
def test_the_routers_run_on_streams(
    spark: SparkSession, rows: DataFrame, expected: list[int], tmp_path: Path, policy: str
) -> None:
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    name = f"papers_{policy.replace('-', '_')}"
    query = ab.where(stream, *predicates(), policy=policy).writeStream.format("memory").queryName(name)
    query.trigger(availableNow=True).start().awaitTermination()
    assert ids(spark.table(name)) == expected


@pytest.mark.parametrize(("policy", "config"), [("content-learns", None), ("sbr", None), ("mesh", FABRIC)])
def test_errors_kept_columns_and_constraints(rows: DataFrame, policy: str, config: ab.MeshConfig | None) -> None:
    def score(p: int) -> int:
        return 1000 // (p % 5)

    kept = ab.predicate(score, "p", returns="long", test=lambda n: n > 300, keep="score", name="score")
    reader = ab.predicate(lambda n: n % 2 == 0, "score", name="reader")
    f = ab.Filter(reader, *predicates()[1:], kept, policy=policy, config=config, on_error="quarantine")
    judged = rows.where("q % 2 = 1 and r % 2 = 1").selectExpr("*", "1000 div nullif(p % 5, 0) as score")
    fine = judged.where("score > 300 and score % 2 = 0")
    assert {(r.id, r.score) for r in f.apply(rows).collect()} == {(r.id, r.score) for r in fine.collect()}
    assert ids(f.quarantined(rows)) == ids(rows.where("q % 2 = 1 and r % 2 = 1 and p % 5 = 0"))
