"""Two operators in one cell, and values that arrive summed up."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from anabranch.logical_plan import Aggregation
from anabranch.operators.base import FOREVER, Tick
from anabranch.operators.changelog import Changelog
from anabranch.operators.exact_sums import BUNDLE
from anabranch.operators.fused import FusedOperators
from anabranch.operators.group_by import GroupBy
from anabranch.operators.rstream import RStream

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
        told = sorted_rows(one.advance([table], tick))
        assert told
        assert sorted_rows(other.advance([summed_up(table)], tick)) == told


def test_a_pipeline_says_what_its_operators_say_one_after_the_other() -> None:
    first, second = groups(), Changelog("relation")
    both = FusedOperators(groups, (("n", "many"), ("k", "k")), partial(Changelog, "relation"))
    for table, tick in small(seed=2, ticks=6):
        found = first.advance([table], tick)
        between = pa.table(
            {"many": found["n"], "k": found["k"], "_key": pa.nulls(len(found), pa.int64()).fill_null(0)}
            | {name: found[name] for name in ("_start", "_end", "_weight")}
        )
        told = sorted_rows(second.advance([between], tick))
        assert told
        assert sorted_rows(both.advance([table], tick)) == told


def test_a_restored_pipeline_goes_on_as_the_one_that_was_saved() -> None:
    make = partial(FusedOperators, groups, (("k", "k"), ("total", "total")), RStream)
    whole, restored = make(), None
    for number, (table, tick) in enumerate(small(seed=3, ticks=6)):
        asked = Tick(tick.start, tick.until, 0, np.arange(tick.start, tick.until, 10))
        told = sorted_rows(whole.advance([table], asked))
        if restored is not None:
            assert sorted_rows(restored.advance([table], asked)) == told
        saved = whole.snapshot()
        restored = make()
        restored.restore(saved)
        assert (restored.held_rows, number) == (whole.held_rows, number)
    assert FOREVER > whole.held_bytes > 0
