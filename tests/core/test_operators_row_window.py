"""Row windows against the definition: the latest rows of each partition, read off the whole stream at every instant."""

import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators import arrangement, table_chunks
from anabranch.operators.base import FOREVER, Port, Tick
from anabranch.operators.row_window import RowWindow, row_windows
from tiers import tiers

LAST = 16
VALUES: dict[str, tuple[list[Any], pa.DataType]] = {
    "user": (["ann", "bob", None], pa.string()),
    "seq": ([0, 1, None], pa.int64()),
    "note": (["x", "y"], pa.dictionary(pa.int8(), pa.string())),
}
WINDOWS = [
    RowWindow(1),
    RowWindow(3, ("user",), ("seq",)),
    RowWindow(3, ("user", "note"), ("note", "seq"), span=2),
    RowWindow(4, ("user",), ("seq",), slide_rows=3),
    RowWindow(2, ("user",), (), slide_rows=4),
    RowWindow(5, (), ("seq",), slide_rows=2, span=3),
]

Row = dict[str, Any]


@pytest.fixture(params=[False, True])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(arrangement, "DEAD_SHARE", 0.0)
        monkeypatch.setattr(table_chunks, "CHUNK_ROWS", 4)


def stream(rng: np.random.Generator, size: int) -> list[Row]:
    rows = [{name: values[rng.integers(len(values))] for name, (values, _) in VALUES.items()} for _ in range(size)]
    return [row | {"_time": int(rng.integers(LAST - 4))} for row in rows]


def to_table(rows: list[Row], window: RowWindow, codes: int) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, (_, kind) in VALUES.items()}
    keys = [sum(map(ord, repr([row[name] for name in window.partition]))) % codes for row in rows]
    return pa.table(columns | {name: pa.array(v, pa.int64()) for name, v in (("_time", times(rows)), ("_key", keys))})


def times(rows: list[Row]) -> list[int]:
    return [row["_time"] for row in rows]


def run(
    window: RowWindow, rows: list[Row], cuts: list[int], rng: np.random.Generator, codes: int, swap: int | None = None
) -> list[Row]:
    found: list[Row] = []
    operator = pickle.loads(pickle.dumps(fresh(window)))
    for number, (start, until) in enumerate(pairwise([0, *cuts, LAST])):
        due = [row for row in rows if start <= row["_time"] < until]
        rng.shuffle(due)
        found += operator.advance([to_table(due, window, codes)], Tick(start, until)).to_pylist()
        if number == swap:
            tables = operator.snapshot()
            operator = fresh(window)
            operator.restore(tables)
    return found


def fresh(window: RowWindow) -> RowWindow:
    return RowWindow(window.rows, window.partition, window.order, window.slide_rows, window.span)


def at(elements: list[Row], t: int) -> Counter[str]:
    bag: Counter[str] = Counter()
    for row in elements:
        if row["_start"] <= t < row["_end"]:
            bag[repr([row[name] for name in VALUES])] += row["_weight"]
    assert all(weight >= 0 for weight in bag.values())
    return +bag


def expected(window: RowWindow, rows: list[Row], t: int) -> Counter[str]:
    names = ["_time", *window.order, *(name for name in VALUES if name not in window.order)]
    ordered = sorted(rows, key=lambda row: [(row[name] is None, row[name]) for name in names])
    partitions: dict[str, list[Row]] = {}
    for row in ordered:
        if row["_time"] <= t:
            partitions.setdefault(repr([row[name] for name in window.partition]), []).append(row)
    bag: Counter[str] = Counter()
    for members in partitions.values():
        moved = len(members) // window.slide_rows * window.slide_rows
        for row in members[max(moved - window.rows, 0) : moved]:
            if window.span is None or row["_time"] >= t - window.span:
                bag[repr([row[name] for name in VALUES])] += 1
    return bag


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.rows}-{w.slide_rows}-{w.span}-{len(w.partition)}")
@pytest.mark.parametrize("seed", tiers(range(6), fast=3))
def test_any_cut_gives_the_definition(window: RowWindow, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = stream(rng, int(rng.integers(0, 70)))
    want = [expected(window, rows, t) for t in range(LAST)]
    for codes in (2, 10**9):
        cuts = sorted(rng.choice(np.arange(1, LAST), int(rng.integers(0, 8)), replace=False).tolist())
        for swap in (None, len(cuts) // 2):
            found = run(window, rows, cuts, rng, codes, swap)
            assert [at(found, t) for t in range(LAST)] == want
            assert all(row["_start"] < row["_end"] for row in found)


def test_known_ends_are_said_at_once_and_others_taken_back() -> None:
    window = RowWindow(1)
    stream = pa.table({"n": [1, 2, 3], "_time": [3, 4, 7], "_key": [0] * 3})
    first = window.advance([stream.slice(0, 2)], Tick(0, 5)).to_pylist()
    assert first == [
        {"n": 1, "_start": 3, "_end": 4, "_weight": 1},
        {"n": 2, "_start": 4, "_end": FOREVER, "_weight": 1},
    ]
    second = window.advance([stream.slice(2)], Tick(5, 9)).to_pylist()
    assert {"n": 2, "_start": 7, "_end": FOREVER, "_weight": -1} in second
    assert window.advance([stream.slice(3)], Tick(9, 10)).num_rows == 0


@pytest.mark.parametrize(("span", "most"), [(None, 3 * 200 * 3), (3, 3 * 40 * 5)])
def test_state_is_bounded(span: int | None, most: int) -> None:
    rng, window = np.random.default_rng(1), RowWindow(2, ("user",), span=span)
    for t in range(300):
        user = rng.integers(0, 200, 40) if span is None else rng.integers(0, 10**9, 40)
        table = pa.table({"user": user, "text": user.astype(str), "_time": np.full(40, t), "_key": user})
        window.advance([table], Tick(t, t + 1))
        assert window.held_rows <= most
    assert window.held_bytes < 200 * most


def test_nested_and_odd_values_are_partitions_too() -> None:
    values = [0.0, -0.0, float("nan"), float("nan"), None, None]
    window = RowWindow(1, ("x",))
    table = pa.table({"x": values, "l": [[1], None, [], [2], [1], [1]], "_time": [1, 2, 2, 3, 2, 3], "_key": [0] * 6})
    window.advance([table.slice(0, 1)], Tick(0, 2))
    found = window.advance([table.slice(1)], Tick(2, 9)).to_pylist()
    assert Counter(row["_weight"] for row in found) == {1: 5, -1: 1}


def test_a_snapshot_does_not_change() -> None:
    window = RowWindow(1, span=5)
    stream = pa.table({"n": [1, 2, 3], "_time": [3, 4, 7], "_key": [0] * 3})
    window.advance([stream.slice(0, 2)], Tick(0, 5))
    taken = window.snapshot()
    before = [table.to_pylist() for table in taken]
    window.advance([stream.slice(2)], Tick(5, 9))
    assert [table.to_pylist() for table in taken] == before


@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.rows}-{w.slide_rows}-{w.span}-{len(w.partition)}")
@pytest.mark.parametrize("seed", range(4))
def test_windows_of_fewer_rows_are_cut_from_the_largest_one(
    window: RowWindow, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest window leaves half-way: what was kept for it alone is forgotten."""
    monkeypatch.setattr(arrangement, "DEAD_SHARE", 0.0)
    rng = np.random.default_rng(seed)
    rows = stream(rng, int(rng.integers(20, 70)))
    about = (window.partition, window.order, window.slide_rows, window.span)
    sizes: tuple[Port, ...] = tuple((window.rows + more,) for more in (0, 1, 4))
    operator, found = row_windows(*about, sizes), {size: list[Row]() for size in sizes}
    cuts = sorted(rng.choice(np.arange(1, LAST), 5, replace=False).tolist())
    alone = fresh(window)
    for number, (start, until) in enumerate(pairwise([0, *cuts, LAST])):
        due = to_table([row for row in rows if start <= row["_time"] < until], window, 10**9)
        for size, table in operator.ports([due], Tick(start, until)).items():
            found[size or ()] += table.to_pylist()
        alone.advance([due], Tick(start, until))
        if number == len(cuts) // 2:
            tables = operator.snapshot()
            operator = row_windows(*about, ((window.rows,),))
            operator.restore(tables)
            assert operator.held_rows == alone.held_rows
            last = until
    for (count,), elements in found.items():
        wanted = RowWindow(count, *about)
        times = range(LAST if count == window.rows else last)
        assert [at(elements, t) for t in times] == [expected(wanted, rows, t) for t in times]
