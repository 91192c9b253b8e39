"""Traces and comparisons of tasks that run here, without Spark: routes, bounds, failures, and what a record carries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType

from anabranch.config import OrderingConfig
from anabranch.ordering import Precedence
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.value_classes import ValueClasses, ValueSplit
from anabranch.spark.filters import filter_task
from anabranch.spark.filters.evaluators import BOOLEAN, Evaluator
from anabranch.spark.filters.filter_task import FilterTask
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.filters.row_traces import MOST_OF_A_TASK, RECENT_TRACES
from anabranch.spark.filters.task_record import TaskRecord
from anabranch.spark.filters.task_spec import (
    ErrorRules,
    OrderingRules,
    Rival,
    StartingPoint,
    TaskInput,
    TaskOrigin,
    Watching,
)

ROWS = 30_000
NAMES = ("third", "late")
identities = count()


class Kept:
    """Keeps the record that a task sends."""

    def __init__(self) -> None:
        self.records: list[TaskRecord] = []

    def send(self, record: TaskRecord) -> None:
        self.records.append(record)


def third(number: int) -> bool:
    """Fails for 77."""
    return 0 // (number - 77) == 0 and number % 3 == 0


def late(number: int) -> bool:
    return number > 5_000


def task(kept: Any, policy: str = "fixed", plan: RoutePlan | None = None, **watching: Any) -> FilterTask:
    config = OrderingConfig.for_policy(policy)
    return FilterTask(
        identity=f"trace {next(identities)}",
        part=(0, 1),
        evaluators=tuple(
            Evaluator(name, function, ("id",), "scalar", BOOLEAN)
            for name, function in zip(NAMES, (third, late), strict=True)
        ),
        kept=(),
        input=TaskInput({"id": LongType(), "kind": LongType()}, ("kind",) if plan else ()),
        ordering=OrderingRules(policy, config, Precedence.none(2)),
        origin=TaskOrigin("test", ledger=kept),
        start=StartingPoint(plan=plan),
        errors=ErrorRules("errors"),
        watching=Watching(**watching),
    )


def batches(rows: int = ROWS) -> Iterator[tuple[pa.Array, ...]]:
    for at in range(0, rows, 5_000):
        numbers = np.arange(at, at + 5_000)
        yield pa.array(numbers), pa.array(numbers % 2)


def passed(job: FilterTask) -> list[int]:
    return [
        5_000 * at + int(row) for at, judged in enumerate(job.run(batches())) for row in np.flatnonzero(judged.mask)
    ]


WANTED = [n for n in range(ROWS) if n % 3 == 0 and n > 5_000 and n != 77]


def test_traces_of_a_task_are_right_and_bounded() -> None:
    plain, traced = Kept(), Kept()
    assert passed(task(plain)) == passed(task(traced, trace_share=0.05)) == WANTED
    (before,), (record,) = plain.records, traced.records
    for name in ("seen", "passed", "errors", "calls"):
        np.testing.assert_array_equal(getattr(before.tally, name), getattr(record.tally, name))
    assert before.traces == ()
    assert len(record.traces) == MOST_OF_A_TASK
    for row in record.traces:
        number = int(dict(row.values)["id"])
        assert [call.predicate for call in row.calls] == (["third", "late"] if number % 3 == 0 else ["third"])
        assert row.passed == (number in WANTED)
        assert row.at == number
        assert row.route == ""


def test_a_row_on_which_a_predicate_fails_says_so() -> None:
    kept = Kept()
    job = task(kept, trace_share=1.0)
    list(job.run(iter([(pa.array([77]), pa.array([1]))])))
    ((row,),) = (record.traces for record in kept.records)
    assert [(call.predicate, call.verdict) for call in row.calls] == [("third", "failed"), ("late", "dropped")]
    assert not row.passed


def test_traces_know_the_route_of_their_row() -> None:
    kept = Kept()
    plan = RoutePlan(
        ValueClasses((ValueSplit("kind", (0, 1)),), np.array([1, 2, 0])), ((0, 1), (0, 1), (1, 0)), "content"
    )
    assert passed(task(kept, policy="auto", plan=plan, trace_share=0.05)) == WANTED
    (record,) = kept.records
    routes = {(dict(row.values)["kind"], row.route) for row in record.traces}
    assert {kind for kind, _ in routes} == {"0", "1"}
    assert len({route for _, route in routes}) == 2
    assert all("kind" in route for _, route in routes)


def test_a_task_that_traces_nothing_runs_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_task, "TaskTraces", None)
    kept = Kept()
    assert passed(task(kept)) == WANTED
    assert kept.records[0].compared == ((), 0)


@pytest.mark.parametrize("policy", ["fixed", "auto", "agreedy"])
def test_rows_and_counts_are_whole_while_plans_are_compared(policy: str) -> None:
    kept = Kept()
    rival = Rival("other", "fixed", OrderingConfig.for_policy("fixed"), (1, 0))
    job = task(kept, policy, rival=Rival(f"{next(identities)}", rival.policy, rival.config, rival.order))
    assert passed(job) == WANTED
    (record,) = kept.records
    blocks, rows = record.compared
    assert blocks
    assert 0 < rows < ROWS
    assert record.tally.rows == ROWS


def test_the_ledger_keeps_the_latest_traces_and_all_comparisons() -> None:
    kept, ledger = Kept(), Ledger(NAMES)
    rival = Rival(f"{next(identities)}", "fixed", OrderingConfig.for_policy("fixed"), (1, 0))
    for _ in range(RECENT_TRACES // MOST_OF_A_TASK + 2):
        passed(task(kept, trace_share=0.05, rival=rival))
    ledger.enter(kept.records)
    assert len(ledger.traces()) == RECENT_TRACES
    assert ledger.comparison().rows == sum(rows for _, rows in (record.compared for record in kept.records))
    ledger.compare_anew()
    assert ledger.comparison().verdict == "unknown"


def test_a_fixed_order_is_reported_after_few_rows() -> None:
    learned, fixed, ledger = Kept(), Kept(), Ledger(NAMES)
    passed(task(learned, "auto"))
    seed = learned.records[0].learned
    assert seed is not None
    job = replace(task(fixed), start=StartingPoint(seed=replace(seed, order=(1, 0))))
    list(job.run(iter([(pa.array([9_000, 9_001]), pa.array([0, 1]))])))
    (before,) = learned.records
    assert before.learned is not None
    ledger.enter([replace(before, learned=replace(before.learned, order=(0, 1)))])
    ledger.enter(fixed.records)
    found = ledger.learned((0, 1))
    assert found is not None
    assert found.order == (1, 0)
