"""The From list as a plan: joins from left to right, where an outer join is a node of its own.

`a Left Join b On ...` is the join of both, and a union with the rows of a that have no part in it. If equal columns
alone connect them, these are the rows for which no row of b exists; else they are `a Except All` the rows of a in the
join: a row that has a partner is there at least as often as in a. The plan says so, in nodes that there are anyway.
What stands to the left of an outer join, be it joins of many sources, is one of its two sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from anabranch.cql.joins import Part, filtered, inner_join, split
from anabranch.cql.scopes import OuterJoin, Scope
from anabranch.expressions import Scalar
from anabranch.logical_plan import Join, Member, Plan, Project, SetOperation


def joined(scope: Scope, conditions: Sequence[exp.Expr], leading: tuple[int, ...] = ()) -> Plan:
    """All sources, joined under bound conditions; call it when all used columns are known."""
    return _joined(scope, scope.outer_joins, len(scope.sources), conditions, leading)


def _joined(
    scope: Scope,
    outer_joins: Sequence[OuterJoin],
    end: int,
    conditions: Sequence[exp.Expr],
    leading: tuple[int, ...] = (),
) -> Plan:
    """The sources in front of one, with the outer joins among them, and conditions on the whole."""
    if not outer_joins:
        return inner_join([_source(scope, number) for number in range(end)], conditions, scope, leading)
    join = outer_joins[-1]
    before, behind, above = _placed(conditions, join, scope)
    left = _joined(scope, outer_joins[:-1], join.number, [*join.before, *before])
    right = filtered(scope.sources[join.number].plan(), behind, scope)
    numbers = (frozenset(range(join.number)), frozenset({join.number}))
    sides = [Part(each, _with_a_column(plan, scope)) for each, plan in zip(numbers, (left, right), strict=True)]
    both = Part(frozenset(range(join.number + 1)), _outer_join(sides, join, scope))
    return inner_join([both, *(_source(scope, number) for number in range(join.number + 1, end))], above, scope)


def _source(scope: Scope, number: int) -> Part:
    return Part(frozenset({number}), scope.sources[number].plan())


def _placed(
    conditions: Sequence[exp.Expr], join: OuterJoin, scope: Scope
) -> tuple[list[exp.Expr], list[exp.Expr], list[exp.Expr]]:
    """Conditions to be tested on the left of an outer join, on its right, and above: early on a side that stays."""
    before, behind, above = list[exp.Expr](), list[exp.Expr](), list[exp.Expr]()
    for each in conditions:
        inputs = scope.inputs(each)
        if join.side == "LEFT" and inputs and max(inputs) < join.number:
            before.append(each)
        elif join.side == "RIGHT" and inputs == {join.number}:
            behind.append(each)
        else:
            above.append(each)
    return before, behind, above


def _outer_join(sides: Sequence[Part], join: OuterJoin, scope: Scope) -> Plan:
    found = split(sides, join.conditions, scope)
    both = filtered(Join(found.plans, found.keys), found.above, scope)
    columns = tuple(name for side in sides for name in side.plan.columns)
    parts = [_with_nulls(both, columns)]
    for number in join.kept:
        if found.above or found.filters[number]:
            whole = sides[number].plan
            alone: Plan = SetOperation("except", True, (whole, _with_nulls(both, whole.columns)))
        else:
            pairs = tuple((dict(key)[number], dict(key)[1 - number]) for key in found.keys)
            for _, partner in pairs:
                scope.context.note("member", partner, join.node)
            alone = Member(found.plans[number], found.plans[1 - number], pairs, negated=True)
        parts.append(_with_nulls(alone, columns))
    return SetOperation("union", True, tuple(parts))


def _with_a_column(plan: Plan, scope: Scope) -> Plan:
    """A plan, with a constant if nothing of it is read: then there are rows to compare."""
    return plan if plan.columns else Project(plan, ((scope.context.names.fresh("row"), Scalar.long(1)),))


def _with_nulls(plan: Plan, columns: tuple[str, ...]) -> Plan:
    """A plan with these columns, which are NULL where it has none."""
    own, nothing = plan.columns, Scalar(exp.Null())
    if own == columns:
        return plan
    return Project(plan, tuple((name, Scalar.reading(name) if name in own else nothing) for name in columns))
