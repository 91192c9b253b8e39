"""The instants at which `Rstream` speaks: those of a list, or all multiples of some steps, which nobody lists.

Between rows that lie years apart there are more multiples of a second than fit into memory. Only those are told at
which something is there: they are counted by a division, and told interval by interval.

>>> asked = Instants(Tick(0, 20, origin=3, slides=(4, 6)))
>>> runs = asked.runs(np.array([3, 11]), np.array([9, 13]))
>>> [many.tolist() for _, many in runs], [told.tolist() for told in asked.told(runs)]
([[2, 1], [1, 1]], [[0, 0, 1, 0], [4, 8, 12, 6]])
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from anabranch.cells.base import Micros, Tick
from anabranch.cells.elements import Rows, ranges

Run: TypeAlias = tuple[Rows, Rows]
"""Per interval the number of its first instant, and how many there are."""


class Instants:
    """The instants of a tick; multiples of its slides count from its origin on.

    Parameters
    ----------
    tick
        Has them in a list, or has slides.
    """

    def __init__(self, tick: Tick) -> None:
        origin = tick.origin if tick.slides else next(iter(tick.instants), None)
        self.first = tick.until if origin is None else max(tick.start, int(origin))
        self.until = tick.until
        self._listed = tick.instants
        self._slides = tick.slides

    def __bool__(self) -> bool:
        return any(many.any() for _, many in self.runs(np.array([self.first]), np.array([self.until])))

    def runs(self, start: Micros, end: Micros) -> list[Run]:
        """The instants in each interval between `first` and `until`: those of the list, or per slide its multiples."""
        low, high = self._before(start), self._before(end)
        return [(first, np.maximum(after - first, 0)) for first, after in zip(low, high, strict=True)]

    def told(self, runs: list[Run]) -> tuple[Rows, Micros]:
        """The instants of runs: the place of the interval, and the time. A multiple of two slides is told once."""
        owners, times = [], []
        for number, run in enumerate(runs):
            owner, place = ranges(*run)
            time = place * self._slides[number] if self._slides else self._listed[place]
            for slide in self._slides[:number]:
                new = time % slide != 0
                owner, time = owner[new], time[new]
            owners.append(owner)
            times.append(time)
        return (owners[0], times[0]) if len(runs) == 1 else (np.concatenate(owners), np.concatenate(times))

    def _before(self, times: Micros) -> list[Rows]:
        if self._slides:
            return [-(-times // slide) for slide in self._slides]
        return [np.searchsorted(self._listed, times)]
