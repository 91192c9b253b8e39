"""Plans that change at any moment: another legal order and other caches, chunk by chunk."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from anabranch import ordering
from anabranch.config import OrderingConfig
from anabranch.joins import adaptive_caches, cache_states
from anabranch.joins.cache_candidates import Candidate
from anabranch.joins.cache_cost import Estimate
from anabranch.joins.cache_states import CacheConfig, CacheStates
from anabranch.model.arrays import Order
from anabranch.operators.join import MultiJoin
from anabranch.ordering import Precedence
from anabranch.ordering.base import Observation, Reoptimizer, Seed
from anabranch.ordering.decisions import Decision
from anabranch.ordering.pipeline import FilterPipeline

CACHE_BYTES = (0, 0, 300, 4096, 2**20)
"""What caches may take: nothing, less than a page, a page, all they need."""
SHORT_CHUNKS = (1, 2, 3, 5)


class ChaosOrder(Reoptimizer):
    """Takes another legal order whenever it is asked, and profiles as it likes."""

    name = "agreedy"

    def __init__(
        self,
        filters: int,
        rng: random.Random,
        precedence: Precedence | None = None,
        seed: Seed | None = None,
        config: OrderingConfig | None = None,
    ) -> None:
        super().__init__(filters, precedence=precedence, seed=seed)
        self._rng = rng

    @property
    def profile_probability(self) -> float:
        return self._rng.choice((0.0, 0.1, 1.0))

    def wanted(self, place: int) -> Sequence[int]:
        return [f for f in self.order[place + 1 :] if self._rng.random() < 0.7]

    @property
    def eager(self) -> bool:
        return True

    def observe(self, seen: Observation) -> tuple[Decision, ...]:
        before, self.order = self.order, legal_order(self._rng, self.precedence)
        return self._reordered(before, "chaos")


def legal_order(rng: random.Random, precedence: Precedence) -> Order:
    """Any."""
    return precedence.legal(rng.sample(range(precedence.filters), precedence.filters))


@dataclass
class JoinChaos:
    """What happened to joins.

    Parameters
    ----------
    rng
        Takes all decisions.
    cache_bytes
        What caches may take, one of these at a time.
    cached
        Rows that were joined with caches so far.
    chosen
        How often caches were chosen.
    reordered
        How often there was another order.
    """

    rng: random.Random
    cache_bytes: Sequence[int] = CACHE_BYTES
    cached: int = 0
    chosen: int = 0
    reordered: int = 0

    def before_tick(self, join: MultiJoin) -> None:
        """Caches come, go, or have another limit; what the join has done since is counted."""
        self.reordered += sum(len(each.take_decisions()) for each in join.pipelines)
        self.cached += sum(use.probes for report in join.take_probes() for use in report.caches)
        if self.rng.random() < 0.4:
            join.limit_caches(self.rng.choice(self.cache_bytes))

    def choose(self, known: Mapping[Candidate, Estimate], work: object) -> set[Candidate]:
        """Any caches that do not overlap."""
        chosen: list[Candidate] = []
        for each in self.rng.sample(list(known), len(known)):
            if self.rng.random() < 0.7 and not any(each.overlaps(other) for other in chosen):
                chosen.append(each)
        self.chosen += bool(chosen)
        return set(chosen)


@contextmanager
def chaotic_joins(rng: random.Random, cache_bytes: Sequence[int] = CACHE_BYTES) -> Iterator[JoinChaos]:
    """While it lasts, chunks of joins have a few rows, and each may have another order and other caches."""
    chaos = JoinChaos(rng, cache_bytes)
    usual = CacheConfig(observations=0, interval=3, change_share=-1, dropping=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ordering.POLICIES, "auto", partial(ChaosOrder, rng=rng))
        patch.setattr(FilterPipeline, "chunk_rows", lambda self, rows: min(rows, rng.choice(SHORT_CHUNKS)))
        patch.setattr(FilterPipeline, "_may_decide", lambda self: True)
        patch.setattr(cache_states, "select", chaos.choose)
        patch.setattr(CacheStates, "ready", lambda self, pipeline: rng.random() < 0.4)
        patch.setattr(adaptive_caches, "PLAIN_EVERY", 3)
        begin = MultiJoin._begin_caches

        def begin_restless(self: MultiJoin) -> None:
            self._caching = usual
            begin(self)

        patch.setattr(MultiJoin, "_begin_caches", begin_restless)
        yield chaos
