"""What a task sends to the driver when it ends, and what tells one task from another."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.events import Event
from anabranch.ordering.base import Seed
from anabranch.ordering.pipeline import Tally
from anabranch.routing.plan_comparison import Block
from anabranch.routing.route_plan import RoutePlan, RouteState
from anabranch.routing.sampled_rows import SampledRows
from anabranch.spark.filters.row_traces import RowTrace

Part = tuple[int, ...]
"""A stage of a filter: the positions of its predicates in the written list."""

Kinds = tuple[tuple[str, str], ...]
"""Names and types of the columns that routes may look at; what is learned about routes holds for one such input."""


@dataclass(frozen=True)
class TaskKey:
    """Identity of a task: `job`, a micro-batch, survives restarts; the rest tells its parts apart."""

    job: str
    run: str
    stage: int
    partition: int
    node: int = 0


@dataclass(frozen=True)
class TaskRecord:
    """What one task did and learned.

    A coalesced task runs the filter once per merged partition: records of one `attempt` add up, another's replace them.
    Each profile tuple, sampled row, comparison and plan that was `given_up` is in one record only; `learned_rows` is
    how many rows the worker has learned from, in all its tasks.
    """

    key: TaskKey
    part: Part
    tally: Tally
    attempt: int = 0
    events: tuple[Event, ...] = ()
    learned: Seed | None = None
    learned_rows: int = 0
    routes: tuple[RouteState, ...] = ()
    kinds: Kinds = ()
    plan: RoutePlan | None = None
    plan_version: int = 0
    given_up: RoutePlan | None = None
    sample: SampledRows | None = None
    trial: RoutePlan | None = None
    traces: tuple[RowTrace, ...] = ()
    compared: tuple[tuple[Block, ...], int] = ((), 0)
