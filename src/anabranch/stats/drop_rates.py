"""Drop rates of the filters in normal processing, which cost nothing to observe, and whether one has jumped.

>>> rates = DropRates(1)
>>> for dropped in (100, 105, 98, 400):
...     seen = np.array([1000]), np.array([dropped])
...     print(rates.jumped(*seen, order=(0,)))
...     rates.add(*seen, order=(0,))
None
None
None
0
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.model.arrays import BoolMatrix, Counts, Floats, Order

JUMP_DEVIATIONS = 5.0
SMALLEST_JUMP = 0.03
RATE_MEMORY = 0.8
SMALLEST_SAMPLE = 50


class DropRates:
    """Running drop rates of the filters: recent tuples count more."""

    def __init__(self, filters: int) -> None:
        self._entered: Floats = np.zeros(filters)
        self._dropped: Floats = np.zeros(filters)
        self._survival = 0.0

    def forget(self) -> None:
        """Start anew, with data that has changed."""
        self._entered[:] = 0.0
        self._dropped[:] = 0.0

    def expect(self, order: Order, profiles: BoolMatrix) -> None:
        """The order changed, and with it what reaches each filter: the profile tuples tell the rates to expect."""
        self.forget()
        alive = np.ones(len(profiles), dtype=np.bool_)
        passed = len(profiles) * self._survival / max(1 - self._survival, 1e-6)
        for f in order:
            self._entered[f] = np.count_nonzero(alive) + passed
            self._dropped[f] = np.count_nonzero(alive & profiles[:, f])
            alive &= ~profiles[:, f]

    def add(self, entered: Counts, dropped: Counts, order: Order) -> None:
        """Tuples went through the filters in this order."""
        tuples = float(entered[order[0]])
        if tuples:
            self._survival = 1 - float(dropped.sum()) / tuples
        self._entered = self._entered * RATE_MEMORY + entered
        self._dropped = self._dropped * RATE_MEMORY + dropped

    def jumped(self, entered: Counts, dropped: Counts, order: Order) -> int | None:
        """The first filter in the order whose rate differs from its past by more than chance explains."""
        past, gone = self._entered.tolist(), self._dropped.tolist()  # plain numbers: this is asked after every chunk
        came, went = entered.tolist(), dropped.tolist()
        for f in order:
            if came[f] < SMALLEST_SAMPLE:
                return None
            if past[f] >= SMALLEST_SAMPLE:
                pooled = (gone[f] + went[f]) / (past[f] + came[f])
                chance = math.sqrt(max(pooled * (1 - pooled), 0.0) * (1 / past[f] + 1 / came[f]))
                if abs(went[f] / came[f] - gone[f] / past[f]) > max(JUMP_DEVIATIONS * chance, SMALLEST_JUMP):
                    return int(f)
        return None
