"""The binder: from a query's text or syntax tree, and a catalog, to a logical plan.

>>> from anabranch.cql.catalog import Catalog
>>> from anabranch.cql.rendering import render
>>> query = bind("Select k From s1 Where a > 3", Catalog(streams={"s1": ("k", "a")}), "few")
>>> print(render(query.plan))
istream
  project k_2
    filter `a_1` > 3
      window unbounded
        stream s1 (k as k_2, a as a_1)

Notes
-----
Without a window a stream is seen with all its rows. A query without a relation-to-stream operator answers with a
stream, as by Istream, if its answer can only grow: no window has a limit, and nothing in it is an aggregate, Except,
Not In or Not Exists. Otherwise the answer is a relation.

Differs from the thesis
-----------------------
An unqualified column that several sources have is ambiguous, as in the SQL standard, also if Where makes these columns
equal.

References
----------
S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, Stanford 2005, section 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from sqlglot import exp

from anabranch.cql.bound_query import BoundQuery
from anabranch.cql.catalog import Catalog
from anabranch.cql.dialect import parse_query, written
from anabranch.cql.grammar import check
from anabranch.cql.plan_columns import pruned
from anabranch.cql.plan_properties import grows
from anabranch.cql.scopes import Context, Names, Relation, Scope
from anabranch.cql.selects import bind_select
from anabranch.logical_plan import Plan, Query, SetKind, SetOperation, ToStream, scans
from anabranch.model.names import OP, TS

KINDS: dict[type[exp.Expr], SetKind] = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}


def bind(query: str | exp.Query, catalog: Catalog, name: str) -> Query:
    """Bind a query.

    Parameters
    ----------
    query
        Text, or what `parse_query` or `parse` made of it.
    catalog
        What the query may name.
    name
        Under which the query is registered.

    Raises
    ------
    CQLError
        If a name is unknown or ambiguous, or the query is invalid; it shows the place.
    """
    tree = parse_query(query) if isinstance(query, str) else query
    if catalog.builtins is not None:
        catalog = replace(catalog, builtins=cache(catalog.builtins))  # asking Spark takes a while
    context = Context(catalog, Names(), tree.meta.get("source", ""))
    check(tree, context.source)
    relation = _bind(tree, context, None)
    plan = relation.plan
    if not scans(plan, "stream"):
        hint = "a continuous query reads at least one stream; ask Spark about relations"
        raise context.error("no stream in the query", tree, hint)
    if not isinstance(plan, ToStream) and grows(plan):
        plan = ToStream(plan, "istream")
    _check_names(tree, relation.output, plan, context)
    return BoundQuery(name, pruned(plan), relation.output, written(query), context.places, context.expressions)


def _check_names(tree: exp.Query, output: Sequence[str], plan: Plan, context: Context) -> None:
    """Refuse columns that would have the name of what the answer has besides them."""
    taken = (TS,) if isinstance(plan, ToStream) else (TS, OP)
    for name in (each for each in output if each.lower() in taken):
        at = next((each for each in tree.selects if each.alias_or_name.lower() == name.lower()), None)
        star = next((each for each in tree.selects if each.is_star), tree)
        other = f"As {name.lstrip('_')}"
        hint = f"list the columns, with {name} {other}" if at is None else f"give it another name, as in {other}"
        raise context.error(f"the answer has a column {name.lower()!r} of its own", at or star, hint)


def _bind(node: exp.Expr, context: Context, outer: Scope | None) -> Relation:
    """Any query: a Select, a set operation, or one in parentheses, with its relation-to-stream operator."""
    if not isinstance(node, exp.Query):
        raise context.error("a query is expected", node)
    inside = context.within(node)
    if isinstance(node, exp.Subquery):
        relation = _bind(node.this, inside, outer)
    elif isinstance(node, exp.Select):
        relation = bind_select(node, inside, outer, _bind)
    elif isinstance(node, exp.SetOperation) and type(node) in KINDS:
        relation = _bind_set(node, inside)
    else:
        raise context.error("this kind of query is not supported", node, "Select ... From ...")
    kind = node.meta.get("to_stream")
    if kind is None:
        return relation
    if isinstance(relation.plan, ToStream):
        raise context.error(f"{kind.title()} of a query that is a stream already", node, "write one of the two")
    return Relation(ToStream(relation.plan, kind), relation.output, relation.correlated)


def _bind_set(node: exp.SetOperation, context: Context) -> Relation:
    kind, keep = KINDS[type(node)], not node.args.get("distinct")
    sides = [_bind(each, context, None) for each in (node.this, node.expression)]
    counts = [len(each.output) for each in sides]
    if counts[0] != counts[1]:
        hint = "both sides need the same number"
        raise context.error(f"{kind.title()} of {counts[0]} and {counts[1]} columns", node, hint)
    if any(isinstance(each.plan, ToStream) for each in sides):
        hint = f"write Istream(Select ... {kind.title()} Select ...) around the whole"
        raise context.error(f"{kind.title()} is for relations, and one side is a stream", node, hint)
    first = sides[0].plan
    nested = isinstance(first, SetOperation) and first.kind == kind == "union" and first.all == keep
    inputs = first.inputs if nested else (first,)
    return Relation(SetOperation(kind, keep, (*inputs, sides[1].plan)), sides[0].output)
