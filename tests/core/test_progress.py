"""The bar of a filter whose predicates call: in a terminal, in a log, in a notebook."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.calls.meter import Meter
from anabranch.calls.reply import Bill
from anabranch.spark.filters.progress import Progress

PROGRAM = """
import sys
from pathlib import Path
from anabranch.calls.meter import Meter
from anabranch.calls.reply import Bill
from anabranch.spark.filters import progress

progress.EVERY_SECONDS = 0.01
meter = Meter(Path(sys.argv[1]))
meter.count_rows(1000)                                  # of an earlier run
meter.settle(0.0, Bill(calls=900, money=9.0))
with progress.Progress(meter, rows=200) as bar:
    shown, show = [], bar._show
    bar._show = lambda: (show(), shown.append(bar.line()))
    while not shown:
        pass
    meter.count_rows(150)
    meter.settle(0.0, Bill(calls=40, hits=10, tokens=5200, money=0.25, unasked=3))
    meter.write()
"""
LAST = "150 of 200 rows, "
COSTS = " s left, 40 calls, 10 hits, 5,200 tokens, money 0.2500, 3 not asked"


def arguments(folder: Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(folder / "meter")]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **more}


def test_in_a_terminal_one_line_is_written_again_and_again(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            arguments(tmp_path), stdout=theirs, stderr=theirs, env=environment(TERM="xterm", COLUMNS="200")
        ) as run:
            os.close(theirs)
            said = b""
            try:
                while data := os.read(ours, 4096):
                    said += data
            except OSError:  # the other end is closed
                pass
        assert run.returncode == 0, said.decode()
    finally:
        os.close(ours)
    text = said.decode()
    assert "[------------------------] 0 of 200 rows" in text
    assert "[##################------] " + LAST in text
    assert COSTS in text
    assert "\x1b[2K" in text, "lines are erased, not added"


def test_in_a_log_there_is_the_end(tmp_path: Path) -> None:
    done = subprocess.run(
        arguments(tmp_path), capture_output=True, text=True, env=environment(COLUMNS="200"), check=True
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("[##################------] " + LAST)
    assert line.endswith(COSTS)


def test_without_a_total_there_is_no_estimate(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "meter")
    bar = Progress(meter)
    meter.count_rows(5)
    meter.settle(0.0, Bill(calls=2))
    meter.write()
    assert bar.line().startswith("5 rows, ")
    assert "left" not in bar.line()
    assert bar.html().startswith("<div>5 rows, ")


def test_in_a_notebook_a_bar_is_updated_in_its_place(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    program = PROGRAM.replace("sys.argv[1]", repr(str(tmp_path / "meter")))
    paths = f"import sys\nsys.path[:0] = {[path for path in sys.path if path]!r}\n"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(paths + program)])
    nbclient.NotebookClient(notebook).execute()
    (shown,) = [output for output in notebook.cells[0].outputs if output.output_type == "display_data"]
    assert '<progress value="150" max="200"></progress> ' + LAST in shown.data["text/html"]
    assert COSTS in shown.data["text/html"]
