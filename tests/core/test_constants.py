"""Constants are taken out of conditions only where an index compares as Spark does, and put back nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from anabranch.expressions import Scalar
from anabranch.planning.constants import masked, taken_out
from anabranch.planning.index_look_up import IndexLookUp

TYPES = {"v": pa.float64(), "f": pa.float32(), "n": pa.int32(), "k": pa.string(), "t": pa.timestamp("us", "UTC")}
Test = Callable[[dict[str, Any]], bool]
CASES: list[tuple[str, Test]] = [
    ("`n` > 2", lambda row: row["n"] > 2),
    ("-1 <= `n`", lambda row: row["n"] >= -1),
    ("`n` BETWEEN 0 AND 2", lambda row: 0 <= row["n"] <= 2),
    ("`n` IN (1, -2, 7)", lambda row: row["n"] in (1, -2)),
    ("`v` < 1.5", lambda row: row["v"] < 1.5),
    ("`v` = 1", lambda row: row["v"] == 1),
    ("`f` >= .5", lambda row: row["f"] >= 0.5),
    ("`k` = 'a'", lambda row: row["k"] == "a"),
    ("`k` LIKE 'a%'", lambda row: row["k"].startswith("a")),
    ("`k` LIKE '%b%'", lambda row: "b" in row["k"]),
    ("`k` IN ('a', 'ab')", lambda row: row["k"] in ("a", "ab")),
]


@pytest.mark.parametrize("seed", range(30))
def test_an_index_of_constants_finds_what_conditions_say(seed: int) -> None:
    rng = random.Random(seed)
    chosen = rng.sample(CASES, rng.randrange(1, 4))
    found = taken_out([Scalar.parsed(sql) for sql, _ in chosen], TYPES)
    assert not found.rest
    rows = [
        {
            "n": rng.randrange(-3, 5),
            "v": rng.randrange(-2, 5) / 2,
            "f": rng.randrange(3) / 2,
            "k": rng.choice(["a", "ab", "b", ""]),
        }
        for _ in range(50)
    ]
    table = pa.table(
        {
            probe.columns[0]: pa.array([value], kind)
            for probe, value, kind in zip(found.probes, found.values, found.kinds, strict=True)
        }
    )
    columns = pa.Table.from_pylist(rows, pa.schema([(name, TYPES[name]) for name in ("n", "v", "f", "k")]))
    kept = IndexLookUp.over(table, (), found.probes).found(columns).select(["n", "v", "f", "k"]).to_pylist()
    assert sorted(map(repr, kept)) == sorted(repr(row) for row in rows if all(test(row) for _, test in chosen))


@pytest.mark.parametrize(
    "sql",
    [
        "`t` > '2026-01-01'",
        "`n` > '3'",
        "`k` > 3",
        "`n` > 2.5",
        "`f` = 123456789",
        "`v` < 0.1234567890123456789",
        "`k` LIKE 'a_'",
        "`k` LIKE '%a'",
        "`k` NOT LIKE 'a%'",
        "NOT `n` > 3",
        "`n` <> 3",
        "`n` + 1 > 3",
        "`n` > `v`",
        "`n` = NULL",
        "`n` IN (1, `v`)",
        "`n` > 3 OR `k` = 'a'",
        "`other` > 3",
    ],
)
def test_other_conditions_stay_as_they_are(sql: str) -> None:
    condition = Scalar.parsed(sql)
    found = taken_out([condition], TYPES)
    assert (found.probes, found.rest) == ((), (condition,))


def test_the_order_of_conditions_makes_no_difference() -> None:
    one, other = Scalar.parsed("`n` > 3"), Scalar.parsed("'a' = `k`")
    assert taken_out([one, other], TYPES) == taken_out([other, one], TYPES)


def test_types_stand_for_constants_that_columns_are_compared_with() -> None:
    assert masked(Scalar.parsed("`n` > 3")) == masked(Scalar.parsed("`n` > 44"))
    assert masked(Scalar.parsed("`n` > 3")) != masked(Scalar.parsed("`n` > 3000000000"))
    assert masked(Scalar.parsed("`n` > 3")) != masked(Scalar.parsed("`n` > 3.5"))
    assert masked(Scalar.parsed("`t` > '2026'"), lambda _: False).sql == "`t` > '2026'"
    call = Scalar.parsed("from_json(`k`, 'a INT')")
    assert masked(call) == call
