"""Queries with windows and groups that differ in constants run as one; each keeps its answers and its own life."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as ab
from anabranch.engine.fold_nodes import FOLDED
from anabranch.engine.query_folds import FEWEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [(i, ZERO + timedelta(seconds=i), f"s{i % 5}", float(i * 37 % 100), i % 9 - 4) for i in range(120)]
COLUMNS = "seq long, ts timestamp, sensor string, value double, small int"
COUNT = "Select sensor, Count(*) As n, Max(value) As top From s [Range 20 Seconds] Where value > {n} Group By sensor"
PART = "Select sensor, Sum(10 / (small - 4)) As n From s [Range 9 Seconds] Where small = {n} Group By sensor"
TEXTS = {
    "counted": COUNT,
    "slid": "Select sensor, Sum(small) n From s [Range 9 Seconds Slide 3 Seconds] Where seq < {n} Group By sensor",
    "came": "Select Istream(Count(*) n) From s [Range 9 Seconds] Where small In ({m}, 1) And seq > 3 Group By sensor",
    "held": "Select seq, value From s [Range 7 Seconds] Where sensor = 's{m}'",
    "distinct": "Select Distinct sensor From s [Range 5 Seconds] Where value Between {n} And 90",
}


def engine(spark: SparkSession, folder: Path | None = None, rows: DataFrame | None = None) -> ab.Engine:
    made = ab.Engine(spark, folder)
    made.stream("s", spark.createDataFrame(ROWS, COLUMNS) if rows is None else rows, timestamp="ts", sequence="seq")
    return made


def folded(made: ab.Engine) -> list[int]:
    return sorted(map(len, made._runtime.templates.folds(made._manifest).values()))


def operators(made: ab.Engine) -> set[str]:
    return {node for state in made._manifest.queries.values() for node in state.nodes.values()}


def bag(answer: DataFrame, before: int = len(ROWS)) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in answer.where(f"_ts < '{ZERO + timedelta(seconds=before)}'").collect())


def alone(spark: SparkSession, texts: dict[str, str], since: int = 0) -> dict[str, Counter[tuple[object, ...]]]:
    """What queries say of rows from one on, each for itself, before the last row."""
    made = engine(spark, rows=spark.createDataFrame(ROWS[since:], COLUMNS))
    for name, text in texts.items():
        made.query(text, name, share=False)
    return {name: bag(answer, len(ROWS) - 1) for name, answer in made.run_batch().items()}


def test_folded_queries_say_what_each_says_alone(spark: SparkSession) -> None:
    made, some = engine(spark), {}
    for name, text in TEXTS.items():
        for n in range(FEWEST + 1):
            made.query(text.format(n=n * 6, m=n % 5), f"{name}{n}")
        some[f"{name}3"] = text.format(n=18, m=3)
    made.query(COUNT.format(n=1), "own", share=False)
    made.query("Select Count(*) As n From s [Range 9 Seconds] Where value > 3", "whole")
    answers = made.run_batch()
    assert folded(made) == [FEWEST + 1] * len(TEXTS)
    assert sum(node.startswith(FOLDED) for node in operators(made)) == len(TEXTS) + 1, "changes are by group, or not"
    assert f"1 of {FEWEST + 1} queries that differ in constants" in made.queries["slid5"].explain()
    assert "differ in constants" not in made.queries["own"].explain()
    assert made.describe("sharing").count("groups that differ in constants") == len(TEXTS)
    assert {name: bag(answers[name], len(ROWS) - 1) for name in some} == alone(spark, some)


def test_few_are_not_folded(spark: SparkSession) -> None:
    made = engine(spark)
    for n in range(FEWEST - 1):
        made.query(COUNT.format(n=n), f"few{n}")
        made.query(COUNT.format(n=n), f"own{n}", share=False)
        made.query(f"Select Count(*) As n From s [Range 9 Seconds] Where value > {n}", f"whole{n}")
    made.run_batch()
    assert folded(made) == []


@pytest.mark.full(reason="two runs of an engine take a minute")
def test_each_has_its_own_life(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame(ROWS, COLUMNS)
    late = f"q{FEWEST}"
    texts = {f"q{n}": COUNT.format(n=n * 5) for n in range(FEWEST + 1)}

    def arrive(first: int, last: int) -> None:
        some = rows.where(f"seq >= {first} and seq < {last}").coalesce(1)
        some.write.mode("append").parquet(str(tmp_path / "in"))

    def started(names: list[str]) -> ab.Engine:
        source = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "in"))
        made = engine(spark, tmp_path / "state", source)
        for name in names:
            made.query(texts[name], name)
        for query in made.queries.values():
            query.start()
        made.queries["q0"].await_idle()
        return made

    arrive(0, 30)
    made = started([name for name in texts if name != late])
    assert folded(made) == [FEWEST]
    made.queries["q1"].pause()
    made.drop("q2")
    made.query(texts[late], late).start()
    arrive(30, 60)
    made.queries["q0"].await_idle()
    assert folded(made) == [FEWEST]
    assert len(operators(made)) == 2, "what is held of one that is paused is by itself"
    made.queries["q1"].resume()
    made.share("q3", share=False)
    arrive(60, 80)
    made.queries["q0"].await_idle()
    assert len(operators(made)) == 2, "one has come back, one has left"
    made.share("q3", share=True)
    made.stop()
    names = [name for name in texts if name != "q2"]
    made = started(names)
    arrive(80, 120)
    made.queries["q0"].await_idle()
    assert len(operators(made)) == 1
    made.stop()
    filled = made.queries[late].filled_since
    assert filled is not None
    since = int((filled - ZERO).total_seconds())
    want = alone(spark, {name: texts[name] for name in names if name != late})
    want |= alone(spark, {late: texts[late]}, since)
    assert {name: bag(made.queries[name].to_dataframe(), len(ROWS) - 1) for name in names} == want


def test_one_that_fails_fails_alone(spark: SparkSession) -> None:
    made, count = engine(spark), FEWEST + 1
    for n in range(count):
        text = (
            f"Select sensor, Sum(10 / (small - 4)) As n From s [Range 9 Seconds] Where small = {n - 4} Group By sensor"
        )
        made.query(text, f"q{n}")
    with pytest.raises(ab.QueriesFailed) as caught:
        made.run_batch()
    assert folded(made) == [count - 1]
    assert set(made.queries) - set(caught.value.answers) == {"q8"}
    assert bag(caught.value.answers["q3"], len(ROWS) - 1) == alone(spark, {"q3": PART.format(n=-1)})["q3"]
