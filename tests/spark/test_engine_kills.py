"""Crashes: whatever is killed, and whenever, nothing is lost and nothing comes twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seeds import daily_seed
from spark.killed_engine import ticks
from spark.two_streams import assert_exact, written

pytestmark = pytest.mark.spark

SOAK = "ANABRANCH_SOAK" in os.environ
KILLS = (50, 10) if SOAK else (5, 2)
"""Of drivers, and of workers."""
PROGRAM = Path(__file__).with_name("killed_engine.py")
PATIENCE_SECONDS = 280.0
TO_THE_END_SECONDS = 3000.0 if SOAK else PATIENCE_SECONDS


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def awaited(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "this does not happen"
        time.sleep(0.01)


def below(pid: int) -> dict[int, int]:
    """All processes that descend from one, each with its parent."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit():
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found: dict[int, int] = {}
    grown = {pid}
    while grown:
        grown = {child for child, parent in parents.items() if parent in grown}
        found |= {child: parents[child] for child in grown}
    return found


def workers(pid: int) -> list[int]:
    """Python workers of Spark: children of its daemon, which has the same command line."""

    def is_daemon(number: int) -> bool:
        try:
            return b"pyspark.daemon" in Path(f"/proc/{number}/cmdline").read_bytes()
        except OSError:
            return False

    tree = {child: parent for child, parent in below(pid).items() if is_daemon(child)}
    return [child for child, parent in tree.items() if parent in tree]


@pytest.mark.timeout(4 * PATIENCE_SECONDS if not SOAK else 7200)
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for workers in /proc")
@pytest.mark.parametrize(
    ("driver_kills", "worker_kills"),
    [(1, 1), pytest.param(*KILLS, marks=pytest.mark.full(reason="every kill of a driver starts Java once more"))],
)
def test_kills_of_drivers_and_workers_neither_lose_nor_double_answers(
    driver_kills: int, worker_kills: int, tmp_path: Path
) -> None:
    rng = random.Random(daily_seed())
    streams, checkpoint = written(tmp_path, 8 * (driver_kills + worker_kills), rng), tmp_path / "state"
    blows = ["driver"] * driver_kills + ["worker"] * worker_kills
    rng.shuffle(blows)
    lives, most = 0, 3 * len(blows)
    while True:
        lives += 1
        assert lives <= most, (tmp_path / "log").read_text()[-5000:]
        with running([sys.executable, str(PROGRAM), str(tmp_path), str(checkpoint)], tmp_path / "log") as process:
            while blows and process.poll() is None:
                reached = ticks(checkpoint) + rng.randint(1, 2)
                awaited(lambda: process.poll() is not None or ticks(checkpoint) >= reached)  # noqa: B023
                try:
                    process.wait(rng.uniform(0, 0.5))  # into the next tick
                except subprocess.TimeoutExpired:
                    pass
                else:
                    break
                if blows.pop() == "driver":
                    break
                for worker in workers(process.pid):
                    os.kill(worker, signal.SIGKILL)
            if not blows and process.wait(TO_THE_END_SECONDS) == 0:
                break
    assert (tmp_path / "log").read_text().count("finished") == 1
    assert not list((checkpoint / "ingest").glob("*/*")), "all that was taken is in the manifest"
    assert_exact(tmp_path, streams)


def mountable() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.full(reason="starts Java twice")
@pytest.mark.timeout(2 * PATIENCE_SECONDS)
@pytest.mark.skipif(not mountable(), reason="needs a file system of its own")
def test_a_full_disk_stops_the_engine_and_the_next_one_goes_on(tmp_path: Path) -> None:
    streams, small = written(tmp_path, 12, random.Random(8)), tmp_path / "small"
    small.mkdir()
    program = [sys.executable, str(PROGRAM), str(tmp_path), str(small), "--full"]
    mounted = f"mount -t tmpfs -o size=16m tmpfs {small} && exec {' '.join(program)}"
    with running(["unshare", "-rm", "sh", "-c", mounted], tmp_path / "log") as process:
        ended = process.wait(PATIENCE_SECONDS)
    said = (tmp_path / "log").read_text()
    assert ended == 0, said[-5000:]
    assert "the disk is full" in said
    failed = said[said.index("failed:") :]
    assert "No space left on device" in failed
    assert_exact(tmp_path, streams)
