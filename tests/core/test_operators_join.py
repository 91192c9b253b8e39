"""Joins against the definition: at every instant the combinations of the rows that are there."""

import operator
import pickle
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.constraints.config import ConstraintConfig
from anabranch.joins import overlaps, window_store
from anabranch.joins.cache_candidates import Candidate
from anabranch.operators import cold_windows, constrained_join, join_window, table_chunks
from anabranch.operators.base import EVER, FOREVER, Operator, Port, Tick
from anabranch.operators.comparisons import Comparison
from anabranch.operators.constrained_join import ConstrainedJoin
from anabranch.operators.join import KeyClass, MultiJoin
from anabranch.operators.join_ranges import JoinRanges
from anabranch.operators.xjoin import XJoin
from tiers import tiers

LAST = 12
INSTANTS = range(LAST + 3)

Row = dict[str, Any]
SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, "<>": operator.ne}


@dataclass(frozen=True)
class Case:
    inputs: int
    keys: tuple[KeyClass, ...]
    orders: tuple[tuple[int, ...], ...] | None = None
    comparisons: tuple[Comparison, ...] = ()
    tree: bool = False
    cache_bytes: int = 0
    constraints: bool = False
    limit: int | None = None

    def start(self) -> Operator:
        if self.tree:
            return XJoin(self.inputs, self.keys, self.comparisons)
        if self.constraints:
            return ConstrainedJoin(self.inputs, self.keys, self.comparisons, "auto", "exact")
        join = MultiJoin(self.inputs, self.keys, self.comparisons, cache_bytes=self.cache_bytes)
        join.pin(dict(enumerate(self.orders or ())))
        join.limit_memory(self.limit)
        return join


CASES = {
    "two": Case(2, (((0, "k0"), (1, "k1")),)),
    "two keys": Case(2, (((0, "k0"), (1, "k1")), ((0, "s0"), (1, "s1")))),
    "star": Case(3, (((0, "k0"), (1, "k1"), (2, "k2")),)),
    "cycle": Case(3, (((0, "k0"), (1, "k1")), ((1, "s1"), (2, "s2")), ((2, "k2"), (0, "n0")))),
    "chain": Case(3, (((0, "k0"), (1, "k1")), ((1, "s1"), (2, "s2"))), ((2, 1), (2, 0), (0, 1))),
    "theta": Case(2, (((0, "k0"), (1, "k1")),), comparisons=(Comparison(((0, "n0"), (1, "n1")), "<"),)),
    "theta chain": Case(
        3,
        (((0, "k0"), (1, "k1")), ((1, "s1"), (2, "s2"))),
        comparisons=(Comparison(((2, "n2"), (0, "n0")), "<="), Comparison(((1, "s1"), (0, "s0")), "<>")),
    ),
    "theta alone": Case(2, (), comparisons=(Comparison(((0, "k0"), (1, "n1")), ">"),)),
    "tree": Case(
        5, (((0, "k0"), (1, "k1")), ((0, "n0"), (2, "n2")), ((2, "k2"), (3, "k3")), ((2, "s2"), (4, "s4"))), None
    ),
    "cross": Case(3, (((0, "k0"), (2, "k2")),)),
    "all cross": Case(2, ()),
}


PLAIN = tuple(CASES)
MANY = {name: case for name, case in CASES.items() if case.inputs > 2}
CASES |= {f"{name}, as a tree": replace(case, tree=True) for name, case in MANY.items()}
CASES |= {f"{name}, with caches": replace(case, cache_bytes=2**20) for name, case in MANY.items()}
CASES |= {f"{name}, with a page": replace(case, cache_bytes=1000) for name, case in MANY.items() if name != "all cross"}
CASES |= {f"{name}, in {limit} bytes": replace(CASES[name], limit=limit) for name in PLAIN for limit in (0, 3000)}
CASES |= {
    f"{name}, with constraints": replace(case, constraints=True)
    for name, case in CASES.items()
    if not case.tree and not case.cache_bytes and case.limit is None
}


@pytest.fixture(params=[False, True], ids=["lazy", "eager"])
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(window_store, "DEAD_SHARE", 0.0)
        monkeypatch.setattr(join_window, "SETTLE_SHARE", 0.0)
        monkeypatch.setattr(table_chunks, "CHUNK_ROWS", 4)
        monkeypatch.setattr(overlaps, "MOST_CANDIDATES", 0)
        monkeypatch.setattr(cold_windows, "LEAST_BYTES", 100)


@pytest.fixture
def quick_to_conclude(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constraints are used after two rows, and rows go one by one."""
    config = ConstraintConfig(window_arrivals=2, slack=1, sample_share=0.1, selection="all")
    monkeypatch.setattr(constrained_join, "CONFIG", config)
    monkeypatch.setattr(constrained_join, "TRIAL_ARRIVALS", 2)
    monkeypatch.setattr(constrained_join, "LEAST_GOING", 1)


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        pytest.importorskip("numba")
    monkeypatch.setattr(window_store, "compiles", lambda: request.param)


def draw(rng: np.random.Generator, i: int, size: int) -> list[Row]:
    """Elements of input i with few values; some take back others."""
    rows: list[Row] = []
    for _ in range(size):
        start = int(rng.integers(-2, LAST))
        end = int(rng.choice([start + int(rng.integers(0, 6)), FOREVER]))
        key, text = int(rng.integers(4)), "abc"[rng.integers(3)]
        row = {f"k{i}": key, f"s{i}": text, f"n{i}": int(rng.integers(3)), f"l{i}": [[1], None][rng.integers(2)]}
        weight = int(rng.integers(1, 3))
        rows.append(row | {"_start": EVER if start < 0 else start, "_end": end, "_weight": weight})
        if start < (later := int(rng.integers(0, LAST))) < end:
            rows.append(row | {"_start": later, "_end": end, "_weight": -weight})
    return rows


def to_table(rows: list[Row], i: int, case: Case, codes: int) -> pa.Table:
    kinds = {f"k{i}": pa.int32() if i else pa.int64(), f"s{i}": pa.string(), f"n{i}": pa.int64()}
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    columns[f"l{i}"] = pa.array([row[f"l{i}"] for row in rows], pa.list_(pa.int64()))
    for j, members in enumerate(case.keys):
        if i in dict(members):
            values = [row[dict(members)[i]] for row in rows]
            columns[f"_key{j}"] = pa.array([_code(value) % codes for value in values], pa.int64())
    numbers = {name: pa.array([row[name] for row in rows], pa.int64()) for name in ("_start", "_end", "_weight")}
    return pa.table(columns | numbers)


def _code(value: str | int) -> int:
    return ord(value) if isinstance(value, str) else value


def at(rows: list[Row], t: int) -> Counter[str]:
    bag: Counter[str] = Counter()
    for row in rows:
        if row["_start"] <= t < row["_end"]:
            bag[repr({name: value for name, value in row.items() if name[0] != "_"})] += row["_weight"]
    return nonzero(bag)


def nonzero(bag: Counter[str]) -> Counter[str]:
    return Counter({row: weight for row, weight in bag.items() if weight})


def expected(sides: list[list[Row]], case: Case, t: int) -> Counter[str]:
    bag: Counter[str] = Counter()
    for parts in product(*([row for row in side if row["_start"] <= t < row["_end"]] for side in sides)):
        if all(len({parts[i][name] for i, name in members}) == 1 for members in case.keys) and all(
            SIGNS[each.sign](*(parts[i][name] for i, name in each.sides)) for each in case.comparisons
        ):
            merged = {name: value for part in parts for name, value in part.items() if name[0] != "_"}
            bag[repr(merged)] += int(np.prod([part["_weight"] for part in parts]))
    return nonzero(bag)


def run(
    sides: list[list[Row]], case: Case, cuts: list[int], rng: np.random.Generator, codes: int, swap: int | None
) -> list[Row]:
    """Elements come in the tick of their start, or in one before it."""
    join = pickle.loads(pickle.dumps(case.start()))
    starts = np.array([0, *cuts])
    ticks = [[min(_tick(starts, row), int(rng.integers(len(starts)))) for row in side] for side in sides]
    found: list[Row] = []
    for number, (start, until) in enumerate(pairwise([0, *cuts, LAST])):
        tables = [
            to_table([row for row, n in zip(side, when, strict=True) if n == number], i, case, codes)
            for i, (side, when) in enumerate(zip(sides, ticks, strict=True))
        ]
        if number:
            switch_caches(join, rng)
        found += join.advance(tables, Tick(start, until)).to_pylist()
        if number == swap:
            state = join.snapshot()
            join = case.start()
            join.restore(state)
    return found


def switch_caches(join: Operator, rng: np.random.Generator) -> None:
    """Use some of the caches that can be used together."""
    if isinstance(join, MultiJoin) and join.caches is not None and rng.random() < 0.7:
        chosen: list[Candidate] = []
        for each in rng.permutation(np.array([*join.caches.candidates, None], dtype=object)):
            if each is not None and not any(each.overlaps(other) for other in chosen):
                chosen.append(each)
        join.caches.use(chosen)


def _tick(starts: np.ndarray[Any, Any], row: Row) -> int:
    return max(int(np.searchsorted(starts, row["_start"], side="right")) - 1, 0)


@pytest.mark.usefixtures("eager", "kernels", "quick_to_conclude")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", tiers(range(5), fast=2))
def test_any_cut_gives_the_definition(name: str, seed: int) -> None:
    case, rng = CASES[name], np.random.default_rng(seed)
    most = 25 if case.inputs == 2 else 14 - 2 * case.inputs
    sides = [draw(rng, i, int(rng.integers(1, most))) for i in range(case.inputs)]
    want = [expected(sides, case, t) for t in INSTANTS]
    for codes in (2, 10**9):
        cuts = sorted(rng.choice(np.arange(1, LAST), int(rng.integers(0, 6)), replace=False).tolist())
        for swap in (None, len(cuts) // 2):
            found = run(sides, case, cuts, rng, codes, swap)
            assert [at(found, t) for t in INSTANTS] == want
            assert all(row["_start"] < row["_end"] for row in found)


RANGED = [
    f"{name}{kind}" for name in ("two", "star", "theta chain") for kind in ("", ", with caches", ", in 3000 bytes")
]


@pytest.mark.usefixtures("eager", "kernels")
@pytest.mark.parametrize("name", [name for name in RANGED if name in CASES])
@pytest.mark.parametrize("seed", tiers(range(6), fast=2))
def test_joins_over_shorter_windows_are_cut_from_those_over_the_longest(name: str, seed: int) -> None:
    """The longest windows of some inputs are wanted up to the middle; the last input has ends of its own."""
    case, rng = CASES[name], np.random.default_rng(seed)
    inputs = tuple(range(case.inputs - 1))
    wanted: tuple[Port, ...] = tuple(tuple(rng.integers(0, 7, len(inputs)).tolist()) for _ in range(3))
    sides = [draw(rng, i, 20 - 2 * case.inputs) for i in range(case.inputs)]
    sides[:-1] = [[row | {"_weight": 1} for row in side if row["_start"] >= 0 < row["_weight"]] for side in sides[:-1]]
    cuts = [0, *sorted(rng.choice(np.arange(1, LAST), 4, replace=False).tolist()), LAST]
    left, join, found = wanted, ranged(case, inputs, wanted), {port: list[Row]() for port in wanted}
    for number, (start, until) in enumerate(pairwise(cuts)):
        due = [[row for row in side if start <= max(row["_start"], 0) < until] for side in sides]
        tables = [to_table(rows, i, case, 10**9) for i, rows in enumerate(due)]
        for port, table in join.ports(tables, Tick(start, until)).items():
            found[port or ()] += table.to_pylist()
        if number == 2:
            left, tables, last = left[1:], join.snapshot(), until
            join = ranged(case, inputs, left)
            join.restore(tables)
    for port in found:
        lengths = [*port, None]
        ended = [[row | ends_of(row, length) for row in side] for side, length in zip(sides, lengths, strict=True)]
        for t in INSTANTS if port in left else range(last):
            assert at(found[port], t) == expected(ended, case, t)
        assert all(row["_start"] < row["_end"] for row in found[port])


def ranged(case: Case, inputs: tuple[int, ...], wanted: tuple[Port, ...]) -> MultiJoin:
    ranges = JoinRanges(inputs, tuple(sorted(set(wanted))))
    join = MultiJoin(case.inputs, case.keys, case.comparisons, cache_bytes=case.cache_bytes, ranges=ranges)
    join.limit_memory(case.limit)
    return join


def ends_of(row: Row, length: int | None) -> Row:
    return {} if length is None else {"_end": row["_start"] + length + 1}


def test_rows_of_windows_of_several_lengths_are_held_once() -> None:
    lengths = ((90,), (40,), (7,))
    several, longest = (MultiJoin(2, KEYS, ranges=JoinRanges((1,), each)) for each in (lengths, lengths[:1]))
    for time in range(200):
        tables = [window([time], time, time + 1), window([time], time, FOREVER, name="m")]
        several.ports(tables, Tick(time, time + 1))
        longest.ports(tables, Tick(time, time + 1))
    assert several.held_rows == longest.held_rows > 90
    assert several.held_bytes == longest.held_bytes


def window(n: list[int], start: int, end: int, weight: int = 1, name: str = "n") -> pa.Table:
    size = len(n)
    numbers = {"_key0": n, "_start": [start] * size, "_end": [end] * size, "_weight": [weight] * size}
    return pa.table({name: pa.array(n, pa.int64())} | {k: pa.array(v, pa.int64()) for k, v in numbers.items()})


KEYS: tuple[KeyClass, ...] = (((0, "n"), (1, "m")),)


def test_absorbing_is_advancing_without_the_result() -> None:
    advanced, absorbed = MultiJoin(2, KEYS), MultiJoin(2, KEYS)
    tables = [window([1, 2, 3], 0, 9), window([2, 2, 4], 1, 9, name="m")]
    advanced.advance(tables, Tick(0, 2))
    absorbed.absorb(tables, Tick(0, 2))
    later = [window([4], 3, 9), window([3], 3, 9, name="m")]
    assert advanced.advance(later, Tick(2, 4)).equals(absorbed.advance(later, Tick(2, 4)))
    assert absorbed.held_bytes > 0


@pytest.mark.parametrize("taken_back", [False, True])
def test_state_is_bounded(taken_back: bool) -> None:
    join, empty = MultiJoin(2, KEYS), window([], 0, 0, name="m")
    for t in range(200):
        rows = list(range(t * 10, t * 10 + 10))
        new = [window(rows, t, FOREVER if taken_back else t + 3)]
        if taken_back and t >= 3:
            new.append(window([n - 30 for n in rows], t, FOREVER, -1))
        join.advance([pa.concat_tables(new), empty], Tick(t, t + 1))
        assert join.held_rows <= 150
    assert join.held_bytes < 20_000


def test_rows_without_columns_are_multiplied() -> None:
    names = ["_start", "_end", "_weight"]
    join = MultiJoin(2)
    left = pa.table([[0, 0], [9, 5], [1, 1]], names=names)
    right = pa.table([[3, 6], [9, 9], [1, 2]], names=names)
    found = join.advance([left, right], Tick(0, 7)).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(3, 5, 1), (3, 9, 1), (6, 9, 2)]
