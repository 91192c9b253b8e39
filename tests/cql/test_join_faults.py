"""Joins of what is hard to compare, missing or late: the definition, whatever the plan and however small the memory."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anabranch.planning.reading import JoinPlan
from chaos import chaotic_joins
from cql.comparing import bound, expected
from cql.local import LocalEngine
from cql.streams import SECOND, Case, Columns, Cuts, Row, Stream
from tiers import tiers

PAGE_BYTES = 4096
NAN = float("nan")
ROWS = 12
PLANS: list[tuple[JoinPlan, bool]] = [("auto", True), ("auto", False), ("fixed", True), ("xjoin", True)]
"""How it is joined, and whether hash codes collide."""
WINDOWS = ("[Range 4 Seconds]", "[Rows 6]", "[Rows Unbounded]")


@dataclass(frozen=True)
class Fault:
    """Three streams with columns k and j, and the conditions that join them.

    Parameters
    ----------
    kinds
        Types of k in each stream; j is a bigint.
    values
        Those of k.
    where
        Conditions between x, y and z.
    late
        Rows may come so much behind later ones.
    empty
        A stream without rows.
    """

    kinds: tuple[str, str, str] = ("bigint", "bigint", "bigint")
    values: tuple[Any, ...] = (1, 2, 3)
    where: str = "x.k = y.k And y.k = z.k"
    late: int = 0
    empty: str = ""


FAULTS = {
    "NULL": Fault(values=(1, 2, None)),
    "NaN": Fault(("double",) * 3, (1.5, NAN, None)),
    "zeros of both signs": Fault(("double",) * 3, (0.0, -0.0, 1.5)),
    "strings": Fault(("string",) * 3, ("p", "", "P", None)),
    "two columns together": Fault(values=(1, None), where="x.k = y.k And x.j = y.j And y.k = z.k And y.j = z.j"),
    "decimals of different scale": Fault(
        ("decimal(9, 2)", "decimal(20, 2)", "decimal(12, 4)"), (Decimal("1.00"), Decimal("1.25"), None)
    ),
    "no equal columns": Fault(where="x.j < y.j And y.j < z.j And x.k <> z.k"),
    "an input without rows": Fault(empty="s2"),
    "rows that come late": Fault(late=2 * SECOND),
}


def case(fault: Fault, sides: tuple[str, str] | None = None) -> Case:
    rng = random.Random(11)
    streams = []
    for name, kind in zip(("s1", "s2", "s3"), fault.kinds, strict=True):
        columns: Columns = (("k", kind), ("j", "bigint"), ("a", "bigint"))
        rows: tuple[Row, ...] = tuple(
            (n, n * SECOND // 3, rng.choice(fault.values), rng.randrange(3), n)
            for n in range(0 if name == fault.empty else ROWS)
        )
        comes = [row[1] + rng.randint(0, fault.late) for row in rows]
        arrival = tuple(sorted(range(len(rows)), key=comes.__getitem__))
        streams.append(Stream(name, columns, rows, arrival=arrival, skew=fault.late))
    inputs = [f"s{n + 1} {window} As {alias}" for n, (window, alias) in enumerate(zip(WINDOWS, "xyz", strict=True))]
    if sides is None:
        text = f"{', '.join(inputs)} Where {fault.where}"
    else:
        first = [each for each in fault.where.split(" And ") if "z." not in each]
        second = [each for each in fault.where.split(" And ") if "z." in each]
        text = f"{inputs[0]} {sides[0]} Join {inputs[1]} On {' And '.join(first)} "
        text += f"{sides[1]} Join {inputs[2]} On {' And '.join(second)}"
    batches: dict[str, tuple[int, ...]] = {each.name: (len(each.rows) // 3,) * 3 for each in streams}
    return Case(tuple(streams), (), f"Select x.a As a, y.a As b, z.a As c From {text}", Cuts(batches, 2))


@pytest.mark.parametrize("plan", tiers(PLANS, fast=1))
@pytest.mark.parametrize("fault", FAULTS)
def test_inner_joins(fault: str, plan: tuple[JoinPlan, bool], tmp_path: Path) -> None:
    given = case(FAULTS[fault])
    want = expected(given)
    assert bool(want) == (not FAULTS[fault].empty)
    assert LocalEngine(given, bound(given), tmp_path, few_codes=plan[1], join=plan[0]).answer() == want


@pytest.mark.parametrize("sides", tiers([("Full", "Left"), ("Left", "Right"), ("Inner", "Full")], fast=1))
@pytest.mark.parametrize("fault", FAULTS)
def test_outer_joins(fault: str, sides: tuple[str, str], tmp_path: Path) -> None:
    given = case(FAULTS[fault], sides)
    want = expected(given)
    assert any(None in row[:3] for row in want)
    assert LocalEngine(given, bound(given), tmp_path, few_codes=True).answer() == want


def test_caches_of_one_page() -> None:
    with chaotic_joins(random.Random(5), cache_bytes=(PAGE_BYTES,)) as chaos:
        for each in FAULTS.values():
            given = case(each)
            assert LocalEngine(given, bound(given), few_codes=True, chaos=chaos).answer() == expected(given)
    assert chaos.cached > ROWS
