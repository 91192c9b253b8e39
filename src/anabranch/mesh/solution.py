"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.mesh.partitions import Partition, text


@dataclass(frozen=True)
class Solution:
    """A configuration, its cost in seconds per tuple, and how many configurations were priced on the way."""

    partition: Partition
    cost: float
    priced: int

    def __str__(self) -> str:
        return f"{text(self.partition)} at {self.cost:.3g} s per tuple"
