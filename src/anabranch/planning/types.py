"""Types of columns where operators decide them: aggregates, and what is compared with one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.logical_plan import Aggregation
from anabranch.model.names import quoted
from anabranch.operators.aggregate_functions import FUNCTIONS, Needs
from anabranch.operators.exact_sums import MOST_DIGITS, is_bundle

Role: TypeAlias = Literal["key", "member", "item", "aggregate"]
"""What a column is where its type is wrong: a key of a join, of In or Exists, an item of Select, an aggregate."""

CAST = "cast one of them, as in Cast(k As String)"
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}  # as decimals, in Spark
_SQL = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


class TypeProblem(QueryError):
    """Types that do not fit; the place in the query is added by `KnowsPlaces.placed`."""


@runtime_checkable
class KnowsPlaces(Protocol):
    """A query that knows where its parts stand in its text."""

    def placed(self, error: QueryError, role: Role, columns: Sequence[str]) -> QueryError:
        """The error, with the place of some columns."""


def aggregate_type(aggregation: Aggregation, argument: pa.DataType | None) -> pa.DataType:
    """The type of an aggregate, as in Spark.

    >>> aggregate_type(Aggregation("n", "sum", "a"), pa.int32())
    DataType(int64)
    """
    function = FUNCTIONS[aggregation.function]
    compares = aggregation.distinct or function.needs is Needs.VALUES
    if compares and argument is not None and pa.types.is_nested(argument) and not is_bundle(argument):
        of = f"{function.name} of distinct values" if aggregation.distinct else function.name
        raise TypeProblem(
            f"{of} compares values, and its argument is of type {sql_name(argument)}",
            hint="take a part of it, or cast it to a string, as in to_json(a)",
        )
    if argument is None:  # rows are counted
        return pa.int64()
    argument = pa.int64() if is_bundle(argument) else argument
    if function.numeric and not _is_number(argument):
        raise TypeProblem(
            f"{function.name} needs numbers, and its argument is of type {sql_name(argument)}",
            hint="cast it, or use count, min or max",
        )
    return function.result_type(argument)


def common_type(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The type in which both can be compared.

    Integers and decimals are compared as decimals, in which all of them are exact.

    >>> common_type(pa.int32(), pa.float64())
    DataType(double)
    >>> common_type(pa.int64(), pa.decimal128(12, 2))
    Decimal128Type(decimal128(22, 2))
    """
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if first in _INTEGERS and second in _INTEGERS:
        return max(first, second, key=_INTEGERS.index)
    if _is_exact(first) and _is_exact(second):
        return _common_decimal(first, second)
    if _is_number(first) and _is_number(second):
        return pa.float64()
    if {pa.types.is_date(first), pa.types.is_date(second)} == {True, False} and any(
        pa.types.is_timestamp(each) for each in (first, second)
    ):
        return pa.timestamp("us", "UTC")
    raise TypeProblem(f"{sql_name(first)} and {sql_name(second)} have no common type", hint=CAST)


def common_key_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type in which columns are compared that are all equal to one another.

    Doubles stand for many integers: two of these, which are compared as such elsewhere, must not meet as doubles.
    """
    common = kinds[0]
    for kind in kinds[1:]:
        common = common_type(common, kind)
    if pa.types.is_floating(common) and sum(map(_is_exact, kinds)) > 1:
        what = "whole numbers and decimals would be compared as doubles, as they all equal a double"
        raise TypeProblem(what, hint="cast one of them, as in Cast(k As Double) = x")
    return common


def _common_decimal(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The decimal type that holds all values of both."""
    (whole, scale), (other_whole, other_scale) = _places(first), _places(second)
    digits = max(whole, other_whole) + max(scale, other_scale)
    if digits > MOST_DIGITS:
        what = f"a {sql_name(first)} and a {sql_name(second)} need {digits} digits to be compared"
        raise TypeProblem(f"{what}, and there are {MOST_DIGITS}", hint=CAST.replace("String", "Decimal(20, 2)"))
    return pa.decimal128(digits, max(scale, other_scale))


def _places(kind: pa.DataType) -> tuple[int, int]:
    """Digits before and behind the point."""
    return (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else (_DIGITS[kind], 0)


def sql_name(kind: pa.DataType) -> str:
    """The name of a type in SQL, of those at least that values are cast to.

    >>> sql_name(pa.decimal128(12, 2))
    'decimal(12, 2)'
    >>> sql_name(pa.list_(pa.struct({"p": pa.int64(), "q": pa.map_(pa.string(), pa.date32())})))
    'array<struct<`p`: bigint, `q`: map<string, date>>>'
    """
    if pa.types.is_list(kind):
        return f"array<{sql_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{quoted(each.name)}: {sql_name(each.type)}' for each in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{sql_name(kind.key_type)}, {sql_name(kind.item_type)}>"
    return f"decimal({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else _SQL.get(kind, str(kind))


def _is_exact(kind: pa.DataType) -> bool:
    return kind in _INTEGERS or bool(pa.types.is_decimal(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
