"""Constraints of streams in queries of an engine: answers, reports, events, restarts, and what fails alone."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.constraints.config import Mode
from anabranch.errors import QueriesFailed
from anabranch.events import ConstraintAdopted

pytestmark = pytest.mark.spark

TEXT = "Select calls.v As v, hosts.v As w From calls [Range 1 Hour], hosts [Range 1 Hour] Where calls.id = hosts.id"
ROWS = 30_000


def rows(spark: SparkSession, seconds_late: int, unless: str = "false") -> DataFrame:
    """A row in a tenth of a second; a hundred of them share their number at the end if the condition says so."""
    when = f"timestamp_micros(id * 100000 + {seconds_late * 1_000_000}) AS ts"
    return spark.range(ROWS).selectExpr("id AS seq", when, f"IF({unless}, id - 1, id) AS id", "id AS v")


def engine(spark: SparkSession, twice: str = "false") -> ab.Engine:
    made = ab.Engine(spark, cells=1)
    made.stream("hosts", rows(spark, 0, twice), timestamp="ts", sequence="seq", key="id")
    made.stream("calls", rows(spark, 2), timestamp="ts", sequence="seq")
    return made


def test_a_query_keeps_the_rows_that_it_needs(spark: SparkSession) -> None:
    made = engine(spark)
    modes: tuple[Mode, ...] = ("off", "exact", "discard")
    queries = {mode: made.query(TEXT, name=mode, constraints=mode) for mode in modes}
    answers = made.run_batch()
    bags = {mode: Counter((row["v"], row["w"]) for row in answers[mode].collect()) for mode in modes}
    assert bags["off"] == bags["exact"] == bags["discard"] == Counter((n, n) for n in range(ROWS))
    assert not queries["off"].report().constraints
    (exact,) = queries["exact"].report().constraints
    assert "hosts (id): a key, declared" in [each.words(exact.names) for each in exact.found.keys]
    assert "constraints: exact" in queries["exact"].explain()
    assert any(isinstance(event, ConstraintAdopted) and event.query == "exact" for event in made.events())


def test_a_declared_key_that_is_none_fails_its_query_alone(spark: SparkSession) -> None:
    made = engine(spark, twice="id = 29990")
    for mode in ("off", "exact"):
        made.query(TEXT, name=mode, constraints=mode)
    with pytest.raises(QueriesFailed) as failed:
        made.run_batch()
    assert set(failed.value.failures) == {"exact"}
    said = str(failed.value)
    assert "was declared a key, but two rows have the same value: " in said
    assert "(29989, 29989)" in said
    assert "(29989, 29990)" in said
    assert failed.value.answers["off"].count() == ROWS
