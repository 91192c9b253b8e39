"""Expressions: columns are replaced by their unique names, and what depends on chance is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from anabranch.cql.bound_query import ARITHMETIC, Meeting, Written, meetings
from anabranch.cql.functions import check_function, is_aggregate
from anabranch.cql.scopes import Context, Scope
from anabranch.expressions import USER, Scalar
from anabranch.logical_plan import Plan, Project

QUERIES = "In and Exists stand in Where or On, connected by And; a value is an aggregate of a query of its own"


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition that And connects."""
    if condition is None:
        return
    inner = condition.unnest()
    if isinstance(inner, exp.And):
        yield from conjuncts(inner.this)
        yield from conjuncts(inner.expression)
    else:
        yield inner


def bind_expression(node: exp.Expr, scope: Scope, *, aggregates: bool = False, outer: bool = False) -> exp.Expr:
    """A copy of an expression with unique names.

    Parameters
    ----------
    node
        As parsed.
    scope
        Where its names are looked up.
    aggregates
        Whether it may hold aggregate functions.
    outer
        Whether it may read columns of the query around.
    """
    _check(node, scope.context, aggregates)
    bound = node.copy()
    for column in list(bound.find_all(exp.Column, bfs=False)):
        if isinstance(column.this, exp.Star):
            raise scope.context.error("* is allowed only as an item of Select", node)
        replacement = scope.resolve(column)
        if column is bound:
            bound = replacement
        else:
            column.replace(replacement)
    if not outer and scope.reads_outer(bound):
        hint = "compare such a column with = in the Where of the inner query"
        raise scope.context.error("a column of the outer query cannot be used here", node, hint)
    return bound


def scalar(bound: exp.Expr, context: Context, *, condition: bool = False) -> Scalar:
    """A bound expression, in which calls of the user's functions are marked."""
    made = Scalar(bound.copy())
    for node in made.walk():
        called = context.catalog.function(node.name) if isinstance(node, exp.Anonymous) else None
        if called:
            node.meta[USER] = called.name
    if condition or not isinstance(bound, exp.Column | exp.Literal):
        met = [
            Meeting(
                context.place(node),
                tuple((Scalar(each).sql, _is_text(each)) for each in values),
                computes=isinstance(node, ARITHMETIC),
            )
            for node, values in reversed(list(meetings(bound)))  # inner ones first
        ]
        context.expressions[made.sql] = Written(context.place(bound), tuple(met), condition)
    return made


def _is_text(bound: exp.Expr) -> bool:
    return isinstance(bound.unnest(), exp.Literal) and bool(bound.unnest().is_string)


def column(name: str) -> exp.Column:
    """A reference to a unique name."""
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def read(name: str) -> Scalar:
    """A column as it is."""
    return Scalar.reading(name)


def computed(
    plan: Plan, expressions: Sequence[exp.Expr], context: Context, base: str = "key"
) -> tuple[Plan, list[str]]:
    """The plan with a column for every expression, and the names of these; plain columns are used as they are."""
    names: list[str] = []
    extra: list[tuple[str, Scalar]] = []
    for each in expressions:
        plain = each.unnest()
        if isinstance(plain, exp.Column):
            names.append(plain.name)
        else:
            names.append(context.names.fresh(base))
            extra.append((names[-1], scalar(each, context)))
    if not extra:
        return plan, names
    return Project(plan, (*((name, read(name)) for name in plan.columns), *extra)), names


def _check(node: exp.Expr, context: Context, aggregates: bool) -> None:
    for each in node.walk():
        if isinstance(each, exp.Query | exp.Exists) or (isinstance(each, exp.In) and each.args.get("query")):
            what = "a query" if isinstance(each, exp.Query) else "In or Exists with a query"
            raise context.error(f"{what} is not supported here", each, QUERIES)
        check_function(each, context)
        if isinstance(each, exp.Filter) and not is_aggregate(each.this):
            raise context.error("Filter must follow an aggregate", each, "use Case When ... Then ... End")
        if is_aggregate(each) and not aggregates:
            raise context.error("an aggregate is not allowed here", each, "use Having for conditions on aggregates")
