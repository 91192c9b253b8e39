"""The lottery among the next operators of an uncertain route: the more an operator drops, the larger its slice.

Every subset of the data has its own wheel at every set of alternatives. At first all slices are equal.

>>> lottery = Lottery(seed=0)
>>> here = ("north", frozenset({1, 3}))
>>> lottery.slices(*here)
{1: 0.5, 3: 0.5}
>>> lottery.feedback(*here, chosen=3, entered=100, passed=2)
>>> lottery.feedback(*here, chosen=1, entered=100, passed=90)
>>> {op: round(share, 2) for op, share in lottery.slices(*here).items()}
{1: 0.13, 3: 0.87}

Notes
-----
The lottery wheel -> `slices`; the coin toss -> `draw`; the selectivity of an operator for a subset of tuples -> the
pass rate of its decayed counts.

Differs from the paper
----------------------
The paper leaves the size of a slice open. Here it is the estimated drop rate plus `SMALLEST_SLICE`, so that no operator
is ever out of the lottery, and older feedback counts less.

References
----------
R. Nehme, K. Works, C. Lei, E. Rundensteiner, E. Bertino, *Multi-route query processing and optimization*, section 5.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from anabranch.model.arrays import Floats

SMALLEST_SLICE = 0.05
MEMORY = 0.9


class Lottery:
    """All wheels, one generator."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._counts: defaultdict[tuple[Hashable, frozenset[int], int], Floats] = defaultdict(lambda: np.zeros(2))

    def draw(self, subset: Hashable, alternatives: frozenset[int]) -> int:
        """The operator to go to next."""
        wheel = self.slices(subset, alternatives)
        return int(self._rng.choice(list(wheel), p=list(wheel.values())))

    def feedback(self, subset: Hashable, alternatives: frozenset[int], chosen: int, entered: int, passed: int) -> None:
        """What the chosen operator did with the tuples that it was given."""
        counts = self._counts[subset, alternatives, chosen]
        counts *= MEMORY
        counts += (entered, passed)

    def slices(self, subset: Hashable, alternatives: frozenset[int]) -> dict[int, float]:
        """The shares of the wheel."""
        sizes = {op: SMALLEST_SLICE + self._drop_rate(subset, alternatives, op) for op in sorted(alternatives)}
        whole = sum(sizes.values())
        return {op: size / whole for op, size in sizes.items()}

    def _drop_rate(self, subset: Hashable, alternatives: frozenset[int], op: int) -> float:
        entered, passed = self._counts.get((subset, alternatives, op), (0.0, 0.0))
        return float(1 - (passed + 1) / (entered + 2))
