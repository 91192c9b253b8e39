"""Queries with little memory, against the definition: limits that change from tick to tick, and restarts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from anabranch.operators import cold_windows
from cql.comparing import bound, expected
from cql.local import LocalEngine, joins
from cql.streams import SECOND, Case, Cuts, Stream
from tiers import tiers

TWO = "Select p.k As k, p.v As v, c.v As w From p [Range 20 Seconds], c [Range 15 Seconds] Where p.k = c.k"
QUERIES = {
    "two": TWO,
    "values": f"{TWO} And p.v < c.v",
    "chain": (
        "Select p.v As v, c.v As w, d.v As x From p [Range 20 Seconds], c [Range 15 Seconds], d [Rows 12] "
        "Where p.k = c.k And c.j = d.k"
    ),
    "cross": "Select p.v As v, c.v As w From p [Range 4 Seconds], c [Range 9 Seconds]",
    "rows": "Select p.k As k, c.v As w From p [Rows 20], c [Partition By k Rows 2] Where p.k = c.k",
    "unbounded": "Select p.k As k, c.v As w From p [Rows Unbounded], c [Range 12 Seconds] Where p.k = c.k",
    "groups": (
        "Select p.k As k, Count(*) As n, Max(c.v) As m From p [Rows 20], c [Range 9 Seconds] "
        "Where p.k = c.k Group By p.k"
    ),
    "changes": "Select Istream(p.k As k, c.t As t) From p [Range 20 Seconds], c [Rows 9] Where p.k = c.k",
}


@pytest.fixture(autouse=True, params=[64, 65_536])
def least_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_windows, "LEAST_BYTES", request.param)


COLUMNS = (("k", "bigint"), ("j", "bigint"), ("v", "bigint"), ("t", "string"))


def drawn(rng: random.Random, text: str) -> Case:
    rows: dict[str, list[tuple[int, int, int]]] = {"p": [], "c": [], "d": []}
    for at in range(30):
        for its in rows.values():
            its += [(at, rng.randrange(at // 3 + 2), rng.randrange(5)) for _ in range(rng.randrange(4))]
    streams = tuple(
        Stream(name, COLUMNS, tuple((n, t * SECOND, k, j, n % 3, f"text {n % 7}") for n, (t, k, j) in enumerate(its)))
        for name, its in rows.items()
    )
    ticks = rng.randrange(4, 20)
    batches = {each.name: spread(len(each.rows), ticks, rng) for each in streams}
    return Case(streams, (), text, Cuts(batches, cells=rng.randrange(1, 4)))


def spread(count: int, ticks: int, rng: random.Random) -> tuple[int, ...]:
    at = sorted(rng.randrange(count + 1) for _ in range(ticks - 1))
    return tuple(b - a for a, b in zip([0, *at], [*at, count], strict=True))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", tiers(range(12), fast=1))
def test_answers_are_the_same_whatever_goes_to_disk(name: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{name} {seed}")
    case = drawn(rng, QUERIES[name])
    want = expected(case)
    assert LocalEngine(case, bound(case), few_codes=rng.random() < 0.5, memory=rng).answer() == want
    kept = LocalEngine(case, bound(case), tmp_path, few_codes=rng.random() < 0.5, memory=rng)
    assert kept.answer() == want
    assert kept.snapshots


def test_rows_did_go_to_disk() -> None:
    case = drawn(random.Random(3), TWO)
    engine = LocalEngine(case, bound(case), memory=Nothing())
    assert engine.answer() == expected(case)
    found = [join for each in engine._cells.states.values() for join in joins(each.operator._base)]
    assert sum(join.held_rows for join in found) > 0
    assert all(len(window) == 0 for join in found for window in join._windows)


class Nothing(random.Random):
    """Always chooses what comes first."""

    def random(self) -> float:
        return 0.0

    def getrandbits(self, k: int, /) -> int:
        return 0
