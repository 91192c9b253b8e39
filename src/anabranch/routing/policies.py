"""Policies by name: all that a filter may be given, which of them find routes, and what runs rows under each.

To add an ordering policy, list it in `ordering.POLICIES`. To add one that needs a pipeline of its own, add its name
here and give it a case in `make_pipeline`; contract tests find both by `NAMES`.

>>> make_order("mesh", 3, OrderingConfig(), Precedence.none(3)).name  # the policy of every route
'auto'
>>> type(make_pipeline("content-learns", 3, OrderingConfig(), Precedence.none(3))).__name__
'ContentLearnsPipeline'
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from anabranch.config import OrderingConfig
from anabranch.mesh.config import MeshConfig
from anabranch.mesh.fabric_pipeline import FabricPipeline
from anabranch.ordering import POLICIES, make
from anabranch.ordering.base import Reoptimizer, Seed
from anabranch.ordering.pipeline import CHUNK_SECONDS
from anabranch.ordering.precedence import Precedence
from anabranch.ordering.profile_price import ProfilePrice
from anabranch.routing.chunk_pipeline import ChunkPipeline
from anabranch.routing.content_learns_pipeline import ContentLearnsPipeline
from anabranch.routing.route_plan import RoutePlan
from anabranch.routing.routed import RoutedPipeline
from anabranch.routing.source_based_order import SourceBasedOrder

ROUTING = ("auto", "content", "mesh")
"""The policies that look for routes, which workers and the driver share as plans."""

BY_CONTENT = (*ROUTING, ContentLearnsPipeline.name)
"""The policies that look at attributes."""

NAMES = tuple(dict.fromkeys([*POLICIES, *BY_CONTENT, SourceBasedOrder.name]))


def make_order(
    policy: str, filters: int, config: OrderingConfig, precedence: Precedence, seed: Seed | None = None
) -> Reoptimizer:
    """What keeps the order of a pipeline, or of one route, under a policy."""
    if policy == SourceBasedOrder.name:
        return SourceBasedOrder(filters, config=config, precedence=precedence, seed=seed)
    name = "auto" if policy in BY_CONTENT else policy
    return make(name, filters, config=config, precedence=precedence, seed=seed)


def make_pipeline(
    policy: str,
    filters: int,
    config: OrderingConfig,
    precedence: Precedence,
    *,
    mesh: MeshConfig | None = None,
    plan: RoutePlan | None = None,
    version: int = 0,
    learning: bool = False,
    start: Seed | None = None,
    unprofiled: frozenset[int] = frozenset(),
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    price: ProfilePrice | None = None,
    chunk_seconds: float = CHUNK_SECONDS,
) -> ChunkPipeline:
    """What runs rows under a policy, from what is known at the start; `learning` if it may look at attributes."""
    if policy == ContentLearnsPipeline.name:
        return ContentLearnsPipeline(filters, config, precedence, start=start, seed=seed, clock=clock)
    make_policy = partial(make_order, policy, filters, config, precedence)
    if policy == "mesh" and mesh is not None and mesh.executor == "fabric":
        return FabricPipeline(
            make_policy,
            mesh,
            plan=plan,
            version=version,
            learning=learning,
            start=start,
            unprofiled=unprofiled,
            seed=seed,
            clock=clock,
        )
    return RoutedPipeline(
        make_policy,
        plan=plan,
        version=version,
        learning=learning,
        start=start,
        unprofiled=unprofiled,
        seed=seed,
        clock=clock,
        price=price,
        chunk_seconds=chunk_seconds,
    )
