"""Files with the logs of operators: each has segments of many, and goes when no log names it.

A log is replaced by a snapshot once it is long, so files go after some dozens of ticks, as long as operators get rows.
One that gets rows seldom keeps the files of the ticks in which it did, with what others have written there. So now and
then the segments that count in files which are old, and for the most part of no use, are copied into one file.

>>> from anabranch.operators.segments import Segment
>>> one, two = Segment("000000000007-a-0.log", "inputs", 640), Segment("000000000007-a-0.log", "inputs", 64, 640)
>>> old = Manifest(1, nodes={"a": {0: (one,)}, "b": {0: (two,)}})
>>> new = Manifest(1, nodes={"a": {0: (Segment("000000000008-b-0.log", "snapshot", 99),)}, "b": {0: (two,)}})
>>> changed(old, new)
({'000000000008-b-0.log'}, set())
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from anabranch import storage
from anabranch.engine.layout import block_of, last_tick, tick_of
from anabranch.engine.manifest import Logs, Manifest
from anabranch.operators.segments import LONGEST_LOG, Segment

MOST_BYTES = 64_000_000
"""What is copied at once, about."""


def changed(old: Manifest, new: Manifest) -> tuple[set[str], set[str]]:
    """Files that have come into logs, and files that no log names any more; costs what has changed."""
    came: set[str] = set()
    went: set[str] = set()
    for node, logs in new.nodes.items():
        before = old.nodes.get(node, {})
        for cell, log in logs.items():
            was = before.get(cell, ())
            if log is not was:
                there = set(was)
                came.update(segment.path for segment in log if segment not in there)
                went.update(_paths({cell: was}) if log[: len(was)] != was else ())
    for node, logs in old.nodes.items():
        if node not in new.nodes:
            went.update(_paths(logs))
    if went:
        went.difference_update(path for logs in new.nodes.values() for path in _paths(logs))
    return came, went


def gather(manifest: Manifest, folder: Path, path: str) -> None:
    """Where a block of ticks ends, copy what counts in old files that are for the most part of no use into one file."""
    if manifest.tick != last_tick(block_of(manifest.tick)):
        return
    counting: dict[str, set[Segment]] = {}
    for segment in (each for logs in manifest.nodes.values() for log in logs.values() for each in log):
        if tick_of(Path(segment.path)) < manifest.tick - LONGEST_LOG:
            counting.setdefault(segment.path, set()).add(segment)
    moved: dict[Segment, Segment] = {}
    copied = 0
    file: storage.NewFile | None = None
    for name, segments in sorted(counting.items()):
        size = sum(each.bytes for each in segments)
        if copied < MOST_BYTES and 2 * size < storage.size(folder / name):
            file = file or storage.NewFile(folder / path)
            moved |= _copied(segments, folder / name, file, path)
            copied += size
    if file is not None:
        file.close()
        manifest.nodes = {node: _moved(logs, moved) for node, logs in manifest.nodes.items()}


def _copied(segments: set[Segment], source: Path, file: storage.NewFile, path: str) -> dict[Segment, Segment]:
    made = {}
    with storage.opened(source) as opened, file.writing():
        for each in sorted(segments, key=lambda segment: segment.offset):
            made[each] = replace(each, path=path, offset=int(file.sink.tell()))
            file.sink.write(opened.read_at(each.bytes, each.offset))
    return made


def _moved(logs: Logs, moved: dict[Segment, Segment]) -> Logs:
    return {
        cell: tuple(moved.get(each, each) for each in log) if any(each in moved for each in log) else log
        for cell, log in logs.items()
    }


def _paths(logs: Logs) -> Iterator[str]:
    return (segment.path for log in logs.values() for segment in log)
