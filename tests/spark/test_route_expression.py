"""Routes as columns of Spark: whatever tells rows apart, Spark sends each row where Arrow sends it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.mesh.attributes import numeric
from anabranch.mesh.classifier import DecisionTree
from anabranch.mesh.nodes import Among, AtMost, Branch, Leaf, Node
from anabranch.mesh.tree_routes import TreeRoutes
from anabranch.model.attributes import LONGEST_TEXT, is_discrete
from anabranch.routing.route_plan import Classifier
from anabranch.routing.value_classes import Split, ValueClasses, coarse, pairs, splits
from anabranch.spark.learned.candidate_attributes import attribute
from anabranch.spark.native.route_expression import routed

pytestmark = pytest.mark.spark

ROWS = 240
ROUTES = 3
CLASSIFIERS = 20
TOGETHER = 2
INFINITE = float("inf")
ZONE = "America/New_York"  # with daylight saving
SCHEMA = (
    "text string, flag boolean, whole bigint, few int, real double, some double, single float, day date, "
    "week date, moment timestamp, hour timestamp, local timestamp_ntz, shift timestamp_ntz, price decimal(12,3)"
)
REALS = [0.0, -0.0, 0.1, -2.5, 1e300, INFINITE, -INFINITE, float("nan")]
STEP = timedelta(days=11, hours=7, microseconds=13)
EDGES = [  # of daylight saving, and of what Arrow knows of it
    *(datetime(2026, 3, 8, 6, 59, 59, tzinfo=UTC), datetime(2026, 3, 8, 7, tzinfo=UTC)),
    *(datetime(2026, 11, 1, 5, 30, tzinfo=UTC), datetime(2026, 11, 1, 6, 30, tzinfo=UTC)),
    *(datetime(1874, 5, 1, 3, 2, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    *(datetime(2037, 7, 1, 3, 30, tzinfo=UTC), datetime(2039, 7, 1, 3, 30, tzinfo=UTC)),
    datetime(9999, 12, 30, 12, tzinfo=UTC),
]


def values(draw: random.Random) -> tuple[Any, ...]:
    """One row; there is NULL in every column, and what numbers are not in those of floats."""
    many, few = draw.randrange(40), draw.randrange(5)
    made = (
        *(
            draw.choice([f"t{few}", "t" * draw.choice([LONGEST_TEXT, LONGEST_TEXT + 1, 2000])]),
            draw.random() < 0.5,
            draw.randrange(-(2**60), 2**60),
            few,
        ),
        *(
            draw.choice([*REALS, *(draw.gauss(0, 3) for _ in range(20))]),
            draw.choice(REALS),
            many / 7,
        ),
        *(date(2026, 1, 1) + many * STEP, date(2026, 1, 1) + few * STEP),
        *(
            draw.choice([datetime(2026, 1, 1, tzinfo=UTC) + many * STEP, *EDGES[: 1 + many % 9]]),
            datetime(2026, 1, 1, tzinfo=UTC) + few * STEP,
        ),
        *(datetime(2026, 1, 1) + many * STEP, datetime(2026, 1, 1) + few * STEP),  # noqa: DTZ001 - local time
        Decimal(draw.randrange(-(10**6), 10**6)) / 1000,
    )
    return tuple(None if draw.random() < 0.08 else value for value in made)


def classes(draw: random.Random, attributes: dict[str, pa.Array]) -> Iterator[ValueClasses]:
    """Splits of single attributes and of pairs, with any cell on any route."""
    found = [s for name, array in attributes.items() for s in splits(name, array)]
    both = pairs([coarse(s) for s in found])
    while True:
        chosen: tuple[Split, ...] = draw.choice(both) if draw.random() < 0.4 else (draw.choice(found),)
        count = int(np.prod([s.codes for s in chosen]))
        yield ValueClasses(chosen, np.array([draw.randrange(ROUTES) for _ in range(count)]))


def trees(draw: random.Random, attributes: dict[str, pa.Array]) -> Iterator[TreeRoutes]:
    """Tests whose thresholds are values, what lies between two of them, and the infinite ones."""

    def test(name: str) -> Among | AtMost:
        if is_discrete(attributes[name].type):
            listed = sorted({v for v in attributes[name].to_pylist() if v is not None})
            return Among(name, tuple(draw.sample(listed, draw.randrange(1, len(listed)))))
        known = [v for v in numeric(attributes[name]).tolist() if v == v and abs(v) < INFINITE]
        small = [v for v in known if abs(v) < 2**53]  # as whole numbers: days, and microseconds since 1970
        if small and draw.random() < 0.3:
            return Among(name, tuple({int(v) for v in draw.choices(small, k=draw.randrange(1, 20))}))
        one, other = draw.sample(known, 2)
        below = [-INFINITE] if pa.types.is_floating(attributes[name].type) else []
        return AtMost(name, draw.choice([one, one / 2 + other / 2, INFINITE, *below]))

    def grown(depth: int) -> Node:
        if depth == 0:
            return Leaf(draw.randrange(ROUTES))
        return Branch(test(draw.choice(list(attributes))), grown(depth - 1), grown(draw.randrange(depth)))

    while True:
        yield TreeRoutes(DecisionTree(grown(draw.randrange(1, 4))))


def taken(df: DataFrame, classifiers: Sequence[Classifier]) -> list[list[set[int]]]:
    """The routes of all rows by every classifier, in one job; a few share a stage, as many as its code has room for.

    Every row is there once for each route, and on a route the one predicate decides that asks for its number.
    """
    loud = df.toDF(*(name.upper() for name in df.columns))  # to Spark the same names
    asked = loud.crossJoin(df.sparkSession.range(ROUTES).withColumnRenamed("id", "route"))
    terms, orders = [F.col("route") == number for number in range(ROUTES)], [(number,) for number in range(ROUTES)]
    parts = [
        asked.select("row", "route", F.lit(first).alias("first"), F.array(*passes).alias("passes"))
        for first in range(0, len(classifiers), TOGETHER)
        for passes in [[routed(asked, c, orders, terms) for c in classifiers[first : first + TOGETHER]]]
    ]
    found: list[list[set[int]]] = [[set() for _ in range(ROWS)] for _ in classifiers]
    for row, route, first, passes in reduce(DataFrame.unionAll, parts).collect():
        for place, passed in enumerate(passes):
            if passed:
                found[first + place][row].add(route)
    return found


@pytest.mark.parametrize("make", [classes, trees])
def test_spark_sends_every_row_where_arrow_sends_it(
    spark: SparkSession, settings_of: Callable[..., Any], make: Callable[..., Iterator[Classifier]]
) -> None:
    draw = random.Random(7)
    with settings_of(spark__sql__session__timeZone=ZONE):
        given = [(row, *values(draw)) for row in range(ROWS)]
        rows = spark.createDataFrame(given, f"row int, {SCHEMA}").coalesce(1)
        table = rows.sort("row").drop("row").toArrow()
        attributes = {name: attribute(table[name].combine_chunks(), ZONE) for name in table.column_names}
        made = make(draw, attributes)
        classifiers = [next(made) for _ in range(CLASSIFIERS)]
        for classifier, found in zip(classifiers, taken(rows, classifiers), strict=True):
            wanted = classifier.classify(attributes).tolist()
            differing = [row for row in range(ROWS) if found[row] != {wanted[row]}]
            sample = [tuple(attributes[n][row] for n in classifier.attributes) for row in differing[:5]]
            assert not differing, (classifier, sample)
