"""A plan has the rows of the query it was made from: both run on SQLite, over tables with NULLs, without windows."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import assert_never

import pytest

from anabranch.cql import Catalog, bind
from anabranch.logical_plan import (
    Aggregate,
    Aggregation,
    Distinct,
    Filter,
    Join,
    Member,
    Plan,
    Project,
    Scan,
    SetOperation,
    ToStream,
    Window,
)

TABLES = {"s1": ("k", "a"), "s2": ("k", "b"), "s3": ("k", "c")}
QUERIES = [
    "Select k, a + 1 As x From s1 Where a > 2 And k Is Not Null",
    "Select s1.k, a, b From s1, s2 Where s1.k = s2.k And a < b",
    "Select s1.k, a, b, c From s1 Join s2 On s1.k = s2.k Join s3 On s3.k = s2.k And s3.c = s1.a",
    "Select x.k, y.a From s1 x, s1 y Where x.k + 1 = y.k And x.k = y.a",
    "Select s1.a, s2.b From s1 Join s2 Using (k)",
    "Select s1.a, s2.b From s1 Cross Join s2 Where s1.a = 1 Or s2.b = 2",
    "Select k, a From s1 Where a In (Select b From s2)",
    "Select k, a From s1 Where a Not In (Select b From s2)",
    "Select k, a From s1 Where a Not In (Select b From s2 Where b Is Not Null)",
    "Select k, a From s1 Where a Not In (Select b From s2 Where b > 100)",
    "Select k, a From s1 Where a Not In (Select b From s2 Where s2.k = s1.k)",
    "Select k, a From s1 Where a + 1 In (Select b - 1 From s2 Where s2.k = s1.k)",
    "Select k, a From s1 Where (k, a) In (Select k, b From s2)",
    "Select k, a From s1 Where Exists (Select 1 From s2 Where s2.k = s1.k And b > 1)",
    "Select k, a From s1 Where Not Exists (Select * From s2 Where s2.k = s1.k + 1)",
    "Select k, a From s1 Where Not Exists (Select * From s2 Where s2.b > 100) And Exists (Select 1 From s3)",
    "Select k, a From s1 Where a > (Select Avg(b) From s2)",
    "Select k, (Select Max(b) From s2) As m From s1 Where a = (Select Min(c) + 1 From s3)",
    "Select k, Count(*) As n, Sum(a) As t, Min(a), Max(a + 1) - 1 From s1 Group By k",
    "Select k, Count(a), Count(Distinct a), Sum(Distinct a) From s1 Group By k Having Count(*) > 2",
    "Select a % 2 As p, Count(*) Filter (Where k > 1) As n From s1 Group By a % 2",
    "Select Count(*), Sum(a) From s1 Where a > 100",
    "Select Sum(s1.a * s2.b) From s1, s2 Where s1.k = s2.k Group By s1.k + s2.k",
    "Select k, a From s1 Where (a > 3 Or k = 1) And (a < 2 Or k > 2 Or a = 4)",
    "Select Distinct k From s1",
    "Select k From s1 Union Select k From s2",
    "Select k From s1 Union All Select b From s2 Union All Select c From s3",
    "Select k From s1 Except Select b From s2",
    "Select k From s1 Intersect Select b From s2",
    "Select x.k, n From (Select k, Count(*) As n From s1 Group By k) As x, s2 Where s2.k = x.n",
    "With x As (Select k, a From s1 Where a > 1), y As (Select k From x) Select x.a From x, y Where x.k = y.k",
    "Select j From (Select k As j, a From s1) As x Where j In (Select k From s2) And a > 0",
]


def to_sql(plan: Plan) -> str:
    """The plan in SQL, literally."""
    columns = ", ".join(f"`{name}`" for name in plan.columns) or "1"
    match plan:
        case Scan():
            renamed = ", ".join(f"`{name}` As `{unique}`" for name, unique in plan.renamed) or "1"
            return f"Select {renamed} From {plan.name}"
        case Window() | ToStream():
            return to_sql(plan.input)
        case Filter():
            return f"Select {columns} From ({to_sql(plan.input)}) Where {_all(each.sql for each in plan.conditions)}"
        case Project():
            items = ", ".join(f"{each.sql} As `{name}`" for name, each in plan.items)
            return f"Select {items} From ({to_sql(plan.input)})"
        case Join():
            inputs = ", ".join(f"({to_sql(each)}) t{i}" for i, each in enumerate(plan.inputs))
            equal = (f"`{key[0][1]}` = `{name}`" for key in plan.keys for _, name in key[1:])
            return f"Select {columns} From {inputs} Where {_all(equal)}"
        case Member():
            pairs = _all(f"l.`{one}` = r.`{other}`" for one, other in plan.pairs)
            inner = f"Select 1 From ({to_sql(plan.other)}) r Where {pairs}"
            negated = "Not " if plan.negated else ""
            return f"Select {columns} From ({to_sql(plan.input)}) l Where {negated}Exists ({inner})"
        case Aggregate():
            keys = [f"`{name}`" for name in plan.keys]
            items = ", ".join([*keys, *(_call(each) for each in plan.aggregations)])
            return f"Select {items} From ({to_sql(plan.input)})" + (f" Group By {', '.join(keys)}" if keys else "")
        case Distinct():
            return f"Select Distinct {columns} From ({to_sql(plan.input)})"
        case SetOperation():
            word = f" {plan.kind}{' all' if plan.all else ''} "
            return word.join(f"Select * From ({to_sql(each)})" for each in plan.inputs)
        case _:
            assert_never(plan)


def _all(conditions: Iterator[str]) -> str:
    return " And ".join(f"({each})" for each in conditions) or "1"


def _call(each: Aggregation) -> str:
    argument = "*" if each.argument is None else f"{'Distinct ' if each.distinct else ''}`{each.argument}`"
    return f"{each.function}({argument}) As `{each.name}`"


def database(seed: int) -> sqlite3.Connection:
    rng = random.Random(seed)
    found = sqlite3.connect(":memory:")
    for name, columns in TABLES.items():
        found.execute(f"Create Table {name} ({', '.join(columns)})")
        rows = [[rng.choice([None, 0, 1, 2, 3, 4]) for _ in columns] for _ in range(rng.choice([0, 5, 15]))]
        found.executemany(f"Insert Into {name} Values (?, ?)", rows)
    return found


@pytest.mark.parametrize("text", QUERIES)
def test_a_plan_has_the_rows_of_its_query(text: str) -> None:
    plan = bind(text, Catalog(streams=TABLES), "q").plan
    for seed in range(12):
        base = database(seed)
        assert Counter(base.execute(to_sql(plan))) == Counter(base.execute(text)), f"{seed}: {to_sql(plan)}"
        base.close()
