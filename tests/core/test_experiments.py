"""What the reproductions share: claims are printed and counted, the page tells paper, ours and why."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from anabranch.measure import Bar, at_least
from anabranch.reproduce import mesh, routing
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

LINES = [Chart("x", "y", [0, 60], [Series("ours", [0.0, 2.0])])]


@pytest.mark.parametrize(("command", "name"), [(routing, "Figure 4"), (mesh, "Figure 11a")])
@pytest.mark.parametrize(
    ("bar", "code", "summary"), [(at_least("x", 1, 0), 0, "1 of 1"), (at_least("x", 0, 1), 3, "0 of 1")]
)
def test_a_command_prints_claims_and_writes_page_and_figures(
    command: ModuleType,
    name: str,
    bar: Bar,
    code: int,
    summary: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    found, claim = Exhibit(name, "we found", [bar], LINES), command.CLAIMS[name]

    class Small:
        @staticmethod
        def exhibits(*, quick: bool) -> list[Exhibit]:
            return [found]

    monkeypatch.setattr(command, "GROUPS", (Small,))
    assert command.main(quick=True, json_path=tmp_path / "bars.json", out=tmp_path) == code
    assert json.loads((tmp_path / "bars.json").read_text())[0]["holds"] is bar.holds
    assert f"{summary} claims hold" in capsys.readouterr().out
    page = next(tmp_path.glob("*.md")).read_text()
    assert f"{claim.paper} | we found | {claim.why}" in page
    assert (tmp_path / f"{name.lower().replace(' ', '-')}.png").exists()
