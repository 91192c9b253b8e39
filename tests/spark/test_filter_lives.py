"""Filters of a program that is killed, and of the next one: workers and tasks that die, state folders, counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from spark.state_folders import awaited, rows_on_disk

pytestmark = pytest.mark.spark

PROGRAM = str(Path(__file__).with_name("filter_program.py"))


@dataclass(frozen=True)
class Lives:
    """What the program printed in its two lives, what the first one wrote to standard error, and its state folders."""

    folder: Path
    killed: dict[str, Any]
    said: str
    ended: dict[str, Any]

    def rows(self, name: str) -> int:
        """Rows that a filter on one of the folders has counted."""
        return (
            ab.Filter(ab.predicate(lambda id: id % 2 == 0, "id", name="even"), state=self.folder / name).report().rows
        )


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """One program for all tests, as it starts Spark; killed once its folders are written, and started again."""
    folder = tmp_path_factory.mktemp("lives")
    command = [sys.executable, PROGRAM, str(folder)]
    with (
        (folder / "said").open("wb") as said,
        subprocess.Popen(
            [*command, "killed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True
        ) as first,
    ):
        try:
            assert first.stdout is not None
            line = first.stdout.readline()
            (folder / "blocked").unlink(missing_ok=True)
            wanted = {"quick": 6000, "shared": 6000, "blocked": 4000, "deleted": 2000, "retried": 2000}
            awaited(lambda: all(rows_on_disk(folder / name) == rows for name, rows in wanted.items()))
        finally:
            os.killpg(first.pid, signal.SIGKILL)
    text = (folder / "said").read_text()
    assert line, text[-3000:]
    done = subprocess.run([*command, "ended"], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return Lives(folder, json.loads(line), text, json.loads(done.stdout.splitlines()[-1]))


def test_a_killed_program_loses_no_counts(lives: Lives) -> None:
    assert lives.rows("quick") == 6000


def test_filters_on_one_folder_add_up(lives: Lives) -> None:
    assert lives.rows("shared") == 6000


def test_a_folder_that_cannot_be_written_harms_nobody_else(lives: Lives) -> None:
    assert lives.killed["folders"]["own"] == 2000, "accumulators of the user still count"
    assert lives.killed["folders"]["other"] == 2000, "and so do other filters"


def test_a_folder_that_cannot_be_written_loses_no_counts(lives: Lives) -> None:
    assert lives.killed["folders"]["reported"] == 4000
    assert lives.said.count(f"The state file {lives.folder}/blocked/filter.json cannot be written: ") == 1
    assert lives.said.count("cannot be written") == 1
    assert lives.rows("blocked") == 4000, "written once that was possible again"


def test_a_folder_that_was_deleted_is_made_again(lives: Lives) -> None:
    assert lives.rows("deleted") == 2000


def test_retried_tasks_and_new_processes_count_each_row_once(lives: Lives) -> None:
    wanted = list(range(0, 2000, 6))
    for times, life in ((1, lives.killed["retried"]), (2, lives.ended["retried"])):
        assert life["found"] == wanted
        assert life["rows"] == times * 2000, "a new process goes on counting"
        assert sum(life["dropped"]) == times * (2000 - len(wanted))
        assert life["errors"] == [0, 0]
    assert (lives.folder / "died").exists()
    assert (lives.folder / "raised").exists()


def test_what_the_last_tasks_sent_is_saved_when_the_program_ends(lives: Lives) -> None:
    assert lives.rows("silent") == 6000


@pytest.mark.full(reason="starts Java once more, and waits for other routes")
def test_a_worker_that_is_lost_while_it_switches_to_other_routes(tmp_path: Path) -> None:
    command = [sys.executable, PROGRAM, str(tmp_path), "switching"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"same": True, "counted": True, "died": True}
