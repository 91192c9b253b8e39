"""What benches promise: contenders on the same rows with the same answers, and one shape of what is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.benches import harness, plain, queries, standing
from anabranch.benches.filters import SEED
from anabranch.benches.harness import answer, race, run, settled
from anabranch.benches.native import best_and_worst, fixed, write_lines
from anabranch.benches.workloads import Workload, build, independent
from anabranch.errors import InternalError
from anabranch.measure import at_least, at_most, exit_code, informed, write_json


def test_contenders_that_return_other_rows_are_found_out(spark: SparkSession) -> None:
    contenders = {"ten": lambda df: df.where("id < 10"), "eleven": lambda df: df.where("id < 11")}
    rows: DataFrame = spark.range(100)
    with pytest.raises(InternalError, match="eleven returned 11 rows, or others, instead of 10"):
        race(contenders, rows, rounds=1, warm_up_on=spark.range(20))


def test_a_race_that_takes_long_ends_after_few_rounds(spark: SparkSession) -> None:
    found = race({"all": lambda df: df}, spark.range(10), rounds=9, warm_up_on=spark.range(2), seconds=0.0)
    assert len(found.seconds["all"]) == harness.FEWEST_ROUNDS


@pytest.mark.parametrize(
    ("noise", "again", "rounds", "over"),
    [(0.002, 1.0, 5, True), (0.002, 1.0, 4, False), (0.002, 1.03, 5, False), (0.05, 1.0, 5, False)],
)
def test_a_race_is_settled_when_ratios_are_tight_and_the_control_is_even(
    noise: float, again: float, rounds: int, over: bool
) -> None:
    rng = np.random.default_rng(1)
    busy = rng.uniform(1, 3, rounds)  # whole rounds may be slow
    best, ours = (busy * (1 + rng.normal(0, noise, rounds)) for _ in range(2))
    assert settled({"best": best.tolist(), "ours": ours.tolist(), "best again": (again * best).tolist()}) is over


def test_long_texts_pass_alike_in_plain_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = plain._write_texts(tmp_path / "texts", 1_000, 80)
    ours = answer(plain._judged(spark, "auto", list(plain.SHARES), path))
    assert ours == answer(plain._by_spark(spark, path))
    assert 0 < ours[0] < 80


@pytest.mark.full(reason="about a bench, not about what users run")
def test_plain_spark_chained_filters_and_ours_return_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    work = build(spark, "small", independent(2000, (0.5, 0.3), np.random.default_rng(SEED)), (1.0, 2.0), tmp_path)
    contenders = {"ours": Workload.adaptive, "plain": Workload.plain, "chained": Workload.chained}
    found = race(contenders, work, rounds=2, warm_up_on=work)
    assert found.answer is not None
    assert found.answer[0] == int(work.passes.all(axis=1).sum())
    assert {name: len(seconds) for name, seconds in found.seconds.items()} == dict.fromkeys(contenders, 2)


@pytest.mark.full(reason="about a bench, not about what users run")
def test_the_best_order_of_patterns_begins_with_the_one_that_drops_most_for_its_cost(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = write_lines(spark, tmp_path / "lines", 2000)
    best, worst = best_and_worst(spark, lines, range(4))
    assert sorted(best) == sorted(worst) == [0, 1, 2, 3]
    assert best != worst
    assert fixed(spark, lines, best).count() == fixed(spark, lines, worst).count() > 0


class Counted:
    """A contender that answers so many rows."""

    def __init__(self, rows: int) -> None:
        self.rows, self.taken = rows, list[str]()

    def take(self, file: Path) -> float:
        self.taken.append(file.name)
        return float(len(self.taken))

    def digest(self) -> tuple[int, int]:
        return self.rows, 0


def test_standing_contenders_take_the_same_files_and_those_that_warm_up_do_not_count(tmp_path: Path) -> None:
    files, both = [tmp_path / name for name in "abc"], {"few": Counted(7), "many": Counted(7)}
    raced = standing.race(both, files)
    assert raced.seconds == {"few": [2.0, 3.0], "many": [2.0, 3.0]}
    assert raced.answer == (7, 0)
    assert both["few"].taken == both["many"].taken == ["a", "b", "c"]
    with pytest.raises(InternalError, match="many answered 8 rows, or others, instead of 7"):
        standing.race({"few": Counted(7), "many": Counted(8)}, files)


@pytest.mark.parametrize("count", [10, 1000])
def test_every_key_is_wanted_by_one_of_the_queries_that_differ_in_constants(count: int) -> None:
    bounds = [re.findall(r"k >= (\d+) And k < (\d+)", text)[0] for text in queries.ranges(count)]
    assert [key for low, high in bounds for key in range(int(low), int(high))] == list(range(queries.KEYS))


def test_figures_are_written_as_a_list_of_bars_with_five_fields(tmp_path: Path) -> None:
    bars = [at_least("more", 2.0, 1.5, "seen"), at_most("less", 2.0, 1.5), informed("beside", 0.12345)]
    write_json(bars, tmp_path / "bars.json")
    written = json.loads((tmp_path / "bars.json").read_text())
    assert [set(each) for each in written] == [{"bar", "value", "target", "holds", "detail"}] * 3
    assert [(each["bar"], each["holds"]) for each in written] == [("more", True), ("less", False), ("beside", True)]
    assert exit_code(bars) == 3
    assert exit_code([bars[0], bars[2]]) == 0


@pytest.mark.usefixtures("spark")
def test_a_quick_run_that_falls_short_says_how_far_it_can_be_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bars.json"
    for quick, value, code in ((True, 1.07, 3), (False, 1.07, 3), (True, 1.01, 0)):
        bars = [at_most("ours / best", value, 1.05)]
        assert run([lambda *_, bars=bars: bars], quick=quick, json_path=path) == code
        assert ("need the full run" in capsys.readouterr().out) == (quick and code == 3)
        assert json.loads(path.read_text())[0]["value"] == value
