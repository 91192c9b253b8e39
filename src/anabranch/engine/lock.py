"""One engine at a time on a checkpoint: the system releases a lock when its process ends, however it ends."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from anabranch import storage
from anabranch.errors import QueryError, ResourceError


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
        """Acquire the lock, or raise if another engine holds it; False if we hold it already."""
        if self._file is not None:
            return False
        storage.make_folder(self._path.parent)
        try:
            self._file = storage.lock(self._path)
        except BlockingIOError:
            raise QueryError(
                f"another engine runs on the checkpoint {self._path.parent.name!r}",
                hint="stop it first, or give this one a folder of its own",
            ) from None
        except OSError as error:
            raise ResourceError(
                f"the checkpoint {self._path.parent.name!r} cannot be locked: {error.strerror}",
                hint="take a folder of a file system that knows locks, as NFS does if it is mounted with them",
            ) from error
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None
