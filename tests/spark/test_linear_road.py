"""Linear Road through the engine: half an hour on one expressway, against the simulation with dictionaries."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from anabranch.benches.linearroad import Row, Rules, generate, queries, validate
from anabranch.engine.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALIDATED = ("CurCarSeg", "AccSeg", "SegToll", "CarExitStr", "TollStr", "NegTollStr")
# A tenth of the cars that the benchmark has, on a road where a tenth of them is a crowd.
CARS, CROWD = (7000, 50) if os.environ.get("ANABRANCH_SOAK") else (700, 5)

Answers = dict[str, Counter[Row]]

pytestmark = pytest.mark.full(reason="takes long; NEXMark runs through Spark, and Linear Road without, in every tier")


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """Ours, and those of the simulation."""
    reports = generate(cars=CARS, crowd=CROWD)
    engine = Engine(spark, tmp_path_factory.mktemp("linear-road"))
    engine.stream("CarStr", spark.createDataFrame(reports).repartition(2), timestamp="ts", sequence="seq")
    for name, text in queries(Rules(crowd=CROWD)).items():
        engine.view(name, text)
        if name in VALIDATED:
            engine.query(text, f"{name}_answer")
    ours = {
        name.removesuffix("_answer"): Counter(map(tuple, answer.withColumn("_ts", F.unix_micros("_ts")).collect()))
        for name, answer in engine.run_batch().items()
    }
    return ours, validate(reports, Rules(crowd=CROWD))


@pytest.mark.parametrize("name", VALIDATED)
def test_answers_are_those_of_the_simulation(name: str, answers: tuple[Answers, Answers]) -> None:
    ours, simulated = answers
    assert ours[name] == simulated[name]
    assert simulated[name]
