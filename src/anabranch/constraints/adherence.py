"""How closely a stream keeps to a constraint: k, learned from arrivals, given up at once when it has grown.

>>> k = Adherence(window_arrivals=100, slack=1.5)
>>> k.observe(worst=7, arrivals=60), k.used
(False, inf)
>>> k.observe(worst=3, arrivals=60), k.used             # 120 arrivals, none worse than 7
(False, 7.0)
>>> k.observe(worst=2, arrivals=100), k.used, k.noticed
(False, 2.0, 3.0)
>>> k.observe(worst=4, arrivals=10), k.used             # it has grown: learn anew
(True, inf)

A given k is kept whatever arrives:

>>> given = Adherence(given=5)
>>> given.observe(worst=9, arrivals=1), given.used
(False, 5.0)

Notes
-----
k_u -> `used`, k_e = c k_u -> `noticed`, W -> `window_arrivals`. Arrivals are those of the stream whose tuples show the
distance. A batch is one observation: k falls at the end of the batch in which the window is full.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 6.6.3, 6.7.3 and 6.8.3.
"""

from __future__ import annotations

import math
from collections import deque


class Adherence:
    """The k of one constraint.

    Parameters
    ----------
    window_arrivals
        How many arrivals k is learned from.
    slack
        How much worse an arrival can be and still be noticed for certain, as a factor.
    threshold
        A larger k is not used.
    given
        A k that is known; it is neither learned nor given up.
    """

    def __init__(
        self,
        window_arrivals: int = 1000,
        slack: float = 1.2,
        threshold: float = math.inf,
        given: float | None = None,
    ) -> None:
        self._window, self._slack, self._threshold = window_arrivals, slack, threshold
        self._fixed = given is not None
        self._seen: deque[tuple[float, int]] = deque()
        self._arrivals = 0
        self.used = math.inf if given is None else float(given)
        self.violations = 0
        self.worst = 0.0

    @property
    def usable(self) -> bool:
        """Whether the constraint can be used now."""
        return self.used < math.inf and self.used <= self._threshold

    @property
    def noticed(self) -> float:
        """Up to which k an increase is noticed for certain."""
        return self.used if self._fixed else self.used * self._slack

    def observe(self, worst: float, arrivals: int) -> bool:
        """Note the largest distance among some arrivals; returns whether k has grown."""
        self.worst = max(self.worst, worst)
        if self._fixed:
            return False
        if worst > self.used:
            self.stop()
            return True
        self._remember(worst, arrivals)
        if self._arrivals >= self._window:
            self.used = min(self.used, max(each for each, _ in self._seen))
        return False

    def stop(self) -> None:
        """The constraint does not hold: do not use it before it has been learned anew."""
        self.violations += not self._fixed
        self.rest()

    def rest(self) -> None:
        """Nobody looks at the arrivals for now: what was learned counts no more."""
        if not self._fixed:
            self.used = math.inf
            self._seen.clear()
            self._arrivals = 0

    def _remember(self, worst: float, arrivals: int) -> None:
        """Drop observations that the window does not need; of those that stay, all but the last few are whole."""
        if arrivals:
            self._seen.append((float(worst), arrivals))
            self._arrivals += arrivals
        while self._seen and self._arrivals - self._seen[0][1] >= self._window:
            self._arrivals -= self._seen.popleft()[1]
