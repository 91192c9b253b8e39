"""Documents and payloads: routes look at short texts only, and nobody copies, keeps or sends long ones for a sample."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.model.attributes import LONGEST_TEXT
from anabranch.model.predicates import stages
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.filters.pilot import judge_sample
from anabranch.spark.filters.task_spec import TaskOrigin
from anabranch.spark.native import catalyst
from anabranch.spark.native import order as native_order

pytestmark = pytest.mark.spark

ROWS = 900
LONG = 20_000


@pytest.fixture(scope="module")
def documents(spark: SparkSession) -> DataFrame:
    """A short text and a long one in every row."""
    made = spark.range(0, ROWS, 1, 2).selectExpr(
        "id", "'kind-' || id % 3 as kind", f"repeat(char(97 + id % 9), {LONG}) as body"
    )
    return made.persist()


def predicates() -> list[Any]:
    return [
        ab.predicate(lambda body, kind: body[0] < "f", "body", "kind", name="early"),
        ab.predicate(lambda body: body[-1] != "b", "body", name="other"),
    ]


def test_no_whole_text_leaves_a_worker(documents: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[Any] = []

    def enter(ledger: Ledger, records: Iterable[Any]) -> None:
        entered.extend(records)

    monkeypatch.setattr(Ledger, "enter", enter)
    f = ab.Filter(*predicates())  # somebody has to listen
    assert f.apply(documents).count() == ROWS * 4 // 9
    sampled = [record.sample.attributes for record in entered]
    assert sum(len(columns["body"]) for columns in sampled) > 100, "rows are sampled"
    assert {text for columns in sampled for text in columns["body"].to_pylist()} == {None}
    assert {text for columns in sampled for text in columns["kind"].to_pylist()} == {"kind-0", "kind-1", "kind-2"}
    assert max(len(pickle.dumps(record)) for record in entered) < 100_000


def test_the_pilot_of_python_predicates_tells_of_short_texts_only(documents: DataFrame) -> None:
    f = ab.Filter(*predicates(), policy="mesh")
    (stage,) = stages(f.predicates, strict=False)
    found = judge_sample(documents, f._tasks.task(documents, stage, f.predicates, TaskOrigin("test"), "test"))
    assert set(found.attributes) == {"body", "kind", "id"}
    assert set(found.attributes["body"].to_pylist()) == {None}
    assert set(found.attributes["kind"].to_pylist()) == {"kind-0", "kind-1", "kind-2"}


def test_the_pilot_of_native_predicates_takes_fewer_rows_where_they_are_long(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = catalyst.PILOT_BYTES // 40
    rows = spark.range(0, 180, 1, 2).selectExpr("id", f"repeat(char(97 + id % 9), {size}) as body")
    seen: list[int] = []

    def timed(spark: SparkSession, sample: pa.Table, copies: int, terms: Any) -> Any:
        seen.append(sample.nbytes * copies)
        return measure(spark, sample, copies, terms)

    measure = catalyst._seconds_per_row
    monkeypatch.setattr(catalyst, "_seconds_per_row", timed)
    f = ab.Filter(F.col("body").rlike("^[a-e]"), F.col("body").contains("b"))
    assert f.apply(rows).count() == 20
    (state,) = f._ledger.natives().values()
    assert 8 <= state.sample_rows <= 40
    assert max(seen) <= 1.1 * catalyst.PILOT_BYTES


def test_the_profile_of_a_micro_batch_holds_short_texts_only(
    documents: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles: list[str] = []
    read = native_order._metrics

    def noted(observation: Observation) -> dict[str, Any]:
        found = read(observation)
        profiles.append(found["profiles"])
        return found

    monkeypatch.setattr(native_order, "_metrics", noted)
    monkeypatch.setattr(native_order, "FIRST_SHARE", 1.0)
    f = ab.Filter(F.col("body").rlike("^[a-e]"), F.col("kind").rlike("[01]$"))
    run = f.foreach_batch(lambda df, _: df.count())
    for batch in range(3):
        run(documents, batch)  # Spark may tell of a pass only after its sink has returned
    assert any("kind-1" in text for text in profiles)
    assert "a" * (LONGEST_TEXT + 1) not in "".join(profiles)
