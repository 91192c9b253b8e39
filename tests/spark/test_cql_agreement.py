"""Random queries through Spark: the engine says what the definition says.

Streams come in batches, some with a restart between them; bounded inputs take several ticks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

import anabranch as ab
from anabranch.cql.dialect import parse_query
from anabranch.engine import ticks
from cql.answers import answered, before, expected
from cql.generate import MORE_COLUMNS, random_queries
from cql.oracle import Oracle
from cql.streams import Case, Stream
from seeds import drawn
from spark.case_inputs import arrive, register_inputs
from tiers import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = int(os.environ.get("ANABRANCH_SOAK", "100"))
TOGETHER = 20
DRAWN_TOGETHER = 4
TIMEOUT_SECONDS = 1200  # a busy machine is slow
ENGINES = range(-(-QUERIES // TOGETHER))
CELLS = (None, 3, 1)
LIVES = (0, 2, 1, 2, 1)
"""How often engines are started on their checkpoint while a stream goes on; 0 for those that run bounded inputs."""
TICK_ROWS = 10


def registered(engine: ab.Engine, spark: SparkSession, cases: Sequence[Case], folder: Path | None) -> None:
    register_inputs(engine, spark, cases[0], folder)
    for number, each in enumerate(cases):
        engine.query(each.query, f"q{number}")


def inputs(case: Case, ast: exp.Expr) -> list[Stream]:
    names = {table.name.lower() for table in ast.find_all(exp.Table)}
    return [stream for stream in case.streams if stream.name in names]


def watermark(streams: Sequence[Stream]) -> int:
    return min(max((row[1] for row in each.rows), default=-1) - each.skew for each in streams)


def end(streams: Sequence[Stream]) -> int:
    return max((row[1] for each in streams for row in each.rows), default=0) + 1


def bounded_run(spark: SparkSession, cases: Sequence[Case], folder: Path, cells: int | None) -> ab.Engine:
    engine = ab.Engine(spark, folder / "state", cells=cells)
    registered(engine, spark, cases, None)
    engine.run_batch()
    return engine


def life(spark: SparkSession, cases: Sequence[Case], folder: Path, cells: int | None) -> ab.Engine:
    """An engine that answers all that is there, and stops."""
    engine = ab.Engine(spark, folder / "state", cells=cells)
    registered(engine, spark, cases, folder)
    for query in engine.queries.values():
        query.start()
    for query in engine.queries.values():
        query.await_idle()
    engine.stop()
    return engine


def agrees(spark: SparkSession, cases: Sequence[Case], folder: Path, cells: int | None, lives: int) -> None:
    """The engine says what the definition says; as a stream with so many lives, or of bounded inputs."""
    engine = None if lives else bounded_run(spark, cases, folder, cells)
    for each in range(lives):
        for stream in cases[0].streams:
            batches = cases[0].cuts.batches[stream.name]
            first, after = (len(batches) * n // lives for n in (each, each + 1))
            arrive(stream, batches, range(first, after), folder)
        engine = life(spark, cases, folder, cells)
    assert engine is not None
    oracle = Oracle(cases[0].streams, cases[0].relations)
    for case, query in zip(cases, engine.queries.values(), strict=True):
        ast = parse_query(case.query)
        ahead = lives == 0 or engine._runtime.is_direct(
            query
        )  # of the watermark: nothing to come changes such an answer
        until = end(inputs(case, ast)) if ahead else watermark(inputs(case, ast))
        got, want = answered(query.to_dataframe()), before(expected(oracle, ast), until)
        got = got if lives else before(got, until)  # a bounded run ends with the last row of all streams
        assert got == want, f"{case.query}\n{case}\nmissing {want - got}\nextra {got - want}"
    assert all(engine.late(stream.name).isEmpty() for stream in cases[0].streams)


@pytest.fixture(autouse=True)
def small_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticks, "BATCH_ROWS", TICK_ROWS)


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize(
    "lives",
    tiers([2, 0], fast=1, reason="bounded queries are compared with DuckDB and Nexmark in every tier"),
    ids=["as a stream, restarted", "bounded"],
)
def test_the_engine_agrees_with_the_definition_on_the_cases_of_the_day(
    lives: int, spark: SparkSession, tmp_path: Path
) -> None:
    number = drawn(3)[lives]
    agrees(spark, random_queries(number, DRAWN_TOGETHER, MORE_COLUMNS), tmp_path, CELLS[number % len(CELLS)], lives)


@pytest.mark.full(reason="a hundred queries take minutes")
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("number", ENGINES)
def test_the_engine_agrees_with_the_definition(number: int, spark: SparkSession, tmp_path: Path) -> None:
    cases = random_queries(number, TOGETHER, MORE_COLUMNS)
    agrees(spark, cases, tmp_path, CELLS[number % len(CELLS)], LIVES[number % len(LIVES)])
