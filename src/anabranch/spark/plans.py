"""Where routes come from on the driver: the columns that may tell rows apart, and a search over a sample of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.mesh.optimize import optimize
from anabranch.mesh.training import Sample
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import BoolMatrix, Floats
from anabranch.ordering.precedence import Precedence
from anabranch.routing.class_learner import ClassLearner
from anabranch.routing.routed import RoutePlan

MOST_ATTRIBUTES = 12
SIMPLE = (BooleanType, NumericType, StringType, DateType, TimestampType, TimestampNTZType)


def attributes_of(df: DataFrame, read: Sequence[str]) -> tuple[str, ...]:
    """Columns of simple types that predicates read, and some more of fixed width.

    Texts that no predicate reads may be long, and need not even be read from their source: they serve only where the
    user names them. A name that stands for two columns is left out.
    """
    kinds: dict[str, DataType] = {}
    twice: set[str] = set()
    for field in df.schema.fields:
        name = field.name.lower()
        twice |= {name} & {known.lower() for known in kinds}
        kinds[field.name] = field.dataType
    simple = [n for n, kind in kinds.items() if isinstance(kind, SIMPLE) and n.lower() not in twice]
    first = [n for n in simple if n in read]
    more = [n for n in simple if n not in read and not isinstance(kinds[n], StringType)]
    return (*first, *more[: max(0, MOST_ATTRIBUTES - len(first))])


def find(
    policy: str,
    attributes: Mapping[str, pa.Array],
    drops: BoolMatrix,
    costs: Floats,
    precedence: Precedence | None = None,
) -> RoutePlan | None:
    """The routes that a sample of rows suggests; none where one order is as good."""
    if not np.isfinite(costs).all() or drops.shape[1] < 2:
        return None
    return (
        _mesh(attributes, drops, costs, precedence)
        if policy == "mesh"
        else _content(attributes, drops, costs, precedence)
    )


def _content(
    attributes: Mapping[str, pa.Array], drops: BoolMatrix, costs: Floats, precedence: Precedence | None
) -> RoutePlan | None:
    learner = ClassLearner(drops.shape[1], precedence)
    learner.add(attributes, drops)
    found = learner.propose(costs)
    return None if found is None else RoutePlan(found.cells, found.orders, "content", found.saving)


def _mesh(
    attributes: Mapping[str, pa.Array], drops: BoolMatrix, costs: Floats, precedence: Precedence | None
) -> RoutePlan | None:
    mesh = optimize(Sample.from_arrow(attributes, drops, costs), precedence=precedence)
    return None if len(mesh.routes) < 2 else RoutePlan(TreeRoutes(mesh.tree), mesh.routes, "mesh", mesh.gain)
