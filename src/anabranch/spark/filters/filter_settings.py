"""What a user has said about a filter, as its parts read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from anabranch.config import OrderingConfig
from anabranch.errors import QueryError
from anabranch.mesh.config import MeshConfig
from anabranch.model.arrays import Order
from anabranch.model.predicates import Predicate, constraints
from anabranch.ordering import Precedence
from anabranch.routing import policies
from anabranch.spark.filters.admission import column_type
from anabranch.spark.filters.calling import FilterCalls
from anabranch.spark.filters.task_record import Kinds
from anabranch.spark.filters.task_spec import Rival, Watching
from anabranch.spark.learned import candidate_attributes

OnError = Literal["raise", "quarantine"]


@dataclass(frozen=True)
class RivalPlan:
    """A plan that is compared with the one in use: a policy, or a pinned order; `name` tells it from others."""

    name: str
    policy: str
    config: OrderingConfig
    order: tuple[str, ...] | None = None


@dataclass
class FilterSettings:
    """The options of a `Filter`, which shares them with its parts; `Filter.use` changes the first three.

    `order` is pinned, by the names of predicates; a share of the rows is traced, a rival compared with the plan in use.
    """

    policy: str
    config: OrderingConfig
    mesh: MeshConfig | None
    strict: bool
    on_error: OnError
    attributes: tuple[str, ...] | None
    calls: FilterCalls
    order: tuple[str, ...] | None = None
    trace_share: float = 0.0
    rival: RivalPlan | None = None

    def use(
        self, policy: str, config: OrderingConfig | MeshConfig | None, order: tuple[str, ...] | None = None
    ) -> None:
        """Go on with another policy, or with one order."""
        self.policy, self.order = policy, order
        self.config, self.mesh = configured(policy, config)

    def pinned(self, members: Sequence[Predicate], order: tuple[str, ...] | None) -> Order | None:
        """A pinned order, as numbers of the predicates of a stage."""
        if order is None:
            return None
        names = [p.name for p in members]
        first = [names.index(name) for name in order if name in names]
        return (*first, *(each for each in range(len(names)) if each not in first))

    def watching(self, members: Sequence[Predicate], identity: str) -> Watching:
        """What the tasks of a stage look at beside the counts; the stage has an identity in workers."""
        rival = self.rival
        if rival is None:
            return Watching(self.trace_share)
        order = self.pinned(members, rival.order)
        return Watching(self.trace_share, Rival(f"{identity}/{rival.name}", rival.policy, rival.config, order))

    def precedence(self, members: Sequence[Predicate]) -> Precedence:
        """Which predicates of a stage must precede which."""
        return Precedence(len(members), constraints(members, strict=self.strict))

    def attributes_of(self, df: DataFrame, members: Sequence[Predicate]) -> dict[str, DataType]:
        """Columns by which routes of some predicates may be chosen, and their types."""
        if self.policy not in policies.BY_CONTENT or len(members) < 2 or self.calls.minimize == "money":
            return {}
        names = self.attributes
        if names is None:
            names = candidate_attributes.attributes_of(df, [n for p in members for n in p.reads])
        kinds = {name: column_type(df, name, df.columns, "attributes") for name in names}
        for name, kind in kinds.items():
            if not isinstance(kind, candidate_attributes.SIMPLE):
                raise QueryError(
                    f"column {name!r} in attributes is of type {kind.simpleString()}, by which routes cannot be chosen",
                    hint="use numbers, texts, booleans, dates or timestamps; a field of a struct is s.field",
                )
        return kinds


def configured(policy: str, config: OrderingConfig | MeshConfig | None) -> tuple[OrderingConfig, MeshConfig | None]:
    """The parameters of a policy, and of the search for a mesh if they are given; else those of the policy."""
    if isinstance(config, OrderingConfig):
        return config, None
    seed = OrderingConfig.seed if config is None else config.seed
    return OrderingConfig.for_policy(policy, seed=seed), config


def kinds_of(attributes: Mapping[str, DataType]) -> Kinds:
    """Names and types of attributes, under which plans are kept."""
    return tuple((name, kind.simpleString()) for name, kind in attributes.items())
