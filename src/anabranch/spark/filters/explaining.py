"""What `Filter.explain` says about a stage."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from anabranch.model.predicates import FilterStage, Predicate, constraints
from anabranch.routing.route_plan import RoutePlan, shown_orders
from anabranch.spark.connect import is_connect, observes
from anabranch.spark.filters.filter_settings import FilterSettings, kinds_of
from anabranch.spark.filters.ledger import Ledger
from anabranch.spark.native.order import NativeOrder


def what_runs(stage: FilterStage, df: DataFrame, policy: str) -> str:
    """What runs a stage, and how its order comes about."""
    if stage.executor == "arrow":
        counted = not is_connect(df) or observes(df.sparkSession)
        said = "" if policy == "fixed" else ", adaptive inside every task"
        return f"one Python node{said}{'' if counted else '; this server cannot observe, so reports stay empty'}"
    if policy == "fixed":
        return "native AND-chain"
    if is_connect(df):
        return "native AND-chain, read from the text of its plan (Spark Connect); costs are guessed, not timed"
    if df.isStreaming:
        return "native AND-chain; on a stream, where() keeps its first decision (foreach_batch re-decides)"
    return "native AND-chain, ordered by a pilot sample"


def explained_order(
    settings: FilterSettings,
    ledger: Ledger,
    native: NativeOrder | None,
    df: DataFrame,
    stage: FilterStage,
    members: Sequence[Predicate],
) -> list[str]:
    """The order of a stage and why it is that one, its routes, and its constraints; a line each."""
    if native is not None:
        order, why, plan = native.order, native.why, native.plan
    else:
        seed = ledger.learned(stage.members)
        order = seed.order if seed else settings.precedence(members).legal(range(len(members)))
        why = f"{'learned so far' if seed else 'as written'}; workers adapt it while they run"
        why = "fixed as written" if settings.policy == "fixed" else why
        plan = ledger.plan(stage.members, kinds_of(settings.attributes_of(df, members)))
    lines = [f"order: {' -> '.join(members[i].name for i in order)}   ({why})"]
    lines += [] if plan is None else _explained_routes(plan, members)
    edges = sorted(constraints(members, strict=settings.strict))
    lines += [f"{members[a].name} always before {members[b].name}" for a, b in edges]
    return [f"   {line}" for line in lines]


def _explained_routes(plan: RoutePlan, members: Sequence[Predicate]) -> list[str]:
    """The routes of a plan, a line each; none where there is one."""
    ways = shown_orders(plan)
    return [
        f"route {i}: {' or '.join(way.tests)}: {' -> '.join(members[f].name for f in way.order)}"
        for i, way in enumerate(ways, 1)
        if len(ways) > 1
    ]
