"""Which conditions of a join an index can answer: comparisons of a column that varies with one of a table.

>>> over = Scalar.parsed("`v_1` > `limit_2`")
>>> factors, rest = factors_of([over, Scalar.parsed("`v_1` + 1 > 3")], {"v_1"}, {"limit_2"})
>>> [str(each) for each in factors], len(rest)
(['v_1 > :limit_2'], 1)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
from sqlglot import exp

from anabranch.logical_plan import Scalar
from anabranch.rules.factors import Factor, Op

_OPS: dict[type[exp.Expr], Op] = {exp.GT: Op.GREATER, exp.GTE: Op.AT_LEAST, exp.LT: Op.LESS, exp.LTE: Op.AT_MOST}
_MIRRORED = {
    Op.GREATER: Op.LESS,
    Op.AT_LEAST: Op.AT_MOST,
    Op.LESS: Op.GREATER,
    Op.AT_MOST: Op.AT_LEAST,
}


def factors_of(
    conditions: Sequence[Scalar], flow: Collection[str], table: Collection[str]
) -> tuple[list[Factor], list[Scalar]]:
    """The conditions that compare a column of a flow with one of a table, as factors, and the others."""
    factors, rest = [], []
    for condition in conditions:
        factor = _factor(condition, flow, table)
        if factor is None:
            rest.append(condition)
        else:
            factors.append(factor)
    return factors, rest


def _factor(condition: Scalar, flow: Collection[str], table: Collection[str]) -> Factor | None:
    if len(condition.columns) != 2 or not (set(condition.columns) & set(table)):
        return None
    tree = condition.tree.unnest()
    op = _OPS.get(type(tree))
    if op is None or not (isinstance(tree.this, exp.Column) and isinstance(tree.expression, exp.Column)):
        return None
    left, right = tree.this.name, tree.expression.name
    if left in flow and right in table:
        return Factor(left, op, right)
    return Factor(right, _MIRRORED[op], left) if right in flow and left in table else None


def comparable(kind: pa.DataType) -> bool:
    """Whether an index compares values of a type as Spark does."""
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_string, types.is_timestamp, types.is_date32)
    return any(test(kind) for test in tests)
