"""Marks: how far in time each query had come at the end of each block of ticks. They lead from a time to its files.

A mark is one small file for all queries. Without it no answer changes, but looking for a time reads more files.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from pathlib import Path

from anabranch import storage
from anabranch.engine.answer_blocks import Answered, answered, read_index
from anabranch.engine.layout import MARKS, block_name, block_of, last_tick
from anabranch.engine.manifest import Manifest, QueryState
from anabranch.engine.tick_files import TickFiles
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
    marks, files = Marks(checkpoint), TickFiles(checkpoint)
    earlier = [each for each in marks.blocks() if last_tick(each) < tick]
    since = last_tick(earlier[-1]) if earlier else 0
    direct = any(state.direct for state in manifest.queries.values())
    recent = answered(map(read_index, files.plain(since + 1, tick))) if direct else {}
    made = {}
    for name, state in manifest.queries.items():
        before = marks.of(name, earlier[-1]) if earlier and state.registered < since else Mark()
        made[name] = _mark(state, before, recent.get(state.number, Answered()))
    marks.write(block, made)
    marks.remove_before(min(files.blocks(), default=block) - 1)


def _mark(state: QueryState, before: Mark, recent: Answered) -> Mark:
    if not state.direct:
        return Mark(state.position, max(state.position - 1, EVER))
    # Rows that are answered as they come may be out of order.
    return Mark(state.position, before.latest if recent.last is None else max(before.latest, recent.last))
