"""Kills of workers and drivers while calls are under way: what the server was paid for, and paid for twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anabranch.benches.model_server import running, state_of
from anabranch.errors import InternalError

Kind = Literal["worker", "driver"]
ROWS_PER_KILL = 600
CALLS_BETWEEN = 100
LOOK_SECONDS = 0.05
TEN: tuple[Kind, ...] = (*(("worker", "driver", "worker") * 3), "worker")


@dataclass(frozen=True)
class Killed:
    """What became of a program that was killed again and again, and always started anew.

    Parameters
    ----------
    rows
        Texts that it had to ask about, all different.
    paid, twice
        Calls that the server answered; those of them that it had answered before.
    starts
        How many times the program was started.
    """

    rows: int
    paid: int
    twice: int
    starts: int


def paid_through(kills: Sequence[Kind], folder: Path) -> Killed:
    """Run the program until it ends by itself, with all of these kills on the way."""
    rows, left, starts = ROWS_PER_KILL * len(kills), list(kills), 0
    with running(folder / "server", least_seconds=0.02, most_seconds=0.2) as address:
        arguments = [address, str(folder / "kept"), str(rows)]
        while True:
            starts += 1
            with (folder / "log").open("w") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "anabranch.benches.calling_program", *arguments],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                while left and process.poll() is None:
                    if _more_paid(address, process) and _killed(left[0], process):
                        left.pop(0)
            if process.wait() == 0:
                break
            if starts > len(kills) + 1:
                raise InternalError(f"the program ends by itself: {(folder / 'log').read_text()[-2000:]}")
        state = state_of(address)
    if left:
        raise InternalError(f"the program has ended before {len(left)} of {len(kills)} kills")
    return Killed(rows, int(str(state["paid"])), int(str(state["twice"])), starts)


def _more_paid(address: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until more calls have been paid; False if the program has ended."""
    before = int(str(state_of(address)["paid"]))
    while process.poll() is None:
        if int(str(state_of(address)["paid"])) > before + CALLS_BETWEEN:
            return True
        time.sleep(LOOK_SECONDS)
    return False


def _killed(kind: Kind, process: subprocess.Popen[bytes]) -> bool:
    """Kill a driver with its Java machine, or a worker; False where there is none."""
    if kind == "driver":
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    command = ["pgrep", "-s", str(process.pid), "-f", "pyspark.daemon"]
    found = subprocess.run(command, capture_output=True, check=False).stdout.split()
    if len(found) < 2:  # the first one forks the others
        return False
    os.kill(max(map(int, found)), signal.SIGKILL)
    return True
