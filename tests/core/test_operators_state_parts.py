"""States in parts: what is taken out of a state, and put together of several, goes on as if it had always been so."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.logical_plan import Aggregation
from anabranch.operators.base import Tick
from anabranch.operators.changelog import Changelog
from anabranch.operators.group_by import GroupBy
from anabranch.operators.segments import CellState, LogFile, next_segment
from anabranch.operators.set_operation import SetOperator
from anabranch.operators.tapped import Tap, TappedOperator, tapped_part, tapped_united
from seeds import drawn

AGGREGATES = (
    Aggregation("n", "count"),
    Aggregation("total", "sum", "v"),
    Aggregation("top", "max", "v"),
    Aggregation("kinds", "count", "v", distinct=True),
)
GROUPED = pa.schema([("m", pa.int32()), ("k", pa.int64()), *((each.name, pa.int64()) for each in AGGREGATES)])
Row = tuple[int, int, int, int, int]


def _operator(kind: str) -> TappedOperator:
    match kind:
        case "groups":
            groups = partial(GroupBy, ("m", "k"), AGGREGATES, GROUPED)
            return TappedOperator(groups, {"all": Tap(), "some": Tap(("m", "top"), partial(Changelog, "relation"))})
        case "distinct":
            base = partial(SetOperator, 1, "distinct")
            return TappedOperator(base, {"some": Tap(("m", "k"), partial(Changelog, "istream"))})
        case _:
            return TappedOperator(partial(Changelog, "relation"), {"all": Tap()})


def _table(rows: Collection[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    code = [row[0] * 7 + row[1] for row in rows]
    kinds = {"m": pa.int32(), "k": pa.int64(), "v": pa.int64(), "_start": pa.int64(), "_end": pa.int64()}
    made = {name: pa.array(column, kinds[name]) for name, column in zip(kinds, columns, strict=True)}
    return pa.table({**made, "_weight": pa.array([1] * len(rows), pa.int64()), "_key": pa.array(code, pa.int64())})


def _said(operator: TappedOperator, rows: Collection[Row], tick: Tick) -> Counter[str]:
    parts = [(key, part) for key, part in operator.in_parts([_table(rows)], tick) if part.num_rows]
    return Counter(repr((key, sorted(row.items()))) for key, part in parts for row in part.to_pylist())


@pytest.mark.parametrize("kind", ["groups", "distinct", "changes"])
@pytest.mark.parametrize("seed", drawn(4))
def test_states_of_some_values_go_on_as_one(kind: str, seed: int) -> None:
    rng = random.Random(f"{kind} {seed}")

    def rows(start: int, members: Collection[int]) -> list[Row]:
        found = []
        for _ in range(rng.randrange(12)):
            time = start + rng.randrange(10)
            value = rng.choice((1, 2, -3, 1 << 40, -(1 << 61)))
            found.append((rng.choice(list(members)), rng.randrange(3), value, time, time + rng.randrange(1, 25)))
        return found

    apart = [{1, 2, 9}, {3}, {4, 9}]  # what is held of 9 is not wanted
    kept: list[set[int]] = [each - {9} for each in apart]
    some = [_operator(kind) for _ in apart]
    whole = _operator(kind)
    for start in (0, 10):
        tick = Tick(start, start + 10, origin=0)
        given = [rows(start, each) if rng.random() < 0.8 else [] for each in apart]
        for operator, own in zip(some, given, strict=True):
            _said(operator, own, tick)
        _said(whole, [row for own in given for row in own if row[0] != 9], tick)
    parts = [tapped_part(operator.snapshot(), "m", each) for operator, each in zip(some, kept, strict=True)]
    united = _operator(kind)
    united.restore(tapped_united(parts))
    for start in (20, 30, 40, 70):
        tick = Tick(start, start + 10 if start < 40 else start + 30, origin=0)
        new = rows(start, {1, 2, 3, 4, 5})
        assert _said(united, new, tick) == _said(whole, new, tick)
    assert united.held_rows == whole.held_rows


def test_a_state_that_has_forgotten_something_reads_its_log_again(tmp_path: Path) -> None:
    row = {"m": 1, "k": 0, "v": 1, "_start": 1, "_end": 9, "_weight": 1, "_key": 1}
    table = pa.Table.from_pylist([row, row | {"m": 2, "_key": 2}], _table([]).schema)
    state = CellState(partial(_operator, "groups"), [table.column_names], table.schema)
    tick, file = Tick(0, 5, origin=0), LogFile(tmp_path, "0.log")
    assert len(list(state.advance(table, tick))) == 2
    log = next_segment(state, [], table, tick, file)
    file.close()
    state.logged(log)
    later = Tick(5, 6, origin=0)
    state.keep("m", {1})
    held = state.operator.held_rows
    assert state.catch_up(log, tmp_path, later, {1}) == 0
    assert state.catch_up(log, tmp_path, later, {1, 2}) == 1
    assert state.operator.held_rows == 2 * held
    state.keep("m", {2})
    assert state.unite(log, "m", {1}, tmp_path, later) == 1
    assert state.operator.held_rows == 2 * held
    assert not state.is_logged, "the log does not say it"
    again = LogFile(tmp_path, "1.log")
    [whole] = next_segment(state, log, table.slice(0, 0), later, again)
    again.close()
    assert whole.kind == "snapshot"
