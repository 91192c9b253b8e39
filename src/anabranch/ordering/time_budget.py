"""How long adapting may take: a share of the time that the work itself takes, and a little in advance.

Looking for a better order, or for routes, takes as long for filters that cost nothing as for expensive ones, and can
save them nothing. A budget lets it happen as often as the filters' own time pays for it.

>>> budget = TimeBudget(share=0.01, advance=0.002)
>>> budget.spend(0.003)
>>> budget.covers(0.0)
False
>>> budget.earn(0.2)
>>> budget.covers(0.0), budget.covers(0.004)
(True, False)

What cannot wait may be done on credit, and is paid for before anything else:

>>> budget = TimeBudget(share=0.01, credit=0.005)
>>> budget.spend(0.003)
>>> budget.covers(0.0), budget.covers(0.0, urgent=True)
(False, True)
>>> budget.spend(0.003)
>>> budget.covers(0.0, urgent=True)
False
"""

from __future__ import annotations

import math


class TimeBudget:
    """Seconds that may be spent.

    Parameters
    ----------
    share
        Of the seconds earned.
    advance
        Seconds that may be spent before any are earned.
    credit
        Seconds that what is urgent may be ahead of what was earned.
    """

    def __init__(self, *, share: float, advance: float = 0.0, credit: float = 0.0) -> None:
        self._share, self._credit = share, credit
        self._seconds = advance

    @classmethod
    def unlimited(cls) -> TimeBudget:
        """For experiments that measure what adapting costs.

        >>> TimeBudget.unlimited().covers(1e9)
        True
        """
        return cls(share=0.0, advance=math.inf)

    def covers(self, seconds: float, *, urgent: bool = False) -> bool:
        """Whether so much may be spent now; what takes longer than expected is paid for later."""
        return self._seconds + (self._credit if urgent else 0.0) >= seconds

    def earn(self, seconds: float) -> None:
        """Work took so long."""
        self._seconds += self._share * seconds

    def spend(self, seconds: float) -> None:
        """Adapting took so long."""
        self._seconds -= seconds
