"""Which conditions of a join an index can answer: comparisons of a column that varies with columns of a table.

| condition | factor |
|---|---|
| `v > limit`, `v Between low And high` | comparisons |
| `array_contains(ports, port)`, `port In (first, second)` | in a list |
| `startswith(t, x)`, `contains(t, x)` | prefix, substring |
| `t Like x`, `t RLike x` | what the patterns of all rules have in common; the condition itself is tested, too |
| `in_network(address, network)` | network |

>>> over = Scalar.parsed("`v_1` > `limit_2`")
>>> probes, rest = probes_of([over, Scalar.parsed("`v_1` + 1 > 3")], {"v_1"}, {"limit_2"})
>>> [str(each) for each in probes], len(rest)
(['v_1 > :limit_2'], 1)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
from sqlglot import exp

from anabranch.expressions import Scalar
from anabranch.model.prefixes import IN_NETWORK
from anabranch.rules.factors import OF_TEXTS, Factor, Op

Made: TypeAlias = Literal["", "list", "like", "rlike"]
COMPARED: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQUAL,
    exp.GT: Op.GREATER,
    exp.GTE: Op.AT_LEAST,
    exp.LT: Op.LESS,
    exp.LTE: Op.AT_MOST,
}
MIRRORED = {Op.GREATER: Op.LESS, Op.AT_LEAST: Op.AT_MOST, Op.LESS: Op.GREATER, Op.AT_MOST: Op.AT_LEAST}
_PATTERNS: dict[type[exp.Expr], Made] = {exp.Like: "like", exp.RegexpLike: "rlike"}
_CALLS: dict[str, tuple[Op, Made]] = {
    "startswith": (Op.PREFIX, ""),
    "contains": (Op.CONTAINS, ""),
    IN_NETWORK: (Op.NETWORK, ""),
    **dict.fromkeys(("rlike", "regexp", "regexp_like"), (Op.REGEX, "rlike")),
}


@dataclass(frozen=True)
class Probe:
    """What an index is asked about a row: `attribute op parameter`.

    Parameters
    ----------
    attribute, op
        As in a factor.
    columns
        Of the table, from which the parameter is made.
    made
        How: it is the column itself, a list of several, or what `Like` and `RLike` need at least.
    """

    attribute: str
    op: Op
    columns: tuple[str, ...]
    made: Made = ""

    @property
    def exact(self) -> bool:
        """Whether it says all that the condition says."""
        return self.made in ("", "list")

    @property
    def factor(self) -> Factor:
        """As a factor over a table that has a column for the parameter."""
        return Factor(self.attribute, self.op, "_and_".join([*self.columns, *([self.made] if self.made else [])]))

    def __str__(self) -> str:
        listed = ", ".join(f":{name}" for name in self.columns)
        if self.made == "list":
            return f"{self.attribute} in ({listed})"
        return f"{self.attribute} {self.made or self.op} {listed}"

    def fits(self, attribute: pa.DataType, parameters: Sequence[pa.DataType]) -> bool:
        """Whether an index compares values of these types as Spark does."""
        if self.op in OF_TEXTS:
            return all(pa.types.is_string(kind) for kind in (attribute, *parameters))
        if self.op is Op.IN and not self.made:
            parameters = [kind.value_type if pa.types.is_list(kind) else kind for kind in parameters]
        return comparable(attribute) and all(kind == attribute for kind in parameters)


def probes_of(
    conditions: Sequence[Scalar],
    flow: Collection[str],
    table: Collection[str],
    fits: Callable[[Probe], bool] = lambda _: True,
) -> tuple[list[Probe], list[Scalar]]:
    """What an index over a table can be asked for a flow, and the conditions that have to be tested besides."""
    probes: list[Probe] = []
    rest = []
    for condition in conditions:
        found = _probes(condition, flow, table)
        if not (found and all(map(fits, found))):
            rest.append(condition)
            continue
        probes += found
        rest += [] if all(each.exact for each in found) else [condition]
    return probes, rest


def _probes(condition: Scalar, flow: Collection[str], table: Collection[str]) -> list[Probe]:
    if len(condition.columns) < 2 or not (set(condition.columns) & set(table)):
        return []
    tree = condition.tree.unnest()
    if tree.args.get("negate"):
        return []
    match tree:
        case exp.Between(args={"low": low, "high": high}) if not tree.args.get("symmetric"):
            parts = [(Op.AT_LEAST, low), (Op.AT_MOST, high)]
            found = [_probe(tree.this, op, [end], flow, table) for op, end in parts]
            return [] if None in found else [each for each in found if each is not None]
        case exp.In(expressions=[_, *_]):
            one = _probe(tree.this, Op.IN, tree.expressions, flow, table, "list")
        case exp.Like() | exp.RegexpLike() if not _has_more(tree):
            one = _probe(tree.this, Op.REGEX, [tree.expression], flow, table, _PATTERNS[type(tree)])
        case exp.Anonymous(expressions=[value, parameter]) if tree.name.lower() in _CALLS:
            op, made = _CALLS[tree.name.lower()]
            one = _probe(value, op, [parameter], flow, table, made)
        case exp.Anonymous(expressions=[parameter, value]) if tree.name.lower() == "array_contains":
            one = _probe(value, Op.IN, [parameter], flow, table)
        case exp.Binary() if type(tree) in COMPARED:
            op = COMPARED[type(tree)]
            one = _probe(tree.this, op, [tree.expression], flow, table) or _probe(
                tree.expression, MIRRORED.get(op, op), [tree.this], flow, table
            )
        case _:
            one = None
    return [] if one is None else [one]


def _probe(
    value: exp.Expr,
    op: Op,
    parameters: Sequence[exp.Expr],
    flow: Collection[str],
    table: Collection[str],
    made: Made = "",
) -> Probe | None:
    names = [each.name for each in (value, *parameters) if isinstance(each, exp.Column) and not each.table]
    if len(names) != 1 + len(parameters) or names[0] not in flow or not set(names[1:]) <= set(table):
        return None
    return Probe(names[0], op, tuple(names[1:]), made)


def _has_more(call: exp.Expr) -> bool:
    """Whether it says more than what is searched, and for what."""
    return any(value for name, value in call.args.items() if name not in ("this", "expression"))


def comparable(kind: pa.DataType) -> bool:
    """Whether an index compares values of a type as Spark does."""
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_string, types.is_timestamp, types.is_date32)
    return any(test(kind) for test in tests)
