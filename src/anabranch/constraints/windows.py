"""Sliding windows of rows and of time, and where among all arrivals a row leaves one.

>>> clock = Clock(2, np.array([10, 13]), np.array([10, 11, 13]), np.array([7, 7, 8]))
>>> columns = np.array([[70, 8], [71, 9]])
>>> Rows(2).ends(np.array([1, 2]), np.array([0, 0]), columns, clock).tolist()
[10, 13]
>>> Range(5).ends(np.array([1]), np.array([3]), columns[:1], clock).tolist()
[13]
>>> Until(1).ends(np.array([1, 2]), np.array([3, 3]), columns, clock).tolist() == [13, FAR]
True

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 2.1.3 and 6.3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from anabranch.model.arrays import Counts

FAR = 2**62
"""The end of a row that is not known yet."""


class Clock(NamedTuple):
    """A batch as windows see it: arrivals of the stream before it, those of it, and the places and times of all."""

    before: int
    own_sigma: Counts
    sigma: Counts
    time: Counts


class Window(Protocol):
    """When rows leave."""

    @property
    def timed(self) -> bool:
        """Whether the end of a row is known when it arrives."""

    def ends(self, sequence: Counts, time: Counts, columns: Counts, clock: Clock) -> Counts:
        """At which arrival of the batch rows leave, by their numbers, times and columns; `FAR` if later."""


@dataclass(frozen=True)
class Unbounded:
    """Rows stay."""

    @property
    def timed(self) -> bool:
        """They never leave, which is known at once."""
        return True

    def ends(self, sequence: Counts, time: Counts, columns: Counts, clock: Clock) -> Counts:
        """Never."""
        return np.full(len(sequence), FAR)


@dataclass(frozen=True)
class Rows:
    """The last so many tuples of a stream, whether filters let them pass or not."""

    size: int

    @property
    def timed(self) -> bool:
        """The end depends on later arrivals."""
        return False

    def ends(self, sequence: Counts, time: Counts, columns: Counts, clock: Clock) -> Counts:
        """When a tuple takes the place of the row."""
        later = sequence + self.size - clock.before - 1
        here = later < len(clock.own_sigma)
        found = np.full(len(sequence), FAR)
        found[here] = clock.own_sigma[later[here]]
        return found


@dataclass(frozen=True)
class Range:
    """The tuples of the last so much time: a row of time t is there before t + span."""

    span: int

    @property
    def timed(self) -> bool:
        """The end is known when the row arrives."""
        return True

    def ends(self, sequence: Counts, time: Counts, columns: Counts, clock: Clock) -> Counts:
        """With the first arrival, on any stream, that is late enough."""
        return _first_at(time + self.span, clock)


@dataclass(frozen=True)
class Until:
    """Each row is there before the time in one of its columns: an element of a relation, with both of its ends."""

    column: int

    @property
    def timed(self) -> bool:
        """The row says so."""
        return True

    def ends(self, sequence: Counts, time: Counts, columns: Counts, clock: Clock) -> Counts:
        """With the first arrival, on any stream, of that time."""
        return _first_at(columns[:, self.column], clock)


def _first_at(times: Counts, clock: Clock) -> Counts:
    later = np.searchsorted(clock.time, times)
    found = np.full(len(times), FAR)
    here = later < len(clock.time)
    found[here] = clock.sigma[later[here]]
    return found
