"""The table of aggregate functions: their names in SQL, the types that they take and give, and how they are computed.

The binder, the planner and the operator read this table: to add an aggregate function is to add an entry. What an entry
needs of the values of a group is held by `totals.py` (counts, sums, squares) and `order_statistics.py` (the values
themselves, sorted).

>>> sql_name = SQL_NAMES["mean"]
>>> sql_name.function.name, sql_name.function.result_type(pa.decimal128(10, 2))
('avg', Decimal128Type(decimal128(14, 6)))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.logical_plan import Aggregation
from anabranch.operators.elements import Rows
from anabranch.operators.exact_sums import MOST_DIGITS
from anabranch.operators.totals import Result, Running


class Needs(IntEnum):
    """What has to be held of the values of a group."""

    COUNTS = 0
    SUMS = 1
    SQUARES = 2
    VALUES = 3


Compute: TypeAlias = Callable[[Running, Aggregation, pa.DataType], Result]
"""The values of an aggregate after every step, from what is held then; the type is that of the result."""


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate function of plans.

    Parameters
    ----------
    name
        In plans (`Aggregation.function`), and in what people read.
    needs
        What has to be held of the values.
    compute
        The result.
    result_type
        By the type of the argument.
    numeric
        Whether the argument has to be a number.
    additive
        Whether counts and sums of parts are enough: then rows that enter and leave a window together are summed up
        before they are sent to the operator (`Backend.sum_up`).
    never_null
        Whether it has a value also where there are no values to aggregate.
    fraction
        Whether it has a parameter from 0 to 1.
    distinct
        Whether it can be asked about distinct values.
    """

    name: str
    needs: Needs
    compute: Compute
    result_type: Callable[[pa.DataType], pa.DataType]
    numeric: bool = True
    additive: bool = False
    never_null: bool = False
    fraction: bool = False
    distinct: bool = True


@dataclass(frozen=True)
class SqlName:
    """A name under which SQL knows an aggregate function.

    Parameters
    ----------
    function
        The function of plans.
    distinct
        Whether each value counts once, as in `approx_count_distinct`.
    condition
        Whether the argument is a condition, as in `count_if`: rows count for which it is true.
    most_arguments
        How many arguments a call may have.
    """

    function: AggregateFunction
    distinct: bool = False
    condition: bool = False
    most_arguments: int = 1


def _long(_: pa.DataType) -> pa.DataType:
    return pa.int64()


def _double(_: pa.DataType) -> pa.DataType:
    return pa.float64()


def _argument(kind: pa.DataType) -> pa.DataType:
    return kind


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(MOST_DIGITS, kind.precision + 10), kind.scale)
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()


def _average_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(MOST_DIGITS, kind.precision + 4), min(MOST_DIGITS, kind.scale + 4))
    return pa.float64()


def quantile_ranks(counts: Rows, fraction: float) -> Rows:
    """The least numbers of values that are at least a fraction of all of them, and at least one.

    >>> quantile_ranks(np.array([0, 1, 10]), 0.5).tolist()
    [0, 1, 5]
    """
    ranks = np.ceil(counts * fraction).astype(np.int64)
    number = np.maximum(counts, 1)
    ranks -= (ranks - 1) / number >= fraction
    ranks += ranks / number < fraction
    return np.asarray(np.minimum(np.maximum(ranks, 1), counts))


COUNT = AggregateFunction(
    "count",
    Needs.COUNTS,
    lambda run, *_: run.count(),
    _long,
    numeric=False,
    additive=True,
    never_null=True,
)
SUM = AggregateFunction("sum", Needs.SUMS, lambda run, each, _: run.sum(each.name), _sum_type, additive=True)
AVERAGE = AggregateFunction(
    "avg", Needs.SUMS, lambda run, each, kind: run.average(each.name, kind), _average_type, additive=True
)
LEAST = AggregateFunction(
    "min", Needs.VALUES, lambda run, *_: run.ranked(np.minimum(run.counts, 1)), _argument, numeric=False
)
GREATEST = AggregateFunction("max", Needs.VALUES, lambda run, *_: run.ranked(run.counts), _argument, numeric=False)
SAMPLE_DEVIATION = AggregateFunction("stddev_samp", Needs.SQUARES, lambda run, *_: run.deviation(1), _double)
DEVIATION = AggregateFunction("stddev_pop", Needs.SQUARES, lambda run, *_: run.deviation(0), _double)
SAMPLE_VARIANCE = AggregateFunction("var_samp", Needs.SQUARES, lambda run, *_: run.variance(1), _double)
VARIANCE = AggregateFunction("var_pop", Needs.SQUARES, lambda run, *_: run.variance(0), _double)
QUANTILE = AggregateFunction(
    "quantile",
    Needs.VALUES,
    lambda run, each, _: run.ranked(quantile_ranks(run.counts, each.parameter or 0.0)),
    _argument,
    numeric=False,
    fraction=True,
    distinct=False,
)

SQL_NAMES: dict[str, SqlName] = {
    "count": SqlName(COUNT),
    "count_if": SqlName(COUNT, condition=True),
    "approx_count_distinct": SqlName(COUNT, distinct=True, most_arguments=2),
    "sum": SqlName(SUM),
    "avg": SqlName(AVERAGE),
    "mean": SqlName(AVERAGE),
    "min": SqlName(LEAST),
    "max": SqlName(GREATEST),
    "std": SqlName(SAMPLE_DEVIATION),
    "stddev": SqlName(SAMPLE_DEVIATION),
    "stddev_samp": SqlName(SAMPLE_DEVIATION),
    "stddev_pop": SqlName(DEVIATION),
    "variance": SqlName(SAMPLE_VARIANCE),
    "var_samp": SqlName(SAMPLE_VARIANCE),
    "var_pop": SqlName(VARIANCE),
    "approx_percentile": SqlName(QUANTILE, most_arguments=3),
    "percentile_approx": SqlName(QUANTILE, most_arguments=3),
}
"""Aggregate functions by their names in SQL, which are also those that errors list."""

FUNCTIONS: dict[str, AggregateFunction] = {each.function.name: each.function for each in SQL_NAMES.values()}
"""Aggregate functions by their names in plans."""
