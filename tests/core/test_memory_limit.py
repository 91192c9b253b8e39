"""Joins in a quarter of the memory that they need: equal answers, bytes as reported and as they are, broken disks."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch import storage
from anabranch.engine.memory_limit import Budget, MemoryLimits, shares
from anabranch.errors import ResourceError
from anabranch.operators import cold_windows
from anabranch.operators.base import FOREVER, Tick
from anabranch.operators.join import MultiJoin
from anabranch.operators.xjoin import XJoin
from anabranch.spark.continuous.cell_task import CellReport

TICKS, SPAN = 30, 20
KEYS = (((0, "a"), (1, "b")),)


def elements(rng: np.random.Generator, name: str, tick: int, rows: int, ends: int | None = None) -> pa.Table:
    """Rows of one tick: half of them meet partners of this tick, half of them of any before."""
    when = np.where(rng.random(rows) < 0.5, tick, rng.integers(0, tick + 1, rows))
    keys, start = when * rows + rng.integers(0, rows, rows), np.full(rows, tick)
    columns = {
        name: keys,
        f"text_{name}": pa.array([f"number {each}" for each in keys]),
        f"maybe_{name}": pa.array(keys % 7, mask=keys % 3 == 0),
        "_start": start,
        "_end": start + SPAN if ends is None else np.full(rows, ends),
        "_weight": np.ones(rows, np.int64),
    }
    return pa.table(columns)


def inputs(rows: int, names: str = "ab") -> list[list[pa.Table]]:
    rng = np.random.default_rng(5)
    return [[elements(rng, name, tick, rows) for name in names] for tick in range(TICKS)]


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in sorted(table.column_names)), strict=True), key=repr)


def note_changes(table: pa.Table, bag: Counter[tuple[object, ...]]) -> None:
    """When rows come and go, and how often."""
    for row in table.to_pylist():
        start, end, weight = (row.pop(name) for name in ("_start", "_end", "_weight"))
        bag[*row.values(), start] += weight
        bag[*row.values(), end] -= weight


def nonzero(bag: Counter[tuple[object, ...]]) -> dict[tuple[object, ...], int]:
    return {row: weight for row, weight in bag.items() if weight}


def actual(join: MultiJoin) -> int:
    """The bytes of all arrays and Arrow buffers of windows, each once, and of filters."""
    found: dict[int, int] = {}
    for window in join._windows:
        store, payload = window.store, window.payload
        growing = [*store._columns_kept(), *(each._values for each in payload._fixed.values())]
        growing += [each._valid for each in payload._fixed.values() if each._valid is not None]
        arrays = [each._array for each in growing]
        found |= {id(each): each.nbytes for each in (*arrays, store._latest)}
        found |= {id(each): each.nbytes for each in store._indexes.values()}
        for chunk in payload._chunks._chunks:
            parts = (part for column in chunk.columns for part in column.chunks)
            found |= {each.address: each.size for part in parts for each in part.buffers() if each is not None}
    return sum(found.values()) + (join._cold.nbytes if join._cold is not None else 0)


@pytest.mark.parametrize("rows", [400, 2000])
def test_a_quarter_of_the_memory_is_enough(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_windows, "LEAST_BYTES", 4096)
    whole, ticks = MultiJoin(2, KEYS), inputs(rows)
    want, needed = [], 0
    for tick, tables in enumerate(ticks):
        want.append(rows_of(whole.advance(tables, Tick(tick, tick + 1))))
        needed = max(needed, whole.take_peak())
    limit, join, on_disk = needed // 4, MultiJoin(2, KEYS), 0
    join.limit_memory(limit)
    for tick, tables in enumerate(ticks):
        assert rows_of(join.advance(tables, Tick(tick, tick + 1))) == want[tick]
        assert join.take_peak() <= 1.1 * limit
        assert actual(join) <= 1.1 * limit
        on_disk = max(on_disk, join.file_bytes)
    assert on_disk > limit
    assert join.held_rows < 1.5 * whole.held_rows  # what is over goes from the disk, too


def test_rows_that_are_taken_back_do_not_stay_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_windows, "LEAST_BYTES", 1000)
    rng, join, whole = np.random.default_rng(5), MultiJoin(2, KEYS), MultiJoin(2, KEYS)
    join.limit_memory(30_000)
    found = {each: Counter[tuple[object, ...]]() for each in (join, whole)}
    before: list[pa.Table] = []
    for tick in range(TICKS):
        before.append(elements(rng, "a", tick, 100, FOREVER))
        came = [before[-1]]
        if tick >= 5:
            out = before[tick - 5]
            start, weight = (out.column_names.index(name) for name in ("_start", "_weight"))
            out = out.set_column(start, "_start", pa.array([tick] * 100))
            came.append(out.set_column(weight, "_weight", pa.array([-1] * 100)))
        tables = [pa.concat_tables(came), elements(rng, "b", tick, 100)]
        for each, bag in found.items():
            note_changes(each.advance(tables, Tick(tick, tick + 1)), bag)
    assert nonzero(found[join]) == nonzero(found[whole])
    assert join._cold is not None
    assert len(join._cold._cold[0]) + len(join._windows[0]) < 1500
    assert join.file_bytes > 0


def test_a_tree_of_joins_divides_its_limit() -> None:
    keys = (((0, "a"), (1, "b"), (2, "c")),)
    tree, whole = XJoin(3, keys), XJoin(3, keys)
    tree.limit_memory(200_000)
    for tick, tables in enumerate(inputs(200, "abc")):
        one, other = (each.advance(tables, Tick(tick, tick + 1)) for each in (tree, whole))
        assert rows_of(one) == rows_of(other)
    assert tree.file_bytes > 0
    assert tree.held_bytes < 200_000 < whole.held_bytes
    assert tree.take_peak() > 0


def test_without_a_limit_everything_comes_back() -> None:
    join, ticks = MultiJoin(2, KEYS), inputs(400)
    join.limit_memory(100_000)
    for tick, tables in enumerate(ticks[:10]):
        join.advance(tables, Tick(tick, tick + 1))
    rows = join.held_rows
    assert join.file_bytes > 0
    join.limit_memory(None)
    join.advance([each.slice(0, 0) for each in ticks[0]], Tick(10, 11))
    assert (join.file_bytes, join.held_rows) == (0, rows)


@pytest.fixture
def gone_cold() -> tuple[MultiJoin, list[pa.Table]]:
    join, ticks = MultiJoin(2, KEYS), inputs(400)
    join.limit_memory(100_000)
    for tick, tables in enumerate(ticks[:10]):
        join.advance(tables, Tick(tick, tick + 1))
    return join, ticks[10]


def test_a_damaged_file_is_told(gone_cold: tuple[MultiJoin, list[pa.Table]]) -> None:
    join, tables = gone_cold
    assert join._cold is not None
    for segment in (each for cold in join._cold._cold for each in cold._segments):
        segment._file._tested.clear()
        os.pwrite(segment._file._number, b"\xff" * segment._file.bytes, 0)
    with pytest.raises(ResourceError, match="are damaged"):
        join.advance(tables, Tick(10, 11))


def test_a_full_disk_is_told(gone_cold: tuple[MultiJoin, list[pa.Table]]) -> None:
    def full(operation: str, path: Path) -> None:
        if operation == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    join, tables = gone_cold
    many = [pa.concat_tables([each] * 20) for each in tables]
    with storage.watching(full), pytest.raises(ResourceError, match="No space left on device"):
        join.advance(many, Tick(10, 11))


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_fair_and_never_more_than_the_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    limit, fixed = int(rng.integers(100, 10_000)), int(rng.integers(0, 5000))
    needs = {each: None if rng.random() < 0.2 else int(rng.integers(0, 5000)) for each in range(rng.integers(1, 9))}
    given, left = shares(limit, fixed, needs), max(limit // 4, limit - fixed)
    assert sum(given.values()) <= left
    lacking = [each for each, need in needs.items() if need is None or given[each] < need]
    assert all(max(given.values()) <= given[each] + len(needs) for each in lacking)


def report(held: int, fixed: int) -> CellReport:
    goes = fixed < held
    return CellReport((), 1, 1, 1, held, 0.0, 0, fixed_bytes=fixed, peak_bytes=held, goes_to_disk=goes)


NODES = {"small": ["n1"], "large": ["n1", "n2"]}
CELLS = {"n1": [0, 1], "n2": [0]}
FITS, OVER = {("n1", 0): report(300, 0)}, {("n1", 0): report(300, 0), ("n2", 0): report(900, 900)}


def test_more_than_the_limit_is_told_once() -> None:
    limits, whole = MemoryLimits(), [Budget(1000, ["small", "large"])]
    assert limits.divided(whole, NODES, CELLS, OVER) == {"n1": {0: 125, 1: 125}}
    assert limits.exceeded(whole, NODES, FITS) == []
    (event,) = limits.exceeded(whole, NODES, OVER)
    assert (event.query, event.bytes, event.limit, event.alone) == ("large", 1200, 1000, False)
    assert limits.exceeded(whole, NODES, OVER) == []
    assert limits.exceeded(whole, NODES, FITS) == []
    assert len(limits.exceeded(whole, NODES, OVER)) == 1
    assert limits.divided([], NODES, CELLS, OVER) == {}


def test_an_operator_keeps_to_the_limits_of_all_its_queries() -> None:
    limits, small = MemoryLimits(), Budget(100, ["small"], "small")
    both = [Budget(10_000, ["small", "large"]), small, Budget(4000, ["large"], "large")]
    assert limits.divided(both, NODES, CELLS, OVER) == {"n1": {0: 50, 1: 50}}
    (event,) = limits.exceeded(both, NODES, OVER)
    assert (event.query, event.bytes, event.limit, event.alone) == ("small", 300, 100, True)
