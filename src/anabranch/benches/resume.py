"""How long a query needs to go on after its driver was killed: a process of its own, killed for real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anabranch as ab
from anabranch.errors import InternalError

SCHEMA = "seq long, ts timestamp, k long, a long, note string"
QUERY = "Select Istream(x.k, y.a) From s [Range 1 Hour] x, s [Range 1 Hour] y Where x.seq = y.seq"
LAST_FILES = 2
LONGEST_SECONDS = 300.0
LOOK_SECONDS = 0.02


def seconds_to_resume(source: Path, files: int, folder: Path) -> tuple[float, str]:
    """Seconds from Spark being up to the first tick that is committed after a kill, and what the windows held."""
    incoming, state = folder / "incoming", folder / "state"
    incoming.mkdir(parents=True)
    names = sorted(path.name for path in source.glob("*.parquet"))[:files]
    for name in names[:-LAST_FILES]:
        shutil.copy(source / name, incoming / name)
    first = _driver(incoming, state)
    rows = _await_rows(state, len(names) - LAST_FILES, first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    for name in names[-LAST_FILES:]:
        shutil.copy(source / name, incoming / name)
    tick = _manifest(state)["tick"]
    second = _driver(incoming, state)
    try:
        line = second.stdout.readline() if second.stdout else ""
        up = time.perf_counter()
        if line.strip() != "up":
            raise InternalError(f"the driver said {line!r}")
        _await(lambda: _manifest(state)["tick"] > tick, second)
        return time.perf_counter() - up, f"{rows:,} rows in each of two windows"
    finally:
        os.killpg(second.pid, signal.SIGKILL)
        second.wait()


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


def _driver(incoming: Path, state: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "anabranch.benches.resume", str(incoming), str(state)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )


def _await_rows(state: Path, files: int, driver: subprocess.Popen[str]) -> int:
    def taken() -> bool:
        stream = _manifest(state).get("streams", {}).get("s", {})
        return bool(stream.get("batch", -1) >= files - 1)

    _await(taken, driver)
    return int(_manifest(state)["streams"]["s"]["rows"])


def _await(done: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    pause = threading.Event()
    while not done():
        if driver.poll() is not None or time.monotonic() > deadline:
            raise InternalError("the driver ended, or did not get on")
        pause.wait(LOOK_SECONDS)


def _manifest(state: Path) -> dict[str, Any]:
    for _ in range(3):  # one may be deleted between the look and the reading
        found = sorted(state.glob("manifest-*.json"))
        try:
            return json.loads(found[-1].read_text()) if found else {"tick": 0}
        except FileNotFoundError:
            continue
    return {"tick": 0}


if __name__ == "__main__":
    drive(*sys.argv[1:])
