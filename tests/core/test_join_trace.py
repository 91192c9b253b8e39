"""Rows that joins trace: the partners of the definition, and nothing else changes."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from anabranch.joins.join_trace import MOST_OF_A_TICK, SHOWN_PARTNERS, JoinTrace, JoinTracer
from anabranch.operators.base import FOREVER, Tick
from anabranch.operators.comparisons import Comparison
from anabranch.operators.join import KeyClass, MultiJoin
from seeds import daily_seed

CHAIN: tuple[KeyClass, ...] = (((0, "a"), (1, "b")), ((1, "c"), (2, "d")))
COLUMNS = ("a",), ("b", "c"), ("d",)
SMALLER = (Comparison(((0, "a"), (2, "d")), "<="),)


def rows(start: int, **columns: list[int]) -> pa.Table:
    size = len(next(iter(columns.values())))
    ends = {"_start": [start] * size, "_end": [FOREVER] * size, "_weight": [1] * size}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in (columns | ends).items()})


def drawn(chance: random.Random, start: int) -> list[pa.Table]:
    sizes = [chance.randrange(5) for _ in COLUMNS]
    return [
        rows(start, **{name: [chance.randrange(4) for _ in range(size)] for name in names})
        for names, size in zip(COLUMNS, sizes, strict=True)
    ]


def run(
    ticks: list[list[pa.Table]], share: float, comparisons: tuple[Comparison, ...], cache_bytes: int = 0
) -> tuple[list[Any], list[Any], list[list[JoinTrace]]]:
    join = MultiJoin(3, CHAIN, comparisons, policy="fixed", clock=lambda: 0.0, cache_bytes=cache_bytes)
    answers, counts, traces = [], [], []
    for number, tables in enumerate(ticks):
        join.trace(JoinTracer(share, (number,)) if share else None)
        found = join.advance(tables, Tick(number, number + 1)).to_pylist()
        answers.append(sorted(tuple(row.values()) for row in found))
        counts.append([(each.input, each.rows, each.windows) for each in join.take_probes()])
        traces.append(list(join.take_traces()))
    return answers, counts, traces


@pytest.mark.parametrize("comparisons", [(), SMALLER], ids=["equal columns", "and a comparison"])
@pytest.mark.parametrize("cache_bytes", [0, 2**20])
def test_traced_rows_make_the_results_and_meet_the_partners_of_the_definition(
    comparisons: tuple[Comparison, ...], cache_bytes: int
) -> None:
    chance = random.Random(daily_seed())
    ticks = [drawn(chance, number) for number in range(12)]
    answers, counts, traces = run(ticks, 1.0, comparisons, cache_bytes)
    assert (answers, counts) == run(ticks, 0.0, comparisons, cache_bytes)[:2]
    there: list[list[dict[str, int]]] = [[], [], []]
    for answer, found, tables in zip(answers, traces, ticks, strict=True):
        assert sum(each.results for each in found) == len(answer)
        traced = iter(found)
        for number, table in enumerate(tables):
            for row in table.select(list(COLUMNS[number])).to_pylist():
                there[number].append(row)
            for row in table.select(list(COLUMNS[number])).to_pylist():
                trace = next(traced)
                assert (trace.input, dict(trace.values)) == (number, {k: str(v) for k, v in row.items()})
                if number == 1:
                    left = [each for each in there[0] if each["a"] == row["b"]]
                    right = [each for each in there[2] if each["d"] == row["c"]]
                    wanted = {0: len(left), 2: len(right)}
                    if not comparisons:
                        assert trace.results == len(left) * len(right)
                    for met in trace.met:
                        assert met.partners == wanted[met.input]
                        assert len(met.shown) == min(met.partners, SHOWN_PARTNERS)
                        name, value = ("a", row["b"]) if met.input == 0 else ("d", row["c"])
                        assert set(met.shown) <= {((name, str(value)),)}
                    assert all(met.partners for met in trace.met[:-1])
                    assert len(trace.met) == 2 or not trace.met[-1].partners
        assert next(traced, None) is None


def test_a_tick_traces_few_rows() -> None:
    tables = [rows(0, a=list(range(500))), rows(0, b=[], c=[]), rows(0, d=[])]
    assert len(run([tables], 1.0, ())[2][0]) == MOST_OF_A_TICK
    assert 0 < len(run([tables], 0.01, ())[2][0]) < MOST_OF_A_TICK
    assert run([tables], 0.0, ())[2][0] == []
