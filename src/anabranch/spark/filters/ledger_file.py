"""The file in which a ledger survives restarts; it is watched for other programs that write to it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from anabranch.spark.learned import state_file


class LedgerFile:
    """The state file of the filter whose predicates have these names."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        state_file.require_folder(path.parent)
        self.path = path
        self._names = names
        self._stamp = state_file.stamp(self.path)
        self._shared = self._failed = False

    def read(self) -> dict[str, Any] | None:
        """What an earlier run wrote; None where there is no file."""
        if self._stamp is None:
            return None
        return state_file.read(self.path, self._names)

    def write(self, state: dict[str, Any]) -> str | None:
        """Replace the file, atomically; why that failed, if it did."""
        self._warn_of_others()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            state_file.write(self.path, self._names, state)
        except OSError as error:
            return error.strerror or str(error)
        self._stamp = state_file.stamp(self.path)
        return None

    def untouched(self) -> bool:
        """Whether the file is the one that was last read or written here."""
        return self._stamp == state_file.stamp(self.path)

    def warn_of_failure(self, problem: str) -> None:
        """Warn, the first time that the file cannot be written."""
        if self._failed:
            return
        self._failed = True
        warnings.warn(
            f"The state file {self.path} cannot be written: {problem}. Counts are kept in memory, and "
            "writing is tried again every second",
            stacklevel=3,
        )

    def _warn_of_others(self) -> None:
        found = state_file.stamp(self.path)
        if self._shared or found is None or found == self._stamp:
            return
        self._shared = True
        warnings.warn(
            f"Another program has written to the state file {self.path}: each replaces what the other has "
            "counted; give each a folder of its own",
            stacklevel=4,
        )
