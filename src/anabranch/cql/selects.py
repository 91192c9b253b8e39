"""From the syntax tree of a Select to a plan."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from anabranch.cql.expressions import bind_expression, computed, conjuncts, read, scalar
from anabranch.cql.functions import is_aggregate
from anabranch.cql.grouping import Grouping
from anabranch.cql.hints import leading
from anabranch.cql.items import Item, expand_items, output_names
from anabranch.cql.joins import filtered
from anabranch.cql.outer_joins import joined
from anabranch.cql.scopes import Context, Relation, Scope
from anabranch.cql.sources import bind_from
from anabranch.cql.subqueries import BindInner, bind_membership, is_membership, lift_values, with_membership
from anabranch.cql.window_function import expand_windows
from anabranch.logical_plan import Distinct, Plan, Project, Scalar


def bind_select(select: exp.Select, context: Context, outer: Scope | None, bind_inner: BindInner) -> Relation:
    """The plan of a Select; `outer` is the scope of the query that has it as a condition."""
    scope = Scope(context, outer)
    conditions = bind_from(select, scope, lambda node, inside: bind_inner(node, inside, None))
    preferred = leading(select, scope)
    expand_windows(select, scope)
    conditions += _clause(select, "where")
    plain = [lift_values(each, scope, bind_inner) for each in conditions if not is_membership(each)]
    tests = [bind_membership(each, scope, bind_inner) for each in conditions if is_membership(each)]
    local, correlated = _correlations([(each, bind_expression(each, scope, outer=True)) for each in plain], scope)
    items = [_lifted(each, scope, bind_inner) for each in expand_items(select, scope)]
    bound = [bind_expression(each.node, scope, aggregates=True) for each in items]
    grouping, having = _grouping(select, items, bound, scope)
    if grouping is not None:
        bound = [grouping.rewrite(each, item.alias) for each, item in zip(bound, items, strict=True)]
        having = [grouping.rewrite(each) for each in having]
        if correlated:
            raise context.error("an aggregation cannot be compared with the outer query", select, "use a join")
    plan = joined(scope, local, preferred)
    for test in tests:
        plan = with_membership(plan, test, context)
    if grouping is not None:
        plan = filtered(grouping.over(plan), having, scope)
    plan, inner = computed(plan, [own for _, own, _ in correlated], context)
    for name, (_, _, equality) in zip(inner, correlated, strict=True):
        context.note("member", name, equality)
    plan = _projected(plan, items, bound, inner, context)
    plan = Distinct(plan) if select.args.get("distinct") else plan
    pairs = zip((theirs for theirs, _, _ in correlated), inner, strict=True)
    return Relation(plan, output_names(items), tuple(pairs))


def _clause(select: exp.Select, key: str) -> list[exp.Expr]:
    """The conditions of Where or Having."""
    clause = select.args.get(key)
    return [] if clause is None else list(conjuncts(clause.this))


def _lifted(item: Item, scope: Scope, bind_inner: BindInner) -> Item:
    return Item(item.name, lift_values(item.node, scope, bind_inner), item.alias, item.qualifier)


def _correlations(
    conditions: Sequence[tuple[exp.Expr, exp.Expr]], scope: Scope
) -> tuple[list[exp.Expr], list[tuple[exp.Expr, exp.Expr, exp.Expr]]]:
    """Conditions of the query's own, and those that compare it: an outer and an own expression, and the equality."""
    local, correlated = [], []
    for node, bound in conditions:
        if not scope.reads_outer(bound):
            local.append(bound)
            continue
        sides = [bound.this.unnest(), bound.expression.unnest()] if isinstance(bound, exp.EQ) else []
        theirs = [side for side in sides if not scope.inputs(side) and scope.reads_outer(side)]
        own = [side for side in sides if scope.inputs(side) and not scope.reads_outer(side)]
        if len(theirs) != 1 or len(own) != 1:
            hint = "write it as inner column = outer column, on its own"
            raise scope.context.error("an inner query can be compared with the outer one by = only", node, hint)
        correlated.append((theirs[0], own[0], bound))
    return local, correlated


def _grouping(
    select: exp.Select, items: Sequence[Item], bound: Sequence[exp.Expr], scope: Scope
) -> tuple[Grouping | None, list[exp.Expr]]:
    """The aggregation of the query, if it has one, and its bound Having."""
    group, having = select.args.get("group"), _clause(select, "having")
    aggregated = any(is_aggregate(each) for expression in bound for each in expression.walk())
    if group is None and not having and not aggregated:
        return None, []
    keys = [bind_expression(_key(each, items, scope), scope) for each in (group.expressions if group else [])]
    return Grouping(scope.context, keys), [_having(each, items, scope) for each in having]


def _key(node: exp.Expr, items: Sequence[Item], scope: Scope) -> exp.Expr:
    """An expression of Group By: a place in the list of items, the alias of one, or an expression."""
    if isinstance(node, exp.Literal) and not node.is_string:
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
            raise scope.context.error(f"Group By {node.name} is not a position in the list of Select", node)
        return items[int(node.name) - 1].node
    return _by_alias(node, items, scope) or node


def _by_alias(node: exp.Expr, items: Sequence[Item], scope: Scope) -> exp.Expr | None:
    if isinstance(node, exp.Column) and not node.table and not scope.holders(node.name):
        return next((each.node for each in items if each.alias and each.alias.lower() == node.name.lower()), None)
    return None


def _having(node: exp.Expr, items: Sequence[Item], scope: Scope) -> exp.Expr:
    copy = node.copy()
    for each in list(copy.find_all(exp.Column)):
        replacement = _by_alias(each, items, scope)
        if replacement is not None and each is copy:
            copy = replacement.copy()
        elif replacement is not None:
            each.replace(exp.paren(replacement.copy(), copy=False))
    if copy.find(exp.Query) is not None:
        hint = "group in a query of its own, and compare in the Where of the one that reads it"
        raise scope.context.error("a query in Having is not supported", node, hint)
    return bind_expression(copy, scope, aggregates=True)


def _projected(
    plan: Plan, items: Sequence[Item], bound: Sequence[exp.Expr], inner: Sequence[str], context: Context
) -> Plan:
    """The columns of Select, then those that correlate it; no projection where it would change nothing."""
    chosen: dict[str, Scalar] = {}
    for item, each in zip(items, bound, strict=True):
        plain = each.unnest()
        kept = isinstance(plain, exp.Column) and plain.name not in chosen
        name = plain.name if kept else context.names.fresh(item.name)
        chosen[name] = scalar(plain if kept else each, context)
        context.note("item", name, item.node)
    chosen.update((name, read(name)) for name in inner)
    if tuple(chosen) == plan.columns:
        return plan
    return Project(plan, tuple(chosen.items()))
