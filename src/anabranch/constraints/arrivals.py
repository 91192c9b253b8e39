"""Tuples of all streams in the order of their arrival, a batch at a time.

>>> batch = Arrivals.of([(0, 1, (6, 5)), (1, 1, (6, 20)), (0, 2, (8, 8))], columns=(2, 2))
>>> batch.streams[0].sigma.tolist(), batch.streams[1].sigma.tolist(), batch.sigma.tolist()
([0, 2], [1], [0, 1, 2])

Notes
-----
Sigma(s) -> `sigma`: the place of a tuple among those of all streams.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anabranch.model.arrays import Counts, Mask

Filter = Callable[[Counts], Mask]
"""Which rows, with a column each for the attributes, pass."""


@dataclass(frozen=True)
class StreamArrivals:
    """Those of one stream: places among all arrivals, times, attributes as columns, whether filters let them pass."""

    sigma: Counts
    time: Counts
    columns: Counts
    passes: Mask

    def __len__(self) -> int:
        return len(self.sigma)


@dataclass(frozen=True)
class Arrivals:
    """A batch: those of each stream, and the places and times of all."""

    streams: tuple[StreamArrivals, ...]
    sigma: Counts
    time: Counts

    @classmethod
    def of(cls, tuples: Iterable[tuple[int, int, Sequence[int]]], columns: Sequence[int], first: int = 0) -> Arrivals:
        """Of (stream, time, attributes), in the order of arrival; the first one has the place `first`."""
        listed = list(tuples)
        owner = np.array([stream for stream, _, _ in listed], np.int64)
        time = np.array([when for _, when, _ in listed], np.int64)
        found = []
        for stream, width in enumerate(columns):
            rows = [row for each, _, row in listed if each == stream]
            found.append(np.array(rows, np.int64).reshape(len(rows), width))
        return cls.merged(owner, time, found, first)

    @classmethod
    def merged(cls, owner: Counts, time: Counts, columns: Sequence[Counts], first: int = 0) -> Arrivals:
        """Of the stream and time of each arrival, and the attributes of each stream's tuples in their order."""
        sigma = np.arange(first, first + len(owner))
        streams = []
        for stream, values in enumerate(columns):
            mine = np.flatnonzero(owner == stream)
            streams.append(StreamArrivals(sigma[mine], time[mine], values, np.ones(len(mine), np.bool_)))
        return cls(tuple(streams), sigma, time)

    def filtered(self, filters: Sequence[Filter | None]) -> Arrivals:
        """The same, with what filters say."""
        told = [
            each if keep is None else replace(each, passes=keep(each.columns))
            for each, keep in zip(self.streams, filters, strict=True)
        ]
        return replace(self, streams=tuple(told))
