"""Which constraints pay when several hold: whether No of a stream is kept, or its parents wait instead.

RIDS and OAC allow No of a child to be forgotten: a parent's row then waits for k instead of being dropped when it finds
its partner there. Where CA or OAP soon empties No anyway, and k is large, that makes more rows stay, not fewer
(example 6.10.2, figure 6.18).

>>> no = NoComponent(rate=1 / 3, share=0.9, stays=7_500)
>>> waits = [Wait(rate=2 / 3, lasts=3 * k) for k in (500, 1000, 2000)]
>>> [round(no.rows) for _ in waits][0], [round(no.rows_that_wait([wait])) for wait in waits]
(2250, [900, 1800, 3600])
>>> [no.is_worth_keeping([wait]) for wait in waits]
[False, False, True]

Differs from the paper
----------------------
The thesis uses every constraint below the threshold and leaves the choice open (section 6.10). Here the expected
numbers of rows decide. The waits themselves are always ended: that never makes a row stay longer.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Wait(NamedTuple):
    """Rows of a parent that wait: how many arrive per unit of the clock, and for how long one waits."""

    rate: float
    lasts: float


class NoComponent(NamedTuple):
    """No of a stream: its arrivals per unit of the clock, the share of them in No, and how long such a row stays."""

    rate: float
    share: float
    stays: float

    @property
    def rows(self) -> float:
        """Rows in it, if it is kept."""
        return self.rate * self.share * self.stays

    def rows_that_wait(self, parents: Sequence[Wait]) -> float:
        """Rows of parents that wait for rows of it, if it is not kept."""
        return sum(self.share * parent.rate * parent.lasts for parent in parents)

    def is_worth_keeping(self, parents: Sequence[Wait]) -> bool:
        """Whether fewer rows stay if it is kept."""
        return self.rows < self.rows_that_wait(parents)
