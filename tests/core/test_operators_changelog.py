"""Changes against the definition: R(t) - R(t - 1) at every instant."""

import pickle
from collections import Counter
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators import pending_events
from anabranch.operators.base import EVER, FOREVER, Tick
from anabranch.operators.changelog import Changelog
from tiers import tiers

ORIGIN, LAST = 2, 14
KINDS: list[Literal["istream", "dstream", "relation"]] = ["istream", "dstream", "relation"]
COLUMNS = {"n": pa.int64(), "s": pa.string(), "l": pa.list_(pa.string()), "x": pa.float64()}

Row = dict[str, Any]


@pytest.fixture(params=[65_536, 4])
def largest_merge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_events, "LARGEST_MERGE", request.param)


def draw(rng: np.random.Generator, size: int) -> list[Row]:
    """Elements from the origin on, or from ever; with weights of any sign, as changes are linear."""
    rows: list[Row] = []
    for _ in range(size):
        start = int(rng.choice([EVER, *range(ORIGIN, LAST)]))
        end = int(rng.choice([max(start, 0) + int(rng.integers(0, 6)), FOREVER]))
        row: Row = {"n": [0, 1, None][rng.integers(3)], "s": ["a", None][rng.integers(2)]}
        row |= {"l": [None, [], ["a", None]][rng.integers(3)], "x": [0.5, None][rng.integers(2)]}
        rows.append(row | {"_start": start, "_end": end, "_weight": int(rng.choice([-1, 1, 2]))})
    return rows


def to_table(rows: list[Row], codes: int) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()}
    keys = [sum(map(ord, repr([row[name] for name in COLUMNS]))) * 7919 % codes for row in rows]
    numbers = {name: [row[name] for row in rows] for name in ("_start", "_end", "_weight")} | {"_key": keys}
    return pa.table(columns | {name: pa.array(values, pa.int64()) for name, values in numbers.items()})


def values(row: Row) -> str:
    return repr([row[name] for name in COLUMNS])


def expected(rows: list[Row], kind: str) -> Counter[tuple[int, str, int]]:
    found: Counter[tuple[int, str, int]] = Counter()
    before: Counter[str] = Counter()
    for t in range(ORIGIN, LAST):
        now: Counter[str] = Counter()
        for row in rows:
            if row["_start"] <= t < row["_end"]:
                now[values(row)] += row["_weight"]
        for each in now.keys() | before.keys():
            change = now[each] - before[each]
            sign = 1 if change > 0 else -1
            if change and kind == "relation":
                found[t, each, sign] = abs(change)
            elif change and kind == ("istream" if change > 0 else "dstream"):
                found[t, each, 1] = abs(change)
        before = now
    return found


def run(
    rows: list[Row], kind: Literal["istream", "dstream", "relation"], cuts: list[int], codes: int, swap: int | None
) -> Counter[tuple[int, str, int]]:
    operator = pickle.loads(pickle.dumps(Changelog(kind)))
    found: Counter[tuple[int, str, int]] = Counter()
    for number, (start, until) in enumerate(pairwise([0, *cuts, LAST])):
        due = [row for row in rows if start <= max(row["_start"], 0) < until]
        origin = ORIGIN if until > ORIGIN else None
        result = operator.advance([to_table(due, codes)], Tick(start, until, origin)).to_pylist()
        assert all(start <= row["_time"] < until for row in result)
        found.update((row["_time"], values(row), row["_weight"]) for row in result)
        if number == swap:
            state = operator.snapshot()
            operator = Changelog(kind)
            operator.restore(state)
    return found


@pytest.mark.usefixtures("largest_merge")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", tiers(range(8), fast=3))
def test_any_cut_gives_the_definition(kind: Literal["istream", "dstream", "relation"], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = draw(rng, int(rng.integers(0, 60)))
    want = expected(rows, kind)
    for codes in (2, 10**9):
        cuts = sorted(rng.choice(np.arange(1, LAST), int(rng.integers(0, 8)), replace=False).tolist())
        for swap in (None, len(cuts) // 2):
            assert run(rows, kind, cuts, codes, swap) == want


def test_values_that_equal_one_another_cancel() -> None:
    ends = {"_start": [1, 1], "_end": [3, 3], "_weight": [1, -1], "_key": [5, 5]}
    for pair in ([0.0, -0.0], [float("nan"), float("nan")], [None, None]):
        table = pa.table({"x": pa.array(pair, pa.float64())} | ends)
        assert Changelog("relation").advance([table], Tick(0, 9, 1)).num_rows == 0
    told_apart = pa.table({"x": [0.0, -0.0]} | ends | {"_key": [5, 6]})
    assert Changelog("relation").advance([told_apart], Tick(0, 9, 1)).num_rows == 4


def test_elements_may_lie_ahead_and_absorbing_keeps_them() -> None:
    table = pa.table({"n": [1], "_start": [5], "_end": [7], "_weight": [1], "_key": [0]})
    operator = Changelog("relation")
    operator.absorb([table], Tick(0, 2, 0))
    assert operator.advance([table.slice(0, 0)], Tick(2, 6, 0)).to_pylist() == [{"n": 1, "_time": 5, "_weight": 1}]
    assert operator.advance([table.slice(0, 0)], Tick(6, 8, 0)).to_pylist() == [{"n": 1, "_time": 7, "_weight": -1}]
    assert operator.held_rows == 0


def test_state_is_bounded() -> None:
    operator = Changelog("istream")
    for t in range(300):
        n = np.arange(20)
        ends = {"_start": np.full(20, t), "_end": t + 1 + n % 5, "_weight": np.ones(20, np.int64), "_key": n}
        operator.advance([pa.table({"n": n, "s": n.astype(str)} | ends)], Tick(t, t + 1, 0))
        assert operator.held_rows <= 100
    assert operator.held_bytes < 10_000
