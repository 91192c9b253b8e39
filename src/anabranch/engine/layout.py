"""Where things lie in a checkpoint, and how files of ticks are named."""

from __future__ import annotations

from pathlib import Path

from anabranch import storage

UNCONFIRMED = storage.UNFINISHED
"""Ends names of files that are found by their names, until the driver knows that the tasks which wrote them count."""
ANSWERS, STATE = "answers", "state"
BLOCKS, SUMMARY = ".blocks", ".arrow"
"""End names of files with answers of a tick, and of files that stand for those of several."""
QUERIES, MARKS = "queries", "marks"
FILED_TOGETHER = 100
"""Ticks whose answers lie in one folder: finding those of the last tick does not need a listing of all."""


def prefix_of(tick: int, attempt: str) -> str:
    """What names of files that an attempt at a tick writes begin with."""
    return f"{tick:012d}-{attempt}"


def tick_of(path: Path) -> int:
    """The tick in which a file was written."""
    return int(path.name.split("-", 1)[0])


def block_of(tick: int) -> int:
    """The block that the answers of a tick belong to."""
    return tick // FILED_TOGETHER


def last_tick(block: int) -> int:
    """The last tick whose answers belong to a block."""
    return (block + 1) * FILED_TOGETHER - 1


def block_name(block: int) -> str:
    """The folder of a block."""
    return f"{block:010d}"


def filed(prefix: str) -> str:
    """Where the answers of an attempt lie among those of all ticks.

    >>> filed(prefix_of(1234, "abc"))
    '0000000012/000000001234-abc'
    """
    return f"{block_name(block_of(tick_of(Path(prefix))))}/{prefix}"
