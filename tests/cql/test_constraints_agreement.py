"""Joins that find constraints, against the definition: with random k, and with random violations of what holds."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.constraints.config import ConstraintConfig
from anabranch.errors import DataError
from anabranch.operators import constrained_join
from anabranch.operators.constrained_join import ConstrainedJoin
from cql.comparing import bound, expected
from cql.local import LocalEngine, joins
from cql.streams import SECOND, Case, Cuts, Stream
from tiers import tiers

TWO = "Select p.k As k, p.v As v, c.v As w From p [Range 20 Seconds], c [Range 15 Seconds] Where p.k = c.k"
CHAIN = (
    "Select p.v As v, c.v As w, d.v As x From p [Range 20 Seconds], c [Range 15 Seconds], d [Range 20 Seconds] "
    "Where p.k = c.k And c.j = d.k"
)
STAR = (
    "Select p.v As v, c.v As w, d.v As x From p [Range 20 Seconds], c [Range 9 Seconds], d [Range 20 Seconds] "
    "Where p.k = c.k And p.j = d.k"
)
QUERIES = {"two": TWO, "chain": CHAIN, "star": STAR, "values": TWO.replace("p.k = c.k", "p.k = c.k And p.v < c.v")}
COLUMNS = (("k", "bigint"), ("j", "bigint"), ("v", "bigint"))
LENGTH = 24


@pytest.fixture(autouse=True)
def quick_to_conclude(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained_join, "CONFIG", ConstraintConfig(window_arrivals=4, slack=1, sample_share=0.0))
    monkeypatch.setattr(constrained_join, "TRIAL_ARRIVALS", 5)
    monkeypatch.setattr(constrained_join, "LEAST_GOING", 1)
    monkeypatch.setattr(constrained_join, "LEAST_NEWS", 1)


def drawn(rng: random.Random, text: str, violated: float) -> Case:
    """Rows of a child come once per key, those of parents within k of that; some of either do as they like."""
    k = rng.randrange(1, 9)
    rows: dict[str, list[tuple[int, int, int]]] = {"p": [], "c": [], "d": []}
    for key in range(LENGTH):
        for name in rows:
            for _ in range(1 if name == "c" or (name == "d") else rng.randrange(3)):
                late = rng.randrange(30) if rng.random() < violated else rng.randrange(k)
                again = rng.randrange(key + 1) if rng.random() < violated else key
                if rng.random() < 0.8:
                    rows[name].append((key + late, again, rng.choice([key, again])))
    streams = tuple(
        Stream(name, COLUMNS, tuple((n, t * SECOND, a, b, n % 3) for n, (t, a, b) in enumerate(sorted(its))))
        for name, its in rows.items()
    )
    ticks = rng.randrange(4, 30)
    batches = {each.name: spread(len(each.rows), ticks, rng) for each in streams}
    return Case(streams, (), text, Cuts(batches, cells=rng.randrange(1, 4)))


@pytest.mark.parametrize("seed", tiers(range(12), fast=2))
def test_time_that_runs_backwards_within_the_skew_changes_nothing(seed: int, tmp_path: Path) -> None:
    rng, skew = random.Random(f"backwards {seed}"), 4 * SECOND
    case = drawn(rng, CHAIN, 0.05)
    disordered = []
    for each in case.streams:
        comes = [row[1] + rng.randint(0, skew) for row in each.rows]
        arrival = tuple(sorted(range(len(comes)), key=comes.__getitem__))
        disordered.append(replace(each, arrival=arrival, skew=skew))
    case = replace(case, streams=tuple(disordered))
    assert LocalEngine(case, bound(case), tmp_path, constraints="exact").answer() == expected(case)


def spread(count: int, ticks: int, rng: random.Random) -> tuple[int, ...]:
    at = sorted(rng.randrange(count + 1) for _ in range(ticks - 1))
    return tuple(b - a for a, b in zip([0, *at], [*at, count], strict=True))


def found_by(engine: LocalEngine) -> list[ConstrainedJoin]:
    operators = (each.operator for each in engine._cells.states.values())
    return [join for each in operators for join in joins(each._base) if isinstance(join, ConstrainedJoin)]


@pytest.mark.parametrize("violated", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", tiers(range(20), fast=1))
def test_exact_constraints_never_lose_a_result(name: str, violated: float, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{name} {violated} {seed}")
    case = drawn(rng, QUERIES[name], violated)
    want = expected(case)
    assert LocalEngine(case, bound(case), constraints="exact").answer() == want
    kept = LocalEngine(case, bound(case), tmp_path, few_codes=rng.random() < 0.5, constraints="exact")
    assert kept.answer() == want
    assert kept.snapshots


def test_rows_go_to_disk_and_come_back_when_a_constraint_is_violated() -> None:
    aside = rescued = 0
    for seed in range(6):
        case = drawn(random.Random(seed), TWO, 0.1)
        engine = LocalEngine(case, bound(case), constraints="exact")
        assert engine.answer() == expected(case)
        reports = [join.take_constraints() for join in found_by(engine)]
        aside += sum(len(each.changes) for each in reports if each is not None)
        rescued += sum(each.rescued for each in reports if each is not None)
    assert aside > 0
    assert rescued > 0


def test_what_is_discarded_is_the_same_after_a_restart(tmp_path: Path) -> None:
    different = 0
    for seed in range(8):
        case = drawn(random.Random(seed), CHAIN, 0.1)
        whole = LocalEngine(case, bound(case), constraints="discard").answer()
        restarted = LocalEngine(case, bound(case), tmp_path / str(seed), longest_log=2, constraints="discard")
        (tmp_path / str(seed)).mkdir()
        assert restarted.answer() == whole
        different += whole != expected(case)
    assert different > 0  # else nothing was discarded that mattered


@pytest.mark.parametrize("name", QUERIES)
def test_where_constraints_hold_nothing_is_missing_that_keys_let_go(name: str) -> None:
    case = drawn(random.Random(5), QUERIES[name], 0.0)
    engine = LocalEngine(case, bound(case), constraints="exact", keys={"c": ("k",), "d": ("k",)})
    assert engine.answer() == expected(case)


def test_windows_of_rows_are_kept_whole_and_the_report_says_why() -> None:
    case = drawn(random.Random(4), TWO.replace("c [Range 15 Seconds]", "c [Rows 9]"), 0.1)
    engine = LocalEngine(case, bound(case), constraints="discard")
    assert engine.answer() == expected(case)
    reports = [join.take_constraints() for join in found_by(engine)]
    assert {each.idle for each in reports if each is not None} == {"c may take rows back"}


def test_a_declared_key_that_is_none_is_told_with_the_two_rows() -> None:
    case = drawn(random.Random(2), TWO, 0.3)
    with pytest.raises(
        DataError, match=r"^c \(k\) was declared a key, but two rows have the same value: \(.*\) and \("
    ):
        LocalEngine(case, bound(case), constraints="exact", keys={"c": ("k",)}).answer()
