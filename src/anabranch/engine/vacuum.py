"""Space for new answers: blocks of queries that are gone, or that are not retained, leave their files in the end.

Files of answers have blocks of many queries, and none is rewritten at once when a query is dropped. After each tick a
few files are looked at. One without a block that counts is deleted; one whose blocks are for the most part of no use is
replaced by a copy of the others, in one rename. Neither decodes a block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from anabranch import storage
from anabranch.engine.answer_blocks import BlockFile, BlockWriter, Entries
from anabranch.engine.answer_files import entry_of
from anabranch.engine.layout import SUMMARY, UNCONFIRMED, block_name, tick_of
from anabranch.engine.tick_files import TickFiles

FILES_AT_ONCE = 64
"""Files that are looked at after a tick."""


class Vacuum:
    """Looks after the files of a checkpoint's answers.

    Parameters
    ----------
    checkpoint
        The folder of the checkpoint.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._blocks: dict[int, None] | None = None  # those with something of no use, in the order of their coming
        self._block = 0
        self._files: deque[Path] = deque()

    def look_at(self, blocks: Iterable[int]) -> None:
        """Something in these folders is of no use any more."""
        if self._blocks is not None:  # at first all of them are looked at
            self._blocks |= dict.fromkeys(blocks)

    def run(self, floors: Mapping[int, int]) -> None:
        """Look at some files, given the numbers of queries, each with the tick up to which it is not retained."""
        if self._blocks is None:
            self._blocks = dict.fromkeys(TickFiles(self._checkpoint).blocks())
        looked = 0
        while looked < FILES_AT_ONCE and (self._files or self._blocks):
            if not self._files:
                self._block = next(iter(self._blocks))
                del self._blocks[self._block]
                self._files.extend(TickFiles(self._checkpoint).of_block(self._block))
            while self._files and looked < FILES_AT_ONCE:
                _clean(self._files.popleft(), floors)
                looked += 1
            if not self._files:
                self._leave(self._block)

    def _leave(self, block: int) -> None:
        """Delete a folder that is empty, unless it is the last."""
        files = TickFiles(self._checkpoint)
        if not files.of_block(block) and block < max(files.blocks(), default=block):
            storage.remove(files.folder / block_name(block))


def _clean(path: Path, floors: Mapping[int, int]) -> None:
    last = tick_of(path) if path.suffix == SUMMARY else tick_of(path) - 1
    counting = [query for query, floor in floors.items() if floor <= last]
    with BlockFile(path, entry_of(path)) as file:
        counts = np.isin(file.index["query"], counting)
        kept, total = _bytes(file.index[counts]), _bytes(file.index)
        if not counts.any():
            storage.remove(path)
        elif 2 * kept < total:
            _rewrite(path, file, file.index[counts])


def _bytes(entries: Entries) -> int:
    """Of blocks; several queries may have one together."""
    blocks = np.unique(entries[["offset", "bytes"]])
    return int(blocks["bytes"].sum())


def _rewrite(path: Path, file: BlockFile, kept: Entries) -> None:
    beside = path.with_name(path.name + UNCONFIRMED)
    writer = BlockWriter(beside, kept.dtype)
    for offset in np.unique(kept["offset"]):
        some = kept[kept["offset"] == offset]
        writer.copy(file.bytes(max(some, key=lambda entry: int(entry["bytes"]))), some)
    writer.close()
    storage.rename(beside, path)
