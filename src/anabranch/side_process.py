"""Processes beside Spark's workers: started by the first worker that needs one, found again by a socket.

Spark ends workers, and gives their tasks to others, as it likes. What has to outlive a worker lives in a process of its
own, in a session of its own, so that a kill of the worker does not reach it. There is one for each socket: the one that
holds the lock beside it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60.0
START_AGAIN_SECONDS = 2.0


class _Outliving(subprocess.Popen[bytes]):
    """A process that is meant to go on when this one ends, of which Python would warn."""

    def __del__(self) -> None:
        """Leave it alone."""


_started: list[_Outliving] = []


def place_of(kind: str, name: str) -> Path:
    """The socket of a process on this machine, in a folder that is the user's alone."""
    home = Path(tempfile.gettempdir()) / f"anabranch-{kind}-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    return home / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.sock"


def connected(place: Path, module: str, *arguments: str) -> socket.socket | None:
    """A line to the process at a place; it is started, with these arguments, if there is none. None if that fails."""
    ends, started = time.monotonic() + START_SECONDS, 0.0
    while time.monotonic() < ends:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(place))
            return line
        except OSError:
            line.close()
        if time.monotonic() - started > START_AGAIN_SECONDS:
            start(module, *arguments)
            started = time.monotonic()
        time.sleep(0.01)
    return None


def start(module: str, *arguments: str) -> None:
    """Run a module in a process that finds what this one imports."""
    _started[:] = [each for each in _started if each.poll() is None]  # the system remembers those that have ended
    process = _Outliving(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _started.append(process)


@contextmanager
def sole(place: Path) -> Iterator[bool]:
    """Whether this process is the one for a place; its socket goes with it."""
    with place.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        place.unlink(missing_ok=True)
        try:
            yield True
        finally:
            place.unlink(missing_ok=True)


def exactly(line: socket.socket, size: int) -> bytearray:
    """So many bytes; ConnectionResetError if the other side has gone."""
    found = bytearray(size)
    view, there = memoryview(found), 0
    while there < size:
        came = line.recv_into(view[there:])
        if not came:
            raise ConnectionResetError("the process at the other end has gone")
        there += came
    return found
