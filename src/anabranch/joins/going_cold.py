"""Which part of the memory of a join goes to disk next: what came back least, and of that the largest.

>>> probed, quiet, small = WindowPart(5000, 900, 1000), WindowPart(4000, 2, 1000), WindowPart(100, 0, 0)
>>> next_to_go([probed, quiet, small])
1

A window that is small beside the others is left alone: little would be gained.

>>> next_to_go([WindowPart(0, 0, 0)]) is None
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SMALL = 0.125
"""Of the largest window: what is smaller is left alone."""


@dataclass(frozen=True)
class WindowPart:
    """A window of a join.

    Parameters
    ----------
    bytes
        What it takes in memory.
    came_back
        How often its rows on disk were needed again, lately.
    cold
        How many of its rows are on disk.
    """

    bytes: int
    came_back: float
    cold: int

    @property
    def probed(self) -> float:
        """How often a row on disk was needed."""
        return self.came_back / max(self.cold, 1)


def next_to_go(windows: Sequence[WindowPart]) -> int | None:
    """The number of the window whose oldest rows go next; None if there is nothing to go."""
    largest = max((each.bytes for each in windows), default=0)
    if not largest:
        return None
    worth = [number for number, each in enumerate(windows) if each.bytes > SMALL * largest]
    return min(worth, key=lambda number: (windows[number].probed, -windows[number].bytes))
