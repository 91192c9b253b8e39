"""What `Filter.explain` says about a stage, besides its order."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from anabranch.model.predicates import FilterStage, Predicate
from anabranch.routing.route_plan import RoutePlan, shown_orders
from anabranch.spark.connect import is_connect


def what_runs(stage: FilterStage, df: DataFrame, policy: str) -> str:
    """What runs a stage, and how its order comes about."""
    if stage.executor == "arrow":
        return "one Python node" + ("" if policy == "fixed" else ", adaptive inside every task")
    if policy == "fixed":
        return "native AND-chain"
    if is_connect(df):
        return "native AND-chain, read from the text of its plan (Spark Connect); costs are guessed, not timed"
    if df.isStreaming:
        return "native AND-chain; on a stream, where() keeps its first decision (foreach_batch re-decides)"
    return "native AND-chain, ordered by a pilot sample"


def explained_routes(plan: RoutePlan, members: Sequence[Predicate]) -> list[str]:
    """The routes of a plan, a line each; none where there is one."""
    ways = shown_orders(plan)
    return [
        f"route {i}: {' or '.join(way.tests)}: {' -> '.join(members[f].name for f in way.order)}"
        for i, way in enumerate(ways, 1)
        if len(ways) > 1
    ]
