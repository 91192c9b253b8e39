"""Templates: a query with parameters, which stands for as many queries as there are rows with values for them.

Many queries are a join of the stream of data with the relation of queries. A template becomes one query that reads the
relation of its rules: `:limit` is the column `limit` of a rule, the key of the rule stands in front of every row of the
answer, and what is grouped is grouped by rule, too.

>>> query = parse_query("Select Istream(v) From s [Now] Where v > :limit")
>>> parameters(query)
('limit',)
>>> made = instantiated(query, "limits", "rule", ("rule", "limit"))
>>> [each.alias_or_name for each in made.selects], made.meta["to_stream"]
(['rule', 'v'], 'istream')

Differs from the paper
----------------------
PSoup lets a new query look at old data as far as its window reaches. So do rules over windows; a template that names no
window at all means each row at its own time, and rules see the rows that come after them.

References
----------
S. Chandrasekaran, M. Franklin, *Streaming Queries over Streaming Data*, VLDB 2002, section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from anabranch.cql.dialect import parse_query
from anabranch.cql.functions import is_aggregate
from anabranch.cql.problems import problem
from anabranch.errors import suggest
from anabranch.logical_plan import WindowSpec
from anabranch.model.names import quoted

RULES = "_rules"
VALUE = "_value_of_"
"""Prefix of the columns that hold the values of parameters: no column of a stream has such a name."""
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.RegexpLike, exp.NullSafeEQ)

SECOND_LIKE_FIRST = ("startswith", "endswith", "contains", "rlike", "regexp", "regexp_like", "in_network")
"""Functions whose second argument is of the type of the first."""


def parameters(query: exp.Query) -> tuple[str, ...]:
    """Names of the parameters, in the order in which they stand."""
    return tuple(dict.fromkeys(each.name for each in query.find_all(exp.Placeholder, bfs=False)))


def compared_with(query: exp.Query, parameter: str) -> exp.Expr | None:
    """An expression that a parameter is compared with: it has the type that values of the parameter need."""
    for place in (each for each in query.find_all(exp.Placeholder) if each.name == parameter):
        above = place.parent
        if isinstance(above, COMPARISONS):
            other: exp.Expr = above.expression if above.this is place else above.this
            return None if isinstance(other, exp.Placeholder) else other
        if (
            isinstance(above, exp.Anonymous)
            and above.name.lower() in SECOND_LIKE_FIRST
            and above.expressions[0] is not place
        ):
            text: exp.Expr = above.expressions[0]
            return text
        if isinstance(above, exp.Between | exp.In) and above.this is not place:
            tested: exp.Expr = above.this
            return tested
    return None


def instantiated(template: exp.Query, relation: str, key: str, columns: Collection[str]) -> exp.Query:
    """The query over all rules of a relation that a template stands for.

    Parameters
    ----------
    template
        A Select, or a set operation of several.
    relation
        Its rules.
    key
        The column that tells rules apart.
    columns
        Of the relation.
    """
    query, source = template.copy(), template.meta.get("source", "")
    used = parameters(query)
    if not used:
        raise problem(
            "a template without parameters", query, source, "write :name where rules have values of their own"
        )
    for place in query.find_all(exp.Placeholder):
        if place.name not in columns:
            known = [name for name in columns if name != key]
            hint = suggest(place.name, known, "columns")
            raise problem(f"parameter ':{place.name}' is not a column of {relation!r}", template, source, hint)
    for select in list(_outer_selects(query)):
        _join_rules(select, relation, key, used)
    nested = next(query.find_all(exp.Placeholder), None)
    if nested is not None:
        hint = "compare with it in the outer Where, or make the query within a view"
        raise problem(f"parameter ':{nested.name}' stands in a query within the template", template, source, hint)
    return query


def _outer_selects(query: exp.Expr) -> Sequence[exp.Select]:
    if isinstance(query, exp.Select):
        return [query]
    parts = [query.this, query.args.get("expression")] if isinstance(query, exp.SetOperation | exp.Subquery) else []
    return [select for part in parts if part is not None for select in _outer_selects(part)]


def _join_rules(select: exp.Select, relation: str, key: str, used: Sequence[str]) -> None:
    """Let a Select read the relation of rules, and use their values for its parameters."""
    own = [each for each in select.find_all(exp.Placeholder) if each.find_ancestor(exp.Select) is select]
    grouped = _groups(select)
    if not grouped:
        _at_arrival(select)
    _spell_out_stars(select)
    for each in own:
        each.replace(_value(each.name))
    values = [f"{quoted(key)} As {quoted(VALUE)}", *(f"{quoted(name)} As {quoted(VALUE + name)}" for name in used)]
    rules = parse_query(f"Select {', '.join(values)} From {quoted(relation)}")
    select.append("joins", exp.Join(this=exp.Subquery(this=rules, alias=exp.TableAlias(this=exp.to_identifier(RULES)))))
    select.set("expressions", [exp.alias_(_value(""), key, quoted=True), *select.expressions])
    if grouped:
        select.group_by(*(_value(name) for name in ("", *used)), append=True, copy=False)


def _value(name: str) -> exp.Column:
    """The column of the rules with the values of a parameter; that of their keys if it has no name."""
    return exp.column(VALUE + name, table=RULES, quoted=True)


def _groups(select: exp.Select) -> bool:
    calls = (node for each in select.expressions for node in each.walk())
    return bool(select.args.get("group") or select.args.get("having")) or any(
        isinstance(node, exp.AggFunc) or is_aggregate(node) for node in calls
    )


def _at_arrival(select: exp.Select) -> None:
    """Without any window, and without a word about streams, every row counts at its own time."""
    tables = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]
    if "to_stream" in select.meta or len(tables) > 1 or "window" in tables[0].meta or select.parent is not None:
        return
    if isinstance(tables[0], exp.Table) and not select.args.get("distinct"):
        tables[0].meta["window"] = WindowSpec(span=0)
        tables[0].meta["window_at"] = (None, None)
        select.meta["to_stream"] = "istream"


def _spell_out_stars(select: exp.Select) -> None:
    """`*` means all columns but those of the rules."""
    tables = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]
    items: list[exp.Expr] = []
    for each in select.expressions:
        if isinstance(each, exp.Star):
            items += [exp.Column(this=exp.Star(), table=exp.to_identifier(table.alias_or_name)) for table in tables]
        else:
            items.append(each)
    select.set("expressions", items)
