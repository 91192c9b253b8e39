"""Outer joins in all surroundings: the definition, read from left to right."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.logical_plan import Filter, Join, Member, Plan, SetOperation, Window, walk
from anabranch.planning.stages import Stage
from cql.comparing import bound, expected
from cql.local import LocalEngine, LocalFlows
from cql.streams import SECOND, Case, Columns, Cuts, Relation, Row, Stream

COLUMNS: Columns = (("k", "bigint"), ("a", "bigint"))
A, B, C = "s1 [Range 4 Seconds] As a", "s2 [Rows 4] As b", "s3 [Range 3 Seconds] As c"
TEXTS = (
    f"Select a.a, b.a As b, c.a As c From {A} Left Join {B} On a.k = b.k Left Join {C} On b.k = c.k",
    f"Select a.a, b.a As b, c.a As c From {A} Join {B} On a.k = b.k Left Join {C} On b.k = c.k And a.a < c.a",
    f"Select a.a, b.a As b, c.a As c From {A} Full Join {B} On a.k = b.k Full Join {C} On b.k = c.k Or a.k = c.k",
    f"Select a.a, b.a As b, c.a As c From {A} Left Join {B} On a.k = b.k Join {C} On b.k = c.k",
    f"Select a.a, b.a As b, c.a As c From {A} Left Join {B} On a.k = b.k, {C} Where b.k = c.k Or b.k Is Null",
    f"Select a.a, b.a As b, c.a As c From {A}, {B} Right Join {C} On a.k = c.k Where a.k = b.k Or a.k Is Null",
    f"Select a.a, b.a As b, r.label From {A} Left Join {B} On a.k = b.k Left Join r On b.k = r.k",
    f"Select a.a, r.label, b.a As b From {A} Right Join r On a.k = r.k Full Join {B} On r.k = b.k And b.a > 3",
    f"Select a.k, Count(*) As n, Count(b.a) As m From {A} Left Join {B} On a.k = b.k And a.a <> b.a Group By a.k",
    f"Select 1 As one From {A} Full Join {B} On True",
    f"Select Count(*) As n From {A} Right Join {B} On a.k = 1 And b.k > 1",
    f"Select a.a, b.a As b From {A} Left Join {B} On a.k + 1 = b.k * 2 And b.k = b.a",
    f"Select a.a, x.n From {A} Left Join (Select k, Count(*) As n From {B} Group By k) As x On a.k = x.k And x.n > 1",
    f"Select a.a, b.a As b From {A} Left Join {B} On a.k = b.k Where a.a > (Select Min(a) From {C})",
    f"Select a.a, b.a As b From {A} Full Join {B} On a.k = b.k And a.a < b.a Where a.k In (Select k From {C})",
    f"Select c.a From {C} Where Exists (Select 1 From {A} Left Join {B} On a.k = b.k And a.a < b.a Where a.k = c.k)",
)


def case(text: str) -> Case:
    rng = random.Random(3)
    streams = []
    for name in ("s1", "s2", "s3"):
        rows: tuple[Row, ...] = tuple((n, n * SECOND // 2, rng.choice((1, 2, 3, None)), n) for n in range(12))
        streams.append(Stream(name, COLUMNS, rows))
    labels = Relation("r", (("k", "bigint"), ("label", "string")), ((1, "p"), (5, "q")), ((2 * SECOND, 1, (2, "r")),))
    return Case(tuple(streams), (labels,), text, Cuts({each.name: (4, 4, 4) for each in streams}, 2))


def plan(text: str) -> Plan:
    return bound(case(text)).plan


@pytest.mark.parametrize("text", TEXTS)
def test_outer_joins_are_the_definition(text: str, tmp_path: Path) -> None:
    given = case(text)
    want = expected(given)
    assert want
    assert LocalEngine(given, bound(given), tmp_path).answer() == want


def test_inner_joins_in_front_of_an_outer_one_are_one_join() -> None:
    joins = [node for node in walk(plan(TEXTS[1])) if isinstance(node, Join) and len(node.inputs) == 2]
    found = plan(f"Select a.a From {A} Join {B} On a.k = b.k, {C} Left Join s1 [Now] As d On c.k = d.k Where a.k = c.k")
    assert joins
    assert any(isinstance(node, Join) and len(node.inputs) == 3 for node in walk(found))


@pytest.mark.parametrize(
    ("side", "tests", "early"),
    [("Left", "a.k = 1", True), ("Left", "b.k = 1", False), ("Right", "b.k = 1", True), ("Full", "a.k = 1", False)],
)
def test_conditions_on_the_side_that_stays_are_tested_in_front(side: str, tests: str, early: bool) -> None:
    found = plan(f"Select a.a, b.a As b From {A} {side} Join {B} On a.k = b.k Where {tests}")
    filters = [node.input for node in walk(found) if isinstance(node, Filter)]
    assert {isinstance(each, Window) for each in filters} == {early}


def test_equal_columns_need_an_anti_join_alone() -> None:
    plain = list(walk(plan(f"Select a.a From {A} Left Join {B} On a.k = b.k And b.a > 1")))
    other = list(walk(plan(f"Select a.a From {A} Left Join {B} On a.k = b.k And a.a > b.a")))
    assert any(isinstance(node, Member) for node in plain)
    assert not any(isinstance(node, Member) for node in other)
    assert any(isinstance(node, SetOperation) and node.kind == "except" for node in other)


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (f"Select a.a, b.a As b From {A} Left Join {B} On a.k = b.k And a.a > b.a", ["join", "except all"]),
        (f"Select a.k, Count(*) As n From {A}, {B} Where a.k = b.k And a.a > b.a Group By a.k", ["join", "groups"]),
    ],
)
def test_a_join_is_made_once_and_tests_comparisons_itself(
    text: str, titles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: dict[int, Stage] = {}
    usual = LocalFlows.stage

    def noted(flows: LocalFlows, stage: Stage, inputs: Sequence[pa.Table]) -> pa.Table:
        stages[stage.number] = stage
        return usual(flows, stage, inputs)

    monkeypatch.setattr(LocalFlows, "stage", noted)
    given = case(text)
    LocalEngine(given, bound(given)).answer()
    found = [each for each in stages.values() if each.title.split(",")[0] in titles]
    assert [each.title.split(",")[0] for each in found] == titles
    assert [each.sign for each in found[0].make.values[2]] == [">"]
