"""Rules by prefixes of texts or addresses: intervals that lie within each other or apart.

A prefix is an interval of slots. Two of them never overlap by half, so they make a forest: a value lies in its
innermost prefix, in that one's parent, and so on. A row costs one look-up and a step per prefix that it has.

>>> index = PrefixIndex.of(np.array([1, 3, 3]), np.array([9, 5, 5]), np.array([0, 1, 2]), size=11)
>>> rows, rules = index.pairs(np.array([4, 7, 10]))
>>> rows.tolist(), rules.tolist()
([0, 0, 0, 1], [1, 2, 0, 0])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.rules.bucket_search import Keys, Small
from anabranch.rules.postings import Pairs, Postings


@dataclass(frozen=True)
class PrefixIndex:
    """A forest of prefixes; the number after the last one stands for none.

    Parameters
    ----------
    innermost
        Per slot its innermost prefix.
    parents
        Per prefix the next wider one.
    lists
        Rules per prefix.
    """

    innermost: Small
    parents: Small
    lists: Postings
    name = "forest of prefixes"

    @classmethod
    def of(cls, starts: Small, stops: Small, rules: Small, size: int) -> PrefixIndex:
        """The index of rules that hold from a slot on and before another one."""
        intervals = starts.astype(np.int64) * (size + 1) + (size - stops)  # wider ones first
        distinct, number = np.unique(intervals, return_inverse=True)
        begins, ends = distinct // (size + 1), size - distinct % (size + 1)
        count = len(distinct)
        closed = np.cumsum(np.bincount(ends, minlength=size + 1))
        opened = np.cumsum(np.bincount(begins, minlength=size + 1))
        depths = np.arange(count) - closed[begins]
        parents, innermost = np.full(count + 1, count), np.full(size, count)
        levels = (opened - closed)[:size] - 1
        for depth in range(int(depths.max(initial=-1)) + 1):
            there = np.flatnonzero(depths == depth)
            inner, slots = np.flatnonzero(depths == depth + 1), np.flatnonzero(levels == depth)
            parents[inner] = there[np.searchsorted(there, inner) - 1]
            innermost[slots] = there[np.searchsorted(there, opened[slots]) - 1]
        return cls(innermost.astype(np.int32), parents.astype(np.int32), Postings.of(number, rules, count + 1))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.innermost.nbytes + self.parents.nbytes + self.lists.nbytes

    def pairs(self, slots: Keys) -> Pairs:
        """Places of slots and rules that hold there, in the order of places."""
        none = len(self.parents) - 1
        chain = [self.innermost[slots]]
        while (chain[-1] != none).any():
            chain.append(self.parents[chain[-1]])
        found, rules = self.lists.expanded(np.stack(chain, axis=1).reshape(-1))
        return found // len(chain), rules
