"""Where values of an expression meet, so that they need a type that holds them all: comparisons, branches, sums."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
FUNCTIONS = {"array", "coalesce", "greatest", "ifnull", "least", "nullif", "nvl"}
SECOND_AND_THIRD = {"if", "nvl2"}


def meetings(expression: exp.Expr) -> Iterator[tuple[exp.Expr, list[exp.Expr]]]:
    """Nodes of an expression whose values meet, with these values.

    What meets in a lambda function is left out: its variables have no type by themselves.

    >>> from anabranch.cql.dialect import parse_query
    >>> where = parse_query("Select k From s Where coalesce(k, a) In (1, 'x')").args["where"].this
    >>> [[value.sql() for value in values] for _, values in meetings(where)]
    [['COALESCE(k, a)', '1', "'x'"], ['k', 'a']]
    """
    for node in expression.walk(prune=lambda each: isinstance(each, exp.Lambda)):
        for values in _met(node):
            if len(values) > 1:
                yield node, values


def _met(node: exp.Expr) -> Iterator[list[exp.Expr]]:
    match node:
        case _ if isinstance(node, COMPARISONS + ARITHMETIC):
            yield [node.this, node.expression]
        case exp.Between():
            yield [node.this, node.args["low"], node.args["high"]]
        case exp.In():
            yield [node.this, *node.expressions]
        case exp.Case():
            branches = node.args["ifs"]
            yield [*(each.args["true"] for each in branches), *filter(None, [node.args.get("default")])]
            if node.this is not None:
                yield [node.this, *(each.this for each in branches)]
        case exp.If() if not isinstance(node.parent, exp.Case):
            yield [*filter(None, [node.args["true"], node.args.get("false")])]
        case exp.Anonymous() if node.name in FUNCTIONS:
            yield list(node.expressions)
        case exp.Anonymous() if node.name in SECOND_AND_THIRD:
            yield list(node.expressions[1:])
