"""Files of answers, by the tick that wrote them: those of a hundred ticks lie in a folder, a *block*.

A tick writes a file per task, for all queries. Beside them lie *summaries*, of which each stands for the files of
several ticks, for all queries whose answers are relations (`compaction.py`).
"""

from __future__ import annotations

from pathlib import Path

from anabranch import storage
from anabranch.engine.layout import ANSWERS, BLOCKS, SUMMARY, block_name, block_of, tick_of


class TickFiles:
    """The files of a checkpoint's answers; each folder is listed once.

    Parameters
    ----------
    checkpoint
        The folder of the checkpoint.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.folder = checkpoint / ANSWERS
        self._listed: dict[int, list[Path]] = {}

    def plain(self, first: int, last: int) -> list[Path]:
        """What ticks from one to another have written, both included."""
        return self._between(first, last, BLOCKS)

    def summaries(self, first: int, last: int) -> list[Path]:
        """The summaries after ticks from one to another, both included."""
        return self._between(first, last, SUMMARY)

    def last_summary(self, first: int, last: int) -> Path | None:
        """The newest of them."""
        for block in range(block_of(last), block_of(first) - 1, -1):
            found = [path for path in self._block(block) if path.suffix == SUMMARY and first <= tick_of(path) <= last]
            if found:
                return found[-1]
        return None

    def summary(self, tick: int) -> Path:
        """The summary after a tick, if there is one."""
        return self.folder / block_name(block_of(tick)) / f"{tick:012d}-all{SUMMARY}"

    def blocks(self) -> list[int]:
        """The folders that are there, by number."""
        return [int(path.name) for path in storage.listed(self.folder, "[0-9]*")]

    def of_block(self, block: int) -> list[Path]:
        """All files of a folder."""
        return [path for path in self._block(block) if path.suffix in (BLOCKS, SUMMARY)]

    def _between(self, first: int, last: int, suffix: str) -> list[Path]:
        blocks = range(block_of(first), block_of(last) + 1)
        found = (path for block in blocks for path in self._block(block) if path.suffix == suffix)
        return [path for path in found if first <= tick_of(path) <= last]

    def _block(self, block: int) -> list[Path]:
        if block not in self._listed:
            self._listed[block] = storage.listed(self.folder / block_name(block), "*-*")
        return self._listed[block]
