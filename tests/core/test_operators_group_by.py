from __future__ import annotations

import math
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import DataError, QueryError
from anabranch.logical_plan import Aggregation
from anabranch.operators.base import EVER, FOREVER, Operator, Tick
from anabranch.operators.group_by import GroupBy
from tiers import tiers

NAN, INF = float("nan"), float("inf")
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
TIMES = 14
LAST = 20


@dataclass(frozen=True)
class Element:
    key: Any
    value: Any
    start: int
    end: int
    weight: int


@dataclass(frozen=True)
class Case:
    kind: pa.DataType
    draw: Callable[[np.random.Generator], Any]
    total: pa.DataType | None = None
    mean: pa.DataType | None = None


def pick(*values: Any) -> Callable[[np.random.Generator], Any]:
    return lambda random: values[int(random.integers(len(values)))]


def money(digits: int, scale: int) -> Callable[[np.random.Generator], Any]:
    def draw(random: np.random.Generator) -> Any:
        whole = int(random.integers(-(2**62), 2**62)) * 10 ** max(0, digits - 20) % 10**digits
        return None if random.random() < 0.1 else Decimal(f"{whole - 10**digits // 2}E-{scale}")

    return draw


TIED = pick(None, 3.5, -2.25, 0.0, -0.0, 3.5, 7.0)
WILD = pick(None, 1e300, -1e300, 1e-300, 5e-324, 0.1, 1.0, 1e16, -0.1, 2.5e-310)
ODD = pick(None, NAN, INF, -INF, 1.0, 2.0, NAN)
CASES = {
    "longs": Case(pa.int64(), pick(None, *range(-3, 4)), pa.int64(), pa.float64()),
    "big longs": Case(pa.int64(), pick(None, 2**56, -(2**56), 2**40 + 1, -7), pa.int64(), pa.float64()),
    "ints": Case(pa.int32(), pick(5, 6, 2**31 - 1, -(2**31)), pa.int64(), pa.float64()),
    "doubles": Case(pa.float64(), TIED, pa.float64(), pa.float64()),
    "wild doubles": Case(pa.float64(), WILD, pa.float64(), pa.float64()),
    "odd doubles": Case(pa.float64(), ODD, pa.float64(), pa.float64()),
    "any doubles": Case(pa.float64(), lambda random: float(random.normal(5, 3)), pa.float64(), pa.float64()),
    "floats": Case(pa.float32(), pick(None, 0.5, 1.25, -3.0), pa.float64(), pa.float64()),
    "decimals": Case(pa.decimal128(10, 2), money(10, 2), pa.decimal128(20, 2), pa.decimal128(14, 6)),
    "long decimals": Case(pa.decimal128(30, 5), money(30, 5), pa.decimal128(38, 5), pa.decimal128(34, 9)),
    "strings": Case(pa.string(), pick(None, "", "a", "ab", "b", "é", "zz", "😀", "\uffff", "a" * 50)),
    "dates": Case(pa.date32(), pick(None, date(1960, 1, 1), date(2024, 5, 1), date(2024, 5, 2))),
    "times": Case(pa.timestamp("us", "UTC"), lambda random: NOON + timedelta(int(random.integers(5)))),
    "bools": Case(pa.bool_(), pick(None, True, False)),
    "binaries": Case(pa.binary(), pick(None, b"", b"\x00", b"\xff", b"a\x00b")),
}


def aggregations(case: Case) -> tuple[tuple[Aggregation, ...], list[pa.Field]]:
    listed: list[tuple[Any, ...]] = [
        ("rows", "count", None, False, None, pa.int64()),
        ("n", "count", "x", False, None, pa.int64()),
    ]
    listed += [("nd", "count", "x", True, None, pa.int64())]
    listed += [(f, f, "x", False, None, case.kind) for f in ("min", "max")]
    listed += [("maxd", "max", "x", True, None, case.kind)]
    listed += [(f"q{p}", "quantile", "x", False, p, case.kind) for p in (0.0, 0.07, 0.5, 0.9, 1.0)]
    if case.total is not None:
        for distinct in (False, True):
            listed.append((f"sum{distinct}", "sum", "x", distinct, None, case.total))
            listed.append((f"avg{distinct}", "avg", "x", distinct, None, case.mean))
    if case.total is not None and not pa.types.is_decimal(case.kind):
        spreads = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
        listed += [(f, f, "x", False, None, pa.float64()) for f in spreads]
    return (
        tuple(Aggregation(name, function, x, distinct, p) for name, function, x, distinct, p, _ in listed),
        [pa.field(name, kind) for name, *_, kind in listed],
    )


def ordered(values: Sequence[Any]) -> list[Any]:
    if values and isinstance(values[0], str):
        return sorted(values, key=lambda text: text.encode())
    return sorted(values, key=lambda value: (value != value, 0 if value != value else value))


def double_sum(values: Sequence[float]) -> float:
    if not all(math.isfinite(value) for value in values):
        return sum(value for value in values if not math.isfinite(value))
    try:
        return math.fsum(values)
    except OverflowError:
        exact = sum(map(Fraction, values), Fraction(0))
        return float(exact) if abs(exact) < 2**1023 else INF if exact > 0 else -INF


def spread(function: str, values: Sequence[float]) -> float | None:
    few = 1 if function.endswith("samp") else 0
    if len(values) <= few:
        return None
    if not all(math.isfinite(value) for value in values):
        return NAN
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    variance = sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - few)
    big = variance > 2**1023
    if function.startswith("stddev"):
        return INF if big else math.sqrt(float(variance))
    return INF if big else float(variance)


def expected(aggregation: Aggregation, bag: Counter[Any], kind: pa.DataType) -> Any:
    """The definition, for the values of a group (NaN as the text 'nan'), with how often they are there."""
    function = aggregation.function
    if aggregation.argument is None:
        return sum(bag.values())
    plain = {NAN if value == "nan" else value: count for value, count in bag.items() if value is not None}
    values = ordered([value for value, count in plain.items() for _ in range(1 if aggregation.distinct else count)])
    if function == "count":
        return len(values)
    if function in ("var_pop", "var_samp", "stddev_pop", "stddev_samp"):
        return spread(function, values)
    if not values:
        return None
    if function in ("min", "max"):
        return values[0] if function == "min" else values[-1]
    if function == "quantile":
        assert aggregation.parameter is not None
        share = aggregation.parameter
        return next(value for place, value in enumerate(values) if (place + 1) / len(values) >= share)
    if isinstance(values[0], Decimal):
        total = sum(Fraction(value) for value in values) / (1 if function == "sum" else len(values))
        unit = total * 10**kind.scale
        whole = int(abs(unit) + Fraction(1, 2)) * (1 if unit >= 0 else -1)
        return Decimal(f"{whole}E-{kind.scale}")
    if isinstance(values[0], int):
        return sum(values) if function == "sum" else float(sum(values)) / len(values)
    total = double_sum(values)
    return total if function == "sum" else total / len(values)


def random_elements(
    random: np.random.Generator, draw: Callable[[np.random.Generator], Any], size: int
) -> list[Element]:
    out: list[Element] = []
    for _ in range(size):
        key, value = pick(None, "a", "b", "c", "d")(random), draw(random)
        start, weight = int(random.integers(2, TIMES)), int(random.integers(1, 4))
        if random.random() < 0.1:
            out.append(Element(key, value, EVER, FOREVER if random.random() < 0.5 else 6, weight))
        elif random.random() < 0.5:
            out.append(Element(key, value, start, start + int(random.integers(0, 6)), weight))
        else:
            out.append(Element(key, value, start, FOREVER, weight))
            if random.random() < 0.8:
                out.append(Element(key, value, start + int(random.integers(0, 5)), FOREVER, -weight))
    return out


def table_of(listed: Sequence[Element], kind: pa.DataType, code: Callable[[Any], int]) -> pa.Table:
    columns = {
        "key": pa.array([each.key for each in listed], pa.string()),
        "x": pa.array([each.value for each in listed], kind),
        "_start": pa.array([each.start for each in listed], pa.int64()),
        "_end": pa.array([each.end for each in listed], pa.int64()),
        "_weight": pa.array([each.weight for each in listed], pa.int64()),
        "_key": pa.array([code(each.key) for each in listed], pa.int64()),
    }
    return pa.table(columns)


def run(
    make: Callable[[], Operator], listed: Sequence[Element], table: Callable[[Sequence[Element]], pa.Table], seed: int
) -> pa.Table:
    """All output of an operator under random cuts of time, with a change to a restored copy now and then."""
    random = np.random.default_rng(seed)
    cuts = sorted({0, LAST, *random.integers(1, LAST, int(random.integers(0, 8))).tolist()})
    origin = min((each.start for each in listed if each.start != EVER), default=1)
    operator, out, left = make(), [], list(listed)
    random.shuffle(left)
    for start, until in pairwise(cuts):
        tick = Tick(start, until, origin if origin < until else None)
        here = [e for e in left if e.start < until and (e.start != EVER or origin < until or random.random() < 0.5)]
        here += [e for e in left if e.start >= until and random.random() < 0.2]
        left = [e for e in left if not any(e is other for other in here)]
        emitted = operator.advance([table(here)], tick)
        assert all(start <= time < until for time in emitted["_start"].to_pylist())
        assert all(a < b for a, b in zip(emitted["_start"].to_pylist(), emitted["_end"].to_pylist(), strict=True))
        out.append(emitted)
        if random.random() < 0.4:
            tables, operator = operator.snapshot(), make()
            operator.restore(tables)
    assert not left
    return pa.concat_tables(out)


Emitted = list[tuple[str, dict[str, Any], int, int, int]]


def emitted_by(table: pa.Table) -> Emitted:
    """Elements: a text of the row, the row, start, end and weight."""
    rows = table.drop_columns(["_start", "_end", "_weight"]).to_pylist()
    columns = (table[name].to_pylist() for name in ("_start", "_end", "_weight"))
    return list(zip(map(repr, rows), rows, *columns, strict=True))


def at(emitted: Emitted, time: int) -> list[dict[str, Any]]:
    """The relation at an instant, from its elements."""
    rows: Counter[str] = Counter()
    shown = {}
    for text, row, start, end, weight in emitted:
        if start <= time < end:
            rows[text] += weight
            shown[text] = row
    assert all(count >= 0 for count in rows.values())
    return [shown[text] for text, count in rows.items() for _ in range(count)]


def collide(key: str | None) -> int:
    return ord(key or "d") % 2


def bags_at(listed: Sequence[Element], time: int) -> dict[Any, Counter[Any]]:
    bags: dict[Any, Counter[Any]] = defaultdict(Counter)
    for each in listed:
        if each.start <= time < each.end:
            bags[each.key]["nan" if each.value != each.value else each.value] += each.weight
    return {key: +bag for key, bag in bags.items() if +bag}


def agrees(found: Any, wanted: Any, function: str) -> bool:
    if wanted is None or found is None:
        return found is wanted
    if isinstance(wanted, float):
        if math.isnan(wanted) or math.isnan(found):
            return math.isnan(wanted) and math.isnan(found)
        if function.startswith(("var", "stddev")):
            return found == wanted or math.isclose(found, wanted, rel_tol=1e-9)
    return bool(found == wanted)


def check(
    out: Emitted, listed: Sequence[Element], wanted: Sequence[Aggregation], kinds: list[pa.Field], keyed: bool
) -> None:
    origin = min((each.start for each in listed if each.start != EVER), default=1)
    assert at(out, origin - 1) == []
    for time in range(origin, LAST):
        bags = bags_at(listed, time)
        if not keyed:
            bags = {None: sum(bags.values(), Counter())}
        rows = at(out, time)
        assert Counter(row.get("key") for row in rows) == Counter(bags.keys())
        for row in rows:
            for each, field in zip(wanted, kinds, strict=True):
                answer = expected(each, bags[row.get("key")], field.type)
                assert agrees(row[each.name], answer, each.function), (time, row, each, answer)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", tiers(range(4), fast=2))
def test_every_instant_of_every_cut_is_as_defined(name: str, keyed: bool, seed: int) -> None:
    case, random = CASES[name], np.random.default_rng([seed, len(name)])
    wanted, fields = aggregations(case)
    schema = pa.schema([pa.field("key", pa.string()), *fields] if keyed else fields)
    listed = random_elements(random, case.draw, int(random.integers(0, 40)))

    def make() -> Operator:
        fresh: Operator = pickle.loads(pickle.dumps(GroupBy(("key",) if keyed else (), wanted, schema)))
        return fresh

    for cut in range(2):
        out = run(make, listed, lambda some: table_of(some, case.kind, collide), seed * 10 + cut)
        assert out.schema.names == [*schema.names, "_start", "_end", "_weight"]
        check(emitted_by(out), listed, wanted, fields, keyed)


def advance(grouping: GroupBy, rows: dict[str, Any], tick: Tick, kinds: dict[str, pa.DataType]) -> list[dict[str, Any]]:
    table = pa.table({name: pa.array(column, kinds.get(name, pa.int64())) for name, column in rows.items()})
    return list(grouping.advance([table], tick).to_pylist())


def test_a_row_that_does_not_change_says_nothing() -> None:
    grouping = GroupBy((), (Aggregation("top", "max", "x"),), pa.schema([("top", pa.int64())]))
    rows = {"x": [9, 5, 5], "_start": [1, 2, 3], "_end": [8, 3, 8], "_weight": [1, 1, 1], "_key": [0, 0, 0]}
    first = advance(grouping, rows, Tick(0, 6, 1), {})
    assert first == [{"top": 9, "_start": 1, "_end": FOREVER, "_weight": 1}]
    assert advance(grouping, {name: [] for name in rows}, Tick(6, 8, 1), {}) == []
    assert advance(grouping, {name: [] for name in rows}, Tick(8, 20, 1), {}) == [
        {"top": 9, "_start": 8, "_end": FOREVER, "_weight": -1},
        {"top": None, "_start": 8, "_end": FOREVER, "_weight": 1},
    ]


def test_sums_of_longs_beyond_their_range_are_an_error_with_a_hint() -> None:
    grouping = GroupBy((), (Aggregation("total", "sum", "x"),), pa.schema([("total", pa.int64())]))
    rows = {"x": [2**62, 2**62], "_start": [1, 2], "_end": [9, 9], "_weight": [1, 1], "_key": [0, 0]}
    with pytest.raises(DataError, match=r"'total' exceeds the range of a long\n  hint: cast .* to double or decimal"):
        advance(grouping, rows, Tick(0, 5, 1), {})


def test_a_sum_that_leaves_the_range_between_instants_only_is_fine() -> None:
    grouping = GroupBy((), (Aggregation("total", "sum", "x"),), pa.schema([("total", pa.int64())]))
    rows = {
        "x": [2**63 - 1, 5, -5, -(2**63)],
        "_start": [1, 2, 2, 3],
        "_end": [9] * 4,
        "_weight": [1] * 4,
        "_key": [0] * 4,
    }
    assert [row["total"] for row in advance(grouping, rows, Tick(0, 5, 1), {})] == [2**63 - 1, -1]


def test_decimals_beyond_their_type_are_an_error() -> None:
    kind = pa.decimal128(38, 0)
    grouping = GroupBy((), (Aggregation("total", "sum", "x"),), pa.schema([("total", kind)]))
    large = Decimal("9" * 38)
    rows = {"x": [large, large], "_start": [1, 2], "_end": [9, 9], "_weight": [1, 1], "_key": [0, 0]}
    with pytest.raises(DataError, match="38 digits"):
        advance(grouping, rows, Tick(0, 5, 1), {"x": kind})


def test_half_a_unit_is_rounded_away_from_zero() -> None:
    grouping = GroupBy((), (Aggregation("mean", "avg", "x"),), pa.schema([("mean", pa.decimal128(10, 1))]))
    rows = {
        "x": [Decimal("-0.1"), Decimal("-0.2")],
        "_start": [1, 1],
        "_end": [9, 9],
        "_weight": [1, 1],
        "_key": [0, 0],
    }
    mean = advance(grouping, rows, Tick(0, 5, 1), {"x": pa.decimal128(5, 1)})[0]["mean"]
    assert mean == Decimal("-0.15").quantize(Decimal("0.1"), ROUND_HALF_UP) == Decimal("-0.2")


def test_unknown_aggregates_are_refused() -> None:
    with pytest.raises(QueryError, match="'median'"):
        GroupBy((), (Aggregation("m", "median", "x"),), pa.schema([("m", pa.int64())]))


@pytest.mark.parametrize("offset", [1e5, 1e8, -1e5])
def test_variances_of_values_far_from_zero(offset: float) -> None:
    values = offset + np.random.default_rng(1).normal(0, 1, 1000)
    grouping = GroupBy((), (Aggregation("v", "var_samp", "x"),), pa.schema([("v", pa.float64())]))
    rows = {"x": values, "_start": [1] * 1000, "_end": [9] * 1000, "_weight": [1] * 1000, "_key": [0] * 1000}
    found = advance(grouping, rows, Tick(0, 5, 1), {"x": pa.float64()})[0]["v"]
    assert math.isclose(found, spread("var_samp", values.tolist()) or 0, rel_tol=1e-12)


def test_variances_of_decimals_and_of_distinct_values() -> None:
    wanted = (Aggregation("v", "var_pop", "x"), Aggregation("d", "var_pop", "x", distinct=True))
    grouping = GroupBy((), wanted, pa.schema([("v", pa.float64()), ("d", pa.float64())]))
    x = [Decimal("1.5"), Decimal("1.5"), Decimal("4.5"), None]
    rows = {"x": x, "_start": [1] * 4, "_end": [9] * 4, "_weight": [1] * 4, "_key": [0] * 4}
    found = advance(grouping, rows, Tick(0, 5, 1), {"x": pa.decimal128(5, 1)})[0]
    assert (found["v"], found["d"]) == (2.0, 2.25)


def test_one_row_from_the_first_instant_on_though_nothing_is_there() -> None:
    grouping = GroupBy((), (Aggregation("n", "count"),), pa.schema([("n", pa.int64())]))
    none: dict[str, Any] = {name: [] for name in ("_start", "_end", "_weight", "_key")}
    assert advance(grouping, none, Tick(0, 5), {}) == []
    assert advance(grouping, none, Tick(5, 10, 7), {}) == [{"n": 0, "_start": 7, "_end": FOREVER, "_weight": 1}]
    assert advance(grouping, none, Tick(10, 15, 7), {}) == []


def test_weights_that_could_overflow_are_refused() -> None:
    grouping = GroupBy((), (Aggregation("n", "count"),), pa.schema([("n", pa.int64())]))
    with pytest.raises(DataError, match="too often"):
        advance(grouping, {"_start": [1], "_end": [9], "_weight": [2**30], "_key": [0]}, Tick(0, 5, 1), {})


def test_equal_values_have_no_variance() -> None:
    grouping = GroupBy((), (Aggregation("v", "var_pop", "x"),), pa.schema([("v", pa.float64())]))
    rows = {"x": [0.1] * 7, "_start": [1] * 7, "_end": [9] * 7, "_weight": [3] * 7, "_key": [0] * 7}
    assert advance(grouping, rows, Tick(0, 5, 1), {"x": pa.float64()})[0]["v"] == 0.0


def test_state_is_bounded_by_the_window() -> None:
    wanted = tuple(Aggregation(f, f, "x") for f in ("count", "sum", "max", "stddev_pop"))
    names = Aggregation("names", "min", "s"), Aggregation("kinds", "count", "s", distinct=True)
    schema = pa.schema([("k", pa.int64()), ("count", pa.int64()), ("sum", pa.float64()), ("max", pa.float64())])
    schema = schema.append(pa.field("stddev_pop", pa.float64())).append(pa.field("names", pa.string()))
    grouping = GroupBy(("k",), (*wanted, *names), schema.append(pa.field("kinds", pa.int64())))
    random, held = np.random.default_rng(0), []
    for tick in range(120):
        key = random.integers(0, 50, 300) + 40 * tick
        x = random.normal(size=300) * 10.0 ** (200 if tick == 20 else 0)
        start = random.integers(tick * 10, tick * 10 + 10, 300)
        table = pa.table({"k": key, "x": x, "s": [f"{tick}-{i}" for i in range(300)], "_key": key % 1000})
        ends = {"_start": start, "_end": start + 50, "_weight": np.ones(300, np.int64)}
        for name, column in ends.items():
            table = table.append_column(name, pa.array(column))
        grouping.advance([table], Tick(tick * 10, tick * 10 + 10, 0))
        held.append((grouping.held_rows, grouping.held_bytes))
    assert max(rows for rows, _ in held[20:]) <= 1.2 * max(rows for rows, _ in held[:20])
    assert held[-1][1] <= 1.5 * max(size for _, size in held[10:20])
    empty = table.slice(0, 0)
    grouping.advance([empty], Tick(1200, 2000, 0))
    assert grouping.held_rows == 0


def test_absorbing_is_advancing() -> None:
    case = CASES["doubles"]
    wanted, fields = aggregations(case)
    schema = pa.schema([pa.field("key", pa.string()), *fields])
    listed = random_elements(np.random.default_rng(3), case.draw, 30)
    table = table_of(listed, case.kind, collide)
    one, other = GroupBy(("key",), wanted, schema), GroupBy(("key",), wanted, schema)
    one.advance([table], Tick(0, 9, 2))
    other.absorb([table], Tick(0, 9, 2))
    empty = table.slice(0, 0)
    assert one.advance([empty], Tick(9, LAST, 2)).equals(other.advance([empty], Tick(9, LAST, 2)))
