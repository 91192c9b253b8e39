"""Linear Road, whole, through the engine: its script on files, against the simulation with dictionaries."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from anabranch.benches.linearroad import (
    ANSWERS,
    RELATIONS,
    STREAMS,
    Row,
    Rules,
    asked,
    generate,
    queries,
    script,
    validate,
)
from anabranch.engine.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A tenth of the cars that the benchmark has, on a road where a tenth of them is a crowd.
CARS, CROWD = (7000, 50) if os.environ.get("ANABRANCH_SOAK") else (700, 5)
RULES = Rules(crowd=CROWD, day=6)

Answers = dict[str, Counter[Row]]

pytestmark = pytest.mark.full(reason="takes long; NEXMark runs through Spark, and Linear Road without, in every tier")


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """Ours, and those of the simulation."""
    folder = tmp_path_factory.mktemp("linear-road")
    given = asked(generate(cars=CARS, crowd=CROWD), share=0.1)
    given.write(folder / "linear-road")
    engine = Engine(spark, folder / "state")
    engine.execute(script(RULES, folder / "linear-road"), bounded=True)
    for name in {*RELATIONS, *STREAMS} - {*ANSWERS.values()}:
        engine.query(queries(RULES)[name], f"the_{name}", constraints="exact")
    last = max(given.cars["ts"].cast(pa.int64()).to_pylist())
    ours = {
        ANSWERS.get(name, name.removeprefix("the_")): Counter(map(tuple, up_to(answer, last).collect()))
        for name, answer in engine.run_batch().items()
    }
    return ours, validate(given, RULES)


def up_to(answer: DataFrame, last: int) -> DataFrame:
    """In microseconds; what happens when cars stop to report is not simulated."""
    return answer.withColumn("_ts", F.unix_micros("_ts")).where(F.col("_ts") <= last)


@pytest.mark.parametrize("name", [*RELATIONS, *STREAMS])
def test_answers_are_those_of_the_simulation(name: str, answers: tuple[Answers, Answers]) -> None:
    ours, simulated = answers
    assert ours[name] == simulated[name]
    assert simulated[name]
