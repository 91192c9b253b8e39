"""Constants that conditions compare columns with: queries that differ in them alone are one query with parameters.

>>> over = [Scalar.parsed("`v` > 3"), Scalar.parsed("`k` = 'x'"), Scalar.parsed("`v` + `w` < 9")]
>>> found = taken_out(over, {"v": pa.float64(), "k": pa.string(), "w": pa.float64()})
>>> [str(each) for each in found.probes], found.values, [each.sql for each in found.rest]
(['k = :_constant0', 'v > :_constant1'], ('x', 3.0), ['`v` + `w` < 9'])

Spark compares values of different types after a cast of one of them. A constant is taken out where the index compares
it with the column's values as Spark does; else it stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions import Scalar
from anabranch.planning.probes import COMPARED, MIRRORED, Probe
from anabranch.rules.factors import Op

CONSTANT = "_constant"
EXACT_IN_FLOAT = 1 << 24
EXACT_DIGITS = 15
"""Decimals of so many digits become the nearest double, in Spark as in Python."""
_PREFIX, _INSIDE = re.compile(r"([^%_\\]*)%"), re.compile(r"%([^%_\\]*)%")
_INTEGER, _DECIMAL = re.compile(r"-?\d+"), re.compile(r"-?\d*\.\d+|-?\d+\.\d*")
_WITH_CONSTANTS = (*COMPARED, exp.NEQ, exp.Between, exp.In, exp.Like)

Found: TypeAlias = tuple[str, Op, Any, pa.DataType]
"""A column, how it is compared, with what, and the type of that."""


@dataclass(frozen=True)
class Constants:
    """What conditions are without the constants of their comparisons.

    Parameters
    ----------
    probes
        The comparisons, in an order that does not depend on how they were written.
    values
        The constants.
    kinds
        Their types.
    rest
        The other conditions.
    """

    probes: tuple[Probe, ...]
    values: tuple[Any, ...]
    kinds: tuple[pa.DataType, ...]
    rest: tuple[Scalar, ...]


def taken_out(conditions: Sequence[Scalar], types: Mapping[str, pa.DataType]) -> Constants:
    """Conditions and their constants, given the types of columns."""
    found: list[Found] = []
    rest = []
    for condition in conditions:
        some = list(_comparisons(condition.tree.unnest(), types))
        whole = [each for each in some if each is not None]
        found += whole if len(whole) == len(some) else []
        rest += [] if whole and len(whole) == len(some) else [condition]
    found.sort(key=lambda each: (each[0], each[1], str(each[3])))
    probes = tuple(Probe(name, op, (f"{CONSTANT}{place}",)) for place, (name, op, _, _) in enumerate(found))
    values, kinds = tuple(value for *_, value, _ in found), tuple(kind for *_, kind in found)
    return Constants(probes, values, kinds, tuple(rest))


def masked(condition: Scalar, is_text: Callable[[str], bool] = lambda _: True) -> Scalar:
    """A condition with the types of constants instead of those that a column is compared with.

    `is_text` says of which columns texts may be masked: elsewhere a text stands for a value of another type.

    >>> masked(Scalar.parsed("`v` > 3 AND `k` IN ('x', 'y')")).sql
    '`v` > :integer AND `k` IN (:text, :text)'
    """

    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Literal):
            return node
        above = node.parent.parent if isinstance(node.parent, exp.Neg) else node.parent
        columns = [] if above is None else [each for each in above.iter_expressions() if isinstance(each, exp.Column)]
        if not isinstance(above, _WITH_CONSTANTS) or len(columns) != 1:
            return node
        return node if node.is_string and not is_text(columns[0].name) else exp.Placeholder(this=_type_of(node))

    return condition.transform(change)


def _type_of(literal: exp.Literal) -> str:
    text = literal.name
    if literal.is_string:
        return "text"
    if _INTEGER.fullmatch(text):
        return "integer" if int(text) < 1 << 31 else text
    return f"decimal_{len(text)}_{len(text) - text.index('.')}" if _DECIMAL.fullmatch(text) else text


def _comparisons(tree: exp.Expr, types: Mapping[str, pa.DataType]) -> Iterator[Found | None]:
    """The comparisons of a column with constants that a condition is; None for one that is something else."""
    if tree.args.get("negate"):
        return
    match tree:
        case exp.Between(args={"low": low, "high": high}) if not tree.args.get("symmetric"):
            yield _found(tree.this, Op.AT_LEAST, low, types)
            yield _found(tree.this, Op.AT_MOST, high, types)
        case exp.In(expressions=[_, *_]):
            items = [_found(tree.this, Op.EQUAL, each, types) for each in tree.expressions]
            kinds = {None if each is None else each[3] for each in items}
            if None in kinds or len(kinds) > 1:
                yield None
            else:
                values = [each[2] for each in items if each is not None]
                yield tree.this.name, Op.IN, values, pa.list_(*kinds)
        case exp.Like() if isinstance(tree.expression, exp.Literal):
            forms = ((Op.PREFIX, _PREFIX), (Op.CONTAINS, _INSIDE))
            found = [(op, match[1]) for op, form in forms if (match := form.fullmatch(tree.expression.name))]
            text = [exp.Literal.string(value) for _, value in found[:1]]
            yield _found(tree.this, found[0][0], text[0], types) if found else None
        case exp.Binary() if type(tree) in COMPARED:
            op = COMPARED[type(tree)]
            yield _found(tree.this, op, tree.expression, types) or _found(
                tree.expression, MIRRORED.get(op, op), tree.this, types
            )
        case _:
            yield None


def _found(column: exp.Expr, op: Op, constant: exp.Expr, types: Mapping[str, pa.DataType]) -> Found | None:
    if not isinstance(column, exp.Column) or column.name not in types:
        return None
    sign = "-" if isinstance(constant, exp.Neg) else ""
    literal = constant.this if isinstance(constant, exp.Neg) else constant
    if not isinstance(literal, exp.Literal):
        return None
    value = _fitted(sign + literal.name, literal.is_string, types[column.name])
    return None if value is None else (column.name, op, *value)


def _fitted(text: str, is_string: bool, kind: pa.DataType) -> tuple[Any, pa.DataType] | None:
    """A constant as the index compares it with values of a type, if that is how Spark does it."""
    if is_string:
        return (text, pa.string()) if pa.types.is_string(kind) else None
    integer, decimal = _INTEGER.fullmatch(text), _DECIMAL.fullmatch(text)
    if integer and pa.types.is_integer(kind):
        return (int(text), pa.int64()) if -(1 << 63) <= int(text) < 1 << 63 else None
    if integer and pa.types.is_float64(kind):
        return float(int(text)), pa.float64()
    if integer and pa.types.is_float32(kind):
        return (float(int(text)), pa.float64()) if abs(int(text)) <= EXACT_IN_FLOAT else None
    if decimal and pa.types.is_floating(kind) and not pa.types.is_float16(kind):
        return (float(Decimal(text)), pa.float64()) if len(text) <= EXACT_DIGITS else None
    return None
