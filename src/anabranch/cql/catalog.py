"""What a query may name: streams, relations, answers of other queries, views and functions.

>>> catalog = Catalog(streams={"Packets": ("src", "dst")})
>>> catalog.stream("packets")
('Packets', ('src', 'dst'))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from anabranch.model.continuous import Query

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
    queries
        Registered queries: a stream answer can be read as a stream, a relation answer as a relation.
    views
        Queries as text or parsed, expanded where they are named.
    functions
        Functions of the user's by name.
    """

    streams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    views: Mapping[str, str | exp.Query] = field(default_factory=dict)
    functions: Mapping[str, FunctionInfo] = field(default_factory=dict)

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


def _find(known: Mapping[str, T], name: str) -> tuple[str, T] | None:
    if name in known:
        return name, known[name]
    for each, value in known.items():
        if each.lower() == name.lower():
            return each, value
    return None
