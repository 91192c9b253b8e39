"""The From list: streams with their windows, relations, views, subqueries, and answers of other queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from anabranch.cql.dialect import parse_query
from anabranch.cql.expressions import bind_expression, conjuncts
from anabranch.cql.grammar import check
from anabranch.cql.plan_columns import renamed
from anabranch.cql.plan_properties import grows
from anabranch.cql.problems import CQLError
from anabranch.cql.scopes import Context, OuterJoin, Relation, Renamed, Scope, Source
from anabranch.errors import suggest
from anabranch.logical_plan import Plan, Scan, ToStream, Window, WindowSpec, scans

SIDES = ("LEFT", "RIGHT", "FULL")
BindQuery: TypeAlias = Callable[[exp.Expr, Context], Relation]


def bind_from(select: exp.Select, scope: Scope, bind_query: BindQuery) -> list[exp.Expr]:
    """Fill a scope with the sources of a query and its outer joins; conditions of joins behind them are returned."""
    clause = select.args.get("from_")
    if clause is None:
        raise scope.context.error("a query without From has no stream", select, "Select ... From a stream")
    conditions: list[exp.Expr] = []
    joins = select.args.get("joins") or []
    for node, join in [(clause.this, None), *((each.this, each) for each in joins)]:
        number = scope.add(_source(node, scope.context, bind_query), node)
        if join is not None:
            side = _outer_side(join, scope.context)
            scope.narrow(join.args.get("on"))
            own = _conditions(join, number, scope)
            if side is None:
                conditions += own
            else:
                bound = [tuple(bind_expression(each, scope) for each in some) for some in (own, conditions)]
                scope.outer_joins.append(OuterJoin(side, join, number, *bound))
                conditions = []
    return conditions


def _outer_side(join: exp.Join, context: Context) -> str | None:
    """Whose rows stay without a partner, if it is an outer join; other joins are inner ones, or refused."""
    words = " ".join(str(join.args.get(key) or "") for key in ("method", "side", "kind")).split()
    if words[:1] and words[0] in SIDES and set(words[1:]) <= {"OUTER"}:
        if join.args.get("using") or join.args.get("on") is None:
            raise context.error(f"{words[0].title()} Join needs On", join, "as in a Left Join b On a.k = b.k")
        return words[0]
    if any(word not in ("INNER", "CROSS") for word in words):
        name = " ".join(word.title() for word in words)
        hints = {"SEMI": "use Exists", "ANTI": "use Not Exists", "NATURAL": "name the columns with Using"}
        hint = next((hints[word] for word in words if word in hints), "use an inner Join, and Union All for the rest")
        raise context.error(f"{name} Join is not supported", join, hint)
    return None


def _conditions(join: exp.Join, number: int, scope: Scope) -> list[exp.Expr]:
    conditions = list(conjuncts(join.args.get("on")))
    for identifier in join.args.get("using") or []:
        name = identifier.name
        holders = scope.holders(name)
        if number not in holders or len(holders) < 2:
            where = scope.sources[number].alias if number not in holders else "what is joined before"
            raise scope.context.error(f"Using names {name!r}, which is not a column of {where}", identifier)
        if len(holders) > 2 and name.lower() not in scope.merged:
            raise scope.context.error(f"column {name!r} of Using is ambiguous", identifier, "use On")
        scope.merged.add(name.lower())
        sides = [exp.column(name, table=scope.sources[i].alias, quoted=True) for i in (holders[0], number)]
        for side in sides:
            side.this.meta.update(identifier.meta)
        conditions.append(exp.EQ(this=sides[0], expression=sides[1]))
    return conditions


def _source(node: exp.Expr, context: Context, bind_query: BindQuery) -> Source:
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
        source = _source(_passed_down(node, context), context, bind_query)
    elif isinstance(node, exp.Subquery):
        source = _planned(bind_query(node.this, context), node, context)
    elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        source = _named(node, context, bind_query)
    else:
        raise context.error("a function in From is not supported", node, "name a stream or a relation")
    return _aliased(source, node, context)


def _passed_down(node: exp.Subquery, context: Context) -> exp.Expr:
    """What stands in parentheses, with the window that stands behind them."""
    inner: exp.Expr = node.this.copy()
    if "window" in node.meta:
        if "window" in inner.meta:
            raise _at_window(node, context, "a second window", "a stream has one window")
        inner.meta.update(window=node.meta["window"], window_at=node.meta["window_at"])
    return inner


def _named(node: exp.Table, context: Context, bind_query: BindQuery) -> Source:
    name, catalog = node.name, context.catalog
    common = context.common.get(name.lower())
    if common is not None:
        source = _planned(bind_query(common.query, common.context), node, context, name)
        return _with_columns(source, list(common.columns), node, context) if common.columns else source
    if (view := catalog.view(name)) is not None:
        return _planned(_view(name, view, node, context, bind_query), node, context, name)
    if (stream := catalog.stream(name)) is not None:
        return _stream(*stream, node, context)
    if (relation := catalog.relation(name)) is not None:
        _refuse_window(node, context)
        own, columns = relation
        return Source(name, columns, lambda used: Scan(own, "relation", used, own in catalog.changing))
    if (query := catalog.query(name)) is not None:
        plan = renamed(query.plan, context.names)
        return _planned(Relation(plan, query.output), node, context, name)
    known = [*catalog.names(), *(each for each in context.common)]
    raise context.error(f"unknown stream or relation {name!r}", node.this, suggest(name, known, "names"))


def _view(name: str, view: str | exp.Query, node: exp.Expr, context: Context, bind_query: BindQuery) -> Relation:
    if name.lower() in context.expanding:
        raise context.error(f"the view {name!r} reads itself", node)
    query = parse_query(view) if isinstance(view, str) else view
    source = query.meta.get("source", "")
    check(query, source)
    return bind_query(query, context.in_view(name, source))


def _stream(name: str, columns: tuple[str, ...], node: exp.Expr, context: Context) -> Source:
    spec: WindowSpec = node.meta.get("window", WindowSpec())
    unique = {each.lower(): context.names.fresh(each) for each in _partition(spec, columns, node, context)}

    def build(used: Renamed) -> Plan:
        return Window.of(Scan(name, "stream", used), spec, tuple(unique[each.lower()] for each in spec.partition))

    return Source(node.name, columns, build, dict(unique))


def _planned(relation: Relation, node: exp.Expr, context: Context, alias: str = "") -> Source:
    """A source with a plan of its own: a stream gets a window, a relation must have none.

    With a window behind it, a query that only gains rows is a stream: that of its inserts.
    """
    plan = relation.plan
    if "window" in node.meta and not isinstance(plan, ToStream) and scans(plan, "stream") and grows(plan):
        plan = ToStream(plan, "istream")
    unique = {each.lower(): name for each, name in zip(relation.output, plan.columns, strict=True)}
    if isinstance(plan, ToStream):
        spec: WindowSpec = node.meta.get("window", WindowSpec())
        keys = _partition(spec, relation.output, node, context)
        plan = Window.of(plan, spec, tuple(unique[each.lower()] for each in keys))
    else:
        _refuse_window(node, context)
    return Source(alias or context.names.fresh("subquery"), relation.output, lambda _: plan, unique)


def _partition(spec: WindowSpec, columns: tuple[str, ...], node: exp.Expr, context: Context) -> list[str]:
    found = []
    for name in spec.partition:
        match = next((each for each in columns if each.lower() == name.lower()), None)
        if match is None:
            raise _at_window(
                node, context, f"unknown column {name!r} in Partition By", suggest(name, columns, "columns")
            )
        found.append(match)
    return found


def _refuse_window(node: exp.Expr, context: Context) -> None:
    if "window" in node.meta:
        hint = "leave the window out, or make a stream of it with Istream, Dstream or Rstream"
        raise _at_window(node, context, "a window on a relation: windows are for streams", hint)


def _at_window(node: exp.Expr, context: Context, what: str, hint: str) -> CQLError:
    start, end = node.meta.get("window_at", (None, None))
    return CQLError(what, source=context.source, start=start, end=end, hint=hint)


def _aliased(source: Source, node: exp.Expr, context: Context) -> Source:
    alias = node.args.get("alias")
    if alias is None:
        return source
    if not alias.columns:
        return replace(source, alias=alias.name or source.alias)
    return _with_columns(
        replace(source, alias=alias.name or source.alias), [each.name for each in alias.columns], node, context
    )


def _with_columns(source: Source, names: list[str], node: exp.Expr, context: Context) -> Source:
    """The source under other column names, as in `s1 As x(a, b)`."""
    if len(names) != len(source.names):
        what = f"{source.alias!r} has {len(source.names)} columns, and {len(names)} names are given"
        raise context.error(what, node)
    back = {new.lower(): old for new, old in zip(names, source.names, strict=True)}
    unique = {
        new.lower(): source.unique[old.lower()]
        for new, old in zip(names, source.names, strict=True)
        if old.lower() in source.unique
    }

    def build(used: Renamed) -> Plan:
        return source.build(tuple((back[name.lower()], own) for name, own in used))

    return Source(source.alias, tuple(names), build, unique)
