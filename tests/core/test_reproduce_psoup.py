"""The model of PSoup: the paper's worked examples, the same answers however results are kept, claims by counts."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest

from anabranch.reproduce import psoup
from anabranch.reproduce.psoup import arrivals, join_costs, responses, workload
from anabranch.reproduce.psoup.claims import CLAIMS
from anabranch.reproduce.psoup.data_stem import DataStem
from anabranch.reproduce.psoup.joins import JoinSoup, composite, separate
from anabranch.reproduce.psoup.names import COMPLETE, NOMAT, PARTIAL
from anabranch.reproduce.psoup.predicates import Factor, JoinFactor, JoinQuery, Query, Relop, Window
from anabranch.reproduce.psoup.query_stem import Probing, QueryStem
from anabranch.reproduce.psoup.results import Bitmap
from anabranch.reproduce.psoup.running import steps, system, systems
from anabranch.reproduce.psoup.system import Materialise, PSoup

KEPT: tuple[Materialise, ...] = get_args(Materialise)
OPERATORS: tuple[Relop, ...] = get_args(Relop)


def random_query(rng: np.random.Generator, attributes: int = 3) -> Query:
    return Query(
        tuple(
            Factor(int(rng.integers(attributes)), OPERATORS[rng.integers(5)], int(rng.integers(0, 10)))
            for _ in range(rng.integers(0, 5))
        )
    )


@pytest.mark.parametrize("materialise", KEPT)
def test_query_24_finds_tuples_48_and_50_that_came_before_it(materialise: Materialise) -> None:
    """Section 3.2.1 and figure 2; the values of its tuples are lost, the outcome is not."""
    soup = PSoup(2, 64, materialise)
    soup.insert_all(np.zeros((48, 2), dtype=np.int64))
    soup.insert_all(np.array([[3, 7], [9, 7], [4, 8], [4, 2], [0, 9]]))
    for number in range(24):
        assert soup.register(Query((Factor(0, "=", 100 + number),)), Window.landmark(0)) == number
    query = soup.register(Query((Factor(0, "<", 5), Factor(0, ">", 2), Factor(1, ">=", 7))), Window.landmark(0))
    assert query == 24
    assert sorted(soup.slots(query).tolist()) == [48, 50]
    soup.insert([4, 7])  # figure 3: a new tuple meets the queries that are there
    assert sorted(soup.slots(query).tolist()) == [48, 50, 53]
    assert soup.invoke(0).tolist() == []


@pytest.mark.parametrize("materialise", KEPT)
def test_the_join_query_of_figure_4_meets_old_tuples_and_of_figure_5_new_ones(materialise: Materialise) -> None:
    """R.a < 5 And R.a > S.b And S.b > 1, section 3.2.2."""
    soup = JoinSoup((1, 1), 16, materialise)
    soup.insert_all("R", np.array([[3], [7], [4]]))
    soup.insert_all("S", np.array([[2], [1], [3], [6]]))
    query = soup.register(JoinQuery(Query((Factor(0, "<", 5),)), Query((Factor(0, ">", 1),)), JoinFactor(0, ">", 0)))
    assert sorted(soup.invoke(query).tolist()) == [[3, 2], [4, 2], [4, 3]]
    made = soup.hybrids
    soup.insert("R", [4])
    assert sorted(soup.invoke(query).tolist()) == [[3, 2], [4, 2], [4, 2], [4, 3], [4, 3]]
    soup.insert("R", [5])
    soup.insert("S", [3])
    assert sorted(soup.invoke(query).tolist()) == [[3, 2], [4, 2], [4, 2], [4, 3], [4, 3], [4, 3], [4, 3]]
    if materialise != "none":
        assert made == 2  # the tuples of R below 5
        assert soup.hybrids == made + 2  # R.a = 5 and S.b <= 1 give none


@pytest.mark.parametrize("probing", get_args(Probing))
@pytest.mark.parametrize("materialise", KEPT)
def test_answers_are_those_of_the_definition_after_any_prefix(materialise: Materialise, probing: Probing) -> None:
    rng = np.random.default_rng(5)
    soup, rows, queries = PSoup(3, 20, materialise, probing), [], []
    windows = (Window.sliding(7), Window.sliding(20), Window.landmark(30), Window.snapshot(4, 40))
    for step in range(120):
        if step % 3 == 0:
            queries.append((random_query(rng), windows[rng.integers(len(windows))]))
            soup.register(*queries[-1])
        else:
            rows.append(rng.integers(0, 10, 3).tolist())
            soup.insert(rows[-1])
        number = int(rng.integers(len(queries)))
        query, window = queries[number]
        begin, end = window.bounds(len(rows))
        kept = range(max(begin, len(rows) - 20), end)
        expected = sorted(rows[place] for place in kept if query.holds(rows[place]))
        assert sorted(soup.invoke(number).tolist()) == expected


@pytest.mark.parametrize("materialise", KEPT)
def test_joins_answer_the_definition_after_any_prefix(materialise: Materialise) -> None:
    rng = np.random.default_rng(6)
    soup, rows, queries = JoinSoup((2, 2), 10, materialise), defaultdict[str, list[list[int]]](list), []
    for step in range(80):
        if step % 8 == 0:
            join = JoinFactor(*(int(rng.integers(2)), OPERATORS[rng.integers(5)]), int(rng.integers(2)), 1)
            queries.append(JoinQuery(random_query(rng, 2), random_query(rng, 2), join))
            soup.register(queries[-1])
        stream: Literal["R", "S"] = "R" if rng.random() < 0.5 else "S"
        rows[stream].append(rng.integers(0, 10, 2).tolist())
        soup.insert(stream, rows[stream][-1])
        number = int(rng.integers(len(queries)))
        expected = [r + s for r in rows["R"][-10:] for s in rows["S"][-10:] if queries[number].holds(r, s)]
        assert sorted(soup.invoke(number).tolist()) == sorted(expected)


def test_composite_tuples_find_what_separate_hybrid_structs_find_with_half_the_factors() -> None:
    rng = np.random.default_rng(7)
    r, s = DataStem(1, 50), DataStem(1, 50)
    r.insert(workload.rows(50, rng, 1))
    s.insert(workload.rows(50, rng, 1))
    left = np.arange(50)
    for relop in OPERATORS:
        query = JoinQuery(Query(()), Query((Factor(0, ">", 60),)), JoinFactor(0, relop, 0, 3))
        asked = s.factors
        apart = separate(query, left, r, s)
        assert s.factors - asked == 100
        together = composite(query, left, r, s)
        assert s.factors - asked == 151
        assert {*zip(*apart, strict=True)} == {*zip(*together, strict=True)}
        assert len(apart[0]) == len(together[0])


def test_the_workload_is_that_of_section_5() -> None:
    rng = np.random.default_rng(1)
    assert set(np.unique(workload.rows(5_000, rng))) == set(range(256))
    multiples = (workload.constants(50_000, rng) % 32 == 0).mean()
    assert multiples == pytest.approx(0.2 + 0.8 / 32, abs=0.01)
    [rows, queries] = workload.rows(2_000, rng), workload.interval_queries(300, rng, (1,))
    shares = [len(system("none", "index", rows, [query]).slots(0)) / 2_000 for query in queries]
    assert np.mean(shares) == pytest.approx(1 / 3, abs=0.05)


def test_more_predicates_are_more_steps_for_nomat_and_fewer_for_psoup() -> None:
    rows = workload.rows(2**12, np.random.default_rng(2))
    found = {}
    for count in (1, 2, 4):
        queries = workload.interval_queries(40, np.random.default_rng([3, count]), (count,))
        found[count] = {name: steps(soup, 40) for name, soup in systems(rows, queries).items()}
    assert found[1][NOMAT] < found[2][NOMAT] < found[4][NOMAT]
    for name in (PARTIAL, COMPLETE):
        assert found[1][name] > found[2][name] > found[4][name]
        assert found[4][NOMAT] > 10 * found[4][name]


def test_partial_reads_the_whole_bitmap_and_complete_what_it_answers() -> None:
    rows = workload.rows(2**12, np.random.default_rng(2))
    soups = systems(rows, workload.equality_queries(40, np.random.default_rng(4)))
    answered = sum(len(soups[NOMAT].slots(query)) for query in range(40)) / 40
    assert steps(soups[PARTIAL], 40) == 2**12 / 64 + answered
    assert steps(soups[COMPLETE], 40) == 2 * answered


def test_nodes_of_the_index_do_not_grow_with_the_queries_and_factors_compared_do() -> None:
    few, many = (arrivals.arrivals(count, 10) for count in (512, 2048))
    assert many.nodes < 1.5 * few.nodes
    assert many.comparisons > 3.5 * few.comparisons
    assert many.cells > 3.5 * few.cells  # which the paper does not mention
    assert set(many.rates) == set(arrivals.SYSTEMS)


def test_the_lists_of_complete_are_looked_at_for_every_tuple_and_the_bitmap_is_not() -> None:
    rng = np.random.default_rng(8)
    rows, queries = workload.rows(500, rng), workload.interval_queries(256, rng)
    spent = {}
    for name, materialise in ((PARTIAL, "partial"), (COMPLETE, "complete")):
        soup = system(materialise, "index", rows, queries)  # type: ignore[arg-type]
        assert soup.results is not None
        before = soup.results.steps
        soup.insert_all(rows[:10])
        spent[name] = (soup.results.steps - before) / 10
    assert spent[PARTIAL] == 256 / 64
    assert spent[COMPLETE] > 256


def test_the_bitmap_reads_windows_that_go_round_its_end() -> None:
    bitmap, rng = Bitmap(16), np.random.default_rng(9)
    bitmap.add_query(np.zeros(0, dtype=np.int64), Window.sliding(16))
    matched = [number for number in range(40) if _mark(bitmap, number, bool(rng.random() < 0.5))]
    for begin in range(24, 41):
        assert bitmap.numbers(0, begin, 40).tolist() == [number for number in matched if number >= begin]


def _mark(bitmap: Bitmap, number: int, matches: bool) -> bool:
    bitmap.add_tuple(number, np.array([0] if matches else [], dtype=np.int64))
    return matches


def test_an_index_without_queries_and_a_query_without_factors() -> None:
    stem = QueryStem(2)
    assert stem.probe([1, 2]).tolist() == []
    stem.insert(Query(()))
    assert [stem.probe([1, 2], how).tolist() for how in get_args(Probing)] == [[0], [0], [0]]


def test_the_lines_through_table_2_meet_between_one_and_two_predicates() -> None:
    assert 1 / 9 < responses.paper_crossing() < 1 / 3
    assert np.isnan(responses.crossing([0, 1], [1, 1], [2, 2]))
    assert np.isnan(responses.crossing([0, 1], [3, 3], [2, 2]))


def test_the_command_tells_paper_ours_and_why_and_writes_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(responses, "QUICK", responses.Plan((2**7, 2**10), 8, (0, 255), 2))
    monkeypatch.setattr(responses, "WINDOW", 2**9)
    monkeypatch.setattr(arrivals, "QUICK", arrivals.Plan((16, 32), 5, (0.5, 2), 20))
    monkeypatch.setattr(join_costs, "QUICK", join_costs.Plan((16, 24), 2, (20, 30)))
    assert psoup.main(quick=True, json_path=tmp_path / "claims.json", out=tmp_path / "page") in (0, 3)
    bars = {bar["bar"] for bar in json.loads((tmp_path / "claims.json").read_text())}
    assert {"Table 2 PSoup-P / PSoup-C, 2 predicates", "Figure 9 factors compared / nodes visited, growth"} <= bars
    printed, page = capsys.readouterr().out, (tmp_path / "page" / "README.md").read_text()
    for name, claim in CLAIMS.items():
        assert f"{name}: {claim.title}" in printed
        assert f"## {name}" in page
    assert "anabranch reproduce psoup --quick" in page
