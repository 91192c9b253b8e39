"""Expressions over the columns of a row, as trees: everything that is to be known of one is asked of its tree.

Text in Spark's SQL is made where Spark is called. The trees are sqlglot's; they are never changed in place.

>>> over = Scalar.parsed("`v_1` > 3 AND `k_2` = 'x'")
>>> over.columns, over.may_fail
(('v_1', 'k_2'), False)
>>> over.substituted({"v_1": Scalar.parsed("`a` + `b`")}).sql
"(`a` + `b`) > 3 AND `k_2` = 'x'"
>>> other = Scalar.parsed("'x' = `key` AND 3 < `value`")
>>> over.normal({"v_1": "1", "k_2": "2"}) == other.normal({"value": "1", "key": "2"})
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlglot
from sqlglot import exp

SPARK = "spark"
USER = "user"
"""Under this key, a call of a user's function has the name that it was registered by, in the meta data of its node."""
SAFE_CALLS = ("xxhash64",)

_ATOMS = (exp.Column, exp.Literal, exp.Paren, exp.Anonymous, exp.Null, exp.Boolean, exp.Var, exp.Dot, exp.Placeholder)
_SAFE = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Null, exp.Boolean, exp.Dot, exp.Placeholder),
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Tuple, exp.Case, exp.If),
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
)
_COMMUTATIVE = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.Add, exp.Mul, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_MIRRORED: dict[type[exp.Expr], str] = {exp.GT: exp.LT.key, exp.GTE: exp.LTE.key}


@dataclass(frozen=True, eq=False, repr=False)
class Scalar:
    """An expression over the columns of one row; those are equal that Spark reads alike."""

    tree: exp.Expr

    @classmethod
    def reading(cls, column: str) -> Scalar:
        """A column as it is."""
        return cls(exp.Column(this=exp.Identifier(this=column, quoted=True)))

    @classmethod
    def parsed(cls, sql: str) -> Scalar:
        """A text in Spark's SQL, in which names have no qualifiers: what follows a dot is a field.

        >>> Scalar.parsed("`a`.`b` + 1").columns
        ('a',)
        """
        return cls(sqlglot.parse_one(sql, dialect=SPARK).transform(_with_fields))

    @classmethod
    def long(cls, number: int) -> Scalar:
        """A whole number of 64 bits.

        >>> Scalar.long(-3).sql
        '-3L'
        """
        literal = exp.Literal.number(f"{abs(number)}L")
        return cls(exp.Neg(this=literal) if number < 0 else literal)

    @classmethod
    def call(cls, function: str, *arguments: Scalar) -> Scalar:
        """A call of a function of Spark's."""
        return cls(exp.Anonymous(this=function, expressions=[each.tree.copy() for each in arguments]))

    @cached_property
    def sql(self) -> str:
        """As Spark reads it."""
        return self.tree.sql(dialect=SPARK, comments=False, normalize_functions=False)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(each.name for each in self.walk() if isinstance(each, exp.Column)))

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The functions of the user's that it calls."""
        return tuple(dict.fromkeys(each.meta[USER] for each in self.walk() if USER in each.meta))

    @property
    def column(self) -> str | None:
        """The column, if it is one as it is."""
        return self.tree.name if isinstance(self.tree, exp.Column) else None

    @cached_property
    def may_fail(self) -> bool:
        """Whether it does more than to compare columns and constants."""
        return not all(map(_is_safe, self.walk()))

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """Numbers and texts in it, as Spark reads them, from left to right."""
        return tuple(each.sql(dialect=SPARK) for each in self.walk() if isinstance(each, exp.Literal))

    def walk(self) -> Iterator[exp.Expr]:
        """The nodes of the tree, from left to right."""
        return iter(self.tree.walk(bfs=False))

    def transform(self, change: Callable[[exp.Expr], exp.Expr]) -> Scalar:
        """With nodes changed; what a changed node holds is left as it is."""
        return Scalar(self.tree.transform(change))

    def substituted(self, by: Mapping[str, Scalar]) -> Scalar:
        """With expressions in the place of columns."""

        def change(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or node.name not in by:
                return node
            tree = by[node.name].tree.copy()
            return tree if node.parent is None or isinstance(tree, _ATOMS) else exp.Paren(this=tree)

        return self.transform(change)

    def renamed(self, new: Mapping[str, str]) -> Scalar:
        """With other names for columns."""
        return self.substituted({name: Scalar.reading(new[name]) for name in self.columns if name in new})

    def shown(self, names: Mapping[str, str], constant: Callable[[str], str] | None = None) -> str:
        """As a text for people, with columns called so, and constants rewritten.

        >>> Scalar.parsed("`v_1` > 3").shown({"v_1": "calls.v"}, lambda _: "?")
        'calls.v > ?'
        """

        def change(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and node.name in names:
                return exp.Var(this=names[node.name])
            if isinstance(node, exp.Literal) and constant is not None:
                return exp.Var(this=constant(node.sql(dialect=SPARK)))
            return node

        return self.transform(change).sql

    def normal(self, names: Mapping[str, str]) -> str:
        """Equal for expressions that differ in names of columns, and in the order of what has none, alone.

        `names` say what columns are. Of conditions that And connects, the order stays where one may fail: one that
        comes first may be there to guard the next.
        """
        return _normal(self.tree, names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.sql == other.sql

    def __hash__(self) -> int:
        return hash(self.sql)

    def __repr__(self) -> str:
        return f"Scalar({self.sql!r})"


def all_of(conditions: Sequence[Scalar]) -> Scalar:
    """A condition that is true where all of some are, which are tested from left to right.

    >>> all_of([Scalar.parsed("`a` > 1 OR `b`"), Scalar.parsed("`c`")]).sql
    '(`a` > 1 OR `b`) AND `c`'
    """
    return _connected(exp.And, conditions, exp.true())


def any_of(conditions: Sequence[Scalar]) -> Scalar:
    """A condition that is true where one of some is, which are tested from left to right.

    >>> any_of([Scalar.parsed("`a` > 1 AND `b`"), Scalar.parsed("`c`")]).sql
    '(`a` > 1 AND `b`) OR `c`'
    """
    return _connected(exp.Or, conditions, exp.false())


def _connected(by: type[exp.Connector], conditions: Sequence[Scalar], none: exp.Expr) -> Scalar:
    if not conditions:
        return Scalar(none)
    whole, *others = (_closed(each.tree) for each in conditions)
    for each in others:
        whole = by(this=whole, expression=each)
    return Scalar(whole)


def in_any_order(conditions: tuple[Scalar, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    """The normal forms of conditions, in an order that does not depend on how they were written, if none can fail.

    >>> one, other = Scalar.parsed("`b` < 3"), Scalar.parsed("`a` <> 0")
    >>> in_any_order((one, other), {}) == in_any_order((other, one), {})
    True
    >>> failing = Scalar.parsed("1 / `a` > 3")
    >>> in_any_order((other, failing), {}) == in_any_order((failing, other), {})
    False
    """
    parts = [part for each in conditions for part in _operands(each.tree, exp.And)]
    texts = dict.fromkeys(_normal(part, names) for part in parts)
    return tuple(texts) if any(each.may_fail for each in conditions) else tuple(sorted(texts))


def _with_fields(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.Column) or not node.table:
        return node
    first, *rest = (part.copy() for part in node.parts)
    made: exp.Expr = exp.Column(this=first)
    for part in rest:
        made = exp.Dot(this=made, expression=part)
    return made


def _is_safe(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in SAFE_CALLS
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal)
    if isinstance(node, exp.Like):
        return isinstance(node.expression, exp.Literal) and "\\" not in node.expression.name
    return type(node) in _SAFE


def _closed(tree: exp.Expr) -> exp.Expr:
    return tree.copy() if isinstance(tree, _ATOMS) else exp.Paren(this=tree.copy())


def _operands(node: exp.Expr, connector: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The parts that And, or Or, connects."""
    left = [node]
    while left:
        inner = left.pop().unnest()
        if isinstance(inner, connector):
            left += [inner.args["expression"], inner.this]
        else:
            yield inner


def _normal(node: exp.Expr, names: Mapping[str, str]) -> str:
    node = node.unnest()
    if isinstance(node, exp.Column):
        return f"<{names.get(node.name, node.name)}>"
    if isinstance(node, exp.And | exp.Or):
        parts = list(_operands(node, type(node)))
        texts = dict.fromkeys(_normal(each, names) for each in parts)
        fixed = any(not _is_safe(each) for part in parts for each in part.walk())
        return f"({node.key} {' '.join(texts if fixed else sorted(texts))})"
    if isinstance(node, exp.In) and not node.args.get("query"):
        among = sorted({_normal(each, names) for each in node.expressions})
        return f"(in {_normal(node.this, names)} {' '.join(among)})"
    if isinstance(node, exp.Binary) and set(node.args) <= {"this", "expression"}:
        sides = [_normal(node.this, names), _normal(node.args["expression"], names)]
        if type(node) in _MIRRORED:
            return f"({_MIRRORED[type(node)]} {sides[1]} {sides[0]})"
        return f"({node.key} {' '.join(sorted(sides) if type(node) in _COMMUTATIVE else sides)})"
    if isinstance(node, exp.Anonymous):
        return f"({node.name.lower()!r} {' '.join(_normal(each, names) for each in node.expressions)})"
    return f"({node.key} {' '.join(f'{key}={_value(node.args[key], names)}' for key in sorted(node.args))})"


def _value(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, exp.Expr):
        return _normal(value, names)
    if isinstance(value, list):
        return f"[{' '.join(_value(each, names) for each in value)}]"
    return repr(value)
