"""Marks: how far in time each query had come at the end of each block of ticks. They lead from a time to its files.

A mark is one small file for all queries. Without it no answer changes, but looking for a time reads more files.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from pathlib import Path

from anabranch import storage
from anabranch.engine.answer_files import AnswerFiles
from anabranch.engine.layout import MARKS, block_name, block_of, last_tick
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.parquet_statistics import ParquetStatistics
from anabranch.operators.base import EVER


@dataclass(frozen=True)
class Mark:
    """Of a query after the last tick of a block, in microseconds.

    Parameters
    ----------
    position
        Whatever it answers later has this time, or a later one.
    latest
        Whatever it has answered has this time, or an earlier one.
    """

    position: int = EVER
    latest: int = EVER


class Marks:
    """The marks of a checkpoint, each read at most once.

    Parameters
    ----------
    checkpoint
        Its folder.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint / MARKS
        self._read: dict[int, dict[str, Mark]] = {}

    def blocks(self, begin: int = -1, tick: int | None = None) -> list[int]:
        """Blocks with a mark, which end after a tick, and not after another."""
        found = [int(path.stem) for path in storage.listed(self._folder, "*.json")]
        return [block for block in found if begin < last_tick(block) and (tick is None or last_tick(block) <= tick)]

    def of(self, name: str, block: int) -> Mark:
        """Of a query; it had answered nothing if the block has none of it."""
        if block not in self._read:
            saved = json.loads(storage.read_text(self._path(block)))
            self._read[block] = {each: Mark(*times) for each, times in saved.items()}
        return self._read[block].get(name, Mark())

    def last_before(self, name: str, blocks: list[int], time: int) -> int | None:
        """Of some blocks, the last up to which all that was answered is before a time."""
        count = bisect_left(blocks, time, key=lambda block: self.of(name, block).latest)
        return blocks[count - 1] if count else None

    def first_after(self, name: str, blocks: list[int], time: int) -> int | None:
        """Of some blocks, the first after which all that is answered is after a time."""
        count = bisect_right(blocks, time, key=lambda block: self.of(name, block).position)
        return blocks[count] if count < len(blocks) else None

    def write(self, block: int, marks: dict[str, Mark]) -> None:
        """Put a mark."""
        storage.make_folder(self._folder)
        storage.write_text(
            self._path(block), json.dumps({name: [mark.position, mark.latest] for name, mark in marks.items()})
        )

    def remove_before(self, block: int) -> None:
        """Delete those of earlier blocks."""
        for each in self.blocks():
            if each < block:
                storage.remove(self._path(each))

    def _path(self, block: int) -> Path:
        return self._folder / f"{block_name(block)}.json"


def write_mark(checkpoint: Path, manifest: Manifest) -> None:
    """At the end of a block, say where all queries are; the marks that lead to nothing any more are deleted."""
    tick, block = manifest.tick, block_of(manifest.tick)
    if tick != last_tick(block):
        return
    marks = Marks(checkpoint)
    earlier = marks.blocks()
    files = {name: AnswerFiles(checkpoint, name, state.registered) for name, state in manifest.queries.items()}
    states = manifest.queries.items()
    marks.write(block, {name: _mark(marks, earlier, files[name], state, tick) for name, state in states})
    kept = [min(each.blocks(), default=block) for each in files.values()]
    marks.remove_before(min(kept, default=block) - 1)


def _mark(marks: Marks, earlier: list[int], files: AnswerFiles, state: QueryState, tick: int) -> Mark:
    if not state.direct:
        return Mark(state.position, max(state.position - 1, EVER))
    # Rows that are answered as they come may be out of order.
    own = [block for block in earlier if state.registered < last_tick(block) < tick]
    before = marks.of(files.name, own[-1]).latest if own else EVER
    recent = files.between(last_tick(own[-1]) + 1 if own else state.registered + 1, tick)
    latest = ParquetStatistics.of(recent.plain).last
    return Mark(state.position, before if latest is None else max(before, latest))
