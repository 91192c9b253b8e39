"""Outer joins: what is joined, and beside it the rows without a partner, with NULLs in the columns of the other side.

`a Left Join b On a.k = b.k` is the join of both, and a union with the rows of a for which no row of b exists. The plan
says so, in nodes that there are anyway.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.cql.expressions import bind_expression
from anabranch.cql.joins import split
from anabranch.cql.scopes import ALONE, OuterJoin, Scope
from anabranch.expressions import Scalar
from anabranch.logical_plan import Join, Member, Plan, Project, SetOperation

HINT = "compare columns of both sides by =, and put the other conditions into a query in From"


def outer_joined(scope: Scope, join: OuterJoin) -> Plan:
    """The outer join of both sources, with queries that stand for a value; call it when all used columns are known."""
    context, name = scope.context, f"{join.side.title()} Join"
    if sum(not source.hidden for source in scope.sources) != 2:
        raise context.error(f"{name} beside other sources is not supported", join.node, ALONE)
    conditions = [bind_expression(each, scope) for each in join.conditions]
    plans, keys, filters, above = split(scope, conditions)
    if above or any(filters[number] for number in join.kept):
        raise context.error(f"{name} by other conditions than = is not supported", join.node, HINT)
    plans, values = plans[:2], plans[2:]
    both = Join(tuple(plans), keys)
    parts: list[Plan] = [both]
    for number in join.kept:
        here, there = plans[number], plans[1 - number]
        pairs = tuple((dict(key)[number], dict(key)[1 - number]) for key in keys)
        for _, partner in pairs:
            context.note("member", partner, join.node)
        parts.append(_with_nulls(Member(here, there, pairs, negated=True), both.columns))
    union = SetOperation("union", True, tuple(parts))
    return Join((union, *values)) if values else union


def _with_nulls(plan: Plan, columns: tuple[str, ...]) -> Plan:
    """A plan with further columns, which are NULL."""
    nothing = Scalar(exp.Null())
    own = plan.columns
    return Project(plan, tuple((name, Scalar.reading(name) if name in own else nothing) for name in columns))
