"""Compaction: summaries of the answers of relations, so that reading one costs the same at any age.

Once the ticks since the last summary have left `MOST_PLAIN` files, and where a block of ticks ends, another summary is
written, one file for all queries. Of a relation that has changed it has the changes since the last one, merged; or,
once those since its last snapshot are as many as that has rows, a new snapshot: all snapshots together have no more
rows than the changelog. Of one that has not changed it says where its rows are. The files of ticks stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch import storage
from anabranch.engine.answer_blocks import BlockFile, BlockWriter, conformed
from anabranch.engine.answer_files import SUMMARY_ENTRY, AnswerFiles, Kind, fold
from anabranch.engine.layout import UNCONFIRMED, block_of, last_tick, tick_of
from anabranch.engine.tick_files import TickFiles

LOOK_TICKS = 4
"""Ticks from one summary to the next, at least."""
MOST_PLAIN = 32
MOST_MERGED = 32
DRIVER_BYTES = 8_000_000
"""What is larger is compacted by a worker."""


@dataclass(frozen=True)
class KeptRelation:
    """A query whose answer is a relation.

    Parameters
    ----------
    query
        Its number.
    schema
        Of its answer, with `_ts` and `_op`.
    position
        Where it is in time.
    registered, floor
        The ticks after which it was registered, and up to which it is not retained.
    current
        Whether each summary has a snapshot of it, if it has changed.
    retained
        Whether old answers go: then the end of a block has a snapshot.
    """

    query: int
    schema: pa.Schema
    position: int
    registered: int = 0
    floor: int = 0
    current: bool = False
    retained: bool = False


@dataclass(frozen=True)
class Compaction:
    """A summary to be written.

    Parameters
    ----------
    checkpoint
        The folder of the checkpoint.
    tick
        The last tick that it stands for.
    before
        The summary before it.
    plain
        Files of the ticks since.
    relations
        Of which it has something.
    """

    checkpoint: Path
    tick: int
    before: Path | None
    plain: tuple[Path, ...]
    relations: tuple[KeptRelation, ...]

    @property
    def bytes(self) -> int:
        """Bytes that have to be read, approximately."""
        return sum(map(storage.size, (*self.plain, *([self.before] if self.before else []))))

    def run(self) -> Path:
        """Write the summary."""
        made = TickFiles(self.checkpoint).summary(self.tick)
        beside = made.with_name(made.name + UNCONFIRMED)
        storage.make_folder(made.parent)
        writer = BlockWriter(beside, SUMMARY_ENTRY)
        with ExitStack() as stack:
            files = [stack.enter_context(BlockFile(path)) for path in self.plain]
            before = stack.enter_context(BlockFile(self.before, SUMMARY_ENTRY)) if self.before else None
            for each in self.relations:
                old = None if before is None else next(iter(before.of(each.query)), None)
                self._add(writer, each, old, [file.read(entry) for file in files for entry in file.of(each.query)])
        writer.close()
        storage.rename(beside, made)
        return made

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as a task of Spark's."""
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": [str(self.run())]})

    def _add(self, writer: BlockWriter, relation: KeptRelation, old: Any | None, tables: Sequence[pa.Table]) -> None:
        """Write what the summary has of a relation, given what the one before had, and what has come since."""
        since = 0 if self.before is None else tick_of(self.before)
        fresh = pa.concat_tables([relation.schema.empty_table(), *(conformed(t, relation.schema) for t in tables)])
        held, links = (-1, 0) if old is None else (int(old["held"]), int(old["links"]))
        snapshot, changes = (0, 0) if old is None else (int(old["snapshot"]), int(old["changes"]))
        changes += len(fresh)
        previous = 0 if old is None else int(old["previous"]) if old["kind"] == Kind.NOTHING else since
        about = {"since": since, "position": relation.position, "previous": previous}
        if self._wants_snapshot(relation, len(fresh), changes, held, links, snapshot):
            files = AnswerFiles(
                self.checkpoint, relation.query, relation.registered, relation.floor, relation.schema, summed=True
            )
            older = [conformed(table, relation.schema) for table in files.chain(self.before)]
            rows = fold(pa.concat_tables([*older, fresh]))
            about |= {"kind": Kind.SNAPSHOT, "snapshot": self.tick, "held": len(rows), "previous": 0}
            writer.add([relation.query], rows, **about)
        elif len(fresh):
            about |= {"kind": Kind.MERGED, "snapshot": snapshot, "held": held, "changes": changes, "links": links + 1}
            writer.add([relation.query], fresh, **about)
        else:
            about |= {"kind": Kind.NOTHING, "snapshot": snapshot, "held": held, "changes": changes, "links": links}
            writer.enter([relation.query], **about)

    def _wants_snapshot(
        self, relation: KeptRelation, fresh: int, changes: int, held: int, links: int, snapshot: int
    ) -> bool:
        if relation.retained and _ends_block(self.tick) and changes + max(held, 0) > 0:
            return changes > 0 or not _ends_block(snapshot)
        many = held < 0 or changes >= held or links + 1 >= MOST_MERGED
        return fresh > 0 and (many or relation.current)


def compaction(checkpoint: Path, tick: int, relations: Sequence[KeptRelation], first: int = 0) -> Compaction | None:
    """What is to be done after a tick, if anything; nothing counts before the tick `first`."""
    files = TickFiles(checkpoint)
    before = files.last_summary(first, tick)
    since = first if before is None else tick_of(before)
    plain = files.plain(since + 1, tick)
    due = _ends_block(tick) or (len(plain) >= MOST_PLAIN and tick - since >= LOOK_TICKS)
    if not relations or not due or since == tick:
        return None
    return Compaction(checkpoint, tick, before, tuple(plain), tuple(relations))


def _ends_block(tick: int) -> bool:
    return tick == last_tick(block_of(tick))
