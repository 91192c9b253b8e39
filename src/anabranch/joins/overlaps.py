"""Rows of a window that agree with codes and meet their intervals, found by sorting: the way for hot keys.

A long tick may hold many versions of a row, one after the other; to look at all of them for each version of a partner
takes the square of their number. Sorted by code and start, only those of about the same time are looked at.

>>> window = Columns(np.array([7, 7, 7]), np.array([0, 10, 20]), np.array([10, 20, 30]), np.array([30]))
>>> places, rows = overlaps(window, np.array([7, 8]), np.array([12, 12]), np.array([15, 15]))
>>> places.tolist(), rows.tolist()
([0], [1])
>>> first_of(2, places, rows).tolist()
[1, -1]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anabranch.model.arrays import Counts, Rows, ranges

MOST_CANDIDATES = 4


class Columns(NamedTuple):
    """What is known of the rows of a window: codes, starts, ends, and the latest end so far of each block of rows."""

    codes: Counts
    starts: Counts
    ends: Counts
    latest: Counts


def most_in_vain(window: Columns, codes: Counts) -> int:
    """How many rows may be looked at in vain, for some codes, before sorting is quicker."""
    return MOST_CANDIDATES * (len(codes) + len(window.codes))


def overlaps(window: Columns, codes: Counts, begin: Counts, end: Counts) -> tuple[Rows, Rows]:
    """Places of codes, ascending, and rows of that code that meet the interval.

    Of the rows of a code in the order of their starts, those that begin before the interval ends come first, and of
    these the ones up to which every row was over when it began are passed over.
    """
    own, starts, ends, _ = window
    wanted = np.flatnonzero(np.isin(own, codes))
    if not len(wanted):
        return wanted, wanted
    known, group = np.unique(own[wanted], return_inverse=True)
    times = np.unique(np.concatenate((starts[wanted], ends[wanted])))
    width = len(times) + 1  # times are replaced by their ranks, so that code and time are one number
    begins = group * width + np.searchsorted(times, starts[wanted])
    order = np.argsort(begins)
    latest = np.maximum.accumulate((group * width + np.searchsorted(times, ends[wanted]))[order])
    place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    asked = np.flatnonzero(known[place] == codes)
    base = place[asked] * width
    first = np.searchsorted(latest, base + np.searchsorted(times, begin[asked], side="right"))
    after = np.searchsorted(begins[order], base + np.searchsorted(times, end[asked]))
    owner, found = ranges(first, np.maximum(after - first, 0))
    places, rows = asked[owner], wanted[order[found]]
    meets = (starts[rows] < end[places]) & (ends[rows] > begin[places])
    return places[meets], rows[meets]


def repeated(window: Columns, first: int) -> Rows:
    """Rows from `first` on that meet a row before them of the same code.

    >>> repeated(Columns(np.array([7, 8, 7]), np.array([0, 1, 5]), np.array([9, 9, 9]), np.array([9])), 1).tolist()
    [2]
    """
    places, rows = overlaps(window, window.codes[first:], window.starts[first:], window.ends[first:])
    return np.unique(first + places[rows < first + places])


def first_of(count: int, places: Rows, rows: Rows) -> Rows:
    """The newest of the rows of each place, from which a chain leads to all others; -1 where there is none."""
    found = np.full(count, -1, np.int64)
    np.maximum.at(found, places, rows)
    return found
