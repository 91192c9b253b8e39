"""Rules by the constants that an attribute must be equal to: one list of rules per constant.

>>> index = EqualityIndex.of(constants=np.array([1, 0, 1]), rules=np.array([0, 1, 2]), count=2)
>>> rows, rules = index.pairs(np.array([3, 0, 1]))  # slots: the second constant, less than all, the first constant
>>> rows.tolist(), rules.tolist()
([0, 0, 2], [0, 2, 1])

References
----------
*PSoup*, section 4.2.2: the equality factors that match are at the node to which the search key maps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.rules.bucket_search import Keys, Small
from anabranch.rules.postings import Pairs, Postings


@dataclass(frozen=True)
class EqualityIndex:
    """Also of `in`: a rule is in the lists of all constants of its list."""

    lists: Postings
    name = "equality index"

    @classmethod
    def of(cls, constants: Small, rules: Small, count: int) -> EqualityIndex:
        """The index of pairs of a constant's number and a rule's, with `count` constants."""
        return cls(Postings.of(constants, rules, count))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.lists.nbytes

    def pairs(self, slots: Keys) -> Pairs:
        """Places of slots and rules whose constant has the slot, in the order of places."""
        rows = np.flatnonzero(slots & 1)
        found, rules = self.lists.expanded(slots[rows] >> 1)
        return rows[found], rules
