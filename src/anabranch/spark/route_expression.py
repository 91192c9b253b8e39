"""Routes as one boolean column: a CASE over the classifier's tests, with an AND-chain per route.

Spark compares the terms of an AND without regard to their order, and folds branches that it finds equal; so each branch
ends with a condition of its own that always holds and that the optimizer cannot see through. It is the last of the
chain, and only rows that pass everything pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import groupby
from math import isinf
from operator import and_, or_

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DoubleType, FloatType, TimestampNTZType, TimestampType

from anabranch.errors import InternalError
from anabranch.mesh.nodes import Among, Leaf, Node, Test
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import Order
from anabranch.routing.cells import Cells, RangeSplit, Split, ValueSplit
from anabranch.routing.routed import Classifier
from anabranch.spark.names import column


def routed(df: DataFrame, classifier: Classifier, orders: Sequence[Order], terms: Sequence[Column]) -> Column:
    """The condition that a row passes all terms, tried in the order of its route."""
    attribute = column(df, classifier.attributes[0])
    chains = [_chain([terms[f] for f in order], _always(attribute, i)) for i, order in enumerate(orders)]
    case: Column | None = None
    for route, chain in enumerate(chains[1:], start=1):
        taken = _taken(df, classifier, route)
        case = F.when(taken, chain) if case is None else case.when(taken, chain)
    return chains[0] if case is None else case.otherwise(chains[0])


def _chain(terms: Sequence[Column], marker: Column) -> Column:
    return reduce(and_, [*terms, marker])


def _always(attribute: Column, route: int) -> Column:
    """True for every row, and different for every route."""
    return F.coalesce(F.length(attribute.cast("string")), F.lit(0)) > F.lit(-1 - route)


def _taken(df: DataFrame, classifier: Classifier, route: int) -> Column:
    if isinstance(classifier, TreeRoutes):
        return _any(list(_leads_to(df, classifier.tree.root, route)))
    if isinstance(classifier, Cells):
        return _in_cells(df, classifier, route)
    raise InternalError(f"no column expression for a {type(classifier).__name__}")


def _leads_to(df: DataFrame, node: Node, route: int, path: tuple[Column, ...] = ()) -> Iterator[Column]:
    """One condition for every leaf of a route."""
    if isinstance(node, Leaf):
        if node.label == route:
            yield reduce(and_, path, F.lit(True))
        return
    holds = F.coalesce(_answer(df, node.test), F.lit(False))
    yield from _leads_to(df, node.yes, route, (*path, holds))
    yield from _leads_to(df, node.no, route, (*path, ~holds))


def _answer(df: DataFrame, test: Test) -> Column:
    value = column(df, test.attribute)
    if isinstance(test, Among):
        return value.isin(*test.values)
    number, missing = _number(df, test.attribute, value)
    return ~missing if isinf(test.threshold) else ~missing & (number <= F.lit(test.threshold))


def _in_cells(df: DataFrame, classifier: Cells, route: int) -> Column:
    shape = [s.codes for s in classifier.splits]
    cells = np.argwhere(classifier.route_of.reshape(shape) == route)
    if len(shape) == 1:
        return _in_codes(df, classifier.splits[0], cells[:, 0].tolist())
    first, second = classifier.splits
    parts = [
        _in_codes(df, first, [code]) & _in_codes(df, second, [int(c[1]) for c in group])
        for code, group in groupby(cells.tolist(), key=lambda c: int(c[0]))
    ]
    return _any(parts)


def _any(parts: Sequence[Column]) -> Column:
    return reduce(or_, parts, F.lit(False)) if len(parts) != 1 else parts[0]


def _in_codes(df: DataFrame, split: Split, codes: Sequence[int]) -> Column:
    value = column(df, split.attribute)
    if isinstance(split, ValueSplit):
        listed = [split.values[c] for c in codes if c < len(split.values)]
        if len(split.values) not in codes:
            return value.isin(*listed)
        missing = [v for c, v in enumerate(split.values) if c not in codes]
        return value.isNull() | ~value.isin(*missing) if missing else F.lit(True)
    return _in_ranges(df, split, value, codes)


def _in_ranges(df: DataFrame, split: RangeSplit, value: Column, codes: Sequence[int]) -> Column:
    number, missing = _number(df, split.attribute, value)
    parts = [missing] if split.codes - 1 in codes else []
    for c in codes:
        if c < split.codes - 1:
            low = [number > F.lit(split.bounds[c - 1])] if c else []
            high = [number <= F.lit(split.bounds[c])] if c < len(split.bounds) else []
            parts.append(reduce(and_, [~missing, *low, *high]))
    return _any(parts)


def _number(df: DataFrame, name: str, value: Column) -> tuple[Column, Column]:
    """The number that ranges are stated in, and whether it is missing (Spark sorts NaN above all numbers)."""
    kind = next((f.dataType for f in df.schema.fields if f.name == name), None)
    if isinstance(kind, DateType):
        return F.unix_date(value), value.isNull()
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        return F.unix_micros(value.cast("timestamp")), value.isNull()
    if isinstance(kind, (FloatType, DoubleType)):
        return value, value.isNull() | F.isnan(value)
    return value, value.isNull()
