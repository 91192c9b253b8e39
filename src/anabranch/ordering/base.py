"""What every ordering policy is: the Re-optimizer of the adaptive loop for pipelined filters.

A policy holds an `order`, says which dropped tuples to profile and which further filters to try on them, and turns what
the executor observed into the next order. It knows no Spark, no clock and no global randomness.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from anabranch.config import OrderingConfig
from anabranch.model.arrays import BoolMatrix, Counts, Floats, Order
from anabranch.ordering.decisions import Decision, NewOrder
from anabranch.ordering.precedence import Precedence


@dataclass(frozen=True)
class Observation:
    """What the executor saw since the last decision. Filters are indexed as written, never by place.

    Parameters
    ----------
    drops
        One row per profile tuple, one column per filter: True where the filter drops the tuple. A filter that was not
        tried (see `Reoptimizer.wanted`) counts as False.
    entered, dropped
        Tuples that each filter processed and dropped in normal processing, without the artificial profiling calls.
    costs
        Seconds per tuple and filter, as currently estimated; NaN where a filter was never timed.
    now
        Seconds on any monotonic clock; only differences matter, and only for time-based windows.
    """

    drops: BoolMatrix
    entered: Counts
    dropped: Counts
    costs: Floats
    now: float = 0.0


@dataclass(frozen=True)
class Seed:
    """What an earlier run or another worker learned: a starting order, profile tuples and costs."""

    order: Order
    drops: BoolMatrix
    costs: Floats


class Reoptimizer(ABC):
    """One ordering policy. Subclasses implement `observe`, and override the rest where they profile less.

    `order` is the one to use now, `mode` says how hard the policy profiles. Of one chunk of tuples at most
    `chunk_profiles` are profiled.
    """

    name: ClassVar[str]
    chunk_profiles: ClassVar[float] = float("inf")
    mode: str = "steady"

    def __init__(
        self,
        filters: int,
        *,
        config: OrderingConfig | None = None,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
    ) -> None:
        self.filters = filters
        self.config = config or OrderingConfig.for_policy(self.name)
        self.precedence = precedence or Precedence.none(filters)
        self.order: Order = self.precedence.legal(seed.order if seed else range(filters))

    @property
    def profile_probability(self) -> float:
        """Share of dropped tuples to profile now."""
        return self.config.profile_probability

    def wanted(self, place: int) -> Sequence[int]:
        """Filters to try artificially on a profiled tuple that was dropped by the filter at `place` of the order."""
        return self.order[place + 1 :]

    @property
    def eager(self) -> bool:
        """Whether decisions should not wait until the time for them is earned."""
        return False

    def drift_alarm(self, entered: Counts, dropped: Counts) -> bool:
        """Whether tuples that were to be observed later, counted by filter, call for a decision now."""
        return False

    @abstractmethod
    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        """Take in an observation and decide; what was decided, in records."""

    def profiles(self) -> BoolMatrix:
        """The profile tuples held now, oldest first (empty for a policy that keeps none)."""
        return np.zeros((0, self.filters), dtype=np.bool_)

    def _reordered(self, before: Order, why: str) -> tuple[Decision, ...]:
        """The decision that has led from an order to the present one, if they differ."""
        return (NewOrder(before, self.order, why),) if self.order != before else ()
