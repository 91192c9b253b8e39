"""One engine at a time on a checkpoint: the system lets go of a lock when its process ends, however it ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from anabranch.errors import QueryError


class CheckpointLock:
    """Held while an engine runs.

    Parameters
    ----------
    folder
        Of the checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """Take it, or say that somebody else has it; False if we had it already."""
        if self._file is not None:
            return False
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise QueryError(
                f"another engine runs on the checkpoint {self._path.parent.name!r}",
                hint="stop it first, or give this one a folder of its own",
            ) from None
        self._file = file
        return True

    def release(self) -> None:
        """Let go."""
        if self._file is not None:
            self._file.close()
            self._file = None
