"""Operators that follow on others in the same cells, and values that arrive summed up."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from anabranch.logical_plan import Aggregation
from anabranch.operators.base import FOREVER, Tick
from anabranch.operators.changelog import Changelog
from anabranch.operators.exact_sums import BUNDLE
from anabranch.operators.group_by import GroupBy
from anabranch.operators.rstream import RStream
from anabranch.operators.tapped import Tap, TappedOperator

RESULT = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("total", pa.int64()), ("mean", pa.float64())])


def aggregations(argument: str) -> tuple[Aggregation, ...]:
    return (
        Aggregation("n", "count", argument),
        Aggregation("total", "sum", argument),
        Aggregation("mean", "avg", argument),
    )


def groups(argument: str = "a") -> GroupBy:
    return GroupBy(("k",), aggregations(argument), RESULT)


def arrivals(seed: int, ticks: int, rows: int = 40) -> list[tuple[pa.Table, Tick]]:
    """Elements that start in their tick, on multiples of 10, and count for 30."""
    random, out = np.random.default_rng(seed), []
    for number in range(ticks):
        start = random.integers(number * 5, number * 5 + 5, rows) * 10
        values = [None if v % 7 == 0 else int(v) for v in random.integers(-(2**40), 2**62, rows)]
        keys = random.integers(0, 4, rows)
        table = pa.table(
            {
                "k": keys,
                "a": pa.array(values, pa.int64()),
                "_key": keys * 31,
                "_start": start,
                "_end": start + 30,
                "_weight": np.ones(rows, np.int64),
            }
        )
        out.append((table, Tick(number * 50, number * 50 + 50, origin=0)))
    return out


def summed_up(table: pa.Table) -> pa.Table:
    """By key, start and end."""
    rows: dict[tuple[int, int, int], list[int | None]] = {}
    for row in table.to_pylist():
        rows.setdefault((row["k"], row["_start"], row["_end"]), []).append(row["a"])
    known = [[v for v in values if v is not None] for values in rows.values()]
    return pa.table(
        {
            "k": [key for key, _, _ in rows],
            "sums": pa.array(
                [
                    {"_count": len(v), "_low": sum(x & 0xFFFFFFFF for x in v), "_high": sum(x >> 32 for x in v)}
                    for v in known
                ],
                BUNDLE,
            ),
            "_key": [key * 31 for key, _, _ in rows],
            "_start": [start for _, start, _ in rows],
            "_end": [end for _, _, end in rows],
            "_weight": [len(values) for values in rows.values()],
        }
    )


def sorted_rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def small(seed: int, ticks: int) -> list[tuple[pa.Table, Tick]]:
    """Values small enough that their sums are long integers."""
    shrunk = []
    for table, tick in arrivals(seed, ticks):
        values = [None if v is None else v >> 8 for v in table["a"].to_pylist()]
        shrunk.append((table.set_column(1, "a", pa.array(values, pa.int64())), tick))
    return shrunk


def test_groups_of_sums_are_groups_of_values() -> None:
    one, other = groups(), groups("sums")
    for table, tick in small(seed=1, ticks=6):
        emitted = sorted_rows(one.advance([table], tick))
        assert emitted
        assert sorted_rows(other.advance([summed_up(table)], tick)) == emitted


def emitted(operator: TappedOperator, table: pa.Table, tick: Tick) -> dict[str, list[tuple[object, ...]]]:
    found: dict[str, list[pa.Table]] = {}
    for key, part in operator.in_parts([table], tick):
        found.setdefault(key, []).append(part)
    return {key: sorted_rows(pa.concat_tables(parts)) for key, parts in found.items()}


CHANGES = Tap(("k", "n"), partial(Changelog, "relation"))
CONTENTS = Tap(("k", "total"), RStream)


def test_each_tap_says_what_its_operators_say_one_after_the_other() -> None:
    first, second = groups(), Changelog("relation")
    both = TappedOperator(groups, {"elements": Tap(), "changes": CHANGES})
    for table, tick in small(seed=2, ticks=6):
        found = first.advance([table], tick)
        between = pa.table(
            {"k": found["k"], "n": found["n"], "_key": pa.nulls(len(found), pa.int64()).fill_null(0)}
            | {name: found[name] for name in ("_start", "_end", "_weight")}
        )
        changes = sorted_rows(second.advance([between], tick))
        assert changes
        assert emitted(both, table, tick) == {"elements": sorted_rows(found), "changes": changes}


def test_a_restored_operator_goes_on_as_the_one_that_was_saved_with_all_of_its_taps_or_some() -> None:
    taps = {"contents": CONTENTS, "changes": CHANGES}
    whole, restored, alone = TappedOperator(groups, taps), None, None
    for table, tick in small(seed=3, ticks=6):
        instants = {"contents": np.arange(tick.start, tick.until, 10)}
        asked = Tick(tick.start, tick.until, 0, taps=instants)
        expected = emitted(whole, table, asked)
        if restored is not None and alone is not None:
            assert emitted(restored, table, asked) == expected
            assert emitted(alone, table, asked) == {"changes": expected["changes"]}
        saved = whole.snapshot()
        restored, alone = TappedOperator(groups, taps), TappedOperator(groups, {"changes": CHANGES})
        restored.restore(saved)
        alone.restore(saved)
        assert restored.held_rows == whole.held_rows > alone.held_rows > 0
        assert restored.base_rows == alone.base_rows
    assert FOREVER > whole.held_bytes > whole.base_bytes > 0
