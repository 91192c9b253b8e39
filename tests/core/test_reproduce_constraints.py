"""The experiments on constraints: streams that keep to their k, and a command that tells paper, ours and why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from anabranch.linear_road_joins import Drive
from anabranch.reproduce import constraints
from anabranch.reproduce.constraints import combining, costs, linear_road, memory, monitoring, network, streams
from anabranch.reproduce.constraints.claims import CLAIMS


@pytest.mark.parametrize("k", [0, 40, 200])
def test_streams_keep_to_their_k(k: int) -> None:
    assert streams.worst_join_distance(streams.referential(k, 7_000, 1), 0) == k
    feed = streams.clustered(k, 11_000, 1)
    assert 0.5 * k <= streams.worst_clustering(feed, 0) <= 1.5 * k + 4
    assert 0.5 * k <= streams.worst_scrambling(feed, 1) <= 1.5 * k + 4
    assert streams.worst_join_distance(feed, 0) == 0


def test_k_changes_as_the_figure_says() -> None:
    level = monitoring.level(100, 400)
    assert level(np.array([0.1, 0.3, 0.4, 0.6, 0.7, 0.9])) == pytest.approx([100, 250, 400, 100, 400, 100])


def test_the_command_tells_paper_ours_and_why_and_writes_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(network, "QUICK", network.Plan((50, 200, 50), 10, 14))
    monkeypatch.setattr(memory, "QUICK", memory.Plan(400, (0, 40, 160), 100))
    monkeypatch.setattr(monitoring, "QUICK", monitoring.Plan(16_000, 2_000, 500, 20, 80))
    monkeypatch.setattr(costs, "QUICK", costs.Plan(400, (0, 40), 100))
    monkeypatch.setattr(combining, "QUICK", combining.Plan(400, 100, 40, 40, (0, 80), 4))
    monkeypatch.setattr(linear_road, "QUICK", Drive(200, 60))
    assert constraints.main(quick=True, json_path=tmp_path / "claims.json", out=tmp_path / "page") in (0, 3)
    bars = {bar["bar"]: bar["value"] for bar in json.loads((tmp_path / "claims.json").read_text())}
    assert bars["Table 6.2 RIDS: rows of S2.No"] == 0
    assert bars["Section 6.1.1 results missed by exact"] == 0
    assert bars["Figure 6.12 memory, largest k / SWJ"] < 1
    printed, page = capsys.readouterr().out, (tmp_path / "page" / "README.md").read_text()
    for name, claim in CLAIMS.items():
        assert f"{name}: {claim.title}" in printed
        assert f"## {name}" in page
    assert "anabranch reproduce constraints --quick" in page
