"""The checkpoint of an engine: its folder, its lock, and the manifest as it is now."""

from __future__ import annotations

from pathlib import Path

from anabranch.engine.lock import CheckpointLock
from anabranch.engine.manifest_log import ManifestLog, committed


class Checkpoint:
    """The one owner of an engine's manifest.

    Every tick replaces `manifest` by a new one: the parts of an engine ask for it here each time and keep none.

    Parameters
    ----------
    folder
        Where state and answers are.
    cells
        Into how many parts state is spread; that of the checkpoint if not given.
    usual
        As many if neither is known.
    """

    def __init__(self, folder: Path, cells: int | None, usual: int) -> None:
        self.folder = folder
        self.log = ManifestLog(folder)
        self.manifest = self.log.load(cells, usual)
        self.lock = CheckpointLock(folder)

    def commit(self) -> None:
        """Commit what was changed since the last tick, between two of them."""
        self.log.commit_between_ticks(self.manifest)

    def is_current(self) -> bool:
        """Whether no other engine has committed a tick since this one."""
        return committed(self.folder) == self.manifest.tick
