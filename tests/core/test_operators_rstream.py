"""RStream against the definition: all of R(t) at the instants that are asked for, or at multiples of slides."""

import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import DataError
from anabranch.operators import arrangement, rstream, table_chunks
from anabranch.operators.base import EVER, FOREVER, Tick
from anabranch.operators.rstream import RStream
from tiers import tiers

LAST = 14
SECOND = 1_000_000
YEAR = 365 * 24 * 3600 * SECOND
COLUMNS = {"n": pa.int64(), "s": pa.string(), "l": pa.list_(pa.string())}

Row = dict[str, Any]


@pytest.fixture(params=[False, True])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(arrangement, "DEAD_SHARE", 0.0)
        monkeypatch.setattr(arrangement, "SETTLE_SHARE", 0.0)
        monkeypatch.setattr(table_chunks, "CHUNK_ROWS", 4)
        monkeypatch.setattr(rstream, "PART_ROWS", 3)


def draw(rng: np.random.Generator, size: int) -> list[Row]:
    """Elements, some of which are taken back, from some instant on or for a while."""
    rows: list[Row] = []
    for _ in range(size):
        start = int(rng.choice([EVER, *range(LAST)]))
        end = int(rng.choice([max(start, 0) + int(rng.integers(0, 9)), FOREVER]))
        row: Row = {"n": [0, 1, None][rng.integers(3)], "s": ["a", None][rng.integers(2)]}
        row |= {"l": [None, [], ["a", None]][rng.integers(3)]}
        weight = int(rng.integers(1, 3))
        rows.append(row | {"_start": start, "_end": end, "_weight": weight})
        if rng.random() < 0.6 and start < (later := int(rng.integers(0, LAST))) < end:
            until = min(end, later + int(rng.integers(1, 4))) if rng.random() < 0.3 else end
            rows.append(row | {"_start": later, "_end": until, "_weight": -weight})
    return rows


def to_table(rows: list[Row], codes: int) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()}
    keys = [sum(map(ord, repr([row[name] for name in COLUMNS]))) * 7919 % codes for row in rows]
    numbers = {name: [row[name] for row in rows] for name in ("_start", "_end", "_weight")} | {"_key": keys}
    return pa.table(columns | {name: pa.array(values, pa.int64()) for name, values in numbers.items()})


def values(row: Row) -> str:
    return repr([row[name] for name in COLUMNS])


def expected(rows: list[Row], instants: list[int]) -> Counter[tuple[int, str]]:
    found: Counter[tuple[int, str]] = Counter()
    for t in instants:
        for row in rows:
            if row["_start"] <= t < row["_end"]:
                found[t, values(row)] += row["_weight"]
    return +found


def run(
    rows: list[Row],
    instants: list[int],
    cuts: list[int],
    codes: int,
    swap: int | None,
    slides: tuple[int, ...] = (),
    origin: int = 0,
) -> Counter[tuple[int, str]]:
    operator = pickle.loads(pickle.dumps(RStream()))
    found: Counter[tuple[int, str]] = Counter()
    for number, (start, until) in enumerate(pairwise([0, *cuts, LAST])):
        due = to_table([row for row in rows if start <= max(row["_start"], 0) < until], codes)
        asked = np.array([t for t in instants if start <= t < until], dtype=np.int64)
        begun = origin if origin < until else None
        result = operator.advance([due], Tick(start, until, begun, asked, slides)).to_pylist()
        assert all(row["_weight"] == 1 for row in result)
        found.update((row["_time"], values(row)) for row in result)
        if number == swap:
            state = operator.snapshot()
            operator = RStream()
            operator.restore(state)
    return found


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", tiers(range(12), fast=4))
def test_any_cut_gives_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = draw(rng, int(rng.integers(0, 50)))
    instants = sorted(rng.choice(LAST, int(rng.integers(0, LAST)), replace=False).tolist())
    want = expected(rows, instants)
    for codes in (2, 10**9):
        cuts = sorted(rng.choice(np.arange(1, LAST), int(rng.integers(0, 8)), replace=False).tolist())
        for swap in (None, len(cuts) // 2):
            assert run(rows, instants, cuts, codes, swap) == want


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("slides", [(1,), (4,), (2, 3), (2, 4, 5)])
@pytest.mark.parametrize("seed", tiers(range(4), fast=2))
def test_slides_ask_for_their_multiples(seed: int, slides: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    rows, origin = draw(rng, 30), int(rng.integers(0, 6))
    want = expected(rows, [t for t in range(origin, LAST) if any(t % slide == 0 for slide in slides)])
    cuts = sorted(rng.choice(np.arange(1, LAST), int(rng.integers(0, 8)), replace=False).tolist())
    assert run(rows, [], cuts, 10**9, None, slides, origin) == want


def held(start: int, end: int, weight: int = 1) -> Row:
    return {"n": 0, "s": "a", "l": None, "_start": start, "_end": end, "_weight": weight}


def test_a_gap_of_years_costs_nothing() -> None:
    slides, last = (SECOND, 3 * SECOND // 2), 56 * YEAR
    rows = [held(SECOND, 3 * SECOND), held(30 * YEAR, 30 * YEAR + 4 * SECOND), held(last, last + SECOND, 2)]
    rows += [held(5 * SECOND, FOREVER), held(7 * SECOND, FOREVER, -1)]  # taken back
    asked = [t for at in (SECOND, 30 * YEAR, last) for t in range(at, at + 9 * SECOND, SECOND // 2)]
    want = expected(rows, [t for t in asked if any(t % slide == 0 for slide in slides)])
    found = RStream().advance([to_table(rows, 10**9)], Tick(EVER, last + 10 * SECOND, SECOND, slides=slides))
    assert Counter((row["_time"], values(row)) for row in found.to_pylist()) == want


def test_what_is_there_for_long_is_emitted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rstream, "PART_ROWS", 1000)
    operator = RStream()
    table = to_table([held(0, FOREVER), held(SECOND, 2 * SECOND)], 10**9)
    said = []
    for part in operator.in_parts([table], Tick(EVER, 10_000 * SECOND, 0, slides=(SECOND,))):
        assert part.num_rows <= 1000
        said.append(part["_time"].to_numpy())
    assert len(said) < 20
    assert np.concatenate(said).tolist() == sorted([*range(0, 10_000 * SECOND, SECOND), SECOND])
    assert operator.held_rows <= 2


@pytest.mark.parametrize("since", [EVER, 0])
def test_far_too_much_is_refused(since: int) -> None:
    table = to_table([held(since, FOREVER)], 10**9)
    with pytest.raises(DataError, match="about 1,766,016,000 rows at the instants from 1970-01-01T00:00:00 to 2025"):
        RStream().advance([table], Tick(EVER, 56 * YEAR, 0, slides=(SECOND,)))


@pytest.mark.parametrize("absorbed", [False, True])
def test_state_is_bounded(absorbed: bool) -> None:
    operator, one = RStream(), np.ones(10, np.int64)
    for t in range(300):
        n = np.arange(t * 10, t * 10 + 10)
        come = {"_start": t * one, "_end": FOREVER * one, "_weight": one, "_key": n}
        gone = come | {"_weight": -one, "_key": n - 30}
        new = [pa.table({"n": n} | come), pa.table({"n": n - 30} | gone).slice(0, 10 * (t >= 3))]
        tick = Tick(t, t + 1, 0, np.array([t]))
        if absorbed and t % 7:
            operator.absorb([pa.concat_tables(new)], tick)
        else:
            assert operator.advance([pa.concat_tables(new)], tick).num_rows == 10 * (min(t, 2) + 1)
        assert operator.held_rows <= 150
    assert operator.held_bytes < 15_000
