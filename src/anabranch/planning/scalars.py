"""Expressions that plans are read with: columns as they are, renamed, cast, or moved in time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from anabranch.logical_plan import Scalar
from anabranch.model.names import quoted
from anabranch.operators.base import TIME
from anabranch.planning.types import sql_name


def calls(scalars: Sequence[Scalar]) -> bool:
    """Whether some of them call functions of the user's."""
    return any(scalar.functions for scalar in scalars)


def later(span: int) -> Scalar:
    """When a row leaves a window of so many microseconds."""
    return Scalar(f"{TIME} + {span + 1}L", (TIME,))


def column(name: str) -> Scalar:
    """A column as it is."""
    return Scalar.reading(name)


def same(names: Sequence[str]) -> list[tuple[str, Scalar]]:
    """Columns under their own names."""
    return [(name, column(name)) for name in names]


def cast(name: str, kind: pa.DataType) -> Scalar:
    """A column as another type."""
    return Scalar(f"CAST({quoted(name)} AS {sql_name(kind)})", (name,))


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


def next_multiple(name: str, step: int) -> str:
    """Rounded up, in integers, also before 1970."""
    return f"{name} + ((-{name}) % {step}L + {step}L) % {step}L"


def is_column(item: tuple[str, Scalar]) -> bool:
    """Whether an item is a column as it is."""
    return item[1].columns[:1] != () and item[1] == column(item[1].columns[0])
