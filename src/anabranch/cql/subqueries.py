"""Queries within conditions and expressions: In and Exists, and queries that stand for a value.

`x Not In S` is true if no row of S equals x and neither x nor a row of S is NULL, and true for every x if S is empty.
The plan says so: rows with an x go through two tests, for an equal row and for a NULL row of S; rows without an x pass
if S is empty. All three read the same plan of S, which is read once. Where no NULL can come, a test is left out.

A query as a value, as in `a > (Select Avg(a) From s2 [Rows 10])`, is one more input of the join, with one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from anabranch.cql.expressions import bind_expression, column, computed, scalar
from anabranch.cql.plan_columns import pruned
from anabranch.cql.plan_properties import never_null
from anabranch.cql.scopes import Context, Relation, Scope, Source
from anabranch.logical_plan import Aggregate, Filter, Member, Plan, Project, SetOperation, ToStream

BindInner: TypeAlias = Callable[[exp.Expr, Context, Scope | None], Relation]


HINT = "a value comes from an aggregate without Group By and Having, as in (Select Avg(a) From s2 [Rows 10])"


@dataclass(frozen=True)
class Membership:
    """A bound In or Exists."""

    values: tuple[exp.Expr, ...]  # left of In; none for Exists
    other: Relation
    negated: bool


def is_membership(condition: exp.Expr) -> bool:
    """Whether a condition is an In or Exists with a query, perhaps negated."""
    inner, _ = _unnegated(condition)
    return isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and inner.args.get("query") is not None)


def bind_membership(condition: exp.Expr, scope: Scope, bind_inner: BindInner) -> Membership:
    """Bind both sides; the query on the right may compare its columns with those of the scope."""
    inner, negated = _unnegated(condition)
    if isinstance(inner, exp.Exists):
        other = _bind_other(inner.this, condition, scope, bind_inner)
        plan = pruned(other.plan, [name for _, name in other.correlated])
        return Membership((), replace(other, plan=plan), negated)
    left = inner.this.unnest()
    nodes = left.expressions if isinstance(left, exp.Tuple) else [left]
    values = tuple(bind_expression(each, scope) for each in nodes)
    other = _bind_other(inner.args["query"], condition, scope, bind_inner)
    if len(values) != len(other.output):
        what = f"In compares {len(values)} values with {len(other.output)} columns"
        raise scope.context.error(what, condition, "both sides need the same number")
    if negated and len(values) > 1:
        raise scope.context.error("Not In with several columns is not supported", condition, "use Not Exists")
    return Membership(values, other, negated)


def _bind_other(node: exp.Expr, condition: exp.Expr, scope: Scope, bind_inner: BindInner) -> Relation:
    other = bind_inner(node, scope.context, scope)
    if isinstance(other.plan, ToStream):
        hint = "leave Istream, Dstream or Rstream out"
        raise scope.context.error("In and Exists look into a relation, and this is a stream", condition, hint)
    return other


def with_membership(plan: Plan, test: Membership, context: Context) -> Plan:
    """The rows of a plan that pass a test."""
    outer = [expression for expression, _ in test.other.correlated]
    plan, names = computed(plan, [*test.values, *outer], context)
    values = names[: len(test.values)]
    other = test.other.plan
    for value, partner in zip(test.values, other.columns, strict=False):
        context.note("member", partner, value)
    correlated = tuple(zip(names[len(values) :], (name for _, name in test.other.correlated), strict=True))
    pairs = (*zip(values, other.columns, strict=False), *correlated)
    if not test.negated or not values:
        return Member(plan, other, pairs, test.negated)
    return _not_in(plan, other, pairs, correlated, context)


def _not_in(
    plan: Plan,
    other: Plan,
    pairs: tuple[tuple[str, str], ...],
    correlated: tuple[tuple[str, str], ...],
    context: Context,
) -> Plan:
    value, partner = pairs[0]
    valued = never_null(plan, value)
    known = plan if valued else Filter(plan, (scalar(exp.Not(this=_is_null(value)), context),))
    found: Plan = Member(known, other, pairs, negated=True)
    if not never_null(other, partner):
        nulls = Filter(other, (scalar(_is_null(partner), context),))
        found = Member(found, nulls, correlated, negated=True)
    if valued:
        return found
    unknown = Filter(plan, (scalar(_is_null(value), context),))
    return SetOperation("union", True, (found, Member(unknown, other, correlated, negated=True)))


def _is_null(name: str) -> exp.Expr:
    return exp.Is(this=column(name), expression=exp.Null())


def _unnegated(condition: exp.Expr) -> tuple[exp.Expr, bool]:
    negated = False
    inner = condition.unnest()
    while isinstance(inner, exp.Not):
        inner, negated = inner.this.unnest(), not negated
    return inner, negated


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
