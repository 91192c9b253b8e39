"""Expressions of a query are typed before it runs: Spark casts texts to numbers, and fails at the first that is none.

Spark tells the types of values that meet in an expression. They need a type that holds them all without a cast that may
fail; a text in quotes may stand for any value that it can be read as.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from anabranch.cql.bound_query import BoundQuery, Meeting, Written, at_place, shown
from anabranch.errors import QueryError
from anabranch.logical_plan import Query, Scalar
from anabranch.planning.types import CAST
from anabranch.spark.continuous.views import BEGINS
from anabranch.spark.quiet_errors import quiet_errors

_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] *")
_UNRESOLVED = re.compile(r"^Cannot resolve .*? due to data type mismatch: ")
_PLACE = re.compile(r"\s*(SQLSTATE: |; line \d|\(line \d).*")
TYPES = "check the types of its values"


def check_types(session: SparkSession, query: Query, scalars: Sequence[Scalar], rows: str) -> None:
    """Refuse expressions over some rows (a text that selects them) that have no type, or in which types do not fit."""
    if not isinstance(query, BoundQuery):
        return
    known = {each.sql: query.expressions[each.sql] for each in scalars if each.sql in query.expressions}
    values = [value for each in known.values() for met in each.meetings for value, _ in met.values]
    if not known:
        return
    types = _types(session, [*known, *values], rows)
    if types is None:
        for sql, found in known.items():
            _explain(session, query, sql, found, rows)
        return
    for sql, each in known.items():
        for met in each.meetings:
            _check_meeting(session, met, [types[value] for value, _ in met.values])
        if each.condition and _kind(types[sql]) != "boolean" and not isinstance(types[sql], T.NullType):
            what = f"a condition is needed, and this is a {types[sql].simpleString()}"
            raise at_place(QueryError(what, hint="compare it, as in a > 0"), each.place)


def said(error: AnalysisException, query: Query) -> str:
    """What Spark says about a query, in the user's names and without the places in texts that the user never saw."""
    line = next((each for each in str(error).splitlines() if each.strip()), "")
    return shown(_UNRESOLVED.sub("", _PLACE.sub("", _CONDITION.sub("", line))), query).rstrip(" .")


def _types(session: SparkSession, texts: Sequence[str], rows: str) -> dict[str, T.DataType] | None:
    """The types of texts, or None if some have none."""
    names = dict.fromkeys(texts)
    listed = ", ".join(f"{text} AS `{number}`" for number, text in enumerate(names))
    try:
        with quiet_errors():
            schema = session.sql(f"SELECT {listed} FROM ({rows})", {BEGINS: True}).schema
    except AnalysisException:
        return None
    return dict(zip(names, (each.dataType for each in schema), strict=True))


def _explain(session: SparkSession, query: Query, sql: str, found: Written, rows: str) -> None:
    try:
        with quiet_errors():
            session.sql(f"SELECT {sql} FROM ({rows})", {BEGINS: True})
    except AnalysisException as error:
        raise at_place(QueryError(said(error, query), hint=TYPES), found.place) from None


def _check_meeting(session: SparkSession, met: Meeting, types: Sequence[T.DataType]) -> None:
    typed = [kind for kind, (_, is_text) in zip(types, met.values, strict=True) if not is_text]
    for kind in typed[1:]:
        numbers = met.computes and "text" not in (_kind(typed[0]), _kind(kind))
        if not numbers and not fit(typed[0], kind):
            what = f"{typed[0].simpleString()} and {kind.simpleString()} have no common type"
            raise at_place(QueryError(what, hint=CAST), met.place)
    other = next((each for each in typed if _kind(each) not in (None, "text")), None)
    if other is None or (met.computes and _kind(other) == "time"):
        return
    for text in (value for value, is_text in met.values if is_text):
        if not _reads_as(session, text, other):
            what = f"{text} cannot be read as {other.simpleString()}"
            raise at_place(QueryError(what, hint="write a value of that type, or cast the other side"), met.place)


def _reads_as(session: SparkSession, text: str, kind: T.DataType) -> bool:
    found = session.sql(f"SELECT try_cast({text} AS {kind.simpleString()}) IS NOT NULL").first()
    return bool(found and found[0])


def fit(first: T.DataType, second: T.DataType) -> bool:
    """Whether values of two types can meet without a cast that may fail; what is not known here is left to Spark.

    >>> fit(T.LongType(), T.DoubleType()), fit(T.LongType(), T.StringType())
    (True, False)
    """
    if isinstance(first, T.ArrayType) and isinstance(second, T.ArrayType):
        return fit(first.elementType, second.elementType)
    kinds = {_kind(first), _kind(second)}
    return None in kinds or len(kinds) == 1


def _kind(type_: T.DataType) -> str | None:
    match type_:
        case T.NumericType():
            return "number"
        case T.StringType():
            return "text"
        case T.BooleanType():
            return "boolean"
        case T.DatetimeType():
            return "time"
        case _:
            return None
