"""The hint `/*+ Leading(c, b) */` of a Select: rows of each source look for partners in `c` first, then in `b`.

>>> from anabranch.cql.dialect import parse_query
>>> def hint(text):
...     return parse_query(f"Select {text} a.v From a, b, c").args["hint"]
>>> is_leading(hint("/*+ Leading(c, b) */")), is_leading(hint("/*+ Broadcast(c) */"))
(True, False)
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.cql.scopes import Scope
from anabranch.errors import suggest

NAME = "leading"


def is_leading(hint: exp.Hint) -> bool:
    """Whether it is one `Leading` with names of sources."""
    if len(hint.expressions) != 1:
        return False
    (only,) = hint.expressions
    named = isinstance(only, exp.Anonymous) and str(only.this).lower() == NAME
    return named and bool(only.expressions) and all(_is_name(each) for each in only.expressions)


def leading(select: exp.Select, scope: Scope) -> tuple[int, ...]:
    """Numbers of the sources that are named, in their order; none without the hint."""
    hint = select.args.get("hint")
    if hint is None:
        return ()
    known = {source.alias: number for number, source in enumerate(scope.sources) if not source.hidden}
    numbers: list[int] = []
    for each in hint.expressions[0].expressions:
        number = next((number for alias, number in known.items() if alias.lower() == each.name.lower()), None)
        at = select.expressions[0]  # nodes in a hint count from the hint's own beginning
        if number is None:
            close = suggest(each.name, list(known), "sources")
            raise scope.context.error(f"Leading names {each.name!r}, which is no source", at, close)
        if number in numbers:
            raise scope.context.error(f"Leading names {each.name!r} twice", at, "name each source once")
        numbers.append(number)
    if scope.outer_joins:
        raise scope.context.error("Leading is for joins that are not outer", select.expressions[0], "leave it out")
    return tuple(numbers)


def _is_name(node: object) -> bool:
    return isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star)
