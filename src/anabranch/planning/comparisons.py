"""Which conditions a join can test itself: comparisons of columns of two inputs that have one type.

>>> less = Scalar.parsed("`v_1` < `v_2`")
>>> schemas = [pa.schema({"v_1": pa.int64()}), pa.schema({"v_2": pa.int64()})]
>>> found, rest = comparisons_of([less, Scalar.parsed("`v_1` + 1 > `v_2`")], [("v_1",), ("v_2",)], schemas)
>>> found, len(rest)
((Comparison(sides=((0, 'v_1'), (1, 'v_2')), sign='<'),), 1)
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions import Scalar
from anabranch.operators.comparisons import Comparison, Sign

_SIGNS: dict[type[exp.Expr], Sign] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NEQ: "<>"}


def comparisons_of(
    conditions: Sequence[Scalar], columns: Sequence[Sequence[str]], schemas: Sequence[pa.Schema]
) -> tuple[tuple[Comparison, ...], list[Scalar]]:
    """The conditions that compare columns of two inputs, and the others.

    Arrow compares texts byte by byte and whole numbers as Spark does; for NaN they differ.
    """
    owner = {name: number for number, names in enumerate(columns) for name in names}
    found, rest = [], []
    for condition in conditions:
        tree = condition.tree.unnest()
        sides = [side.name for side in (tree.this, tree.args.get("expression")) if isinstance(side, exp.Column)]
        sign = _SIGNS.get(type(tree))
        if sign is None or len(sides) < 2 or not all(side in owner for side in sides):
            rest.append(condition)
            continue
        (one, left), (other, right) = ((owner[side], side) for side in sides)
        kinds = schemas[one].field(left).type, schemas[other].field(right).type
        if one == other or kinds[0] != kinds[1] or not _alike(kinds[0]):
            rest.append(condition)
        else:
            found.append(Comparison(((one, left), (other, right)), sign))
    return tuple(found), rest


def _alike(kind: pa.DataType) -> bool:
    types = pa.types
    return any(test(kind) for test in (types.is_integer, types.is_string, types.is_timestamp, types.is_date32))
