"""The correlated filters of the thesis' experiments, as a matrix: which filter passes which tuple.

The filters stand in groups. Filters of different groups are independent; two of the same group agree on 80 % of the
tuples. For each tuple every group draws a common number and every filter a number of its own, all uniform in [0, 1). A
filter looks at the common one with probability q, else at its own, and passes the tuple if the number is below its
selectivity s. Two filters that both look at the common number always agree; otherwise they are independent and agree
by chance, with probability c = s^2 + (1 - s)^2. So the agreement is q^2 + (1 - q^2) c, and q follows from the 80 %.

>>> work = Workload(filters=4)
>>> passes = work.draw(20_000, np.random.default_rng(1))
>>> passes.mean(axis=0).round(1).tolist()
[0.5, 0.5, 0.5, 0.5]
>>> [round(float((passes[:, 0] == passes[:, other]).mean()), 1) for other in (1, 2, 3)]
[0.8, 0.5, 0.5]

Notes
-----
Gamma -> `group_filters`; the unconditional selectivity of each group -> `selectivities`.

Differs from the paper
----------------------
The paper does not say how it draws correlated tuples. Below a selectivity of 0.113 and above 0.887 independent filters
already agree on more than 80 %; there q is 0. A change of the filters' characteristics deals the columns of the matrix
anew: selectivities move together with the partner that they are correlated with, so that the 80 % stay exact.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 4.7.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.model.arrays import BoolMatrix, Floats

AGREEMENT = 0.8
DEFAULT_SELECTIVITY = 0.5
DEFAULT_GROUP = 2


@dataclass(frozen=True)
class Workload:
    """Filters in groups.

    Parameters
    ----------
    filters
        How many; the last group is smaller when they do not come out even.
    group_filters
        Filters of a group, 1 for independent ones.
    selectivities
        Share of all tuples that a filter passes, per group; one number for all.
    """

    filters: int
    group_filters: int = DEFAULT_GROUP
    selectivities: Sequence[float] = (DEFAULT_SELECTIVITY,)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return -(-self.filters // self.group_filters)

    def draw(self, tuples: int, rng: np.random.Generator) -> BoolMatrix:
        """One row per tuple, one column per filter: True where the filter passes the tuple."""
        passes = np.empty((tuples, self.filters), dtype=np.bool_)
        for group, selectivity in enumerate(np.resize(self.selectivities, self.groups).tolist()):
            columns = range(group * self.group_filters, min((group + 1) * self.group_filters, self.filters))
            common, look = rng.random(tuples), common_look(selectivity)
            for column in columns:
                passes[:, column] = np.where(rng.random(tuples) < look, common, rng.random(tuples)) < selectivity
        return passes


def common_look(selectivity: float) -> float:
    """How often a filter looks at its group's number, so that two filters agree on 80 % of the tuples.

    >>> round(common_look(0.5) ** 2, 3), common_look(0.1)
    (0.6, 0.0)
    """
    by_chance = selectivity**2 + (1 - selectivity) ** 2
    return math.sqrt(max(0.0, (AGREEMENT - by_chance) / (1 - by_chance)))


def spread(groups: int, *, low: float, high: float) -> Floats:
    """Evenly spaced selectivities, one per group.

    >>> spread(3, low=0.4, high=0.6).round(2).tolist()
    [0.4, 0.5, 0.6]
    """
    return np.linspace(low, high, groups) if groups > 1 else np.array([(low + high) / 2])
