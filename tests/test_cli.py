"""The command line: exit codes, messages, what reaches benches and reproductions, the demo's data and report."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import anabranch
from anabranch.cli import demo_report, files, main, packets
from anabranch.cli.commands import app
from anabranch.cli.demo import Comparison, Run
from anabranch.errors import AnabranchError, MissingExtra, QueryError
from anabranch.events import EffortChanged, Reordered, Started
from anabranch.filter_report import FilterReport, PredicateReport
from anabranch.model.prefixes import PrefixSet

WITHOUT_TYPER = "import sys; sys.modules['typer'] = None; from anabranch.cli.main import run; sys.exit(run())"
RUNNABLE = """
import json

def main(*, quick, json_path, **more):
    json_path.write_text(json.dumps({"quick": quick, **{k: str(v) for k, v in more.items()}}))
    return 3
"""


def command(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "anabranch.cli.main", *words]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, check=False, env=os.environ | environ)


def add_modules(package: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **sources: str) -> None:
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    found = import_module(f"anabranch.{package}")
    monkeypatch.setattr(found, "__path__", [str(folder)])


def test_version() -> None:
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"anabranch {anabranch.__version__}\n")


def test_an_unknown_name_is_an_error_with_a_suggestion_and_no_traceback() -> None:
    done = command("bench", "filtrs", FORCE_COLOR="1", TERM="xterm")
    assert done.returncode == 2
    assert "\x1b[31mthere is no 'filtrs' among the benches" in done.stderr
    assert "did you mean 'filters'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_options_are_refused() -> None:
    assert CliRunner().invoke(app, ["demo", "--rows", "12"]).exit_code == 2
    assert CliRunner().invoke(app, ["run", "no-such-file", "--seconds", "-1"]).exit_code == 2
    assert CliRunner().invoke(app, ["dance"]).exit_code == 2


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ("folder", "Is a directory"),
        ("file/new/x.html", "{here}/file is not a folder"),
        ("x" * 300, "File name too long"),
        ("/proc/nope/x.html", ""),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path, report: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    done = command("demo", "--report", str(tmp_path / report))
    assert (done.returncode, done.stdout) == (2, "")
    said = f"error: {tmp_path / report} cannot be written: {why.format(here=tmp_path)}"
    assert done.stderr.startswith(said)
    assert done.stderr.endswith("\nhint: choose another file\n")
    assert done.stderr.count("\n") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_making_room_leaves_an_earlier_file_as_it_is_and_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("kept")
    for name in ("old", "new/file"):
        files.make_room(tmp_path / name)
    assert (tmp_path / "old").read_text() == "kept"
    assert list((tmp_path / "new").iterdir()) == []


def test_output_that_cannot_be_shown_is_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown, encoding="latin-1"))
    monkeypatch.setattr("anabranch.cli.commands.app", lambda: print("ž", flush=True))
    assert main.run() == 0
    assert shown.getvalue() == b"\\u017e\n"


def test_without_typer_the_extra_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TYPER], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "typer is needed for the command line: pip install 'anabranch[cli]'\n"


def test_another_missing_module_is_not_blamed_on_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anabranch.cli.commands", None)
    with pytest.raises(ModuleNotFoundError, match=r"anabranch\.cli\.commands"):
        main.run()


def test_a_bench_gets_its_options_and_decides_on_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_modules("benches", tmp_path, monkeypatch, some_bench=RUNNABLE, helper="ROWS = 3\n")
    file = tmp_path / "figures.json"
    assert CliRunner().invoke(app, ["bench", "some_bench", "--quick", "--json", str(file)]).exit_code == 3
    assert json.loads(file.read_text()) == {"quick": True}
    assert CliRunner().invoke(app, ["bench", "--json", str(file)]).exit_code == 3
    assert json.loads(file.read_text()) == {"quick": False}


def test_the_file_of_the_figures_is_made_ready_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_modules("benches", tmp_path, monkeypatch, ready=RUNNABLE, unready="def main(**_): raise SystemExit(9)")
    figures = tmp_path / "new" / "figures.json"
    assert CliRunner().invoke(app, ["bench", "ready", "--json", str(figures)]).exit_code == 3
    assert figures.exists()
    refused = CliRunner().invoke(app, ["bench", "unready", "--json", str(tmp_path)])
    assert isinstance(refused.exception, QueryError)
    assert "cannot be written" in str(refused.exception)


def test_a_bench_whose_extra_is_missing_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_modules("benches", tmp_path, monkeypatch, peers="import no_such_engine\n\n\ndef main(): ...\n")
    refused = CliRunner().invoke(app, ["bench", "peers"]).exception
    assert isinstance(refused, MissingExtra)
    assert "no_such_engine is needed for benches and reproductions" in str(refused)
    assert "pip install 'anabranch[bench]'" in str(refused)


def test_helpers_are_not_offered_and_one_file_is_for_one_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_modules("benches", tmp_path, monkeypatch, one=RUNNABLE, two="from x import main\n", helper="ROWS = 3\n")
    refused = CliRunner().invoke(app, ["bench", "helper"]).exception
    assert isinstance(refused, QueryError)
    assert refused.hint is not None
    assert refused.hint.endswith("The benches are: one, two")
    refused = CliRunner().invoke(app, ["bench", "--json", str(tmp_path / "all.json")]).exception
    assert isinstance(refused, QueryError)
    assert "2 benches" in refused.what


def test_a_reproduction_gets_its_folder_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_modules("reproduce", tmp_path, monkeypatch, some_figures=RUNNABLE)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "figures.json"
    words = ["reproduce", "some_figures", "--json", str(file), "--out", "pictures"]
    assert CliRunner().invoke(app, words).exit_code == 3
    assert json.loads(file.read_text()) == {"quick": False, "out": "pictures/some_figures"}


def test_a_folder_that_cannot_be_used_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_modules("reproduce", tmp_path, monkeypatch, unready="def main(**_): raise SystemExit(9)")
    file = tmp_path / "file"
    file.touch()
    refused = CliRunner().invoke(app, ["reproduce", "unready", "--out", str(file)]).exception
    assert isinstance(refused, QueryError)
    assert refused.what == f"{file / 'unready'} cannot be used: {file} is not a folder"


def test_errors_without_a_hint_are_shown_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise AnabranchError("it [broke]")

    monkeypatch.setattr("anabranch.cli.commands.app", fail)
    assert main.run() == 2
    assert capsys.readouterr().err == "error: it [broke]\n"


@pytest.mark.parametrize("hour", range(len(packets.HOURS)))
def test_packets_have_the_properties_of_their_hour(hour: int) -> None:
    table = packets.generate(hour=hour, rows=4000, first=100, seed=5)
    payloads, shares = table["payload"].to_pylist(), packets.HOURS[hour]
    exposed = PrefixSet(packets.NETWORKS)
    found = {
        "signed": [packets.signature(p) for p in payloads],
        "obfuscated": [packets.suspicious(packets.score(p)) for p in payloads],
        "encoded": [packets.encoded(p) for p in payloads],
        "anonymous": [packets.anonymous(p) for p in payloads],
        "exposed": [exposed.contains(d) for d in table["dst"].to_pylist()],
    }
    for name, passed in found.items():
        assert np.mean(passed) == pytest.approx(getattr(shares, name), abs=0.03), name
    assert table["seq"].to_pylist() == list(range(100, 4100))


def test_packets_are_written_in_order_without_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(packets, "ROWS_PER_FILE", 100)
    folders = packets.write(tmp_path, 1003)
    files = [file for folder in folders for file in sorted(folder.iterdir())]
    assert [len(list(folder.iterdir())) for folder in folders] == [2, 2, 2, 2]
    assert [seq for file in files for seq in pq.read_table(file, partitioning=None)["seq"].to_pylist()] == list(
        range(1003)
    )


def compared() -> Comparison:
    lines = (
        PredicateReport("a<b>", "arrow", 2, 1000, 600, 400, 0, 1010, 12.5, "all rows"),
        PredicateReport("cheap", "arrow", 1, 5000, 1000, 4000, 0, 5000, None, "all rows"),
    )
    events = (
        Started(0, "auto", ("a<b>", "cheap"), partition=0),
        Reordered(64, "auto", ("a<b>", "cheap"), ("cheap", "a<b>"), "rank of cheap", partition=0),
        EffortChanged(64, "auto", "watching", 0.05, "enough", partition=0),
    )
    report = FilterReport("auto", ("cheap", "a<b>"), lines, 5000, 6010, 8000.0, 1.0, 2.0, 0.01, 0.001, events)
    ours, plain = Run(2.0, {"a<b>": 1010, "cheap": 5000}), Run(5.0, {"a<b>": 5000, "cheap": 5000})
    return Comparison(5000, ours, plain, 600, 0, 0, report, "1. arrow: a<b>")


def test_the_report_tells_ratios_predicates_and_decisions_and_needs_no_other_file() -> None:
    pytest.importorskip("matplotlib")
    text = demo_report.page(compared())
    assert '<span class="big">2.5x</span>' in text
    assert '<td class="number">10,000</td>' in text
    assert "cheap → a&lt;b&gt;" in text
    assert "rank of cheap" in text
    assert "watching: tries 5.0% of the dropped rows further" in text
    assert "<svg" in text
    assert "<?xml" not in text
    assert "a<b>" not in text.replace("<!-- a<b> -->", "")
    assert not [mark for mark in ("src=", "<link", "<script") if mark in text]


def test_the_report_can_do_without_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    text = demo_report.page(compared())
    assert "pip install &#x27;anabranch[plot]&#x27;" in text
    assert "rank of cheap" in text
