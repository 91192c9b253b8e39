"""How long a query needs to go on after its driver was killed: a process of its own, killed for real.

Going on means to answer rows that came after the kill, for which the windows have to be there again. In the end the
answer has to be that of a driver that nobody has killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import anabranch as ab
from anabranch.engine.manifest_log import load
from anabranch.errors import InternalError

SCHEMA = "seq long, ts timestamp, k long, a long, note string"
QUERY = "Select Istream(x.k, y.a) From s [Range 1 Hour] x, s [Range 1 Hour] y Where x.seq = y.seq"
LAST_FILES = 2
LONGEST_SECONDS = 300.0
LOOK_SECONDS = 0.02


def seconds_to_resume(source: Path, files: int, folder: Path) -> tuple[float, str]:
    """Seconds from Spark being up to the first answer to new rows after a kill, and what the windows held."""
    incoming, state = folder / "incoming", folder / "state"
    incoming.mkdir(parents=True)
    names = sorted(path.name for path in source.glob("*.parquet"))[:files]
    for name in names[:-LAST_FILES]:
        shutil.copy2(source / name, incoming / name)
    with _driver(incoming, state) as first:
        _await_files(state, len(names) - LAST_FILES, first)
    rows, answered = _manifest(state)["streams"]["s"]["rows"], _answered(state)
    for name in names[-LAST_FILES:]:
        shutil.copy2(source / name, incoming / name)
    with _driver(incoming, state) as second:
        up = time.perf_counter()
        _await(lambda: _answered(state) > answered, second)
        seconds = time.perf_counter() - up
        _await_files(state, len(names), second)
    with _driver(incoming, folder / "undisturbed") as other:
        _await_files(folder / "undisturbed", len(names), other)
    if not _answer(state).equals(_answer(folder / "undisturbed")):
        raise InternalError("the answer is not that of a run without a kill")
    return seconds, f"{rows:,} rows in each of two windows"


def drive(incoming: str, state: str) -> None:
    """What the process does: run a join over all files, for ever."""
    spark = ab.local_session("anabranch-resume", cores=2)
    spark.range(1).count()
    print("up", flush=True)
    engine = ab.Engine(spark, state)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(incoming)
    engine.stream("s", source, timestamp="ts", sequence="seq")
    engine.query(QUERY, name="q").start()
    threading.Event().wait()


@contextmanager
def _driver(incoming: Path, state: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver whose Spark is up; it is killed in the end."""
    command = [sys.executable, "-m", "anabranch.benches.resume", str(incoming), str(state)]
    driver = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        line = driver.stdout.readline() if driver.stdout else ""
        if line.strip() != "up":
            raise InternalError(f"the driver said {line!r}")
        yield driver
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def _await_files(state: Path, files: int, driver: subprocess.Popen[str]) -> None:
    """Wait until a tick has taken so many files, which it answers as far as time is complete."""
    _await(lambda: _manifest(state).get("streams", {}).get("s", {}).get("batch", -1) >= files - 1, driver)


def _answered(state: Path) -> int:
    return int(_manifest(state)["queries"]["q"]["rows"])


def _answer(state: Path) -> pa.Table:
    """What has been answered, in some order that depends on the rows alone."""
    rows = ab.open(state).query("q").rows()
    return rows.sort_by([(name, "ascending") for name in rows.column_names])


def _await(done: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    pause = threading.Event()
    while not done():
        if driver.poll() is not None or time.monotonic() > deadline:
            raise InternalError("the driver ended, or did not get on")
        pause.wait(LOOK_SECONDS)


def _manifest(state: Path) -> dict[str, Any]:
    for _ in range(3):  # a file may be deleted between the look and the reading
        try:
            return load(state) or {"tick": 0}
        except FileNotFoundError:
            continue
    return {"tick": 0}


if __name__ == "__main__":
    drive(*sys.argv[1:])
