"""The list of Select: `*` is expanded, and every column gets a name that the answer shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from anabranch.cql.scopes import Scope
from anabranch.errors import suggest

SYNTAXES: dict[type[exp.Expr], str] = {
    exp.If: "if",
    exp.Extract: "extract",
    exp.Overlay: "overlay",
    exp.StrPosition: "position",
    exp.Substring: "substring",
    exp.Trim: "trim",
}
"""Names of columns that are calls with a syntax of their own."""


@dataclass(frozen=True)
class Item:
    """One column of the answer.

    Parameters
    ----------
    name
        Wanted name of the column.
    node
        Its expression.
    alias
        The name that the user gave it, if any.
    qualifier
        The source, to distinguish it from a column of the same name.
    """

    name: str
    node: exp.Expr
    alias: str | None = None
    qualifier: str = ""


def expand_items(select: exp.Select, scope: Scope) -> list[Item]:
    """The columns of Select, one by one."""
    items: list[Item] = []
    for node in select.expressions:
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            items.extend(_all_columns(node, scope))
        elif isinstance(node, exp.Alias):
            items.append(Item(node.alias, node.this, node.alias))
        else:
            qualifier = node.table if isinstance(node, exp.Column) else ""
            items.append(Item(_default_name(node, len(items)), node, None, qualifier))
    return items


def output_names(items: Sequence[Item]) -> tuple[str, ...]:
    """Names of the answer's columns, all different: a later one gets its source in front, then a number."""
    names: list[str] = []
    taken: set[str] = set()
    for item in items:
        name = item.name
        if name.lower() in taken and item.qualifier:
            name = f"{item.qualifier}_{item.name}"
        base, number = name, 2
        while name.lower() in taken:
            name, number = f"{base}_{number}", number + 1
        names.append(name)
        taken.add(name.lower())
    return tuple(names)


def _all_columns(node: exp.Expr, scope: Scope) -> Iterator[Item]:
    """The columns of one source, or of all; columns of Using come once."""
    alias = node.table if isinstance(node, exp.Column) else ""
    if alias and scope.source(alias) is None:
        hint = suggest(alias, [each.alias for each in scope.sources if not each.hidden], "names in From")
        raise scope.context.error(f"{alias!r} is not in From", node, hint)
    seen: set[str] = set()
    for source in scope.sources:
        if source.hidden or (alias and source.alias.lower() != alias.lower()):
            continue
        for name in source.names:
            if not (name.lower() in scope.merged and name.lower() in seen):
                column = exp.column(name, table=source.alias, quoted=True)
                yield Item(name, column, None, source.alias)
            seen.add(name.lower())


def _default_name(node: exp.Expr, place: int) -> str:
    """The name of a column or function as it is written, else the place in the list."""
    inner = node.unnest()
    while isinstance(inner, exp.Cast | exp.Filter):
        inner = inner.this.unnest()
    if isinstance(inner, exp.Column | exp.Anonymous):
        return inner.name
    if isinstance(inner, exp.Dot):
        return str(inner.expression.name)
    return SYNTAXES.get(type(inner), f"_c{place}")
