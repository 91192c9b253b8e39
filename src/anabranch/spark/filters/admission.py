"""Checks the input of a filter before any job: columns and their types, functions that can be pickled, the session.

An error names the predicate and the column, and has a hint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, CalendarIntervalType, DataType, StructType, YearMonthIntervalType

from anabranch.errors import QueryError, UnknownColumn
from anabranch.model.build import is_column
from anabranch.model.predicates import LookupPredicate, Predicate, PythonPredicate
from anabranch.spark.filters.undecided import ERROR_COLUMN, PREDICATE_COLUMN
from anabranch.spark.names import folding
from anabranch.spark.quiet_errors import quiet_errors
from anabranch.spark.schemas import arrow_type


def input_types(df: DataFrame, members: Sequence[Predicate], kept: dict[str, DataType]) -> dict[str, DataType]:
    """Columns that enter the worker, with their types; kept ones are computed there."""
    types: dict[str, DataType] = {}
    for name in kept:
        fold = folding(df.sparkSession)
        if fold(name) in map(fold, df.columns):
            raise QueryError(
                f"the kept column {name!r} is in the input already", hint="choose another name for keep=..."
            )
    for p in members:
        for name in p.reads:
            if name not in kept and name not in types:
                types[name] = column_type(df, name, [*df.columns, *kept], f"predicate {p.name!r}")
                _require_sendable(p, name, types[name])
        collation = getattr(types.get(p.column), "collation", None) if isinstance(p, LookupPredicate) else None
        if collation not in (None, "UTF8_BINARY"):
            raise QueryError(
                f"{p.name!r} looks up values with the collation {collation}",
                hint="look-ups compare texts byte by byte: cast the column to string, or join instead",
            )
    return types


def _require_sendable(p: Predicate, name: str, kind: DataType) -> None:
    if any(isinstance(part, (YearMonthIntervalType, CalendarIntervalType)) for part in _parts(kind)):
        raise QueryError(
            f"predicate {p.name!r} reads column {name!r} of type {kind.simpleString()}, which Python cannot represent",
            hint="compute numbers from it before the filter, such as extract(year from ...)",
        )


def _parts(kind: DataType) -> Iterator[DataType]:
    """A type and all types within it."""
    yield kind
    inner = [f.dataType for f in kind.fields] if isinstance(kind, StructType) else []
    inner += [getattr(kind, part) for part in ("elementType", "keyType", "valueType") if hasattr(kind, part)]
    for part in inner:
        yield from _parts(part)


def require_room_for_errors(df: DataFrame) -> None:
    """Refuse an input that has one of the columns that are added to rows which are set aside."""
    taken = [name for name in df.columns if name.lower() in (PREDICATE_COLUMN, ERROR_COLUMN)]
    if taken:
        raise QueryError(
            f'the input has a column {taken[0]!r}, which on_error="quarantine" adds to rows that are set aside',
            hint="rename or drop it before the filter",
        )


def column_names(attributes: Any) -> tuple[str, ...]:
    """The columns that were named, one or several."""
    names = (attributes,) if isinstance(attributes, str) else attributes
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise QueryError(f"attributes is {attributes!r}", hint='give names of columns: attributes=["zone", "size"]')
    return tuple(names)


def column_type(df: DataFrame, name: str, columns: Sequence[str], where: str) -> DataType:
    """The type of the column that a user means by a name."""
    alike = [f for f in df.schema.fields if f.name.lower() == name.lower()]
    if [f.name for f in alike] == [name]:
        return alike[0].dataType
    fold = folding(df.sparkSession)
    matches = [f.dataType for f in alike if fold(f.name) == fold(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise QueryError(f"column {name!r} in {where} is ambiguous: the input has it {len(matches)} times")
    if "." not in name and "`" not in name:
        raise UnknownColumn(name, columns, where=where)
    try:
        with quiet_errors():
            return df.select(F.col(name)).schema.fields[0].dataType
    except AnalysisException:
        raise UnknownColumn(name, columns, where=where) from None


def data_type(p: PythonPredicate) -> DataType:
    """What a predicate returns, as a type of Spark."""
    if p.returns is None:
        return BooleanType()
    if isinstance(p.returns, DataType):
        return p.returns
    try:
        return DataType.fromDDL(str(p.returns))
    except Exception as error:
        raise QueryError(
            f"predicate {p.name!r} returns {p.returns!r}, which is not a Spark type",
            hint='use a name such as "double" or "array<string>"',
        ) from error


def value_type(p: PythonPredicate) -> pa.DataType:
    """What a predicate returns, as a type of Arrow."""
    try:
        return arrow_type(data_type(p))
    except PySparkException as error:
        raise QueryError(
            f"predicate {p.name!r} returns {p.returns!r}, which Python functions cannot return",
            hint='use a type such as "string", "double" or "array<string>"',
        ) from error


def require_picklable(p: Predicate) -> None:
    """Refuse a predicate whose function cannot be sent to the workers."""
    if not isinstance(p, PythonPredicate):
        return
    try:
        cloudpickle.dumps((p.function, p.test))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise QueryError(
            f"predicate {p.name!r} cannot be sent to the workers: {type(error).__name__}: {error}",
            hint="its function holds something that cannot be pickled (a lock, connection, session or open file); "
            "create that inside the function, or in an Iterator-style function before its loop",
        ) from error


def require_frame(df: DataFrame) -> None:
    """Refuse what is not a DataFrame of Spark."""
    if is_column(df) or isinstance(df, Predicate):
        raise QueryError(
            f"a filter needs a Spark DataFrame, not {type(df).__name__}",
            hint="the DataFrame comes first: ab.where(df, predicate, ...)",
        )
    if not hasattr(df, "sparkSession"):
        found = f"{type(df).__module__.partition('.')[0]}.{type(df).__name__}"
        raise QueryError(f"a filter needs a Spark DataFrame, not {found}", hint="make one with spark.createDataFrame")
