from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.operators.base import EVER, FOREVER, Tick
from anabranch.operators.set_operation import SetOperator
from tiers import tiers

LAST = 20
KINDS = pa.schema([("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.int64()))])
ROWS: list[tuple[Any, ...]] = [(1, "a", [1]), (None, "a", [1]), (1, None, [1]), (2, "b", [1]), (3, "b", None)]
Element = tuple[int, int, int, int, int]  # input, row, start, end, weight


def reference(rule: str, one: int, other: int) -> int:
    return {
        "distinct": int(one > 0),
        "except all": max(one - other, 0),
        "intersect all": min(one, other),
        "except": int(one > 0 and other == 0),
        "intersect": int(one > 0 and other > 0),
    }[rule]


def random_elements(random: np.random.Generator, inputs: int) -> list[Element]:
    out: list[Element] = []
    for _ in range(int(random.integers(0, 40))):
        side, row = int(random.integers(inputs)), int(random.integers(len(ROWS)))
        start, weight = int(random.integers(2, 14)), int(random.integers(1, 4))
        if random.random() < 0.15:
            out.append((side, row, EVER, FOREVER if random.random() < 0.5 else 7, weight))
        elif random.random() < 0.5:
            out.append((side, row, start, start + int(random.integers(0, 6)), weight))
        else:
            out += [
                (side, row, start, FOREVER, weight),
                (side, row, start + int(random.integers(0, 5)), FOREVER, -weight),
            ]
    return out


def table_of(listed: Sequence[Element], side: int, collide: bool) -> pa.Table:
    mine = [each for each in listed if each[0] == side]
    names = KINDS.names if side == 0 else [f"other_{name}" for name in KINDS.names]
    rows = [ROWS[each[1]] for each in mine]
    columns = {name: pa.array([row[i] for row in rows], KINDS.types[i]) for i, name in enumerate(names)}
    for place, name in enumerate(("_start", "_end", "_weight")):
        columns[name] = pa.array([each[2 + place] for each in mine], pa.int64())
    columns["_key"] = pa.array([each[1] % 2 if collide else each[1] for each in mine], pa.int64())
    return pa.table(columns)


def run(listed: Sequence[Element], inputs: int, rule: str, seed: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    cuts = sorted({0, LAST, *random.integers(1, LAST, int(random.integers(0, 8))).tolist()})
    origin = min((each[2] for each in listed if each[2] != EVER), default=1)
    operator, out, left = pickle.loads(pickle.dumps(SetOperator(inputs, rule))), [], list(listed)
    for start, until in pairwise(cuts):
        here = [e for e in left if e[2] < until or random.random() < 0.2]
        for each in here:
            left.remove(each)
        tables = [table_of(here, side, seed % 2 == 0) for side in range(inputs)]
        emitted = operator.advance(tables, Tick(start, until, origin if origin < until else None))
        assert emitted.column_names == [*KINDS.names, "_start", "_end", "_weight"]
        assert all(start <= time < until for time in emitted["_start"].to_pylist())
        out += emitted.to_pylist()
        if random.random() < 0.4:
            tables, operator = operator.snapshot(), SetOperator(inputs, rule)
            operator.restore(tables)
    return out


@pytest.mark.parametrize("rule", ["distinct", "except all", "intersect all", "except", "intersect"])
@pytest.mark.parametrize("seed", tiers(range(10), fast=4))
def test_every_instant_is_as_defined(rule: str, seed: int) -> None:
    inputs = 1 if rule == "distinct" else 2
    listed = random_elements(np.random.default_rng([seed, len(rule)]), inputs)
    origin = min((each[2] for each in listed if each[2] != EVER), default=1)
    for cut in range(2):
        out = run(listed, inputs, rule, seed * 2 + cut)
        for time in range(LAST):
            wanted: Counter[str] = Counter()
            for number, row in enumerate(ROWS):
                counts = [
                    sum(w for s, r, start, end, w in listed if (s, r) == (side, number) and start <= time < end)
                    for side in (0, 1)
                ]
                wanted[repr(row)] = reference(rule, *counts) if time >= origin else 0
            found: Counter[str] = Counter()
            for emitted in out:
                if emitted["_start"] <= time < emitted["_end"]:
                    found[repr(tuple(emitted[name] for name in KINDS.names))] += emitted["_weight"]
            assert +found == +wanted
            assert min(found.values(), default=0) >= 0


def test_what_stays_the_same_says_nothing() -> None:
    counting = SetOperator(1, "distinct")
    table = table_of([(0, 0, 1, 9, 1), (0, 0, 2, 5, 3), (0, 0, 4, FOREVER, 1)], 0, False)
    assert len(counting.advance([table], Tick(0, 6, 1))) == 1
    assert len(counting.advance([table.slice(0, 0)], Tick(6, 20, 1))) == 0


def test_state_is_bounded_by_the_window() -> None:
    counting, held = SetOperator(1, "distinct"), []
    for tick in range(150):
        n = np.arange(tick * 100, tick * 100 + 100)
        table = pa.table({"n": n, "_start": n, "_end": n + 1000, "_weight": np.ones(100, np.int64), "_key": n % 777})
        counting.absorb([table], Tick(tick * 100, tick * 100 + 100, 0))
        held.append((counting.held_rows, counting.held_bytes))
    assert max(rows for rows, _ in held) <= 2 * 1100
    assert held[-1][1] <= 1.5 * held[40][1]
    assert counting.advance([table.slice(0, 0)], Tick(15000, 30000, 0)).num_rows == 1000
    assert counting.held_rows == 0


def test_zeros_are_one_row_and_so_are_nan() -> None:
    values = [-0.0, 0.0, float("nan"), float("nan"), None, None]
    table = pa.table({"x": values, "_start": [1] * 6, "_end": [9] * 6, "_weight": [1] * 6, "_key": [0, 0, 1, 1, 1, 1]})
    out = SetOperator(1, "distinct").advance([table], Tick(0, 5, 1))
    assert sorted(map(repr, out["x"].to_pylist())) == ["0.0", "None", "nan"]


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(QueryError, match="did you mean 'except all'"):
        SetOperator(2, "except_all")
