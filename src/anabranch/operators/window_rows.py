"""The windows of a join, and the new rows of a tick, as constraints see them.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anabranch.constraints.join_graph import Link
from anabranch.constraints.kept_rows import KeptRows
from anabranch.constraints.windows import Range, Unbounded
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask
from anabranch.model.arrays import Rows as RowNumbers
from anabranch.operators.base import EVER, FOREVER
from anabranch.operators.join_window import JoinWindow

Duplicates = Callable[[int, int], tuple[int, Sequence[Sequence[object]]]]


class WindowRows(KeptRows):
    """The rows of a window of a join, as constraints see them; columns are its keys."""

    def __init__(self, window: JoinWindow, keys: Sequence[Key], links: int) -> None:
        super().__init__(Unbounded(), links)
        self.rows = window
        self.keys = tuple(keys)
        self.until = EVER

    def __getstate__(self) -> dict[str, object]:
        """Without the rows themselves."""
        return {name: value for name, value in vars(self).items() if name != "rows"}

    def codes(self, column: int) -> Counts:
        """The code of each row by a key."""
        return self.rows.store.codes(self.keys[column])

    def any_with(self, column: int, codes: Counts, asking: KeptRows, rows: RowNumbers) -> RowNumbers:
        """For each code a row that has it while the row that asks is there; -1 if there is none."""
        assert isinstance(asking, WindowRows)
        store = asking.rows.store
        return self.rows.store.first_match(self.keys[column], codes, store.start[rows], store.end[rows])

    def expired(self) -> Mask:
        """Rows that are over."""
        return np.asarray(self.rows.store.end <= self.until)

    def arrive(self, seed: int, number: int, share: float) -> None:
        """Take note of the rows that the window has, and constraints do not know yet."""
        store, first = self.rows.store, len(self)
        size = len(store) - first
        everything = np.ones(size, np.bool_)
        sampled = np.random.default_rng((seed, number, self.arrived)).random(size) < share
        self.note(store.start[first:].copy(), everything, everything, sampled)
        spans = (store.end[first:] - store.start[first:])[store.end[first:] < FOREVER]
        if len(spans):
            known = self.window.span if isinstance(self.window, Range) else 0
            self.window = Range(max(known, int(spans.max())))


class TickNews:
    """The new rows of a tick, as the keeper sees them."""

    def __init__(self, kept: Sequence[WindowRows], now: int, duplicated: Duplicates) -> None:
        self._kept, self.now, self.duplicates = kept, now, duplicated
        self._values: dict[tuple[int, int], tuple[Counts, Counts]] = {}

    def count(self, stream: int) -> int:
        """How many rows of an input."""
        return len(self._kept[stream]) - self._kept[stream].fresh

    def clock(self, stream: int) -> int:
        """The time of the latest row."""
        return self.now

    def values(self, stream: int, column: int) -> tuple[Counts, Counts]:
        """Codes that arrived, and when, in that order."""
        if (stream, column) not in self._values:
            kept = self._kept[stream]
            codes, times = kept.codes(column)[kept.fresh :], kept.time[kept.fresh :]
            order = np.argsort(times, kind="stable")
            self._values[stream, column] = codes[order], times[order]
        return self._values[stream, column]

    def waits_since(self, link: Link) -> Counts:
        """Rows wait from their own time on."""
        own = self._kept[link.stream]
        return own.time[own.fresh :]
