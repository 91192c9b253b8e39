"""The names that can be used while a query is bound: in the whole query (`Context`), and in one Select (`Scope`).

Every column gets a unique name once it is used. What comes out of binding a part of a query is a `Relation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from sqlglot import exp

from anabranch.cql.bound_query import Place, Written
from anabranch.cql.catalog import Catalog
from anabranch.cql.problems import CQLError, problem, span
from anabranch.errors import suggest
from anabranch.logical_plan import Plan
from anabranch.model.names import quoted
from anabranch.planning.types import Role

Renamed: TypeAlias = tuple[tuple[str, str], ...]
VALUES = "join a query that computes the value for all rows, with Group By"
TEXTS = "double quotes enclose a name; a text has single ones, as in '{}'"


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


@dataclass(frozen=True)
class Relation:
    """A plan with the names that its columns have for the user.

    Parameters
    ----------
    plan
        Its first columns are the output; columns that correlate it with an outer query follow.
    output
        Names of the output.
    correlated
        Expressions of the outer query, and the column of the plan that must be equal to each.
    """

    plan: Plan
    output: tuple[str, ...]
    correlated: tuple[tuple[exp.Expr, str], ...] = ()


@dataclass
class Source:
    """An item of the From list.

    Parameters
    ----------
    alias
        Under which it is known; hidden sources have none that a user could write.
    names
        Columns as the user sees them.
    build
        Makes the plan from the columns that are used: pairs of name and unique name.
    unique
        Unique names by lower-case name, of used columns only.
    hidden
        Whether `*` and unqualified names pass over it.
    """

    alias: str
    names: tuple[str, ...]
    build: Callable[[Renamed], Plan]
    unique: dict[str, str] = field(default_factory=dict)
    hidden: bool = False

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return name.lower() in (each.lower() for each in self.names)

    def plan(self) -> Plan:
        """The plan that yields the used columns."""
        return self.build(
            tuple((each, self.unique[each.lower()]) for each in self.names if each.lower() in self.unique)
        )


@dataclass(frozen=True)
class OuterJoin:
    """An outer join of all that is to the left of it with one more source.

    Parameters
    ----------
    side
        Whose rows stay without a partner: LEFT, RIGHT or FULL.
    node
        As it stands in the text.
    number
        Of the source on the right.
    conditions
        Of its On, bound.
    before
        Bound conditions of the inner joins in front of it, back to the outer join before.
    """

    side: str
    node: exp.Join
    number: int
    conditions: tuple[exp.Expr, ...]
    before: tuple[exp.Expr, ...] = ()

    @property
    def kept(self) -> tuple[int, ...]:
        """The inputs whose rows stay."""
        return {"LEFT": (0,), "RIGHT": (1,), "FULL": (0, 1)}[self.side]


@dataclass
class Scope:
    """The From list of one query, and the one around it if the query is a condition of another."""

    context: Context
    outer: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)  # columns of Using: one name for the columns of two sources
    owners: dict[str, int] = field(default_factory=dict)
    closed: bool = False  # whether a query within, which is a value, cannot read these columns
    outer_joins: list[OuterJoin] = field(default_factory=list)

    def add(self, source: Source, node: exp.Expr) -> int:
        """Take up one more source; its alias must be new."""
        if any(each.alias.lower() == source.alias.lower() for each in self.sources):
            hint = f"give it another name, as in {source.alias} As {source.alias}2"
            raise self.context.error(f"{source.alias!r} is in From twice", node, hint)
        self.sources.append(source)
        return len(self.sources) - 1

    def source(self, alias: str) -> int | None:
        """The number of the source with an alias."""
        return next((i for i, each in enumerate(self.sources) if each.alias.lower() == alias.lower()), None)

    def use(self, number: int, name: str) -> str:
        """The unique name of a source's column, from now on needed."""
        source = self.sources[number]
        unique = source.unique.get(name.lower())
        if unique is None:
            shown = next(each for each in source.names if each.lower() == name.lower())
            unique = source.unique[name.lower()] = self.context.names.fresh(shown)
        self.owners[unique] = number
        return unique

    def holders(self, name: str) -> list[int]:
        """Numbers of the sources with a column of that name."""
        return [i for i, each in enumerate(self.sources) if not each.hidden and each.has(name)]

    def narrow(self, on: exp.Expr | None) -> None:
        """Let unqualified names of a join's condition be columns of the sources so far: of later ones it knows none."""
        for column in [] if on is None else on.find_all(exp.Column):
            column.meta["joined"] = (id(self), len(self.sources))

    def resolve(self, column: exp.Column) -> exp.Expr:
        """The same column under its unique name, with the struct fields that follow it."""
        parts = [part.name for part in column.parts]
        found = self._find(parts, column)
        if found is None and self.outer is not None:
            found = self.outer._find(parts, column)
            if found is not None and self.outer.closed:
                raise self.context.error("a correlated scalar subquery is not supported", column, VALUES)
        if found is None:
            raise self._too_far_out(parts, column) or self._unknown(parts, column)
        scope, number, name, fields = found
        identifier = exp.Identifier(this=scope.use(number, name), quoted=True)
        bound: exp.Expr = exp.Column(this=identifier)
        start, end = span(column)
        bound.meta.update({} if start is None else {"start": start, "end": end}, shown=column.name)
        for each in fields:
            bound = exp.Dot(this=bound, expression=exp.Identifier(this=each, quoted=True))
        return bound

    def inputs(self, bound: exp.Expr) -> set[int]:
        """Numbers of the sources that an expression reads."""
        return {self.owners[each.name] for each in bound.find_all(exp.Column) if each.name in self.owners}

    def reads_outer(self, bound: exp.Expr) -> bool:
        """Whether an expression reads columns of the query around."""
        return any(each.name not in self.owners for each in bound.find_all(exp.Column))

    def _with_dots(self, parts: Sequence[str]) -> str | None:
        """The hint for a column with dots in its name and without quotes."""
        known = {name.lower(): name for each in self.sources for name in each.names}
        name = known.get(".".join(parts).lower())
        return None if name is None else f"a name with dots stands in backticks: {quoted(name)}"

    def _find(self, parts: Sequence[str], column: exp.Column) -> tuple[Scope, int, str, Sequence[str]] | None:
        number = self.source(parts[0]) if len(parts) > 1 else None
        if number is not None and self.sources[number].has(parts[1]):
            return self, number, parts[1], parts[2:]
        holders = self.holders(parts[0])
        scope, joined = column.meta.get("joined", (None, 0))
        if scope == id(self):
            holders = [i for i in holders if i < joined] or holders
        if not holders:
            return None
        if len(holders) > 1 and parts[0].lower() not in self.merged:
            candidates = ", ".join(f"{self.sources[i].alias}.{parts[0]}" for i in holders)
            raise self.context.error(f"column {parts[0]!r} is ambiguous", column, f"write one of {candidates}")
        return self, holders[0], parts[0], parts[1:]

    def _too_far_out(self, parts: Sequence[str], column: exp.Column) -> Exception | None:
        scope = self.outer
        while scope is not None and scope.outer is not None:
            scope = scope.outer
            if scope._find(parts, column) is not None:
                what, hint = "a comparison with a query further out than the next is not supported", "use a join"
                return self.context.error(what, column, hint)
        return None

    def _unknown(self, parts: Sequence[str], column: exp.Column) -> Exception:
        shown = [each for each in self.sources if not each.hidden]
        number = self.source(parts[0]) if len(parts) > 1 else None
        if number is not None:
            source = self.sources[number]
            hint = self._with_dots(parts[1:]) or suggest(parts[1], source.names, "columns")
            return self.context.error(f"unknown column {parts[1]!r} of {source.alias!r}", column, hint)
        if len(parts) > 1:
            hint = self._with_dots(parts) or suggest(parts[0], [each.alias for each in shown], "names in From")
            return self.context.error(f"{parts[0]!r} is not in From", column, hint)
        columns = list(dict.fromkeys(name for each in shown for name in each.names))
        start, _ = span(column)
        quoted = start is not None and self.context.source[start] == '"'
        hint = TEXTS.format(parts[0].replace("'", "\\'")) if quoted else suggest(parts[0], columns, "columns")
        return self.context.error(f"unknown column {parts[0]!r}", column, hint)
