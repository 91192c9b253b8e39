"""What a query may name: streams, relations, answers of other queries, views and functions.

>>> catalog = Catalog(streams={"Packets": ("src", "dst")})
>>> catalog.stream("packets")
('Packets', ('src', 'dst'))
>>> catalog.own_name("stream", "packets")
'Packets'
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from anabranch.cql.statements import Kind
from anabranch.errors import QueryError, suggest
from anabranch.logical_plan import Query

PLURALS: Mapping[Kind, str] = {"query": "queries", "stream": "streams", "relation": "relations", "view": "views"}
T = TypeVar("T")


@dataclass(frozen=True)
class FunctionInfo:
    """A function of the user's."""

    name: str
    deterministic: bool = True


@dataclass(frozen=True)
class Catalog:
    """Names and what they stand for; look-ups ignore case.

    Parameters
    ----------
    streams, relations
        Columns by name.
    changing
        Relations that may have other rows at other times.
    queries
        Registered queries: a stream answer can be read as a stream, a relation answer as a relation.
    views
        Queries as text or parsed, expanded where they are named.
    functions
        Functions of the user's by name.
    builtins
        Tells the names of Spark's functions; without it any name may be one of them.
    """

    streams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    views: Mapping[str, str | exp.Query] = field(default_factory=dict)
    functions: Mapping[str, FunctionInfo] = field(default_factory=dict)
    changing: Collection[str] = ()
    builtins: Callable[[], Collection[str]] | None = None

    def stream(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        """A stream's own name and columns."""
        return _find(self.streams, name)

    def relation(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        """A relation's own name and columns."""
        return _find(self.relations, name)

    def query(self, name: str) -> Query | None:
        """A registered query."""
        found = _find(self.queries, name)
        return None if found is None else found[1]

    def view(self, name: str) -> str | exp.Query | None:
        """The query that a view stands for."""
        found = _find(self.views, name)
        return None if found is None else found[1]

    def function(self, name: str) -> FunctionInfo | None:
        """A function of the user's."""
        found = _find(self.functions, name)
        return None if found is None else found[1]

    def names(self) -> list[str]:
        """Everything that can stand behind From."""
        return [*self.streams, *self.relations, *self.queries, *self.views]

    def own_name(self, kind: Kind, name: str) -> str:
        """The name under which a stream, relation, query or view is registered.

        Raises
        ------
        QueryError
            If there is none, or the name is that of something else.
        """
        known: dict[Kind, list[str]] = {
            "query": list(self.queries),
            "stream": list(self.streams),
            "relation": list(self.relations),
            "view": list(self.views),
        }
        for its, names in known.items():
            own = folded(name, names)
            if own in names and its == kind:
                return own
            if own in names:
                raise QueryError(f"{own!r} is a {its}, not a {kind}", hint=suggest(name, known[kind], PLURALS[kind]))
        raise QueryError(f"there is no {kind} {name!r}", hint=suggest(name, known[kind], PLURALS[kind]))


def folded(name: str, known: Sequence[str]) -> str:
    """The known name that a name means, whatever its case; the name as it is if there is none.

    >>> folded("TS", ["ts", "value"])
    'ts'
    """
    return name if name in known else next((each for each in known if each.lower() == name.lower()), name)


def _find(known: Mapping[str, T], name: str) -> tuple[str, T] | None:
    own = folded(name, list(known))
    return (own, known[own]) if own in known else None
