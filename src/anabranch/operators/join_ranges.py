"""Joins of the same rows over windows of several lengths: what the shorter ones hold is part of what the longest hold.

A row of a window over time is there from its own time on for as long as the window is long, and a combination from the
latest start of its rows to the first of their ends. So a combination over shorter windows is one over longer ones that
ends earlier, or never is: rows, indexes and probes of the longest windows serve all.

>>> ranges = JoinRanges(inputs=(1,), wanted=((9,), (4,)))
>>> ranges.longest, ranges.ended(1, pa.table({"_start": [10], "_end": [99], "_weight": [1]}))["_end"].to_pylist()
((9,), [20])

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 2.3.1: one synopsis for
windows of several sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from anabranch.joins.probe_pipeline import Combinations
from anabranch.joins.window_store import WindowStore
from anabranch.operators.base import END, START, Port
from anabranch.operators.elements import ints, with_ints


@dataclass(frozen=True)
class JoinRanges:
    """Which lengths of windows are wanted of a join.

    Parameters
    ----------
    inputs
        Those that are windows over time; their elements come without ends.
    wanted
        Lengths in microseconds, one per such input, for each port.
    """

    inputs: tuple[int, ...]
    wanted: tuple[Port, ...]

    @property
    def longest(self) -> Port:
        """The lengths for which rows are kept: of each input the longest that is wanted."""
        return tuple(map(max, zip(*self.wanted, strict=True)))

    def ended(self, number: int, table: pa.Table) -> pa.Table:
        """Elements of an input, with the ends that they have in the longest window."""
        if number not in self.inputs:
            return table
        return shortened(table, self.longest[self.inputs.index(number)])

    def part(self, found: Sequence[Combinations], port: Port, stores: Sequence[WindowStore]) -> Sequence[Combinations]:
        """Of combinations over the longest windows, those over the windows of a port."""
        return found if port == self.longest else [self._shorter(each, port, stores) for each in found]

    def _shorter(self, found: Combinations, port: Port, stores: Sequence[WindowStore]) -> Combinations:
        end = found.end
        for number, length in zip(self.inputs, port, strict=True):
            end = np.minimum(end, stores[number].start[found.rows[number]] + length + 1)
        seen = np.flatnonzero(found.start < end)
        rows = {number: each[seen] for number, each in found.rows.items()}
        return replace(found, rows=rows, start=found.start[seen], end=end[seen], weight=found.weight[seen])


def shortened(table: pa.Table, length: int) -> pa.Table:
    """Elements of a window over time, as they are in one of this length."""
    return with_ints(table, {END: ints(table, START) + length + 1})
