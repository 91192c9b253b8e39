"""Random queries over random streams: the engine says what the definition says, at every instant, however rows come."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from anabranch.operators.segments import LONGEST_LOG, SMALLEST_LOG_BYTES
from cql.comparing import EXAMPLES, bound, difference, expected, smallest_difference
from cql.local import SHORT_LOG, LocalEngine
from cql.streams import SECOND, Case, Cuts, Stream
from seeds import drawn

CASES = 50_000 if os.environ.get("ANABRANCH_SOAK") else 1000
DRAWN_CASES = 24
SHRINKING_CASES = 1000
CHUNK = 25


def found(look: Callable[[int], str | None], numbers: Iterable[int], chunk: int) -> list[str]:
    """What was found for some of the numbers, on all cores."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return [each for each in pool.map(look, numbers, chunksize=chunk) if each is not None]


def test_the_engine_agrees_with_the_definition_on_the_cases_of_the_day() -> None:
    differences = [each for each in map(difference, drawn(DRAWN_CASES)) if each is not None]
    assert not differences, f"{len(differences)} of {DRAWN_CASES} cases differ, the first of them:\n{differences[0]}"


@pytest.mark.full(reason="a thousand cases take a minute")
@pytest.mark.timeout(CASES)
def test_the_engine_agrees_with_the_definition() -> None:
    differences = found(difference, range(CASES), CHUNK)
    assert not differences, f"{len(differences)} of {CASES} cases differ, the first of them:\n{differences[0]}"


@pytest.mark.full(reason="a thousand cases take a minute")
@pytest.mark.timeout(SHRINKING_CASES)
def test_the_engine_agrees_with_the_definition_on_cases_that_shrink() -> None:
    differences = found(smallest_difference, range(SHRINKING_CASES // EXAMPLES), 1)
    assert not differences, differences[0]


def through_its_log(case: Case, folder: Path, restart_every: int) -> int:
    """The engine agrees although it loses its memory; how many cells have written a snapshot."""
    engine = LocalEngine(case, bound(case), folder, longest_log=LONGEST_LOG, restart_every=restart_every)
    assert engine.answer() == expected(case)
    return engine.snapshots


def test_a_log_of_many_ticks_becomes_a_snapshot(tmp_path: Path) -> None:
    rows = tuple((number, number * SECOND, number % 3, number % 7) for number in range(LONGEST_LOG + 8))
    stream = Stream("s", (("k", "bigint"), ("a", "bigint")), rows)
    text = "Select k, Count(*) As n, Max(a) As m From s [Rows 5] Group By k"
    case = Case((stream,), (), text, Cuts({"s": (1,) * len(rows)}, cells=1))
    assert through_its_log(case, tmp_path, restart_every=LONGEST_LOG // 4 + 1) == 2


def test_a_log_that_is_larger_than_the_state_becomes_a_snapshot(tmp_path: Path) -> None:
    size, ticks = SMALLEST_LOG_BYTES // 4, 8
    rows = tuple((number, number * SECOND, str(number % 10) * size) for number in range(ticks))
    case = Case((Stream("s", (("c", "string"),), rows),), (), "Select c From s [Rows 1]", Cuts({"s": (1,) * ticks}, 1))
    assert through_its_log(case, tmp_path, restart_every=2) == 1


@pytest.mark.parametrize("test", ["k Not In (Select a From t [Rows 2])", "Exists (Select 1 From t [Range 1 Second])"])
def test_tests_without_keys_survive_a_snapshot(test: str, tmp_path: Path) -> None:
    times = range(12)
    s = Stream("s", (("k", "bigint"),), tuple((n, n * SECOND, n % 3) for n in times))
    t = Stream("t", (("a", "bigint"),), tuple((n, n * SECOND, None if n % 4 == 0 else n) for n in times))
    cuts = Cuts({"s": (1,) * 12, "t": (1,) * 12}, cells=1)
    case = Case((s, t), (), f"Select k From s [Rows 3] Where {test}", cuts)
    engine = LocalEngine(case, bound(case), tmp_path, longest_log=SHORT_LOG)
    assert engine.answer() == expected(case)
    assert engine.snapshots


def test_a_join_of_three_says_the_same_by_all_its_plans() -> None:
    rng = random.Random(3)
    rows = {name: tuple((n, n * SECOND, rng.randrange(2), n) for n in range(9)) for name in "stu"}
    streams = tuple(Stream(name, (("k", "bigint"), ("a", "bigint")), each) for name, each in rows.items())
    cuts = Cuts(dict.fromkeys(rows, (3, 3, 3)), cells=2)
    text = "Select s.a, t.a, u.a From s [Rows 3], t [Range 4 Seconds], u [Rows 5] Where s.k = t.k And t.k = u.k"
    case = Case(streams, (), text, cuts)
    want = expected(case)
    assert want
    assert all(LocalEngine(case, bound(case), switches=random.Random(n)).answer() == want for n in range(8))


@pytest.mark.parametrize("window", ["[Rows 2]", "[Range 2 Seconds]", "[Now]"])
@pytest.mark.parametrize("side", ["Left", "Right", "Full"])
def test_outer_joins_keep_rows_without_a_partner(side: str, window: str) -> None:
    rng = random.Random(3)
    rows = {name: tuple((n, n * SECOND, rng.choice([0, 1, 2, None]), n) for n in range(9)) for name in "st"}
    streams = tuple(Stream(name, (("k", "bigint"), ("a", "bigint")), each) for name, each in rows.items())
    text = f"Select s.a As x, t.a As y From s {window} {side} Join t [Rows 2] On s.k = t.k Where s.a > 1 Or s.a Is Null"
    case = Case(streams, (), text, Cuts(dict.fromkeys(rows, (3, 3, 3)), cells=2))
    want = expected(case)
    assert any(None in row for row in want)
    assert LocalEngine(case, bound(case)).answer() == want
