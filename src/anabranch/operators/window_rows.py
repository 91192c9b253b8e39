"""The windows of a join, and the new rows of a tick, as constraints see them.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anabranch.constraints.config import ConstraintConfig
from anabranch.constraints.join_graph import Link
from anabranch.constraints.kept_rows import KeptRows
from anabranch.constraints.windows import Range, Unbounded
from anabranch.joins.window_store import Key
from anabranch.model.arrays import Counts, Mask
from anabranch.model.arrays import Rows as RowNumbers
from anabranch.operators.base import EVER, FOREVER
from anabranch.operators.join_window import JoinWindow

_MIX = np.uint64(0x9E3779B97F4A7C15)
Duplicates = Callable[[int, int], tuple[int, Sequence[Sequence[object]]]]


class WindowRows(KeptRows):
    """The rows of a window of a join, as constraints see them; columns are its keys.

    Attributes
    ----------
    began
        When its first row came.
    share
        How many of its rows are samples.
    """

    def __init__(self, window: JoinWindow, keys: Sequence[Key], links: int) -> None:
        super().__init__(Unbounded(), links)
        self.rows = window
        self.keys = tuple(keys)
        self.until = EVER
        self.began: int = FOREVER
        self.share = 0.0

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

    def all_with(self, column: int, codes: Counts, asking: KeptRows, rows: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """All rows with these codes that are there while the rows that ask are."""
        assert isinstance(asking, WindowRows)
        store = asking.rows.store
        return self.rows.store.matches(self.keys[column], codes, store.start[rows], store.end[rows])

    def expired(self) -> Mask:
        """Rows that are over."""
        return np.asarray(self.rows.store.end <= self.until)

    def see(self, config: ConstraintConfig, stream: int) -> Mask:
        """Look at the rows that the window has, and constraints do not know yet: which of them are to be a sample."""
        starts, ends = self.rows.store.start[len(self) :], self.rows.store.end[len(self) :]
        spans = np.where(ends < FOREVER, ends - starts, 0)
        known = self.window.span if isinstance(self.window, Range) else 0
        if (longest := int(spans.max(initial=known))) > 0:
            self.window = Range(longest)
        numbers = self.arrived + 1 + np.arange(len(starts))
        first, last = int(starts.min(initial=FOREVER)), int(starts.max(initial=EVER))
        if last > EVER:
            self.began = min(self.began, first if first > EVER else last)
            whole = (self.arrived + len(starts)) * max(longest, 1) / max(last - self.began, 1)
            self.share = min(config.sample_share, config.sample_rows / max(whole, 1.0))
        salted = (numbers + (config.seed * 64 + stream) * 2**32).view(np.uint64) * _MIX
        return np.asarray(salted >> np.uint64(40) < np.uint64(self.share * 2**24))

    def arrive(self, stays: Mask, sampled: Mask) -> None:
        """Take note of these rows: which of them the window still has at its end."""
        times = np.empty(len(stays), np.int64)
        times[stays] = self.rows.store.start[len(self) :]
        self.note(times, np.ones(len(stays), np.bool_), stays, sampled)


class TickNews:
    """The new rows of a tick, as the keeper sees them."""

    def __init__(self, kept: Sequence[WindowRows], now: int, duplicated: Duplicates) -> None:
        self._kept, self.now, self.duplicates = kept, now, duplicated
        self._values: dict[tuple[int, int], tuple[Counts, Counts]] = {}

    def count(self, stream: int) -> int:
        """How many rows of an input."""
        return self._kept[stream].arrived - self._kept[stream].counted

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
