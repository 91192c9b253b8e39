"""A small table of numbers in a file that several processes read and change, one at a time.

Taking the lock, reading 14 kB, and writing them back take some ten microseconds.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class SharedTable:
    """A table of so many rows and columns, all zero at first.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "table"
    >>> with SharedTable(path, 2, 2).changing() as table:
    ...     table[1, 0] = 7
    >>> SharedTable(path, 2, 2).read().tolist()
    [[0.0, 0.0], [7.0, 0.0]]
    """

    def __init__(self, path: Path, rows: int, columns: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._shape, self._size = path, (rows, columns), rows * columns * 8
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    @contextmanager
    def changing(self) -> Iterator[Floats]:
        """The table, for as long as nobody else has it; what is changed in it is written at the end."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            table = self._read()
            before = table.copy()
            yield table
            if not np.array_equal(before, table):
                os.pwrite(self._file, table.tobytes(), 0)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def read(self) -> Floats:
        """A copy of the table as it is now."""
        fcntl.flock(self._file, fcntl.LOCK_SH)
        try:
            return self._read()
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _read(self) -> Floats:
        data = os.pread(self._file, self._size, 0).ljust(self._size, b"\0")
        found: Floats = np.frombuffer(data, dtype=np.float64).reshape(self._shape).copy()
        return found
