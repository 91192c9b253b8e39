"""The clock of workers: it counts work and waiting for others, not waiting for a core."""

from __future__ import annotations

import os
import threading
from itertools import count
from pathlib import Path

import pytest

from anabranch.spark.filters import worker_clock
from anabranch.spark.filters.worker_clock import LOOK_SECONDS, Pauses, WorkerClock


def test_pauses_do_not_count_and_the_clock_never_goes_back() -> None:
    time, paused = [0.0], [0.0]
    clock = WorkerClock(lambda: time[0], lambda: paused[0])
    began = clock()
    time[0] += 0.4
    assert clock() - began == pytest.approx(0.4)
    time[0], paused[0] = time[0] + 0.3, paused[0] + 0.2
    assert clock() - began == pytest.approx(0.5)
    time[0], paused[0] = time[0] + LOOK_SECONDS / 2, paused[0] + LOOK_SECONDS / 2  # too short to be looked for at once
    early = clock()
    time[0] += LOOK_SECONDS
    assert early <= clock() == pytest.approx(began + 0.5 + LOOK_SECONDS)


def test_pauses_are_not_asked_for_at_every_call() -> None:
    asked, ticks = [0], count()

    def paused() -> float:
        asked[0] += 1
        return 0.0

    clock = WorkerClock(lambda: next(ticks) * LOOK_SECONDS / 10, paused)
    for _ in range(100):
        clock()
    assert 5 <= asked[0] <= 12


def test_every_thread_and_every_process_has_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("5 2000000000 1\n")
    monkeypatch.setattr(worker_clock, "PAUSES", str(file))
    pauses = Pauses()
    assert pauses() == 2.0
    file.unlink()
    file.write_text("5 3000000000 1\n")
    assert pauses() == 2.0, "the file of its own thread"
    found = list[float]()
    thread = threading.Thread(target=lambda: found.append(WorkerClock(lambda: 10.0)()))
    thread.start()
    thread.join()
    assert found == [7.0]
    monkeypatch.setattr(os, "getpid", lambda: -5)
    assert pauses() == 3.0, "as after a fork"


def test_where_nobody_counts_pauses_all_time_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker_clock, "PAUSES", str(tmp_path / "absent"))
    assert Pauses()() == 0.0
    assert WorkerClock(lambda: 4.0)() == 4.0
