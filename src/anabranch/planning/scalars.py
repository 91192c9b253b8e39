"""Expressions that plans are read with: columns as they are, renamed, cast, or moved in time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions import SPARK, Scalar
from anabranch.operators.base import FOREVER, TIME
from anabranch.planning.types import sql_name


def calls(scalars: Sequence[Scalar]) -> bool:
    """Whether some of them call functions of the user's."""
    return any(scalar.functions for scalar in scalars)


def later(span: int) -> Scalar:
    """When a row leaves a window of so many microseconds."""
    return Scalar(exp.Add(this=column(TIME).tree, expression=Scalar.long(span + 1).tree))


def column(name: str) -> Scalar:
    """A column as it is."""
    return Scalar.reading(name)


def same(names: Sequence[str]) -> list[tuple[str, Scalar]]:
    """Columns under their own names."""
    return [(name, column(name)) for name in names]


def cast(name: str, kind: pa.DataType) -> Scalar:
    """A column as another type."""
    return Scalar(exp.Cast(this=column(name).tree, to=exp.DataType.build(sql_name(kind), dialect=SPARK)))


def renamed(
    names: Sequence[str], new: Sequence[str], kinds: Sequence[pa.DataType], wanted: Sequence[pa.DataType]
) -> list[tuple[str, Scalar]]:
    """Columns under new names, cast where they are not of the wanted kinds."""
    return [
        (to, column(name) if kind == want else cast(name, want))
        for name, to, kind, want in zip(names, new, kinds, wanted, strict=True)
    ]


def fields_of(schema: pa.Schema, names: Sequence[str], more: pa.Schema) -> pa.Schema:
    """Some fields of a schema, and all of another."""
    return pa.schema([*(schema.field(name) for name in names), *more])


def next_multiple(name: str, step: int) -> Scalar:
    """Rounded up, in integers, also before 1970."""
    return Scalar.parsed("x + ((-x) % step + step) % step").substituted({"x": column(name), "step": Scalar.long(step)})


def ending(name: str, step: int) -> Scalar:
    """The same of what may never end."""
    known = {"x": column(name), "never": Scalar.long(FOREVER), "next": next_multiple(name, step)}
    return Scalar.parsed("CASE WHEN x = never THEN x ELSE next END").substituted(known)


def earlier(name: str, other: str) -> Scalar:
    """Whether the value of one column is less than that of another."""
    return Scalar(exp.LT(this=column(name).tree, expression=column(other).tree))


def not_null(name: str) -> Scalar:
    """Whether a column has a value."""
    return Scalar(exp.Not(this=exp.Is(this=column(name).tree, expression=exp.Null())))


def is_column(item: tuple[str, Scalar]) -> bool:
    """Whether an item is a column as it is."""
    return item[1].column is not None
