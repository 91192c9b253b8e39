"""What a filter costs per tuple, from timed calls.

>>> times = ProcessingTimes(2)
>>> for seconds in (0.010, 0.011, 0.900, 0.010):  # the third call met a pause
...     times.record(0, seconds, 1000)
>>> times.per_tuple().tolist()
[1e-05, nan]
>>> usable_costs(times.per_tuple()).tolist()
[1e-05, 1e-05]

Notes
-----
a_i, the average time of a filter -> `per_tuple()[i]`, seconds.

Differs from the paper
----------------------
a_i is a running average of single tuples. Here a call times a whole batch, and the estimate is the median of the
calls' seconds per tuple, weighted by their tuples: a garbage collection or a descheduled process does not look like an
expensive filter, and the fixed overhead of a tiny call hardly counts.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.3.1.
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.model.arrays import Floats

SMALLEST_COST = 1e-12


class ProcessingTimes:
    """Seconds per tuple of each filter, over its latest timed calls.

    Parameters
    ----------
    filters
        How many filters are timed.
    samples
        Timed calls remembered per filter.
    prior
        Seconds per tuple of filters as measured before; each counts until the filter is timed here.

    Attributes
    ----------
    calls
        Timed calls per filter so far.
    shortest
        Seconds of the shortest of them: what a call costs that hardly has anything to do; inf before the first.
    """

    def __init__(self, filters: int, *, samples: int = 64, prior: Floats | None = None) -> None:
        self.filters = filters
        self.samples = samples
        self._rates = np.zeros((filters, samples), dtype=np.float64)
        self._weights = np.zeros((filters, samples), dtype=np.float64)
        self.calls = [0] * filters
        self.shortest = [math.inf] * filters
        self._estimates = np.full(filters, np.nan) if prior is None else np.array(prior, dtype=np.float64)
        self._stale: set[int] = set()

    def record(self, f: int, seconds: float, tuples: int) -> None:
        """Note that filter `f` took `seconds` for `tuples` tuples; a call without tuples tells nothing."""
        if tuples <= 0:
            return
        slot = self.calls[f] % self.samples
        self._rates[f, slot] = seconds / tuples
        self._weights[f, slot] = tuples
        self.calls[f] += 1
        self.shortest[f] = min(self.shortest[f], seconds)
        self._stale.add(f)

    def per_tuple(self) -> Floats:
        """Seconds per tuple and filter; NaN where a filter was never timed."""
        for f in self._stale:
            held = min(self.calls[f], self.samples)
            self._estimates[f] = _weighted_median(self._rates[f, :held], self._weights[f, :held])
        self._stale.clear()
        return self._estimates.copy()


def _weighted_median(values: Floats, weights: Floats) -> float:
    """The smallest value that, with the values below it, holds half of the weight."""
    ascending = values.argsort(kind="stable")
    reached = weights[ascending].cumsum()
    return float(values[ascending[reached.searchsorted(reached[-1] / 2)]])


def usable_costs(costs: Floats) -> Floats:
    """Costs that one can divide by: an unknown one is the median of the known, and none is zero or less.

    >>> usable_costs(np.array([2.0, np.nan, 6.0, 0.0])).tolist()
    [2.0, 2.0, 6.0, 1e-12]
    >>> usable_costs(np.array([np.nan, np.nan])).tolist()
    [1.0, 1.0]
    """
    known = np.isfinite(costs)
    if not known.all():
        typical = float(np.median(costs[known])) if known.any() else 1.0
        costs = np.where(known, costs, typical)
    return np.maximum(costs, SMALLEST_COST)
