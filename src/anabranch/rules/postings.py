"""Lists of rules, one after the other in one array (CSR).

>>> lists = Postings.of(np.array([2, 0, 2]), np.array([10, 11, 12]), 3)
>>> rows, rules = lists.expanded(np.array([2, 1, 0]))
>>> rows.tolist(), rules.tolist()
([0, 0, 2], [10, 12, 11])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import Mask, Rows
from anabranch.rules.bucket_search import Small

Pairs = tuple[Rows, Small]
"""Numbers of rows and of rules."""
Tester = Callable[[Rows, Small], Mask]
"""Which pairs of a row and a rule match."""


@dataclass(frozen=True)
class Postings:
    """List number i is `members[offsets[i]:offsets[i + 1]]`."""

    offsets: Small
    members: Small

    @classmethod
    def of(cls, lists: Rows | Small, members: Rows | Small, count: int) -> Postings:
        """Lists from pairs of a list's number and a member; members keep their order."""
        counts = np.bincount(lists, minlength=count)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))).astype(np.int32)
        return cls(offsets, members[np.argsort(lists, kind="stable")].astype(np.int32))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.offsets.nbytes + self.members.nbytes

    def expanded(self, lists: Rows | Small) -> Pairs:
        """The members of some lists: the place of the list in `lists`, and the member."""
        begins = self.offsets[lists]
        return expand(begins, self.offsets[lists + 1] - begins, self.members)


def expand(begins: Small, counts: Small, members: Small) -> Pairs:
    """Runs of `members`, one after the other: the run's number, and the member.

    >>> [part.tolist() for part in expand(np.array([0, 3]), np.array([2, 1]), np.array([7, 8, 9, 5]))]
    [[0, 0, 1], [7, 8, 5]]
    """
    runs = np.flatnonzero(counts)
    if len(runs) < len(counts):
        begins, counts = begins[runs], counts[runs]
    total = int(counts.sum(dtype=np.int64))
    if total == len(runs):
        return runs, members[begins]
    ends = np.cumsum(counts, dtype=np.int64)
    places = np.arange(total)
    places += np.repeat(begins - (ends - counts), counts)
    return np.repeat(runs, counts), members[places]
