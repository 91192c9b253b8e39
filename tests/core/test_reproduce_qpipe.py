"""The model of QPipe: the same answers whenever queries arrive, merging by phase, claims by counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anabranch.model.arrays import Counts
from anabranch.reproduce import qpipe
from anabranch.reproduce.qpipe import interarrivals, throughput
from anabranch.reproduce.qpipe.claims import CLAIMS
from anabranch.reproduce.qpipe.disk import PAGE_ROWS, File
from anabranch.reproduce.qpipe.engine import StagedEngine
from anabranch.reproduce.qpipe.plans import (
    HUNDRED,
    TEN,
    UNIQUE1,
    UNIQUE2,
    Aggregate,
    FileScan,
    IndexScan,
    MergeJoin,
    Plan,
    Sort,
)
from anabranch.reproduce.qpipe.running import run_clients, run_pair, same
from anabranch.reproduce.qpipe.workload import equal_joins, grouped, mix, three_way_joins, wisconsin

BIG = 2_000
TABLES = wisconsin(BIG, BIG // 10)


def by_definition(plan: Plan, tables: dict[str, File]) -> list[tuple[int, ...]]:
    """The rows of a plan, evaluated row by row."""
    match plan:
        case FileScan(table, low, high) | IndexScan(table, low, high):
            rows = [tuple(row) for row in tables[table].rows.tolist()]
            return [row for row in rows if low is None or high is None or low <= row[UNIQUE2] < high]
        case Sort(child):
            return by_definition(child, tables)
        case MergeJoin(left, right, first, other):
            found: dict[int, list[tuple[int, ...]]] = {}
            for row in by_definition(right, tables):
                found.setdefault(row[other], []).append(row)
            return [one + two for one in by_definition(left, tables) for two in found.get(one[first], [])]
        case Aggregate(child, function, column, group):
            groups: dict[int, list[int]] = {}
            for row in by_definition(child, tables):
                groups.setdefault(0 if group is None else row[group], []).append(row[column])
            reducers: dict[str, Callable[[list[int]], int]] = {"min": min, "sum": sum, "count": len}
            reduce = reducers[function]
            return [(key, reduce(values)) for key, values in groups.items()]


def bag(rows: Counts) -> list[tuple[int, ...]]:
    return sorted(tuple(row) for row in rows.tolist())


PAIRS = {"figure 4": three_way_joins(BIG), "figure 5": grouped(), "figure 6": equal_joins(BIG)}


@pytest.mark.parametrize("merging", [True, False])
@pytest.mark.parametrize("pair", PAIRS)
def test_answers_are_those_of_the_definition_whenever_the_second_query_comes(pair: str, merging: bool) -> None:
    plans = PAIRS[pair]
    expected = [sorted(by_definition(plan, TABLES)) for plan in plans]
    alone = run_pair(TABLES, plans[:1], 0.0, merging=merging).elapsed
    for gap in np.random.default_rng(1).uniform(0, 1.2, 25):
        ran = run_pair(TABLES, plans, gap * alone, merging=merging)
        assert [bag(rows) for rows in ran.answers] == expected


@pytest.mark.parametrize("clients", [1, 2, 5])
def test_clients_get_the_answers_of_the_definition_from_a_mix(clients: int) -> None:
    kinds = (*mix(BIG), Aggregate(FileScan("big1", BIG, BIG), "min", TEN), Sort(FileScan("small", 3, 5), TEN))
    drawn = [kinds[place] for place in np.random.default_rng(clients).integers(0, len(kinds), 30)]
    merged = run_clients(TABLES, drawn, clients, merging=True)
    assert same(merged.answers, run_clients(TABLES, drawn, clients, merging=False).answers)
    for plan, rows in zip(drawn, merged.answers, strict=True):
        assert bag(rows) == sorted(by_definition(plan, TABLES))
    assert bool(merged.meter.merged) == (clients > 1)


def test_a_sort_is_shared_in_every_phase_and_a_scan_until_it_begins() -> None:
    """Sections 4.1 and 4.2: attach, copy the buffer, read the sorted file again."""
    engine, plan = StagedEngine(TABLES, merging=True), Sort(FileScan("big1"), UNIQUE1)
    pages = TABLES["big1"].pages
    engine.submit("first", plan)
    engine.submit("scanning", plan)
    for _ in range(pages + 5):
        engine.round()
    engine.submit("sorting", plan)
    assert engine.meter.merged == {"sort": 2}
    while not engine.answer("first").size:
        engine.round()
    engine.submit("reading", plan)
    assert engine.meter.merged == {"sort": 2, "sorted file": 1}
    while engine.running:
        engine.round()
    assert engine.meter.writes == pages
    assert len({bag(engine.answer(name))[7] for name in ("first", "scanning", "sorting", "reading")}) == 1
    engine.submit("late", plan)  # the sorted file is gone
    assert engine.meter.merged == {"sort": 2, "sorted file": 1}


def test_scans_of_one_table_merge_whatever_they_look_for_and_read_each_page_once() -> None:
    engine = StagedEngine(TABLES, merging=True)
    engine.submit("some", FileScan("big1", 10, 20))
    engine.submit("all", FileScan("big1"))
    engine.round()
    engine.submit("late", FileScan("big1"))
    while engine.running:
        engine.round()
    assert engine.meter.merged == {"fscan": 1}
    assert engine.meter.reads + engine.meter.hits == 2 * TABLES["big1"].pages
    assert [len(engine.answer(name)) for name in ("some", "all", "late")] == [10, BIG, BIG]


def test_a_parent_that_is_slower_than_others_gets_a_packet_of_its_own() -> None:
    """Both read the sorted file of big1; one of them waits for a table that is sorted first."""
    shared = Sort(FileScan("big1"), UNIQUE1)
    quick = Aggregate(shared, "count", UNIQUE1, UNIQUE1)
    slow = MergeJoin(shared, Sort(MergeJoin(shared, Sort(FileScan("big2"), UNIQUE1), UNIQUE1, UNIQUE1), 4), 0, 4)
    tables = wisconsin(200 * PAGE_ROWS, PAGE_ROWS)
    ran = run_pair(tables, (quick, slow), 0.0, merging=True)
    assert ran.meter.splits > 0
    assert [bag(rows) for rows in ran.answers] == [sorted(by_definition(plan, tables)) for plan in (quick, slow)]


def test_joins_merge_until_their_first_page_has_been_read() -> None:
    plans = PAIRS["figure 6"]
    assert run_pair(TABLES, plans, 0.0, merging=True).meter.merged == {"join": 1}
    alone = run_pair(TABLES, plans[:1], 0.0, merging=True).elapsed
    late = run_pair(TABLES, plans, 0.95 * alone, merging=True).meter
    assert late.merged == {"sorted file": 2}
    assert late.writes == run_pair(TABLES, plans[:1], 0.0, merging=True).meter.writes


def test_counts_are_the_same_in_every_run_and_merging_saves_most_where_most_is_common() -> None:
    found = {name: interarrivals.curves(TABLES, pair, (0.0, 0.3, 1.0)) for name, pair in PAIRS.items()}
    again = interarrivals.curves(TABLES, PAIRS["figure 4"], (0.0, 0.3, 1.0))
    assert [ran.meter for ran in again.merged] == [ran.meter for ran in found["figure 4"].merged]
    assert 0.1 < max(found["figure 4"].saved) < max(found["figure 5"].saved) < max(found["figure 6"].saved) < 0.5
    for curves in found.values():
        assert -0.05 < curves.saved[-1] <= 0


def test_groups_that_span_pages_are_one() -> None:
    rows = Sort(FileScan("big1"), HUNDRED)
    for function in ("min", "sum", "count"):
        plan = Aggregate(rows, function, UNIQUE2, HUNDRED)
        assert bag(run_pair(TABLES, [plan], 0.0, merging=True).answers[0]) == sorted(by_definition(plan, TABLES))


def test_the_command_tells_paper_ours_and_why_and_writes_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(interarrivals, "QUICK", interarrivals.Plan(BIG, BIG // 10, (0.0, 0.5, 1.0)))
    monkeypatch.setattr(throughput, "QUICK", throughput.Plan(BIG, BIG // 10, 12, 1))
    assert qpipe.main(quick=True, json_path=tmp_path / "claims.json", out=tmp_path / "page") in (0, 3)
    bars = {bar["bar"] for bar in json.loads((tmp_path / "claims.json").read_text())}
    assert {"Figure 4 largest saving", "Section 5.5 throughput of QPipe / original"} <= bars
    printed, page = capsys.readouterr().out, (tmp_path / "page" / "README.md").read_text()
    for name, claim in CLAIMS.items():
        assert f"{name}: {claim.title}" in printed
        assert f"## {name}" in page
    assert "anabranch reproduce qpipe --quick" in page
