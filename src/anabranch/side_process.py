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
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60.0
START_AGAIN_SECONDS = 2.0
MOST_BYTES = 100_000


class _Outliving(subprocess.Popen[bytes]):
    """A process that is meant to go on when this one ends, of which Python would warn."""

    def __del__(self) -> None:
        """Leave it alone."""


_started: list[_Started] = []


def place_of(kind: str, name: str) -> Path:
    """The socket of a process on this machine, in a folder that is the user's alone."""
    home = Path(tempfile.gettempdir()) / f"anabranch-{kind}-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    return home / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.sock"


def connected(place: Path, module: str, *arguments: str) -> socket.socket:
    """A line to the process at a place; it is started, with these arguments, if there is none. OSError if it fails."""
    ends, started = time.monotonic() + START_SECONDS, 0.0
    process: _Started | None = None
    while time.monotonic() < ends:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(str(place))
            return line
        except OSError:
            line.close()
        if process is not None and process.failed:
            raise ChildProcessError(f"the process for it has ended: {process.last_words()}")
        if time.monotonic() - started > START_AGAIN_SECONDS:
            process = start(module, *arguments)
            started = time.monotonic()
        time.sleep(0.01)
    raise TimeoutError(f"the process for it has not answered in {START_SECONDS:g} s")


@dataclass(frozen=True)
class _Started:
    """A process, and the file, without a name, of what it says until it is `ready`."""

    process: _Outliving
    said: int

    @property
    def failed(self) -> bool:
        """Whether it has ended by an error of its own: not by a kill, nor because another one was there already."""
        return (self.process.poll() or 0) > 0

    def last_words(self) -> str:
        """The last line that it has said."""
        lines = os.pread(self.said, MOST_BYTES, 0).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def start(module: str, *arguments: str) -> _Started:
    """Run a module in a process that finds what this one imports."""
    for each in [each for each in _started if each.process.poll() is not None]:  # the system remembers them till then
        _started.remove(each)
        os.close(each.said)
    said, name = tempfile.mkstemp()
    os.unlink(name)
    process = _Outliving(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,
        start_new_session=True,
    )
    _started.append(_Started(process, said))
    return _started[-1]


def ready() -> None:
    """The process has started: what it says from now on goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stderr__.fileno() if sys.__stderr__ else 2)
    os.close(nowhere)


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
