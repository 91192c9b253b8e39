"""What advisers are given, and what they find."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from anabranch.logical_plan import Query

FindingKind: TypeAlias = Literal[
    "equal queries", "equal windows", "slide", "unread columns", "constants", "unbounded state"
]

MOST_NAMES = 8


@dataclass(frozen=True)
class Finding:
    """Something that a change of queries or streams would save.

    Parameters
    ----------
    kind
        Of the change.
    queries
        The queries that it concerns.
    what
        What was found.
    why
        What it costs, or would save, in numbers.
    change
        What to write instead.
    """

    kind: FindingKind
    queries: tuple[str, ...]
    what: str
    why: str
    change: str


@dataclass(frozen=True)
class StreamFacts:
    """A stream, as far as advice depends on it.

    Parameters
    ----------
    columns
        Types in Spark's SQL by name; empty where a type is not known.
    timestamp, sequence
        Its columns of times, None if it has none, and of the order of rows of the same time.
    retain
        Microseconds for which rows stay for later queries.
    format
        Of the files that a script reads; None if the stream is a DataFrame.
    declared
        Whether the script lists the columns.
    """

    columns: Mapping[str, str]
    timestamp: str | None
    sequence: str | None = None
    retain: int = 0
    format: str | None = None
    declared: bool = False


@dataclass(frozen=True)
class QueryCosts:
    """What a query has cost: rows of its answer, and rows and bytes of the state of its operators."""

    rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0


@dataclass(frozen=True)
class Workload:
    """All queries of an engine or a script.

    Parameters
    ----------
    queries
        In the order in which they were registered.
    streams
        By name.
    costs
        By query, as far as they are known.
    apart
        Names of queries that share nothing, since their user wants it so.
    """

    queries: Sequence[Query]
    streams: Mapping[str, StreamFacts] = field(default_factory=dict)
    costs: Mapping[str, QueryCosts] = field(default_factory=dict)
    apart: Collection[str] = ()

    @property
    def sharing(self) -> list[Query]:
        """The queries that may share."""
        return [query for query in self.queries if query.name not in self.apart]


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first of them if there are many.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["q"] * 20)
    ('a', 'a, b and c', 'q, q, q, q, q, q, q, q and 12 more')
    """
    last = f"{len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else names[-1]
    first = names[:MOST_NAMES] if len(names) > MOST_NAMES else names[:-1]
    return f"{', '.join(first)} and {last}" if first else last


def megabytes(count: int) -> str:
    """Bytes for people."""
    return f"{count / 1e6:,.1f} MB"
