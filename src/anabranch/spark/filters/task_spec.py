"""What a worker is given for one stage of a filter, by subject; pickled into the Spark plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType

from anabranch.config import OrderingConfig
from anabranch.mesh.config import MeshConfig
from anabranch.model.arrays import Order
from anabranch.ordering.base import Seed
from anabranch.ordering.precedence import Precedence
from anabranch.routing.route_plan import RoutePlan
from anabranch.spark.filters.letters import Outbox
from anabranch.spark.filters.task_record import Kinds

if TYPE_CHECKING:
    from anabranch.spark.mailbox import Address


@dataclass(frozen=True)
class TaskInput:
    """The columns that enter the worker.

    Parameters
    ----------
    columns
        Names and types, in the order in which they enter.
    attributes
        Those by which routes may be told apart.
    time_zone
        Of the session.
    """

    columns: Mapping[str, DataType]
    attributes: tuple[str, ...] = ()
    time_zone: str = "UTC"

    @property
    def kinds(self) -> Kinds:
        """Names and types of the attributes."""
        return tuple((name, self.columns[name].simpleString()) for name in self.attributes)


@dataclass(frozen=True)
class OrderingRules:
    """How predicates are ordered, which must precede which, and which must not be called for profiling alone.

    `mesh` is the user's configuration of the policy of that name.
    """

    policy: str
    config: OrderingConfig
    precedence: Precedence
    unprofiled: frozenset[int] = frozenset()
    mesh: MeshConfig | None = None


@dataclass(frozen=True)
class CallSettings:
    """What the tasks of a filter have to know of its calls.

    Parameters
    ----------
    by_money
        Whether the order is to save money, not time.
    meter
        File that counts rows and calls of all workers.
    limit
        Rows that are wanted; None for all.
    kept
        File that counts the rows that tasks have kept, where there is a limit.
    """

    by_money: bool = False
    meter: Path | None = None
    limit: int | None = None
    kept: Path | None = None


@dataclass(frozen=True)
class StartingPoint:
    """What is known before the task begins: order and costs, routes, and how often and why the driver switched them."""

    seed: Seed | None = None
    plan: RoutePlan | None = None
    plan_version: int = 0
    plan_reason: str = ""


@dataclass(frozen=True)
class Rival:
    """Another plan that some chunks go by, to be compared with the plan in use.

    Parameters
    ----------
    identity
        Name under which workers remember what it learned.
    policy, config
        How it orders predicates.
    order
        With which it begins.
    """

    identity: str
    policy: str
    config: OrderingConfig
    order: Order | None = None


@dataclass(frozen=True)
class Watching:
    """What is looked at beside the counts: the share of rows that are traced, and a rival of the plan in use."""

    trace_share: float = 0.0
    rival: Rival | None = None


@dataclass(frozen=True)
class ErrorRules:
    """What becomes of rows that no predicate rejects and on which one fails.

    Parameters
    ----------
    column
        Hidden column with which such rows go on; without it the error is raised.
    lacking
        Columns that earlier stages keep, and that such rows may lack; which ones comes in behind the input's columns.
    unasked
        Predicates of later stages that have no say about such rows, as they may fail themselves.
    """

    column: str | None = None
    lacking: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskOrigin:
    """Where a task comes from, so that its record counts once, and where the record goes.

    Parameters
    ----------
    application
        Spark's name of the application, or of the session, where there is no more to be known.
    node
        Number of the place in the plan.
    run
        Of a micro-batch: tells its runs apart.
    ledger
        Address of the driver's ledger, or what holds the record until it travels with a row; None where nothing is
        counted.
    """

    application: str
    node: int = 0
    run: str = ""
    ledger: Address | Outbox | None = None
