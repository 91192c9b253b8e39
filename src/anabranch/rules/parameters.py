"""Parameters of rules and attributes of rows: which columns they are, and whether their types compare.

>>> row_domain(Factor("value", Op.LESS, "limit"), pa.int64(), Domain("number", "float"))
Domain(kind='number', form='integer', scale=0)
>>> row_domain(Factor("value", Op.LESS, "limit"), pa.string(), Domain("number", "float"))
Traceback (most recent call last):
    ...
anabranch.errors.QueryError: value < :limit compares a text (string) with a number
  hint: cast one of them: nothing is converted silently
"""

from __future__ import annotations

import pyarrow as pa

from anabranch.errors import QueryError, UnknownColumn
from anabranch.rules.domains import Domain, comparable, plain
from anabranch.rules.factors import OF_TEXTS, Factor, Op

ADDRESSES = Domain("address", "bytes")


def parameter(rules: pa.Table, factor: Factor) -> pa.Array:
    """The column of a factor's parameter."""
    if factor.parameter not in rules.column_names:
        raise UnknownColumn(factor.parameter, rules.column_names, where="the table of rules")
    return plain(rules.column(factor.parameter))


def parameter_domain(factor: Factor, kind: pa.DataType) -> Domain:
    """The domain of a factor's constants; an error if there is none."""
    if factor.op is Op.IN:
        if not is_list(kind):
            hint = "give a list per rule, or write `=`"
            raise QueryError(
                f"{factor} needs a list, and parameter {factor.parameter!r} has the type {kind}", hint=hint
            )
        kind = kind.value_type
    domain = comparable(kind, str(factor))
    if factor.op in OF_TEXTS and domain.kind != "text":
        raise QueryError(f"{factor} needs a text, and parameter {factor.parameter!r} has the type {kind}")
    return ADDRESSES if factor.op is Op.NETWORK else domain


def row_domain(factor: Factor, kind: pa.DataType, held: Domain) -> Domain:
    """How values of a row are compared with constants of a domain; an error if they cannot be."""
    domain = comparable(kind, str(factor))
    if factor.op in OF_TEXTS:
        if domain.kind != "text":
            raise QueryError(f"{factor} needs a text, and attribute {factor.attribute!r} has the type {kind}")
        return held
    if domain.kind != held.kind:
        raise QueryError(
            f"{factor} compares a {domain.kind} ({kind}) with a {held.kind}",
            hint="cast one of them: nothing is converted silently",
        )
    return domain


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
