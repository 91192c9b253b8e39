"""What every step of binding needs: the catalog, a supply of unique names, and the text for error messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp

from anabranch.cql.bound import Place, Written
from anabranch.cql.catalog import Catalog
from anabranch.cql.problems import CQLError, problem, span
from anabranch.planning.types import Role


class Names:
    """Makes names unique by a number that counts up through a query.

    >>> names = Names()
    >>> names.fresh("k"), names.fresh("k")
    ('k_1', 'k_2')
    """

    def __init__(self) -> None:
        self._numbers = count(1)

    def fresh(self, base: str) -> str:
        """A name that nothing else in the query has."""
        return f"{base}_{next(self._numbers)}"


@dataclass(frozen=True)
class Named:
    """A query under a name, and the context in which it was written."""

    query: exp.Query
    context: Context
    columns: tuple[str, ...] = ()  # as in With x(a, b) As ...


@dataclass(frozen=True)
class Context:
    """The surroundings of a query that is being bound.

    Parameters
    ----------
    catalog
        What can be named.
    names
        Shared by all parts of one query.
    source
        The text that positions in the syntax tree refer to.
    common
        Queries of With clauses, by lower-case name.
    expanding
        Views that are being expanded, to notice one that reads itself.
    places
        Where columns stand whose types may be wrong, by role and unique name; shared by all parts of one query.
    expressions
        What is known of expressions, by their text in the plan; shared by all parts of one query.
    """

    catalog: Catalog
    names: Names
    source: str
    common: Mapping[str, Named] = field(default_factory=dict)
    expanding: tuple[str, ...] = ()
    places: dict[tuple[Role, str], Place] = field(default_factory=dict)
    expressions: dict[str, Written] = field(default_factory=dict)

    def note(self, role: Role, name: str, node: exp.Expr) -> None:
        """Remember the place of a column in some role, as far as the node has one."""
        place = self.place(node)
        if place is not None:
            self.places[role, name] = place

    def place(self, node: exp.Expr) -> Place | None:
        """Where a node stands, as far as it is known."""
        start, end = span(node)
        return None if start is None or end is None else Place(self.source, start, end)

    def error(self, what: str, node: exp.Expr | None, hint: str | None = None) -> CQLError:
        """An error that shows a node's place."""
        return problem(what, node, self.source, hint)

    def within(self, query: exp.Query) -> Context:
        """The context inside a query: what its With clause names can be read, later ones may read earlier ones."""
        clause = query.args.get("with_")
        if clause is None:
            return self
        inner = self
        for each in clause.expressions:
            named = Named(each.this, inner, tuple(column.name for column in each.args["alias"].columns))
            inner = replace(inner, common={**inner.common, each.alias.lower(): named})
        return inner

    def in_view(self, name: str, source: str) -> Context:
        """The context of a view's own text."""
        return replace(self, source=source, common={}, expanding=(*self.expanding, name.lower()))
