"""What a cache saves and what it costs, from rates, times and the probability of a miss.

>>> work = PipelineWork(entering=(100.0, 50.0, 10.0), cost=(1.0, 2.0))   # 100 rows come, 50 get on, 10 come out
>>> cache = Candidate(0, 0, (1, 2))
>>> price = CachePrice(probe=0.5, update=0.25, miss=0.1)
>>> benefit(cache, work, price)                                # 200 without, 50 + 0.1 * (200 + 2.5) with it
129.75
>>> members = {1: PipelineWork((20.0, 8.0, 8.0), (1.0, 1.0)), 2: PipelineWork((20.0, 4.0, 4.0), (1.0, 1.0))}
>>> upkeep(cache, members, price)                              # 8 and 4 combinations come by
3.0

Notes
-----
d_ij -> `entering`; c_ij -> `cost`; probe_cost, update_cost, miss_prob -> `CachePrice`; benefit, proc, cost ->
`benefit`, `processing`, `upkeep`. All are per unit of time.

Differs from the paper
----------------------
The paper's sum for the cost of upkeep takes d_l where the pipeline is that of the l-th window of the segment. What
comes out of the last operator counts, too, so that a pipeline of n-1 operators has n rates.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, sections 5.5.1, 5.5.3 and 5.6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.joins.cache_candidates import Candidate

BYTES_PER_REFERENCE = 8
BYTES_PER_ENTRY = 16


@dataclass(frozen=True)
class PipelineWork:
    """What a pipeline does per unit of time.

    Parameters
    ----------
    entering
        Rows that come to each operator, and last what comes out.
    cost
        What an operator does for each of them.
    """

    entering: tuple[float, ...]
    cost: tuple[float, ...]

    def segment(self, candidate: Candidate) -> float:
        """The work of all operators of a segment."""
        places = range(candidate.place, candidate.place + len(candidate.windows))
        return math.fsum(self.entering[place] * self.cost[place] for place in places)

    def after(self, candidate: Candidate) -> float:
        """What comes out of a segment."""
        return self.entering[candidate.place + len(candidate.windows)]


@dataclass(frozen=True)
class CachePrice:
    """What using a cache takes: per look-up, per combination that is put in, and how often it misses."""

    probe: float
    update: float
    miss: float


@dataclass(frozen=True)
class Estimate:
    """What is expected of a candidate: what it saves, what its upkeep costs, and its size in bytes."""

    benefit: float
    cost: float
    processing: float = 0.0
    nbytes: float = 0.0

    @property
    def gain(self) -> float:
        """What is left."""
        return self.benefit - self.cost

    @property
    def priority(self) -> float:
        """What is left per byte: who gets memory first."""
        return self.gain / max(self.nbytes, 1.0)

    def differs(self, other: Estimate, share: float) -> bool:
        """Whether the benefit or the cost has changed by more than a share.

        >>> Estimate(10, 1).differs(Estimate(11, 1), 0.2), Estimate(10, 1).differs(Estimate(10, 2), 0.2)
        (False, True)
        """
        pairs = ((self.benefit, other.benefit), (self.cost, other.cost))
        return any(abs(now - before) > share * abs(before) for now, before in pairs)


def processing(candidate: Candidate, work: PipelineWork, price: CachePrice) -> float:
    """What the segment takes with the cache: all look-ups, and for misses the operators and what they put in."""
    missed = work.segment(candidate) + work.after(candidate) * price.update
    return work.entering[candidate.place] * price.probe + price.miss * missed


def benefit(candidate: Candidate, work: PipelineWork, price: CachePrice) -> float:
    """What the segment takes without the cache, less what it takes with it."""
    return work.segment(candidate) - processing(candidate, work, price)


def upkeep(candidate: Candidate, members: Mapping[int, PipelineWork], price: CachePrice) -> float:
    """What it takes to keep the cache right: what comes by in the pipelines of its windows, and of their support."""
    kept = (*candidate.windows, *candidate.support)
    return price.update * math.fsum(members[each].entering[len(kept) - 1] for each in kept)


def expected_bytes(candidate: Candidate, work: PipelineWork, entries: float) -> float:
    """The size of a cache with so many entries: each has as many combinations as come out for a row that comes."""
    combinations = work.after(candidate) / max(work.entering[candidate.place], 1e-12)
    return entries * (BYTES_PER_ENTRY + combinations * BYTES_PER_REFERENCE * (2 + len(candidate.windows)))


def estimate(
    candidate: Candidate, works: Mapping[int, PipelineWork], price: CachePrice, entries: float = 0.0
) -> Estimate:
    """All of it for a candidate, given what every pipeline does."""
    work = works[candidate.pipeline]
    saved, cost = benefit(candidate, work, price), upkeep(candidate, works, price)
    return Estimate(saved, cost, processing(candidate, work, price), expected_bytes(candidate, work, entries))
