"""Routes as one boolean column: a CASE over the classifier's tests, with an AND-chain per route.

Spark compares the terms of an AND without regard to their order, and folds branches that it finds equal; so each branch
ends with a condition of its own that always holds and that the optimizer cannot see through. It is the last of the
chain, and only rows that pass everything pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from itertools import groupby
from math import floor, inf
from operator import and_, or_
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.errors import InternalError
from anabranch.mesh.nodes import Among, Leaf, Node, Test
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.arrays import Order
from anabranch.model.attributes import LAST_MICROSECOND, LONGEST_TEXT, ClockPart
from anabranch.routing.route_plan import Classifier
from anabranch.routing.value_classes import RangeSplit, Split, ValueClasses, runs
from anabranch.spark.names import column

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local times have no zone


def routed(df: DataFrame, classifier: Classifier, orders: Sequence[Order], terms: Sequence[Column]) -> Column:
    """The condition that a row passes all terms, tried in the order of its route."""
    attributes = _attributes(df, classifier.attributes)
    marked = attributes[classifier.attributes[0]].value
    chains = [_chain([terms[f] for f in order], _always(marked, i)) for i, order in enumerate(orders)]
    case: Column | None = None
    for route, chain in enumerate(chains[1:], start=1):
        taken = _taken(attributes, classifier, route)
        case = F.when(taken, chain) if case is None else case.when(taken, chain)
    return chains[0] if case is None else case.otherwise(chains[0])


def _chain(terms: Sequence[Column], marker: Column) -> Column:
    return reduce(and_, [*terms, marker])


def _always(attribute: Column, route: int) -> Column:
    """True for every row, and different for every route."""
    return F.coalesce(F.length(attribute.cast("string")), F.lit(0)) > F.lit(-1 - route)


@dataclass(frozen=True)
class _Attribute:
    """A column and its type: compared as Arrow compares its values."""

    value: Column
    kind: DataType

    def missing(self) -> Column:
        """Whether there is nothing to compare; Spark sorts NaN above all numbers.

        Long texts count as missing; there is no need to say so where a text is compared with short ones.
        """
        unknown = self.value.isNull()
        if isinstance(self.kind, StringType):
            return unknown | (F.octet_length(self.value) > LONGEST_TEXT)
        return unknown | F.isnan(self.value) if self._floating() else unknown

    def among(self, values: Sequence[Any]) -> Column:
        if isinstance(self.kind, TimestampNTZType):
            return self.value.isin(*map(_local_time, values))
        return self._comparable().isin(*values)

    def among_numbers(self, values: Sequence[Any]) -> Column:
        """Like `among`; dates are stated in days, timestamps in microseconds, both since 1970."""
        if isinstance(self.kind, TimestampNTZType):
            return self.value.isin(*map(_local_micros, values))
        return self._number().isin(*values)

    def at_most(self, bound: float) -> Column:
        """Ranges of dates are stated in days, of timestamps in microseconds, both since 1970."""
        if isinstance(self.kind, TimestampNTZType):
            return self.value <= _local_micros(floor(bound))
        return self._number() <= F.lit(bound)

    def _number(self) -> Column:
        if isinstance(self.kind, DateType):
            return F.unix_date(self.value)
        return F.unix_micros(self.value) if isinstance(self.kind, TimestampType) else self._comparable()

    def part(self, part: ClockPart) -> _Attribute:
        """The hour or the weekday, where Arrow knows it, too."""
        found = F.hour(self.value) if part == "hour" else F.weekday(self.value)
        if isinstance(self.kind, TimestampType):
            found = F.when(F.unix_micros(self.value).between(0, LAST_MICROSECOND), found)
        return _Attribute(found, IntegerType())

    def _comparable(self) -> Column:
        """A set of many values tells -0.0 from 0.0, one of few does not."""
        return self.value + F.lit(0.0) if self._floating() else self.value

    def _floating(self) -> bool:
        return isinstance(self.kind, (FloatType, DoubleType))


def _attributes(df: DataFrame, names: Sequence[str]) -> dict[str, _Attribute]:
    columns = [column(df, name) for name in names]
    kinds = [field.dataType for field in df.select(*columns).schema.fields]
    return {name: _Attribute(*found) for name, found in zip(names, zip(columns, kinds, strict=True), strict=True)}


def _local_time(time: datetime) -> Column:
    """Literals of Python's times without a zone would be read in the zone of the machine."""
    return F.lit(time.isoformat()).cast("timestamp_ntz")


def _local_micros(since_1970: int) -> Column:
    return _local_time(EPOCH) + F.lit(timedelta(microseconds=since_1970))


def _taken(attributes: Mapping[str, _Attribute], classifier: Classifier, route: int) -> Column:
    if isinstance(classifier, TreeRoutes):
        return _any(list(_leads_to(attributes, classifier.tree.root, route)))
    if isinstance(classifier, ValueClasses):
        return _in_classes(attributes, classifier, route)
    raise InternalError(f"no column expression for a {type(classifier).__name__}")


def _leads_to(
    attributes: Mapping[str, _Attribute], node: Node, route: int, path: tuple[Column, ...] = ()
) -> Iterator[Column]:
    """One condition for every leaf of a route."""
    if isinstance(node, Leaf):
        if node.label == route:
            yield reduce(and_, path, F.lit(True))
        return
    holds = F.coalesce(_answer(attributes[node.test.attribute], node.test), F.lit(False))
    yield from _leads_to(attributes, node.yes, route, (*path, holds))
    yield from _leads_to(attributes, node.no, route, (*path, ~holds))


def _answer(attribute: _Attribute, test: Test) -> Column:
    if isinstance(test, Among):
        return attribute.among_numbers(test.values) if test.numeric else attribute.among(test.values)
    known = ~attribute.missing()
    return known if test.threshold == inf else known & attribute.at_most(test.threshold)


def _in_classes(attributes: Mapping[str, _Attribute], classifier: ValueClasses, route: int) -> Column:
    shape = [s.codes for s in classifier.splits]
    classes = np.argwhere(classifier.route_of.reshape(shape) == route)
    if len(shape) == 1:
        return _in_codes(attributes, classifier.splits[0], classes[:, 0].tolist())
    first, second = classifier.splits
    parts = [
        _in_codes(attributes, first, [code]) & _in_codes(attributes, second, [int(c[1]) for c in group])
        for code, group in groupby(classes.tolist(), key=lambda c: int(c[0]))
    ]
    return _any(parts)


def _any(parts: Sequence[Column]) -> Column:
    return reduce(or_, parts, F.lit(False)) if len(parts) != 1 else parts[0]


def _in_codes(attributes: Mapping[str, _Attribute], split: Split, codes: Sequence[int]) -> Column:
    attribute = attributes[split.attribute]
    if split.part is not None:
        attribute = attribute.part(split.part)
    if isinstance(split, RangeSplit):
        return _in_ranges(attribute, split, codes)
    listed = [split.values[c] for c in codes if c < len(split.values)]
    if len(split.values) not in codes:
        return attribute.among(listed)
    missing = [v for c, v in enumerate(split.values) if c not in codes]
    return attribute.value.isNull() | ~attribute.among(missing) if missing else F.lit(True)


def _in_ranges(attribute: _Attribute, split: RangeSplit, codes: Sequence[int]) -> Column:
    missing = attribute.missing()
    parts = [missing] if split.codes - 1 in codes else []
    for first, last in runs([c for c in codes if c < split.codes - 1]):
        low = [~attribute.at_most(split.bounds[first - 1])] if first else []
        high = [attribute.at_most(split.bounds[last])] if last < len(split.bounds) else []
        parts.append(reduce(and_, [~missing, *low, *high]))
    return _any(parts)
