"""A bound query that remembers where its parts stand in the text, for what is found out only when types are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.cql.problems import CQLError
from anabranch.errors import QueryError
from anabranch.model.continuous import Query
from anabranch.planning.types import Role

NUMBER = re.compile(r"_\d+$")


@dataclass(frozen=True)
class Place:
    """A part of a text, from `start` to `end` (inclusive)."""

    source: str
    start: int
    end: int


@dataclass(frozen=True)
class BoundQuery(Query):
    """A query with the places of what may turn out to be of a wrong type, by role and unique name."""

    places: Mapping[tuple[Role, str], Place] = field(default_factory=dict, compare=False, repr=False)

    def placed(self, error: QueryError, role: Role, columns: Sequence[str]) -> QueryError:
        """The error with the last place that is known of the columns, else with their names."""
        known = [self.places[role, name] for name in columns if (role, name) in self.places]
        if not known:
            names = " and ".join(NUMBER.sub("", name) for name in columns)
            return CQLError(f"{names}: {error.what}", hint=error.hint)
        at = known[-1]
        return CQLError(error.what, source=at.source, start=at.start, end=at.end, hint=error.hint)
