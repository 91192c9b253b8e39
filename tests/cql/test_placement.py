"""Joins over cells, counted: how evenly rows lie with a hot key, and how many are sent if one stream is fast."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.planning.distribution import Distribution
from anabranch.planning.placement import Measured, Placement, chosen
from cql.comparing import bound, expected
from cql.local import LocalEngine
from cql.placing import Place
from cql.streams import SECOND, Case, Cuts, Row, Stream

CELLS = 4
COLUMNS = (("k", "bigint"), ("j", "bigint"), ("a", "bigint"))


def stream(name: str, rows: int, hot: bool = False) -> Stream:
    """Keys that are even, or of which one has half of the rows."""
    made: list[Row] = [
        (number, number * 100 * SECOND // rows, 0 if hot and number % 2 else number % 97, number % 89, number)
        for number in range(rows)
    ]
    return Stream(name, COLUMNS, tuple(made))


def run(streams: Sequence[Stream], query: str, place: Place = chosen, cells: int = CELLS) -> tuple[LocalEngine, Case]:
    """An engine that has answered, in two ticks."""
    halves: dict[str, tuple[int, ...]] = {
        each.name: (len(each.rows) // 2, len(each.rows) - len(each.rows) // 2) for each in streams
    }
    case = Case(tuple(streams), (), query, Cuts(halves, cells))
    engine = LocalEngine(case, bound(case), place=place)
    assert engine.answer() == expected(case)
    return engine, case


def as_alike(distributions: Sequence[Distribution], cells: int, measured: Measured) -> Placement:
    """Without regard to what inputs bring."""
    return chosen(distributions, cells)


def received(engine: LocalEngine) -> list[int]:
    """Rows of the join that each cell has got."""
    (node,) = engine.placements.keys() & {"1"}
    return engine.received[node]


PAIR = "Select x.a As a, y.a As b From s [Range 2 Seconds] As x, t [Range 2 Seconds] As y Where x.k = y.k"
CHAIN = """Select x.a As a, y.a As b, z.a As c
           From s [Range 1 Seconds] As x, t [Range 1 Seconds] As y, u [Range 1 Seconds] As z
           Where x.k = y.k And y.j = z.j"""


def test_a_key_with_half_of_the_rows_does_not_fill_one_cell() -> None:
    streams = (stream("s", 240, hot=True), stream("t", 60))
    before, after = (received(run(streams, PAIR, place)[0]) for place in (as_alike, chosen))
    assert max(before) / (sum(before) / CELLS) > 2
    assert max(after) / (sum(after) / CELLS) < 1.25
    assert sum(after) < 1.02 * sum(before)


def test_a_key_that_is_hot_in_both_streams_is_spread_by_the_larger_one() -> None:
    streams = (stream("s", 240, hot=True), stream("t", 120, hot=True))
    engine, _ = run(streams, PAIR)
    assert {hot.spread for hot in engine.placements["1"].hot} == {0}
    after = received(engine)
    assert max(after) / (sum(after) / CELLS) < 1.25


def test_a_chain_with_a_fast_stream_sends_fewer_rows() -> None:
    streams = (stream("s", 40), stream("t", 40), stream("u", 200))
    (alike, _), (after, _) = run(streams, CHAIN, as_alike), run(streams, CHAIN)
    assert after.placements["1"].sizes == (1, 4)
    assert sum(received(alike)) == 2 * 40 + 40 + 2 * 200
    assert sum(received(after)) == 4 * 40 + 40 + 200


@pytest.mark.parametrize("kind", ["In", "Not In"])
def test_tests_of_a_hot_key_are_made_in_all_cells(kind: str) -> None:
    query = f"Select x.a As a From s [Range 2 Seconds] As x Where x.k {kind} (Select k From t [Rows 40])"
    engine, _ = run((stream("s", 240, hot=True), stream("t", 40)), query)
    assert any(placement.hot for placement in engine.placements.values())


def test_rows_that_are_nothing_but_a_hot_key_are_told_apart_by_their_times() -> None:
    query = "Select Count(*) As n From s [Range 1 Seconds] As x, t [Range 1 Seconds] As y Where x.k = y.k"
    engine, _ = run((stream("s", 240, hot=True), stream("t", 40)), query)
    assert any(placement.hot for placement in engine.placements.values())
