"""Rules by intervals of slots: a segment tree, with one list of rules per node.

The ends of all intervals cut the slots into leaves. Node n of level h stands for the leaves n * 2**h to (n + 1) * 2**h;
an interval is in the fewest nodes that make it up, at most two per level. The rules that hold in a leaf are those of
the nodes above it. Levels without a list are left out, and the lowest levels are pushed down into the leaves as far as
that costs little memory: narrow intervals are then found in one list, wide ones in a few.

>>> index = IntervalIndex.of(np.array([0, 2, 0]), np.array([5, 3, 2]), np.array([0, 1, 2]), size=5)
>>> rows, rules = index.pairs(np.array([4, 2, 0]))
>>> rows.tolist(), [sorted(rules[rows == row].tolist()) for row in range(3)]
([0, 1, 1, 2, 2], [[0], [0, 1], [0, 2]])

References
----------
J. Bentley, *Algorithms for Klee's rectangle problems*, 1977: the segment tree.
*PSoup*, section 4.2.2, has a red-black tree per attribute and counts the factors that hold; *differs*: both ends are
one factor here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import Rows
from anabranch.rules.bucket_search import Keys, Small
from anabranch.rules.postings import Pairs, Postings

PUSHED = 8
"""Entries per rule that pushing levels down into leaves may cost."""


@dataclass(frozen=True)
class IntervalIndex:
    """A segment tree over leaves.

    Parameters
    ----------
    leaves
        Per slot its leaf.
    levels
        Levels with lists, ascending.
    firsts
        Per such level the number of its first node among all lists.
    lists
        Rules per node.
    """

    leaves: Small
    levels: Rows
    firsts: Rows
    lists: Postings
    name = "segment tree"

    @classmethod
    def of(cls, starts: Small, stops: Small, rules: Small, size: int) -> IntervalIndex:
        """The index of rules that hold from a slot on and before another one; an empty interval is in no node."""
        cuts = np.zeros(size + 1, np.bool_)
        cuts[starts] = cuts[stops] = True
        leaves = np.cumsum(cuts)[:size].astype(np.int32)
        leaf = np.append(leaves, leaves[-1:] + 1 if cuts[size] else leaves[-1:])
        entries = _pushed(_decomposed(leaf[starts], leaf[stops], rules), PUSHED * len(rules))
        levels = np.array(sorted(entries), np.int64)
        widths = (int(leaves.max(initial=0)) >> levels) + 1
        firsts = np.cumsum(widths) - widths
        nodes = [entries[level][0] + first for level, first in zip(levels.tolist(), firsts.tolist(), strict=True)]
        members = [entries[level][1] for level in levels.tolist()]
        none = np.empty(0, np.int32)
        lists = Postings.of(np.concatenate([none, *nodes]), np.concatenate([none, *members]), int(widths.sum()))
        return cls(leaves, levels, firsts, lists)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.leaves.nbytes + self.lists.nbytes

    def pairs(self, slots: Keys) -> Pairs:
        """Places of slots and rules that hold there, in the order of places."""
        leaves = self.leaves[slots]
        if len(self.levels) == 1 and not self.levels[0]:
            return self.lists.expanded(leaves)
        nodes = self.firsts + (leaves[:, None] >> self.levels)
        found, rules = self.lists.expanded(nodes.reshape(-1))
        return found // max(len(self.levels), 1), rules


Entries = dict[int, tuple[Small, Small]]
"""Per level, nodes and their rules."""


def _decomposed(starts: Small, stops: Small, rules: Small) -> Entries:
    """The nodes that make up intervals of leaves."""
    entries: Entries = {}
    level = 0
    kept = starts < stops
    while kept.any():
        starts, stops, rules = starts[kept], stops[kept], rules[kept]
        left, right = starts % 2 == 1, stops % 2 == 1
        nodes = np.concatenate((starts[left], stops[right] - 1))
        if len(nodes):
            entries[level] = nodes, np.concatenate((rules[left], rules[right]))
        starts, stops, level = (starts + 1) >> 1, stops >> 1, level + 1
        kept = starts < stops
    return entries


def _pushed(entries: Entries, most: int) -> Entries:
    """The same lists, with as many of the lowest levels in the leaves as fit into `most` entries."""
    leaves: list[tuple[Small, Small]] = []
    pushed: Entries = {}
    for level, (nodes, rules) in sorted(entries.items()):
        most -= len(nodes) << level
        if most < 0 and level:
            pushed[level] = nodes, rules
        else:
            within = np.arange(1 << level, dtype=np.int32)
            leaves.append((((nodes[:, None] << level) + within).reshape(-1), np.repeat(rules, 1 << level)))
    if leaves:
        pushed[0] = np.concatenate([nodes for nodes, _ in leaves]), np.concatenate([rules for _, rules in leaves])
    return pushed
