"""The experiments on join plans: counts that follow from the thesis, and a command that tells paper, ours and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.joins.cache_candidates import Candidate
from anabranch.reproduce import joins
from anabranch.reproduce.joins import adaptivity, caching, many, plans
from anabranch.reproduce.joins.claims import CLAIMS
from anabranch.reproduce.joins.running import Mjoin, run
from anabranch.reproduce.joins.tuplewise import Tree, Tuplewise
from anabranch.reproduce.joins.workload import chain, selective


@pytest.mark.parametrize("r", [1, 2, 5, 9])
def test_probes_per_value_are_those_that_follow_from_the_thesis(r: int) -> None:
    counted = Tuplewise(chain(r, values=60, cycles=4))
    plain = counted.plain(caching.ORDERS)
    cached = counted.cached(caching.ORDERS, [Candidate(2, 0, (1, 0))], lifetime=60)
    assert plain.probes == (8 + 4 * r) * plain.values
    assert cached.probes == (10 + 2 * r) * cached.values
    assert cached.hits == pytest.approx((2 * r - 1) / (2 * r))


def test_streams_have_the_selectivities_of_the_table() -> None:
    rates, selectivities = plans.POINTS["D5"]
    counted = Tuplewise(selective(rates, selectivities, rows=60_000, window=200))
    for pair, expected in zip([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], selectivities, strict=True):
        assert counted.combinations(pair) == pytest.approx(200 * expected, rel=0.25)


@pytest.mark.parametrize("tree", plans.trees())
def test_all_trees_have_the_answers_of_the_join(tree: Tree) -> None:
    feed = selective(*plans.POINTS["D6"], rows=2_000, window=200)
    expected = run(Mjoin(feed), feed, 200).results
    assert run(plans.xjoin(feed, tree), feed, 200).results == expected > 0


def test_the_command_tells_paper_ours_and_why_and_writes_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(plans, "QUICK", plans.Plan(3_000, 200, 300, 1))
    monkeypatch.setattr(adaptivity, "QUICK", adaptivity.Plan(100, 6, 3, 100, 60, 3_000, 250, (0, 16)))
    monkeypatch.setattr(caching, "QUICK", caching.Plan(200, 3, 100, 1, (1, 5), (0.5, 2), (1, 3), (5, 20), 1_000))
    monkeypatch.setattr(many, "QUICK", many.Plan((3, 4), 4_000, 100, 1))
    assert joins.main(quick=True, json_path=tmp_path / "claims.json", out=tmp_path / "page") in (0, 3)
    bars = {bar["bar"]: bar["value"] for bar in json.loads((tmp_path / "claims.json").read_text())}
    assert bars["Figures 5.11 and 5.12 probes with / without, r = 1, the paper's way"] == 1
    assert bars["Figure 5.21 D7, most / fewest probes of all plans, the paper's way"] == 1
    printed, page = capsys.readouterr().out, (tmp_path / "page" / "README.md").read_text()
    for name, claim in CLAIMS.items():
        assert f"{name}: {claim.title}" in printed
        assert f"## {name}" in page
    assert "anabranch reproduce joins --quick" in page
