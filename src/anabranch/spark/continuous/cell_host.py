"""Where the states of cells live: in one process for each core of a machine, whichever worker Spark gives a cell to.

It is run as `python -m anabranch.spark.continuous.cell_host SOCKET PARENT`.

Spark gives the task of a cell to any of its Python workers. If workers held the states, each of them would have to
read from the log what it had missed and do the work of every tick again: with n workers n times. So a worker passes
the rows of a cell on to the cell's host, and what comes back, on to Spark. A host that is gone is started again and
reads the states from their logs. It ends with the daemon of Spark's workers, `PARENT`, or when nobody has needed it for
long.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.side_process import exactly, ready, sole

MODULE = "anabranch.spark.continuous.cell_host"
IDLE_SECONDS = 600.0
LOOK_SECONDS = 1.0
TASK, ROWS, BATCH, MESSAGE, ERROR, DONE = b"t", b"r", b"b", b"m", b"e", b"d"
"""Kinds of frames: a worker sends the first two, and is sent the others."""
_HEAD = struct.Struct("!cQ")


def send(line: socket.socket, kind: bytes, data: bytes | pa.Buffer = b"") -> None:
    """Send a frame."""
    line.sendall(_HEAD.pack(kind, len(data)))
    line.sendall(memoryview(data))


def receive(line: socket.socket) -> tuple[bytes, bytearray]:
    """The next frame; ConnectionResetError if the other side has gone."""
    kind, size = _HEAD.unpack(exactly(line, _HEAD.size))
    return kind, exactly(line, size)


def packed(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    """Rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    return sink.getvalue()


def unpacked(data: bytearray) -> pa.Table:
    """Rows from bytes, which they refer to."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


class Host:
    """Serves the workers of this machine.

    Parameters
    ----------
    parent
        The process without which it is not needed.
    """

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._busy = 0
        self._used = time.monotonic()

    def serve(self, line: socket.socket) -> None:
        """Run the tasks of one worker, one after the other."""
        with line:
            try:
                while True:
                    _, task = receive(line)
                    _, rows = receive(line)
                    with self._at_work():
                        self._run(line, pickle.loads(task), unpacked(rows))
            except OSError:  # the worker has gone, perhaps in the middle
                return

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
                self._used = time.monotonic()

    def _run(self, line: socket.socket, task: Any, rows: pa.Table) -> None:
        try:
            for batch in task.run(rows, lambda message: send(line, MESSAGE, pickle.dumps(message))):
                send(line, BATCH, packed(batch))
        except ConnectionError:
            raise
        except BaseException as error:
            send(line, ERROR, _pickled(error))
        else:
            send(line, DONE)

    def wait_until_useless(self) -> None:
        """Return when the parent is gone, or nobody has needed it for a while."""
        while _is_there(self._parent) and (self._busy or time.monotonic() - self._used < IDLE_SECONDS):
            time.sleep(LOOK_SECONDS)


def _pickled(error: BaseException) -> bytes:
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
        return data
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def run(place: Path, parent: int) -> None:
    """Serve until nobody needs it; if there is a host at the place already, leave it to that one."""
    with sole(place) as own, socket.socket(socket.AF_UNIX) as server:
        if not own:
            return
        import anabranch.spark.continuous.cell_task  # noqa: F401 - while the first worker still gets its rows

        server.bind(str(place))
        server.listen()
        ready()
        host = Host(parent)
        threading.Thread(target=_accept, args=(server, host), daemon=True).start()
        host.wait_until_useless()
    os._exit(0)  # threads may be in the middle of a task that nobody wants


def _accept(server: socket.socket, host: Host) -> None:
    while True:
        line, _ = server.accept()
        threading.Thread(target=host.serve, args=(line,), daemon=True).start()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
