"""Queries as values, as in `a > (Select Avg(a) From s2 [Rows 10])`: one more input of the join, with one row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from anabranch.cql.membership import BindInner
from anabranch.cql.scopes import Scope, Source
from anabranch.model.continuous import Aggregate, Plan, Project

HINT = "a value comes from an aggregate without Group By and Having, as in (Select Avg(a) From s2 [Rows 10])"


def lift_values(node: exp.Expr, scope: Scope, bind_inner: BindInner) -> exp.Expr:
    """The expression with a column in the place of each query, which becomes a source of the scope."""
    copy = node.copy()
    for subquery in list(_subqueries(copy)):
        column = _as_source(subquery, scope, bind_inner)
        if subquery is copy:
            return column
        subquery.replace(column)
    return copy


def _subqueries(node: exp.Expr) -> Iterator[exp.Subquery]:
    """Outermost queries that stand for a value."""
    if isinstance(node, exp.Subquery):
        yield node
    elif not isinstance(node, exp.Exists) and not (isinstance(node, exp.In) and node.args.get("query")):
        for child in node.iter_expressions():
            yield from _subqueries(child)


def _as_source(subquery: exp.Subquery, scope: Scope, bind_inner: BindInner) -> exp.Column:
    relation = bind_inner(subquery, scope.context, replace(scope, closed=True))
    if len(relation.output) != 1 or not _one_row(relation.plan):
        raise scope.context.error("this query is not a single value", subquery, HINT)
    name, plan = relation.output[0], relation.plan
    alias = scope.context.names.fresh("value")
    scope.add(Source(alias, (name,), lambda _: plan, {name.lower(): plan.columns[0]}, hidden=True), subquery)
    return exp.column(name, table=alias, quoted=True)


def _one_row(plan: Plan) -> bool:
    inner = plan.input if isinstance(plan, Project) else plan
    return isinstance(inner, Aggregate) and not inner.keys
