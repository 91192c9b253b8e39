"""Answers of a real engine, read from its checkpoint without Spark while it runs; see also `core/test_reader.py`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.engine import answer_keeping, compaction
from anabranch.engine.tick_files import TickFiles
from anabranch.errors import QueryError
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)  # a busy machine is slow

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "seq long, ts timestamp, sensor string, value double"
QUERIES = {
    "recent": """Select named_struct('s', sensor, 'v', array(value)) As both, Cast(value As Decimal(10, 2)) As price, ts
                 From readings [Range 8 Seconds]""",
    "counts": "Select sensor, Count(*) As n From readings Group By sensor",
    "high": "Select sensor, value From readings Where value > 50",
    "gone": "Select Dstream(sensor) From readings [Range 2 Seconds]",
}


def moment(second: float) -> datetime:
    return ZERO + timedelta(seconds=second)


def value(second: int) -> float:
    return float(second * 37 % 100)


def recent(second: int) -> Counter[str]:
    rows = [
        {
            "both": {"s": f"s{each % 3}", "v": [value(each)]},
            "price": Decimal(str(value(each))).quantize(Decimal("0.01")),
            "ts": moment(each),
        }
        for each in range(max(0, second - 8), second + 1)
    ]
    return Counter(map(repr, map(plain, rows)))


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"ts": row["ts"].astimezone(UTC)} if "ts" in row else row


def bag(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, map(plain, table.to_pylist())))


def counts(second: int) -> dict[str, int]:
    return dict(Counter(f"s{each % 3}" for each in range(second + 1)))


@pytest.mark.parametrize("driver_bytes", tiers([8_000_000, 0], fast=1, reason="the same, compacted by workers"))
def test_answers_are_read_without_spark_while_the_engine_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_bytes: int
) -> None:
    monkeypatch.setattr(compaction, "MOST_PLAIN", 3)
    monkeypatch.setattr(compaction, "LOOK_TICKS", 1)
    monkeypatch.setattr(answer_keeping, "DRIVER_BYTES", driver_bytes)
    source, state = tmp_path / "in", tmp_path / "state"
    source.mkdir()
    engine = ab.Engine(spark, checkpoint=state)
    files = spark.readStream.schema(SCHEMA).parquet(str(source))
    engine.stream("readings", files, timestamp="ts", sequence="seq")
    for name, text in QUERIES.items():
        engine.query(text, name=name)
    for query in engine.queries.values():
        query.start()
    reader: Any = None
    for batch in range(4):
        seconds = range(5 * batch, 5 * batch + 5)
        rows = [{"seq": each, "ts": moment(each), "sensor": f"s{each % 3}", "value": value(each)} for each in seconds]
        pq.write_table(pa.Table.from_pylist(rows), source / f"{batch}.parquet")
        for query in engine.queries.values():
            query.await_idle(timeout=300)
        reader = reader or ab.open(state)
        last = 5 * batch + 3  # the last row may not be the last of its instant
        for name in ("recent", "counts"):
            ours = engine.queries[name].current().toArrow()
            assert bag(reader.query(name).current()) == bag(ours), name
        assert bag(reader.query("recent").at(moment(last))) == recent(last)
    for second in range(0, 19, 3):
        assert bag(reader.query("recent").at(moment(second))) == recent(second)
        there = {row["sensor"]: row["n"] for row in reader.query("counts").at(moment(second)).to_pylist()}
        assert there == counts(second)
    high = reader.query("high").rows(since=moment(4), until=moment(12))
    assert high["value"].to_pylist() == [value(each) for each in range(4, 12) if value(each) > 50]
    assert reader.query("gone").rows(until=moment(6)).num_rows == 4
    listed = {each["query"]: (each["status"], each["answer"]) for each in reader.queries()}
    answers = {"recent": "relation", "counts": "relation", "high": "stream", "gone": "stream"}
    assert listed == {name: ("running", answer) for name, answer in answers.items()}
    assert TickFiles(state).summaries(1, engine._manifest.tick)
    engine.drop("counts")
    with pytest.raises(QueryError, match="knows no query 'counts'"):
        reader.query("counts")
    engine.stop()
    assert bag(ab.open(state).query("recent").at(moment(18))) == recent(18)


def test_a_bounded_run_can_be_read_afterwards(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(n, moment(n), f"s{n % 3}", value(n)) for n in range(20)], SCHEMA)
    engine = ab.Engine(spark, checkpoint=tmp_path)
    engine.stream("readings", rows, timestamp="ts", sequence="seq")
    engine.query(QUERIES["counts"], name="counts")
    engine.run_batch()
    query = ab.open(tmp_path).query("counts")
    assert {row["sensor"]: row["n"] for row in query.current().to_pylist()} == counts(19)
    assert {row["sensor"]: row["n"] for row in query.at(moment(7)).to_pylist()} == counts(7)
    assert query.text == QUERIES["counts"]
    assert not query.is_stream
