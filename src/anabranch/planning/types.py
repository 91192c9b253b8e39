"""Types of columns where operators decide them: aggregates, and what is compared with one another."""

from __future__ import annotations

import pyarrow as pa

from anabranch.cells.exact_sums import is_bundle
from anabranch.errors import QueryError
from anabranch.model.continuous import Aggregation

MOST_DIGITS = 38
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_SQL = {
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.timestamp("us", "UTC"): "timestamp",
}


def aggregate_type(aggregation: Aggregation, argument: pa.DataType | None) -> pa.DataType:
    """The type of an aggregate, as in Spark.

    >>> aggregate_type(Aggregation("n", "sum", "a"), pa.int32())
    DataType(int64)
    """
    function = aggregation.function
    if function == "count":
        return pa.int64()
    assert argument is not None, f"{function} has an argument"
    argument = pa.int64() if is_bundle(argument) else argument
    if function in ("min", "max", "quantile"):
        return argument
    if not _is_number(argument):
        raise QueryError(
            f"{function} needs numbers, and its argument is of type {argument}",
            hint="cast it, or use count, min or max",
        )
    if pa.types.is_decimal(argument) and function in ("sum", "avg"):
        more, finer = (10, 0) if function == "sum" else (4, 4)
        return pa.decimal128(min(MOST_DIGITS, argument.precision + more), min(MOST_DIGITS, argument.scale + finer))
    return pa.int64() if function == "sum" and pa.types.is_integer(argument) else pa.float64()


def common_type(first: pa.DataType, second: pa.DataType, what: str) -> pa.DataType:
    """The type in which both can be compared.

    >>> common_type(pa.int32(), pa.float64(), "k = j")
    DataType(double)
    """
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if first in _INTEGERS and second in _INTEGERS:
        return max(first, second, key=_INTEGERS.index)
    if _is_number(first) and _is_number(second):
        return pa.float64()
    if {pa.types.is_date(first), pa.types.is_date(second)} == {True, False} and any(
        pa.types.is_timestamp(each) for each in (first, second)
    ):
        return pa.timestamp("us", "UTC")
    raise QueryError(
        f"{what}: a {first} and a {second} do not compare", hint="cast one of them, as in Cast(k As Long) = j"
    )


def sql_name(kind: pa.DataType) -> str:
    """The name of a common type in SQL."""
    return _SQL[kind]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
