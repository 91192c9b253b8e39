"""A bound query remembers where its parts stand in the text, for errors that are found only when types are known.

Such errors are about values that *meet*: they are compared, added, or branches of one Case, and need a common type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.cql.problems import CQLError
from anabranch.errors import QueryError
from anabranch.logical_plan import Query, walk
from anabranch.model.names import without_number
from anabranch.planning.types import Role

_UNIQUE = re.compile(r"""[`"]?\b(\w+_\d+)\b[`"]?""")


COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
FUNCTIONS = {"array", "coalesce", "greatest", "ifnull", "least", "nullif", "nvl"}
SECOND_AND_THIRD = {"if", "nvl2"}


@dataclass(frozen=True)
class Place:
    """A part of a text, from `start` to `end` (inclusive)."""

    source: str
    start: int
    end: int


@dataclass(frozen=True)
class Meeting:
    """Values that need a common type.

    Parameters
    ----------
    place
        Where they meet.
    values
        As texts, and whether each is a text in quotes.
    computes
        Whether they are added, subtracted and the like: a date and a number can be.
    """

    place: Place | None
    values: tuple[tuple[str, bool], ...]
    computes: bool = False


@dataclass(frozen=True)
class Written:
    """An expression of a query: where it stands, the values that meet in it, and whether it is a condition."""

    place: Place | None
    meetings: tuple[Meeting, ...] = ()
    condition: bool = False


@dataclass(frozen=True)
class BoundQuery(Query):
    """A query with the places of what may turn out to be of a wrong type.

    Parameters
    ----------
    places
        By role and unique name.
    expressions
        By their text in the plan.
    """

    places: Mapping[tuple[Role, str], Place] = field(default_factory=dict, compare=False, repr=False)
    expressions: Mapping[str, Written] = field(default_factory=dict, compare=False, repr=False)

    def placed(self, error: QueryError, role: Role, columns: Sequence[str]) -> QueryError:
        """The error with the last place that is known of the columns, else with their names."""
        known = [self.places[role, name] for name in columns if (role, name) in self.places]
        if not known:
            names = " and ".join(without_number(name) for name in columns)
            return CQLError(f"{names}: {error.what}", hint=error.hint)
        return at_place(error, known[-1])


def at_place(error: QueryError, place: Place | None) -> CQLError:
    """The error with a place, if one is known."""
    if place is None:
        return CQLError(error.what, hint=error.hint)
    return CQLError(error.what, source=place.source, start=place.start, end=place.end, hint=error.hint)


def shown(text: str, query: Query) -> str:
    """A text about a query's plan as its user knows it: without the numbers that make the names of columns unique.

    >>> from anabranch.cql import Catalog, bind
    >>> query = bind("Select s_1, k From a Where k > 3", Catalog(streams={"a": ("s_1", "k")}), "q")
    >>> shown('upper("s_1_2") needs `k_1`, as f_1 does', query)
    'upper(s_1) needs k, as f_1 does'
    """
    names = {name for node in walk(query.plan) for name in node.columns}
    return _UNIQUE.sub(lambda found: without_number(found[1]) if found[1] in names else found[0], text)


def meetings(expression: exp.Expr) -> Iterator[tuple[exp.Expr, list[exp.Expr]]]:
    """Nodes of an expression whose values meet, with these values.

    What meets in a lambda function is left out: its variables have no type by themselves.

    >>> from anabranch.cql.dialect import parse_query
    >>> where = parse_query("Select k From s Where coalesce(k, a) In (1, 'x')").args["where"].this
    >>> [[value.sql() for value in values] for _, values in meetings(where)]
    [['COALESCE(k, a)', '1', "'x'"], ['k', 'a']]
    """
    for node in expression.walk(prune=lambda each: isinstance(each, exp.Lambda)):
        for values in _met(node):
            if len(values) > 1:
                yield node, values


def _met(node: exp.Expr) -> Iterator[list[exp.Expr]]:
    match node:
        case _ if isinstance(node, COMPARISONS + ARITHMETIC):
            yield [node.this, node.expression]
        case exp.Between():
            yield [node.this, node.args["low"], node.args["high"]]
        case exp.In():
            yield [node.this, *node.expressions]
        case exp.Case():
            branches = node.args["ifs"]
            yield [*(each.args["true"] for each in branches), *filter(None, [node.args.get("default")])]
            if node.this is not None:
                yield [node.this, *(each.this for each in branches)]
        case exp.If() if not isinstance(node.parent, exp.Case):
            yield [*filter(None, [node.args["true"], node.args.get("false")])]
        case exp.Anonymous() if node.name in FUNCTIONS:
            yield list(node.expressions)
        case exp.Anonymous() if node.name in SECOND_AND_THIRD:
            yield list(node.expressions[1:])
