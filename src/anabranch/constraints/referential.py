"""RIDS(k), referential integrity over streams: the only partner of a row has arrived, or comes within k.

A row that has no partner notes the clock of the partner's stream. When that clock has moved on by k, the partner will
not come: the row is in No. With k = 0 the partner comes first, or never.

Example 6.6.1: three tuples of S3 have arrived when (4, 10) comes without a partner; the next one ends the wait.

>>> rids = ReferentialIntegrity(Adherence(given=1), "tuples")
>>> waits_since = np.array([3])
>>> rids.over(waits_since, now=3).tolist(), rids.over(waits_since, now=4).tolist()
([False], [True])
>>> join_distances(np.array([4, 2]), waits_since=np.array([3, 3])).tolist()
[1, 0]

Notes
-----
C_{S'->S} -> `waits_since`, C_S -> `now`, in tuples; in time both are times, and a partner may still come at the very
end of the wait. Join distance -> `join_distances`.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 6.6.
"""

from __future__ import annotations

import numpy as np

from anabranch.constraints.adherence import Adherence
from anabranch.constraints.config import Unit
from anabranch.model.arrays import Counts, Mask


def join_distances(partner_clock: Counts, waits_since: Counts) -> Counts:
    """How long rows have waited for partners that were found; 0 where the partner came first."""
    return np.asarray(np.maximum(partner_clock - waits_since, 0))


class ReferentialIntegrity:
    """RIDS(k) of one link: whose rows wait for a partner, and for how long."""

    def __init__(self, adherence: Adherence, unit: Unit) -> None:
        self.adherence = adherence
        self._unit = unit

    def over(self, waits_since: Counts, now: int) -> Mask:
        """Whether rows have waited in vain, and for longer than an increase of k would be noticed."""
        if not self.adherence.usable:
            return np.zeros(len(waits_since), np.bool_)
        if self._unit == "tuples":
            return np.asarray(waits_since + self.adherence.noticed <= now)
        return np.asarray(waits_since + self.adherence.noticed < now)
