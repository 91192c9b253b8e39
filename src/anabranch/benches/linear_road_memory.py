"""Joins of Linear Road, for `anabranch bench constraints`: the memory of Table 6.3, with constraints and without."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.errors import InternalError
from anabranch.linear_road_joins import QUICK, Drive, cost, joins
from anabranch.measure import Bar, at_most, informed


def linear_road(spark: SparkSession, folder: Path, quick: bool) -> list[Bar]:
    """Rows that three joins of relations hold over the last quarter of three hours, and what becomes of results."""
    bars = list[Bar]()
    for name, inputs in joins(QUICK if quick else Drive()).items():
        off, discard, exact = (cost(inputs, mode) for mode in ("off", "discard", "exact"))
        if exact.results != off.results:
            raise InternalError(f"{name}: {off.results} results became {exact.results}")
        told = f"{off.rows:,.0f} rows without, {off.results:,} results"
        bars += [
            at_most(f"Linear Road, {name}: memory, with / without", discard.rows / off.rows, 0.15, told),
            at_most(f"Linear Road, {name}: results missing", off.results - discard.results, 0, "exact: none"),
            informed(f"Linear Road, {name}: time, with / without", discard.seconds / off.seconds),
        ]
    return bars
