"""A bound query that remembers where its parts stand in the text, for what is found out only when types are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.cql.problems import CQLError
from anabranch.errors import QueryError
from anabranch.model.continuous import Query, walk
from anabranch.planning.types import Role

NUMBER = re.compile(r"_\d+$")
UNIQUE = re.compile(r"""[`"]?\b(\w+_\d+)\b[`"]?""")


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
            names = " and ".join(NUMBER.sub("", name) for name in columns)
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
    return UNIQUE.sub(lambda found: NUMBER.sub("", found[1]) if found[1] in names else found[0], text)
