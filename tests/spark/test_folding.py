"""Queries that differ in constants alone are answered as one; each says what it says alone, and keeps its own life."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anabranch as ab
from anabranch.engine.folding import FEWEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [(i, ZERO + timedelta(seconds=i), f"s{i % 5}", float(i * 37 % 100), i % 9 - 4) for i in range(120)]
COLUMNS = "seq long, ts timestamp, sensor string, value double, small int"
MANY = range(FEWEST + 1)


def engine(spark: SparkSession, folder: Path | None = None, rows: DataFrame | None = None) -> ab.Engine:
    made = ab.Engine(spark, folder)
    made.stream("s", spark.createDataFrame(ROWS, COLUMNS) if rows is None else rows, timestamp="ts", sequence="seq")
    return made


def folds(made: ab.Engine) -> list[int]:
    return sorted(map(len, made._runtime.folds(made.queries).values()))


TEXTS = {
    "compared": ("Select seq, value * 2 As twice From s Where value > {n} And 's{m}' = sensor", 1),
    "negative": ("Select seq From s Where small >= -{m} And small < {m} And value < {n}.5", 1),
    "ends": ("Select seq As x From s Where value Between {m} And {n}", 1),
    "listed": ("Select sensor From s Where small In ({m}, -{m}) And Not sensor = 's1'", 1),
    "prefix": ("Select seq As p From s Where sensor Like 's{m}%'", 1),
    "inside": ("Select seq As q From s Where sensor Like '%{m}%'", 1),
    "guarded": ("Select 100 / small As part From s Where small > {m} And 1 / small > 0", 1),
    "now": ("Select Istream(value, seq) From s [Now] Where seq = {n}", 0),
    "computed": ("Select seq As c From s Where value + {n} > 50", 0),
}
"""Texts, and into how many templates each is folded."""


def test_folded_queries_say_what_each_says_alone(spark: SparkSession) -> None:
    made, alone = engine(spark), spark.createDataFrame(ROWS, COLUMNS)
    conditions = {}
    for name, (text, _) in TEXTS.items():
        for n in MANY:
            query = text.format(n=n * 7, m=n % 5)
            made.query(query, f"{name}{n}")
            selected, condition = query.removeprefix("Select ").replace(" [Now]", "").split(" From s Where ")
            items = selected.removeprefix("Istream(").removesuffix(")") if "Istream" in selected else selected
            conditions[f"{name}{n}"] = (items, condition)
    assert folds(made) == [len(MANY)] * sum(count for _, count in TEXTS.values())
    answers = made.run_batch()
    assert f"1 of {len(MANY)} queries that differ in constants" in made.queries["prefix3"].explain()
    assert "differ in constants" not in made.queries["computed3"].explain()
    assert made.describe("sharing").count("filters that differ in constants") == len(folds(made))
    for name, (items, condition) in conditions.items():
        if int(name.lstrip("abcdefghijklmnopqrstuvwxyz")) % 5 == 3:
            want = Counter(
                map(tuple, alone.where(condition).selectExpr(*items.replace(" As ", " AS ").split(", ")).collect())
            )
            assert Counter(tuple(row)[:-1] for row in answers[name].collect()) == want, name


def test_what_is_not_alike_is_not_folded(spark: SparkSession) -> None:
    made = engine(spark)
    for n in range(FEWEST - 1):
        made.query(f"Select seq From s Where value > {n}", f"few{n}")
        made.query(f"Select seq From s Where value > {n}", f"own{n}", share=False)
        made.query(f"Select sensor From s Where value > {n}", f"other{n}")
        made.query(f"Select seq From s Where ts > '2026-01-01 00:00:0{n % 10}'", f"time{n}")
    assert folds(made) == []
    made.query("Select seq From s Where 99 < value", "last")
    assert folds(made) == [FEWEST]
    with pytest.raises(ab.AnabranchError, match="cannot be read as"):
        made.query("Select seq From s Where ts > 'never'", "wrong")
    made.drop("few0")
    assert folds(made) == []


def test_each_has_its_own_life(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame(ROWS, COLUMNS)
    got: Counter[tuple[str, int]] = Counter()

    def arrive(first: int, last: int) -> None:
        some = rows.where(f"seq >= {first} and seq < {last}").coalesce(1)
        some.write.mode("append").parquet(str(tmp_path / "in"))

    def started() -> ab.Engine:
        source = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "in"))
        return engine(spark, tmp_path / "state", source)

    def register(made: ab.Engine, number: int) -> Any:
        return made.query(f"Select seq From s Where small = {number % 9 - 4}", f"q{number}")

    arrive(0, 30)
    made = started()
    queries = {n: register(made, n) for n in range(12)}
    for query in queries.values():
        query.start()
    queries[3].use_sink(lambda df, tick: got.update(("q3", row["seq"]) for row in df.collect()))
    queries[0].await_idle()
    queries[1].pause()
    made.drop("q2")
    queries[12] = register(made, 12).start()
    arrive(30, 60)
    queries[0].await_idle()
    queries[1].resume()
    arrive(60, 90)
    queries[0].await_idle()
    made.stop()
    made = started()
    queries = {n: register(made, n) for n in range(13) if n != 2}
    for query in queries.values():
        query.start()
    arrive(90, 120)
    queries[0].await_idle()
    assert folds(made) == [12]
    made.stop()
    for n, query in queries.items():
        want = Counter(i for i, *_, small in ROWS if small == n % 9 - 4 and (n != 12 or i >= 30))
        assert Counter(row["seq"] for row in query.to_dataframe().collect()) == want, n
    assert got == Counter(("q3", i) for i, *_, small in ROWS[:90] if small == -1)


@pytest.mark.parametrize(
    "count", [FEWEST + 1, pytest.param(10_000, marks=pytest.mark.full(reason="registering so many takes minutes"))]
)
def test_one_of_many_that_fails_stops_alone(spark: SparkSession, count: int) -> None:
    made = engine(spark)
    for n in range(count):
        made.query(f"Select 10 / (small - 4) As part From s Where small = {n - 4}", f"q{n}")
    assert folds(made) == [count]
    with pytest.raises(ab.QueriesFailed) as caught:
        made.run_batch()
    assert set(made.queries) - set(caught.value.answers) == {"q8"}
    assert all(caught.value.answers[f"q{n}"].count() == sum(row[4] == n - 4 for row in ROWS) for n in (0, 7))
