"""Rules with one-sided factors, sorted by their constants: those that hold for a row are the first or the last ones.

>>> at_least = OrderIndex.of(np.array([3, 1, 5]), np.array([0, 1, 2]), size=7, lower=True)
>>> rows, rules = at_least.pairs(np.array([4, 0, 6]))
>>> rows.tolist(), rules.tolist()
([0, 0, 2, 2, 2], [1, 0, 1, 0, 2])

References
----------
*PSoup*, section 4.2.2: "An index scan is then used to solve the inequality queries".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.rules.bucket_search import Keys, Small
from anabranch.rules.postings import Pairs, expand


@dataclass(frozen=True)
class OrderIndex:
    """Rules sorted by the slot from which on (or before which) they hold.

    Parameters
    ----------
    rules
        By slot: ascending for lower ends, descending for upper ends. So matches are always the first rules.
    upto
        Per slot the number of rules that hold there.
    """

    rules: Small
    upto: Small
    name = "sorted constants"

    @classmethod
    def of(cls, ends: Small, rules: Small, size: int, *, lower: bool) -> OrderIndex:
        """The index of rules that hold from a slot on (`lower`), or before a slot."""
        order = np.argsort(ends if lower else -ends, kind="stable")
        starting = np.bincount(ends, minlength=size + 1)[: size + 1]
        upto = np.cumsum(starting)[:size] if lower else len(ends) - np.cumsum(starting)[:size]
        return cls(rules[order].astype(np.int32), upto.astype(np.int32))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.rules.nbytes + self.upto.nbytes

    def pairs(self, slots: Keys) -> Pairs:
        """Places of slots and rules that hold there, in the order of places."""
        counts = self.upto[slots]
        return expand(np.zeros(len(slots), np.int32), counts, self.rules)
